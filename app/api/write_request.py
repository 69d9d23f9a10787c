"""Remote-write 1.0: the protobuf message prometheus.WriteRequest, from bytes to columns.

Its shape never changes, so it is read here directly: a series that was seen before is found by the bytes of
its labels, and samples in the form that nearly every sender uses are read all together. Everything else that
protobuf allows takes the general path. The fields: prometheus/prometheus, prompb/remote.proto, types.proto.
"""

import struct
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np

from app.api.protobuf import BYTES, FIXED64, VARINT, BadMessage, expect, fields, int64, text_of, varint
from db.labels import Labels
from db.nan import NORMAL, FloatArray, IntArray, is_absent
from db.records import MetricMetadata

# What is remembered of series between requests, and what one request may bring. Prometheus sends at most
# 10,000 samples at once (max_samples_per_send); beyond this the memory would be the sender's to choose.
KNOWN_SERIES = 100_000
_KNOWN_BYTES = 32 << 20
# Prometheus knows no limit of its own; its remote peers allow some dozens.
_LABELS = 256
_LABEL_BYTES = 64 * 1024
_METADATA = 100_000

_SERIES_TAG = _LABEL_TAG = 0x0A
# One sample as most are written: field 2, 16 bytes; value; timestamp in six bytes (1971 to 2109).
_SAMPLE = np.dtype([("head", "u1", 3), ("value", "<f8"), ("tag", "u1"), ("time", "u1", 6)])
_SAMPLE_BYTES = 18
_SAMPLE_HEAD = b"\x12\x10\x09"
_TIME_TAG = 0x10
# The same with the value 0, which protobuf leaves out.
_ZERO_BYTES = 9
_ZERO_HEAD = b"\x12\x07\x10"
_ZERO_VALUE = _SAMPLE_HEAD + bytes(8) + b"\x10"
_DOUBLE = struct.Struct("<d")
_TYPES = ("unknown", "counter", "gauge", "histogram", "gaugehistogram", "summary", "info", "stateset")


class BadRequest(ValueError):
    """The body is no WriteRequest, or holds what cannot be stored; one clause says what."""


@dataclass(frozen=True, slots=True)
class WriteRequest:
    """What a request holds; samples in its order.

    index: int64[n], which of `series` (distinct label sets) a sample belongs to.
    timestamps: int64[n], ms UTC. values: float64[n]. histograms: native histograms, counted and not read.
    """

    series: Sequence[Labels]
    index: IntArray
    timestamps: IntArray
    values: FloatArray
    metadata: tuple[MetricMetadata, ...]
    histograms: int


@dataclass(slots=True)
class _Columns:
    """Samples while they are collected: of most series as bytes, of the others as numbers."""

    usual: list[bytes] = field(default_factory=list)
    usual_places: list[int] = field(default_factory=list)
    places: list[int] = field(default_factory=list)
    before: list[int] = field(default_factory=list)
    """For each of the others: how many usual series stand before it."""
    timestamps: list[int] = field(default_factory=list)
    values: list[float] = field(default_factory=list)
    metadata: dict[MetricMetadata, None] = field(default_factory=dict)
    histograms: int = 0


class RequestReader:
    """Reads requests, one at a time; remembers the series of earlier ones."""

    def __init__(self, known_series: int = KNOWN_SERIES) -> None:
        self._known_series = known_series
        self._usual_bytes = _SAMPLE_BYTES  # of the samples of one series, as the last one had them
        self._forget()

    def _forget(self) -> None:
        self._places: dict[bytes, int] = {}  # by the bytes of the labels, as a sender writes them
        self._place_of: dict[Labels, int] = {}
        self._labels: list[Labels] = []
        self._pairs: dict[bytes, tuple[str, str]] = {}  # by the bytes of one label
        self._bytes = 0

    def read(self, body: bytes) -> WriteRequest:
        """Read an uncompressed request. Raises BadRequest."""
        if len(self._labels) >= self._known_series or self._bytes > _KNOWN_BYTES:
            self._forget()
        known_before = len(self._labels)
        try:
            columns = self._collect(body, known_before, careful=False)
            samples = _usual_samples(columns.usual)
            if samples is None:
                # Behind some labels is something of the right length that is no sample.
                columns = self._collect(body, known_before, careful=True)
                samples = _usual_samples(columns.usual)
        except BadMessage as error:
            raise BadRequest(str(error)) from error
        if samples is None:
            raise BadRequest("its samples cannot be read")
        return self._joined(columns, *samples)

    def _collect(self, body: bytes, known_before: int, *, careful: bool) -> _Columns:
        columns = _Columns()
        usual, places = columns.usual, columns.usual_places
        find, size, at = self._places.get, len(body), 0
        while at < size:
            if body[at] != _SERIES_TAG:
                at = _other_field(body, at, columns)
                continue
            if (
                at + 2 < size and body[at + 1] >= 128 > body[at + 2]
            ):  # what a varint of two bytes is, unrolled
                start = at + 3
                at = end = start + (body[at + 1] & 127 | body[at + 2] << 7)
            else:
                length, start = varint(body, at + 1, size)
                at = end = start + length
            if end > size:
                raise BadMessage("it ends within a field")
            cut = end - self._usual_bytes
            if cut > start and not careful:
                place = find(body[start:cut])
                if place is not None:
                    usual.append(body[cut:end])
                    places.append(place)
                    continue
                cut = end - _ZERO_BYTES
                if body[cut : cut + 3] == _ZERO_HEAD:
                    place = find(body[start:cut])
                    if place is not None:
                        usual.append(_ZERO_VALUE + body[cut + 3 : end])
                        places.append(place)
                        continue
            self._series(body, start, end, columns, careful=careful)
            if len(self._labels) - known_before > self._known_series:
                raise BadRequest(f"it has more than {self._known_series} new series; send fewer at a time")
        return columns

    def _series(self, body: bytes, start: int, end: int, columns: _Columns, *, careful: bool) -> None:
        """One TimeSeries, field by field."""
        cut = _labels_end(body, start, end)
        samples = body[cut:end]
        usual = _look_usual(samples) and (not careful or _usual_samples([samples]) is not None)
        pairs: list[bytes] = []
        timestamps: list[int] = []
        values: list[float] = []
        if not usual:
            for tag, kind, _, message, _ in fields(samples):
                if tag in (1, 2, 4):
                    expect(kind, BYTES)
                if tag == 1:
                    pairs.append(message)
                elif tag == 2:
                    timestamp, value = _read_sample(message)
                    timestamps.append(timestamp)
                    values.append(value)
                elif tag == 4:
                    columns.histograms += 1
        key = body[start:cut]
        place = None if pairs else self._places.get(key)
        if place is None:
            labels = self._read_labels(_label_messages(key) + pairs)
            if not labels and usual and not careful:
                # What looks like more samples may be labels that stand behind the first one.
                self._series(body, start, end, columns, careful=True)
                return
            if not labels and (usual or values):
                raise BadRequest("a time series has no labels")
            place = self._place(labels)
            if key and not pairs:
                self._places[key] = place
                self._bytes += len(key)
        if usual:
            self._usual_bytes = len(samples)
            columns.usual.append(samples)
            columns.usual_places.append(place)
        else:
            columns.places += [place] * len(values)
            columns.before += [len(columns.usual)] * len(values)
            columns.timestamps += timestamps
            columns.values += values

    def _read_labels(self, messages: Sequence[bytes]) -> Labels:
        if len(messages) > _LABELS or sum(map(len, messages)) > _LABEL_BYTES:
            raise BadRequest(
                f"a series has more than {_LABELS} labels or {_LABEL_BYTES // 1024} kB of them; drop some"
            )
        known = self._pairs
        pairs = [known.get(message) or self._read_pair(message) for message in messages]
        pairs.sort()
        for before, after in pairwise(pairs):
            if before[0] == after[0]:
                raise BadRequest(f"the label {after[0][:60]!a} is given twice")
        return tuple([pair for pair in pairs if pair[1]])

    def _read_pair(self, message: bytes) -> tuple[str, str]:
        texts = [b"", b"", b""]
        for tag, kind, _, data, _ in fields(message):
            if tag in (1, 2):
                expect(kind, BYTES)
                texts[tag] = data
        name = text_of(texts[1], "a label's name")
        if not name:
            raise BadRequest("a label has no name")
        pair = self._pairs[message] = (name, text_of(texts[2], "a label's value"))
        self._bytes += len(message)
        return pair

    def _place(self, labels: Labels) -> int:
        place = self._place_of.setdefault(labels, len(self._labels))
        if place == len(self._labels):
            self._labels.append(labels)
        return place

    def _joined(self, columns: _Columns, timestamps: IntArray, values: FloatArray) -> WriteRequest:
        counts = [len(samples) // _SAMPLE_BYTES for samples in columns.usual]
        distinct, entries = np.unique(
            np.array(columns.usual_places + columns.places, dtype=np.int64), return_inverse=True
        )
        index = np.repeat(entries, counts + [1] * len(columns.places))
        if columns.places:
            # A usual series comes after those that it stands behind, a series of the others before it.
            order = np.repeat(np.arange(len(counts)), counts) * 2 + 1
            order = np.argsort(np.concatenate((order, np.array(columns.before) * 2)), kind="stable")
            timestamps = np.concatenate((timestamps, np.array(columns.timestamps, dtype=np.int64)))[order]
            values = np.concatenate((values, np.array(columns.values, dtype=np.float64)))[order]
            index = index[order]
        # Ours means "no sample"; from outside it is any NaN.
        values[is_absent(values)] = NORMAL
        series = [self._labels[place] for place in distinct.tolist()]
        return WriteRequest(series, index, timestamps, values, tuple(columns.metadata), columns.histograms)


def _other_field(body: bytes, at: int, columns: _Columns) -> int:
    """A field of the request that is no time series. Returns where the next one begins."""
    tag, kind, _, message, after = next(fields(body, at))
    if tag in (1, 3):
        expect(kind, BYTES)
    if tag == 3:
        columns.metadata[_read_metadata(message)] = None
        if len(columns.metadata) > _METADATA:
            raise BadRequest(f"it has more than {_METADATA} metadata; send fewer at a time")
    return after


def _usual_samples(parts: Sequence[bytes]) -> tuple[IntArray, FloatArray] | None:
    """Timestamps and values of samples in the usual form; None if one is not."""
    samples = np.frombuffer(b"".join(parts), dtype=_SAMPLE)
    time = samples["time"]
    if (
        (samples["head"] != np.frombuffer(_SAMPLE_HEAD, dtype=np.uint8)).any()
        or (samples["tag"] != _TIME_TAG).any()
        or (time[:, :5] < 128).any()
        or (time[:, 5] >= 128).any()
    ):
        return None
    timestamps = np.zeros(len(samples), dtype=np.int64)
    for place in range(6):
        timestamps |= (time[:, place] & 127).astype(np.int64) << (7 * place)
    return timestamps, samples["value"].astype(np.float64)


def _labels_end(body: bytes, start: int, end: int) -> int:
    """Where the labels at the front of a time series end."""
    at = start
    while at < end and body[at] == _LABEL_TAG:
        size, at = varint(body, at + 1, end)
        at += size
    if at > end:
        raise BadMessage("it ends within a label")
    return at


def _label_messages(key: bytes) -> list[bytes]:
    """The labels of a front that `_labels_end` has found."""
    messages, at, end = [], 0, len(key)
    while at < end:
        size, start = varint(key, at + 1, end)
        at = start + size
        messages.append(key[start:at])
    return messages


def _look_usual(samples: bytes) -> bool:
    return len(samples) % _SAMPLE_BYTES == 0 and samples.startswith(_SAMPLE_HEAD)


def _read_sample(message: bytes) -> tuple[int, float]:
    timestamp, value = 0, 0.0
    for tag, kind, number, data, _ in fields(message):
        if tag == 1:
            expect(kind, FIXED64)
            (value,) = _DOUBLE.unpack(data)
        elif tag == 2:
            expect(kind, VARINT)
            timestamp = int64(number)
    return timestamp, value


def _read_metadata(message: bytes) -> MetricMetadata:
    kind_of_metric = 0
    texts = {2: "", 4: "", 5: ""}
    for tag, kind, number, data, _ in fields(message):
        if tag == 1:
            expect(kind, VARINT)
            kind_of_metric = number
        elif tag in texts:
            expect(kind, BYTES)
            texts[tag] = text_of(data, "a metric's metadata")
    known = _TYPES[kind_of_metric] if kind_of_metric < len(_TYPES) else _TYPES[0]
    return MetricMetadata(texts[2], known, texts[4], texts[5])
