"""The decoder against Google's, over every spelling of a message, and over messages that were damaged."""

import random
import re
import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.api.write_request import BadRequest, RequestReader
from db.labels import labels_from
from db.nan import ABSENT_BITS, NORMAL_BITS, STALE_BITS
from tests.app.api.remote_write_messages import chunk, label, oracle, sample, series, varint

UP = {"__name__": "up", "job": "x"}
NOW = 1_795_132_800_123


def read(message, reader=None):
    """(labels, timestamp, bits) of every sample, and the rest."""
    request = (reader or RequestReader()).read(message)
    assert len(set(request.series)) == len(request.series)
    samples = [
        (request.series[place], at_ms, struct.pack("<d", value))
        for place, at_ms, value in zip(
            request.index.tolist(), request.timestamps.tolist(), request.values.tolist(), strict=True
        )
    ]
    metadata = [(item.metric, item.type, item.help, item.unit) for item in request.metadata]
    return samples, metadata, request.histograms


KINDS = ("unknown", "counter", "gauge", "histogram", "gaugehistogram", "summary", "info", "stateset")


def wanted(message):
    """What the oracle makes of it, in our terms; None where Google or Prometheus's rules refuse it."""
    found = oracle(message)
    if found is None:
        return None
    samples, metadata, histograms = found
    made = []
    for pairs, at_ms, bits in samples:
        labels = labels_from(pairs)
        if not labels or "" in dict(pairs) or len(dict(pairs)) != len(pairs):
            return None
        if bits == struct.pack("<Q", ABSENT_BITS):
            bits = struct.pack("<Q", NORMAL_BITS)
        made.append((labels, at_ms, bits))
    families = [
        (name, KINDS[kind] if 0 <= kind < len(KINDS) else "unknown", said, unit)
        for name, kind, said, unit in metadata
    ]
    return made, list(dict.fromkeys(families)), histograms


texts = st.text(st.characters(codec="utf-8"), max_size=4) | st.sampled_from(["up", "__name__", "x" * 200])
floats = st.one_of(
    st.none(),
    st.floats(),
    st.sampled_from([STALE_BITS, ABSENT_BITS, NORMAL_BITS, 0x7FF8000000000000]).map(
        lambda bits: struct.unpack("<d", struct.pack("<Q", bits))[0]
    ),
)
usual_times = st.integers(2**35, 2**42 - 1)
times = st.one_of(st.none(), st.integers(-(2**63), 2**63 - 1), usual_times, st.just(NOW))
unknown = st.one_of(
    st.binary(max_size=5).map(lambda data: chunk(15, data)),
    st.integers(0, 2**64 - 1).map(lambda value: varint(7 << 3) + varint(value)),
    st.binary(min_size=8, max_size=8).map(lambda data: varint(300 << 3 | 1) + data),
    st.binary(min_size=4, max_size=4).map(lambda data: varint(9 << 3 | 5) + data),
    st.binary(max_size=9).map(lambda data: chunk(3, data)),  # an exemplar
)
labels = st.lists(st.builds(label, texts, texts), max_size=3)
samples = st.lists(st.builds(sample, floats, times, time_first=st.booleans()), max_size=4)
usual = st.lists(st.builds(sample, st.floats(), usual_times), min_size=1, max_size=3)


@st.composite
def any_series(draw):
    if draw(st.booleans()):
        front = label("__name__", draw(st.sampled_from(["up", "down"])))
        return chunk(1, front + b"".join(draw(st.one_of(st.just([]), usual))))
    parts = draw(labels) + draw(samples) + draw(st.lists(unknown, max_size=2))
    parts += [chunk(4, b"")] * draw(st.integers(0, 1))
    return chunk(1, b"".join(draw(st.permutations(parts)) if draw(st.booleans()) else parts))


@st.composite
def families(draw):
    said = [chunk(number, draw(texts).encode()) for number in (2, 4, 5)]
    return chunk(3, b"\x08" + varint(draw(st.integers(0, 9))) + b"".join(said))


others = unknown.filter(lambda part: part[0] != 0x1A)
messages = st.lists(st.one_of(any_series(), any_series(), families(), others)).map(b"".join)


def read_or_refuse(message, reader=None):
    """`read`, or why it was refused."""
    try:
        return read(message, reader)
    except BadRequest as error:
        return str(error)


@settings(max_examples=600, deadline=None)
@given(st.lists(messages, min_size=1, max_size=3))
def test_it_reads_what_google_reads(bodies):
    reader = RequestReader(known_series=4)
    for body in bodies:
        expected, found = wanted(body), read_or_refuse(body, reader)
        if expected is None:
            assert isinstance(found, str)
        elif isinstance(found, str):
            # Labels without samples are checked, too; and this reader knows few series.
            assert re.search("a label has no name|given twice|new series", found)
        else:
            assert found == expected


@settings(max_examples=600, deadline=None)
@given(messages, st.randoms(use_true_random=False))
def test_damaged_bytes_are_refused_or_read_as_google_reads_them(body, chance: random.Random):
    damaged = bytearray(body)
    for _ in range(chance.randint(1, 3)):
        if damaged and chance.random() < 0.5:
            damaged[chance.randrange(len(damaged))] = chance.randrange(256)
        else:
            del damaged[chance.randint(0, len(damaged)) :]
    found = read_or_refuse(bytes(damaged))
    assert isinstance(found, str) or found == wanted(bytes(damaged))


@settings(max_examples=300, deadline=None)
@given(st.binary(max_size=60))
def test_any_bytes_are_refused_in_words_or_read_as_google_reads_them(data):
    found = read_or_refuse(data)
    assert isinstance(found, str) or found == wanted(data)


def test_every_prefix_of_a_request_is_refused_or_a_shorter_request():
    body = series(UP, [(1.5, NOW), (0.0, NOW + 1), (-1.0, -5)]) + series({"__name__": "x"}, [(None, NOW)])
    reader = RequestReader()
    assert len(read(body, reader)[0]) == 4
    whole = len(series(UP, [(1.5, NOW), (0.0, NOW + 1), (-1.0, -5)]))
    for end in range(len(body)):
        if end in (0, whole):
            assert read(body[:end], reader) == wanted(body[:end])
        else:
            with pytest.raises(BadRequest):
                read(body[:end], reader)


def test_known_series_with_something_else_behind_them_are_read_carefully():
    """As long as a sample, where a sample would be, and none."""
    reader = RequestReader()
    read(series(UP, [(1.0, NOW)]), reader)
    front = b"".join(label(name, value) for name, value in UP.items())
    for other in (
        chunk(3, b"x" * 16),
        sample(2.0, 5) + chunk(3, b"12345"),
        sample(1.0, 2**42 - 1, time_first=True),
    ):
        assert len(other) in (18, 20)
        body = chunk(1, front + other) + series(UP, [(3.0, NOW)])
        assert read(body, reader) == wanted(body)


@pytest.mark.parametrize("front", [b"", label("empty", "")])
def test_labels_behind_a_sample_are_found_although_they_are_as_long_as_another(front):
    behind = label("__name__", "down")
    assert len(behind) == len(sample(1.0, NOW))
    body = chunk(1, front + sample(1.0, NOW) + behind)
    assert read(body) == wanted(body) == ([((("__name__", "down"),), NOW, struct.pack("<d", 1.0))], [], 0)


def test_known_series_in_the_usual_forms_are_read_in_one_pass():
    """The zero of Prometheus's own writer lacks its value; reading it must not cost a second pass."""

    class Counting(RequestReader):
        passes = 0

        def _collect(self, *arguments, **options):
            self.passes += 1
            return super()._collect(*arguments, **options)

    reader = Counting()
    body = b"".join(series({"__name__": name}, [(value, NOW)]) for name in "ab" for value in (1.5, None, 0.0))
    for turn in range(1, 4):
        assert read(body, reader) == wanted(body)
        assert reader.passes == turn


def test_the_order_of_samples_is_the_requests_whatever_their_form():
    reader = RequestReader()
    body = (
        series(UP, [(1.0, NOW)])
        + series(UP, [(2.0, 5)])
        + series(UP, [(0.0, NOW)])
        + chunk(1, label("__name__", "up") + label("job", "x") + sample(None, NOW))
        + series([("job", "x"), ("__name__", "up"), ("empty", "")], [(3.0, NOW), (4.0, NOW)])
    )
    for _ in range(2):
        found = read(body, reader)
        assert [struct.unpack("<d", bits)[0] for _, _, bits in found[0]] == [1.0, 2.0, 0.0, 0.0, 3.0, 4.0]
        assert {labels for labels, _, _ in found[0]} == {labels_from(UP)}


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (chunk(1, label("a", "1") + label("a", "2") + sample(1.0, NOW)), "given twice"),
        (chunk(1, label("a", "1") + label("a", "") + sample(1.0, NOW)), "given twice"),
        (
            chunk(1, b"".join(label(f"l{i}", "1") for i in range(257)) + sample(1.0, NOW)),
            "more than 256 labels",
        ),
        (chunk(1, label("a", "x" * 70_000) + sample(1.0, NOW)), "or 64 kB of them"),
        (chunk(1, label("", "1") + sample(1.0, NOW)), "a label has no name"),
        (chunk(1, label(None, None) + sample(1.0, NOW)), "a label has no name"),
        (chunk(1, label("a", "") + sample(1.0, NOW)), "no labels"),
        (chunk(1, sample(1.0, NOW)), "no labels"),
        (chunk(1, label("a", b"\xff") + sample(1.0, NOW)), "not UTF-8"),
        (chunk(1, label(b"\xed\xa0\x80", "x") + sample(1.0, NOW)), "not UTF-8"),
        (chunk(3, chunk(2, b"\xff")), "not UTF-8"),
        (b"\x0a\xff\xff\xff\xff\x0f", "ends within"),
        (b"\x0a" + b"\x80" * 10 + b"\x01", "more than 64 bits"),
        (b"\x0b", "wire type 3"),
        (b"\x08\x01", "wire type 0"),
        (b"\x02\x00", "number 0"),
        (chunk(1, b"\x0a\x7f"), "ends within"),
        (chunk(1, label("a", "b") + b"\x12\x05\x09abc"), "ends within"),
    ],
)
def test_what_cannot_be_stored_is_said(body, said):
    with pytest.raises(BadRequest, match=said):
        RequestReader().read(body)


def test_a_series_may_lack_a_name_and_have_an_absent_label():
    assert read(series([("b", "2"), ("c", ""), ("a", "1")], [(1.0, NOW)]))[0][0][0] == (
        ("a", "1"),
        ("b", "2"),
    )


def test_more_series_than_are_known_at_once_are_refused_and_forgotten():
    reader = RequestReader(known_series=3)

    def body(first, count):
        return b"".join(series({"__name__": f"m{first + number}"}, [(1.0, NOW)]) for number in range(count))

    for first in range(0, 30, 2):
        assert read(body(first, 2), reader) == wanted(body(first, 2))
    with pytest.raises(BadRequest, match="send fewer"):
        reader.read(body(100, 4))
    assert read(body(0, 3), reader) == wanted(body(0, 3))


def test_a_great_many_empty_fields_take_linear_time():
    """Two million of them; the test's timeout would end anything worse."""
    assert read(b"\x0a\x00" * 1_000_000 + b"\x1a\x00" * 1_000_000) == ([], [("", "unknown", "", "")], 0)
