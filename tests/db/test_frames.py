"""What the store answers, as DataFrames: labels as columns, times as an index."""

from pathlib import Path

import numpy as np
import pandas as pd

from db.frames import label_frame, latest_frame, series_frame, steps_frame
from db.labels import labels_from
from db.records import SparseAppend, named
from db.series_set import SeriesSet
from db.store import SampleStore

ZERO, ONE = labels_from({"gpu": "0"}, "temp"), labels_from({"gpu": "1", "host": "a"}, "temp")


def filled(folder: Path) -> SampleStore:
    store = SampleStore.open(folder / "samples.db")
    at = np.array([60_000, 120_000, 60_000])
    store.write([SparseAppend([ZERO, ONE], at, np.array([40.0, 41.0, 50.5]), np.array([0, 0, 1]))])
    return store


def test_the_latest_values_beside_their_labels(tmp_path: Path) -> None:
    store = filled(tmp_path)
    for value in (41.0, 42.0):
        frame = latest_frame(store.latest_columns([named("temp")], 130_000)).sort_values("gpu")
        assert set(frame.columns) == {"__name__", "gpu", "host", "timestamp", "value"}
        assert frame["gpu"].tolist() == ["0", "1"]
        assert frame["value"].tolist() == [value, 50.5]
        assert frame["host"].isna().tolist() == [True, False]
        assert frame["timestamp"].iloc[1] == pd.Timestamp("1970-01-01T00:01")
        # The same series again, with other values: what was made of the labels is used once more.
        store.write([SparseAppend([ZERO], np.array([125_000]), np.array([42.0]))])
    store.close()


def test_steps_are_rows_and_series_columns(tmp_path: Path) -> None:
    store = filled(tmp_path)
    steps = store.at_steps([named("temp")], 60_000, 180_000, 60_000, 90_000)
    frame = steps_frame(steps)
    assert list(steps.series) == [ZERO, ONE]
    assert frame[0].tolist() == [40.0, 41.0, 41.0]
    assert frame[1].tolist()[:2] == [50.5, 50.5]
    assert np.isnan(frame[1].iloc[2])
    assert frame.index[0] == pd.Timestamp("1970-01-01T00:01")
    store.close()


def test_one_series(tmp_path: Path) -> None:
    store = filled(tmp_path)
    frame = series_frame(store.select([named("temp")], 0, 10**6)[0])
    assert frame["value"].tolist() == [40.0, 41.0]
    assert frame.index.is_monotonic_increasing
    store.close()


def test_labels_sort_and_count_by_their_text_whatever_other_series_there_are() -> None:
    shown = [labels_from({"gpu": gpu}) for gpu in ("b", "c", "a")]
    hidden = [labels_from({"gpu": "hidden", "host": "elsewhere"})]
    frame = label_frame(SeriesSet([*hidden, *shown]).take(np.array([1, 2, 3])))
    assert frame.sort_values("gpu")["gpu"].tolist() == ["a", "b", "c"]
    assert frame["gpu"].value_counts().to_dict() == {"a": 1, "b": 1, "c": 1}
    assert list(frame.columns) == ["gpu"]


def test_a_label_named_as_a_column_of_the_samples_is_no_sample(tmp_path: Path) -> None:
    store = SampleStore.open(tmp_path / "samples.db")
    labels = labels_from({"value": "of a label", "timestamp": "too", "a": "b"})
    store.write([SparseAppend([labels], np.array([60_000]), np.array([40.0]))])
    for _ in range(2):
        frame = latest_frame(store.latest_columns([], 60_000))
        assert frame.columns[-2:].tolist() == ["timestamp", "value"]
        assert frame["value"].tolist() == [40.0]
        assert frame["timestamp"].tolist() == [pd.Timestamp("1970-01-01T00:01")]
        assert frame["exported_value"].tolist() == ["of a label"]
        assert frame["exported_timestamp"].tolist() == ["too"]
    store.close()
