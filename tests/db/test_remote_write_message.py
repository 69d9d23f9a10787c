"""What is sent is what our own receiver, and protobuf's rules, read out of it: every bit, in order."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.api.write_request import RequestReader
from db.labels import labels_from
from db.nan import NORMAL, STALE
from db.remote_write_message import label_bytes, write_request

SERIES = {
    7: labels_from({"__name__": "up", "job": "a\nb", "UUID": "GPU-é"}),
    3: labels_from({"__name__": "long", "text": "x" * 300}),
    11: labels_from({"__name__": "other"}),
}
LABELS = {number: label_bytes(labels) for number, labels in SERIES.items()}
NOW_MS = 1_795_000_000_000


def read(ids, timestamps, values):
    """(labels, ms, bits of the value) of every sample, series by series in the message's order."""
    columns = (
        np.array(ids, dtype=np.int64),
        np.array(timestamps, dtype=np.int64),
        np.array(values, dtype=float),
    )
    request = RequestReader().read(write_request(LABELS, *columns))
    found: dict = {}
    bits = request.values.view(np.uint64).tolist()
    for place, time, value in zip(request.index.tolist(), request.timestamps.tolist(), bits, strict=True):
        found.setdefault(request.series[place], []).append((time, value))
    return found


def expected(ids, timestamps, values):
    found: dict = {}
    for number, time, value in zip(
        ids, timestamps, np.array(values, dtype=float).view(np.uint64), strict=True
    ):
        found.setdefault(SERIES[number], []).append((time, int(value)))
    return found


def test_samples_of_several_series_in_their_order() -> None:
    ids = [7, 3, 7, 11, 7]
    times = [NOW_MS, NOW_MS, NOW_MS + 1, NOW_MS - 5, NOW_MS - 9]
    values = [0.0, -0.0, STALE, NORMAL, np.inf]
    assert read(ids, times, values) == expected(ids, times, values)


def test_labels_are_sorted() -> None:
    assert LABELS[7].index(b"UUID") < LABELS[7].index(b"__name__") < LABELS[7].index(b"job")


@pytest.mark.parametrize(
    "time", [-1, 0, 1, (1 << 35) - 1, 1 << 35, (1 << 42) - 1, 1 << 42, -(1 << 62), 1 << 62]
)
def test_timestamps_of_any_length(time) -> None:
    assert read([7, 3], [time, NOW_MS], [1.0, 2.0]) == expected([7, 3], [time, NOW_MS], [1.0, 2.0])


@given(
    st.lists(
        st.tuples(st.sampled_from([7, 3, 11]), st.integers(-(1 << 62), 1 << 62), st.floats()), max_size=40
    )
)
def test_any_samples(samples) -> None:
    samples = [(number, time, NORMAL if np.isnan(value) else value) for number, time, value in samples]
    columns = tuple(zip(*samples, strict=True)) or ((), (), ())
    assert read(*columns) == expected(*columns)


def test_nothing() -> None:
    assert write_request({}, *(np.zeros(0, dtype=np.int64),) * 2, np.zeros(0)) == b""


def test_text_that_is_none_is_refused() -> None:
    with pytest.raises(UnicodeEncodeError):
        label_bytes((("a", "\ud800"),))
