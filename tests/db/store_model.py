"""What the store has to be indistinguishable from: a dictionary of samples, by series and timestamp.

Values are held and compared as bit patterns: a NaN is equal to nothing, itself included.
"""

from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from db.labels import Labels
from db.nan import ABSENT_BITS, NORMAL_BITS, STALE_BITS, FloatArray
from db.ragged import Ragged
from db.records import DenseAppend, Matcher, Rectangle, Slab, SparseAppend
from db.series_set import SeriesSet
from db.store import SampleStore

Samples = dict[Labels, dict[int, int]]
"""Series -> timestamp -> bits of the value."""

# Signalling and quiet NaN with and without sign and payload, infinities, both zeros, the ends of the range.
ODD_BITS = (
    *(STALE_BITS, NORMAL_BITS, 0x7FF8000000000000, 0xFFF8000000000000, 0xFFF8000000000001),
    *(0x7FF0000000000001, 0xFFF0000000000002, 0x7FFFFFFFFFFFFFFF, 0xFFFFFFFFFFFFFFFF, 0x7FF4535452415442),
    *(0x7FF0000000000000, 0xFFF0000000000000, 0x8000000000000000, 0x0000000000000000),
    *(0x0000000000000001, 0x800FFFFFFFFFFFFF, 0x0010000000000000, 0x7FEFFFFFFFFFFFFF, 0xFFEFFFFFFFFFFFFF),
)
KINDS = ("small", "constant", "decimals", "counter", "resets", "huge", "floats", "bits", "odd", "some odd")


def bits_of(values: FloatArray) -> list[int]:
    found: list[int] = np.ascontiguousarray(values, dtype=np.float64).view(np.uint64).tolist()
    return found


def some_values(kind: str, random: np.random.Generator, shape: tuple[int, ...]) -> FloatArray:
    """float64[shape] like one kind of exporter, or as no exporter would; never ABSENT."""
    integers = random.integers(0, 1000, shape)
    match kind:
        case "small":
            return integers - 500.0
        case "constant":
            return np.full(shape, float(integers.flat[0]) if integers.size else 0.0)
        case "decimals":
            return integers / 10.0 ** random.integers(0, 10)
        case "counter":
            return np.cumsum(integers, axis=-1) + 2.0**40
        case "resets":
            return np.cumsum(integers, axis=-1) % 1777 + 0.25
        case "huge":
            return (2.0**53 + integers * 2.0 ** random.integers(0, 900)) * np.where(integers % 2, 1, -1)
        case "floats":
            return random.normal(size=shape) * 10.0 ** random.integers(-12, 12)
        case "bits":
            bits = random.integers(0, 1 << 64, shape, dtype=np.uint64)
            return np.where(bits == ABSENT_BITS, 0, bits).view(np.float64)
        case "odd":
            return np.array(ODD_BITS, dtype=np.uint64)[random.integers(0, len(ODD_BITS), shape)].view(
                np.float64
            )
    odd = np.array(ODD_BITS, dtype=np.uint64)[random.integers(0, len(ODD_BITS), shape)]
    plain = (integers / 8).view(np.uint64)
    return np.where(integers < 60, odd, plain).view(np.float64)


@dataclass(frozen=True, slots=True)
class Wanted:
    """Matchers, and what they mean."""

    matchers: tuple[Matcher, ...]
    fits: Callable[[dict[str, str]], bool]


EVERYTHING = Wanted((), lambda labels: True)


class StoreModel:
    """The dictionary. Every method says what the method of `SampleStore` has to do or to answer."""

    def __init__(self) -> None:
        self.samples: Samples = {}

    def write(self, appends: Sequence[DenseAppend | SparseAppend], orders: dict[str, list[Labels]]) -> None:
        """orders: of each layout key all series so far, the append's own included."""
        for append in appends:
            if isinstance(append, DenseAppend):
                series = orders[append.layout_key][: len(append.values)]
                rows = zip(series, [append.timestamp_ms] * len(series), bits_of(append.values), strict=True)
            else:
                index = range(len(append.series)) if append.index is None else append.index.tolist()
                series = [append.series[place] for place in index]
                rows = zip(series, append.timestamps.tolist(), bits_of(append.values), strict=True)
            for row in rows:
                self._put(*row)

    def load(self, slabs: Sequence[Slab]) -> None:
        for slab in slabs:
            timestamps = slab.timestamps.tolist()
            for labels, values in zip(slab.series, slab.values, strict=True):
                for timestamp, bits in zip(timestamps, bits_of(values), strict=True):
                    self._put(labels, timestamp, bits)

    def _put(self, labels: Labels, timestamp: int, bits: int) -> None:
        if bits != ABSENT_BITS:
            self.samples.setdefault(labels, {})[timestamp] = bits

    def _matching(self, wanted: Wanted) -> Samples:
        return {labels: points for labels, points in self.samples.items() if wanted.fits(dict(labels))}

    def select(self, wanted: Wanted, start_ms: int, end_ms: int) -> Samples:
        found = {
            labels: {at: bits for at, bits in points.items() if start_ms <= at <= end_ms}
            for labels, points in self._matching(wanted).items()
        }
        return {labels: points for labels, points in found.items() if points}

    def latest(self, wanted: Wanted, at_ms: int, lookback_ms: int) -> dict[Labels, tuple[int, int]]:
        inside = self.select(wanted, at_ms - lookback_ms + 1, at_ms)
        newest = {labels: max(points.items()) for labels, points in inside.items()}
        return {labels: sample for labels, sample in newest.items() if sample[1] != STALE_BITS}

    def at_steps(
        self, wanted: Wanted, start_ms: int, end_ms: int, step_ms: int, lookback_ms: int
    ) -> dict[Labels, list[int]]:
        found = {}
        for labels, points in self._matching(wanted).items():
            times = sorted(points)
            row = []
            for step in range(start_ms, end_ms + 1, step_ms):
                place = bisect_right(times, step) - 1
                fresh = place >= 0 and times[place] > step - lookback_ms
                bits = points[times[place]] if fresh else ABSENT_BITS
                row.append(ABSENT_BITS if bits == STALE_BITS else bits)
            if any(bits != ABSENT_BITS for bits in row):
                found[labels] = row
        return found


def selected(store: SampleStore, wanted: Wanted, start_ms: int, end_ms: int) -> Samples:
    found = store.select(wanted.matchers, start_ms, end_ms)
    assert [series.labels for series in found] == sorted({series.labels for series in found})
    for series in found:
        assert bool((np.diff(series.timestamps) > 0).all())
        assert ABSENT_BITS not in bits_of(series.values)
    return {
        series.labels: dict(zip(series.timestamps.tolist(), bits_of(series.values), strict=True))
        for series in found
    }


def in_slabs(store: SampleStore, wanted: Wanted, start_ms: int, end_ms: int) -> Samples:
    found: Samples = {}
    for slab in store.slabs(wanted.matchers, start_ms, end_ms):
        assert bool((np.diff(slab.timestamps) > 0).all())
        times = slab.timestamps.tolist()
        for labels, values in zip(slab.series, slab.values, strict=True):
            assert labels not in found
            points = zip(times, bits_of(values), strict=True)
            found[labels] = {at: bits for at, bits in points if bits != ABSENT_BITS}
    return found


def in_rectangles(store: SampleStore, wanted: Wanted, start_ms: int, end_ms: int) -> Samples:
    series, rectangles = store.rectangles(wanted.matchers, start_ms, end_ms)
    return _of_rectangles(_distinct(series, wanted), rectangles)


def in_one_row(store: SampleStore, wanted: Wanted, start_ms: int, end_ms: int) -> Samples:
    series, held = store.ragged(wanted.matchers, start_ms, end_ms)
    labels = _distinct(series, wanted)
    if not isinstance(held, Ragged):
        return _of_rectangles(labels, held)
    assert bool((np.diff(held.rows) > 0).all())
    assert (held.begin[0], held.begin[-1]) == (0, len(held.values))
    assert len(held.timestamps) == len(held.values)
    bits, times = bits_of(held.values), held.timestamps.tolist()
    found: Samples = {}
    for row, begin, end in zip(held.rows.tolist(), held.begin, held.begin[1:], strict=False):
        assert bool((np.diff(held.timestamps[begin:end]) > 0).all())
        if begin < end:
            found[labels[row]] = dict(zip(times[begin:end], bits[begin:end], strict=True))
    assert ABSENT_BITS not in bits
    return found


def _distinct(series: SeriesSet, wanted: Wanted) -> list[Labels]:
    labels = list(series)
    assert len(set(labels)) == len(labels)
    assert [series[row] for row in range(len(series))] == labels
    assert all(wanted.fits({"__name__": "", "i": "", "job": "", **dict(each)}) for each in labels)
    return labels


def _of_rectangles(labels: Sequence[Labels], rectangles: Sequence[Rectangle]) -> Samples:
    found: Samples = {}
    for rectangle in rectangles:
        assert bool((np.diff(rectangle.timestamps) > 0).all())
        times = rectangle.timestamps.tolist()
        for row, values in zip(rectangle.rows.tolist(), rectangle.values, strict=True):
            assert labels[row] not in found
            points = zip(times, bits_of(values), strict=True)
            found[labels[row]] = {at: bits for at, bits in points if bits != ABSENT_BITS}
    return {series: points for series, points in found.items() if points}


def newest(store: SampleStore, wanted: Wanted, at_ms: int, lookback_ms: int) -> dict[Labels, tuple[int, int]]:
    columns = store.latest_columns(wanted.matchers, at_ms, lookback_ms)
    rows = zip(columns.series, columns.timestamps.tolist(), bits_of(columns.values), strict=True)
    found = {labels: (at, bits) for labels, at, bits in rows}
    one_by_one = store.latest(wanted.matchers, at_ms, lookback_ms)
    assert [(s.labels, s.timestamp_ms, bits_of(np.array([s.value]))[0]) for s in one_by_one] == sorted(
        (labels, at, bits) for labels, (at, bits) in found.items()
    )
    return found


def stepped(
    store: SampleStore, wanted: Wanted, start_ms: int, end_ms: int, step_ms: int, lookback_ms: int
) -> dict[Labels, list[int]]:
    steps = store.at_steps(wanted.matchers, start_ms, end_ms, step_ms, lookback_ms)
    assert steps.timestamps.tolist() == list(range(start_ms, end_ms + 1, step_ms))
    found = {labels: bits_of(values) for labels, values in zip(steps.series, steps.values, strict=True)}
    assert len(found) == len(steps.series)
    return found
