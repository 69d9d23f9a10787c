"""The samples of many series in a window before each step: what functions of ranges work on.

A window is (start, end]: since Prometheus 3 a sample exactly at its beginning does not belong to it.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from db.nan import BoolArray, FloatArray, IntArray
from db.promql.table import SeriesTable
from db.promql.vector import Vector


@dataclass(frozen=True, slots=True, eq=False)
class WindowPart:
    """Some of the series of a range selector; the functions that get one work on all of its series and steps
    at once and never ask which of two forms it has:

    shared  series that have all their timestamps in common: timestamps int64[n], values float64[series, n],
            first, end int64[1, steps].
    flat    series one behind the other: timestamps int64[n], values float64[n], first, end
            int64[series, steps].

    rows: int64[series], the series' places in the table. first, end: the samples of a window are those at
    first, ..., end - 1; none where first == end. starts, ends: int64[steps], ms UTC, the window of each step
    as the samples' times have it, that is moved by the selector's offset and `@`. at: int64[steps], the times
    for which the expression is evaluated.
    """

    rows: IntArray
    timestamps: IntArray
    values: FloatArray
    first: IntArray
    end: IntArray
    starts: IntArray
    ends: IntArray
    at: IntArray

    @property
    def shape(self) -> tuple[int, int]:
        """(series, steps)"""
        return len(self.rows), len(self.ends)

    @property
    def count(self) -> IntArray:
        """int64[series or 1, steps]: samples in each window."""
        return self.end - self.first

    def value(self, index: IntArray) -> FloatArray:
        """float64[series, steps]: the values at these places, int64[series or 1, steps]; places outside the
        samples are moved inside, so that windows without samples may be asked for."""
        if self.values.ndim == 2:
            return self.values[:, self._inside(index)[0]]
        return self.values[self._inside(index)]

    def time(self, index: IntArray) -> IntArray:
        """int64[series or 1, steps]: the timestamps at these places."""
        return self.timestamps[self._inside(index)]

    def _inside(self, index: IntArray) -> IntArray:
        return np.clip(index, 0, len(self.timestamps) - 1)

    def reduced(self, ufunc: np.ufunc, values: FloatArray | None = None, skip: int = 0) -> FloatArray:
        """float64[series, steps]: a ufunc over the values of each window (add: plain summation). values:
        instead of its own, of the same shape. skip: leave out so many at each window's beginning. 0 where
        nothing is left."""
        held = self.values if values is None else values
        first = np.minimum(self.first + skip, self.end)
        filled = self.end > first
        # Pairs of begin and end; the end behind the last value needs a value of its own to stand on.
        held = np.concatenate([held, np.zeros((*held.shape[:-1], 1))], axis=-1)
        bounds = np.stack([first, self.end], axis=-1)
        found = ufunc.reduceat(held, bounds.reshape(-1), axis=-1)[..., ::2].reshape(self.shape)
        return np.where(filled, found, 0.0)

    def places(self) -> Iterator[tuple[IntArray, BoolArray]]:
        """The first place of every window, then the second, ...: (int64[series or 1, steps], which windows
        have that many samples). For what no ufunc does; as many rounds as the fullest window has samples."""
        count = self.count
        for number in range(int(count.max(initial=0))):
            yield self.first + number, count > number


Kernel = Callable[[WindowPart], tuple[FloatArray, BoolArray]]


@dataclass(frozen=True, slots=True, eq=False)
class Windows:
    """A range selector's value: a window of samples for each series and step."""

    table: SeriesTable
    steps: int
    parts: Sequence[WindowPart]

    def each(self, kernel: Kernel) -> Vector:
        """A value for each series and step. kernel: WindowPart -> float64[series, steps] and where it is one,
        bool[series or 1, steps]."""
        found = [(part.rows, *kernel(part)) for part in self.parts]
        if len(found) == 1 and len(found[0][0]) == len(self.table):
            rows, one, there = found[0]
            table = self.table if bool((rows == np.arange(len(rows))).all()) else self.table.take(rows)
            return Vector(table, one, None if there.all() else np.broadcast_to(there, one.shape))
        values = np.zeros((len(self.table), self.steps))
        mask = np.zeros(values.shape, dtype=np.bool_)
        for rows, some, there in found:
            values[rows], mask[rows] = some, there
        return Vector(self.table, values, None if mask.all() else mask)


def shared(
    rows: IntArray,
    timestamps: IntArray,
    values: FloatArray,
    starts: IntArray,
    ends: IntArray,
    at: IntArray,
) -> WindowPart:
    """Series that have a sample at every one of their common timestamps."""
    first, end = (timestamps.searchsorted(edge, side="right")[None] for edge in (starts, ends))
    return WindowPart(rows, timestamps, values, first, end, starts, ends, at)


def flat(
    rows: IntArray,
    timestamps: IntArray,
    values: FloatArray,
    there: BoolArray,
    starts: IntArray,
    ends: IntArray,
    at: IntArray,
) -> WindowPart:
    """Series of which some lack some of the timestamps; there: bool[series, n]."""
    before = np.zeros((len(rows), len(timestamps) + 1), dtype=np.int64)
    np.cumsum(there, axis=1, out=before[:, 1:])
    offset = np.cumsum(before[:, -1]) - before[:, -1]
    first, end = (
        before[:, timestamps.searchsorted(edge, side="right")] + offset[:, None] for edge in (starts, ends)
    )
    times = np.broadcast_to(timestamps, there.shape)[there]
    return WindowPart(rows, times, values[there], first, end, starts, ends, at)


def parts_of(
    rows: IntArray,
    timestamps: IntArray,
    values: FloatArray,
    there: BoolArray | None,
    starts: IntArray,
    ends: IntArray,
    at: IntArray,
) -> list[WindowPart]:
    """A rectangle of samples as one or two parts: the series without gaps, and the others; none where there
    are no series, since a shared part has its windows even without any."""
    if not len(rows):
        return []
    if there is None:
        return [shared(rows, timestamps, values, starts, ends, at)]
    found = []
    whole = there.all(axis=1)
    if whole.any():
        some = np.flatnonzero(whole)
        found.append(shared(rows[some], timestamps, values[some], starts, ends, at))
    broken = np.flatnonzero(~whole & there.any(axis=1))
    if len(broken):
        found.append(flat(rows[broken], timestamps, values[broken], there[broken], starts, ends, at))
    return found
