"""Sums and means as precise as Prometheus's compensated ones, and nearly as fast as plain ones.

Every value of a group is split at one binary place into a high and a low part. The high parts add up without
any rounding, since all are multiples of one power of two and their sum needs no more than 53 bits; the low
parts are so small that rounding their sum does not matter, unless the high parts cancel. Where that cannot be
ruled out, and where the sum leaves the range of floats, the cell is added up again one value after the
other, by Neumaier's variant of Kahan's summation as Prometheus does it, in the same order.
"""

from dataclasses import dataclass

import numpy as np

from db.nan import BoolArray, FloatArray, IntArray
from db.promql.grouping import Block, Grouping, Pieces, blocks, cut, reduced
from db.promql.vector import Vector

_EPS = float(np.finfo(np.float64).eps) / 2
# A cell is added up again when its relative error could be larger.
_TOLERANCE = 1e-12
# Up to here floats hold every whole number.
_WHOLE = 2.0**53
# Beyond this the splitting itself could overflow.
_LARGEST = 2.0**960


@dataclass(frozen=True, slots=True, eq=False)
class _Sums:
    """All float64[groups, steps]. high + low is the sum of the finite values, wrong by `error` at most (low
    and error may be float64[groups, 1]). odd: the sum of the others, 0 where there are none; None for
    nowhere."""

    high: FloatArray
    low: FloatArray
    error: FloatArray
    odd: FloatArray | None


def total(vector: Vector, grouping: Grouping) -> FloatArray:
    """float64[groups, steps]; what it holds where a group is not there means nothing."""
    with np.errstate(all="ignore"):
        return _added(vector, grouping, None)


def mean(vector: Vector, grouping: Grouping, count: IntArray) -> FloatArray:
    """float64[groups, steps]; count: int64[groups, steps or 1] as `grouping.counts` gives it."""
    with np.errstate(all="ignore"):
        return _added(vector, grouping, count)


def _added(vector: Vector, grouping: Grouping, count: IntArray | None) -> FloatArray:
    """Means by these counts, sums without."""
    pieces = cut(grouping, vector.values.shape[1])
    found = np.empty((grouping.count, vector.values.shape[1]))
    if not pieces.whole:
        doubtful = _finished(_sums(vector, grouping, pieces), count, found)
        groups, steps = np.nonzero(doubtful)
    else:
        cells = []
        for block in blocks(vector, grouping, pieces):
            place = slice(block.first, block.end)
            sums = _block_sums(block, pieces.sizes[place])
            doubtful = _finished(sums, None if count is None else count[place], found[place])
            if doubtful.any():
                cells.append(np.argwhere(doubtful) + np.array([block.first, 0]))
        groups, steps = np.concatenate(cells).T if cells else np.empty((2, 0), dtype=np.int64)
    if len(groups):
        found[groups, steps] = one_by_one(vector, grouping, groups, steps, count is not None)
    return found


def _finished(sums: _Sums, count: IntArray | None, found: FloatArray) -> BoolArray:
    """Writes the sums or means to `found` and says where they are not to be trusted."""
    np.add(sums.high, sums.low, out=found)
    doubtful = np.isinf(sums.error) | (sums.error > _TOLERANCE * np.abs(found))
    if count is not None:
        np.add(sums.high / count, sums.low / count, out=found)
    if sums.odd is not None:
        np.copyto(found, sums.odd, where=sums.odd != 0)
    return doubtful


def _sums(vector: Vector, grouping: Grouping, pieces: Pieces) -> _Sums:
    """Of groups that are cut into pieces."""
    shape = (len(pieces.starts), vector.values.shape[1])
    high, low, error, odd = np.empty(shape), np.empty(shape), np.empty(shape), np.zeros(shape)
    for block in blocks(vector, grouping, pieces):
        place = slice(block.first, block.end)
        sums = _block_sums(block, pieces.sizes[place])
        high[place], low[place], error[place] = sums.high, sums.low, sums.error
        if sums.odd is not None:
            odd[place] = sums.odd
    # The high parts of a group's pieces are few: they are values to be added up like others.
    count = np.diff(np.append(pieces.firsts, len(pieces.starts)))
    rows = np.arange(len(pieces.starts))
    number = np.repeat(np.arange(grouping.count), count)
    inner = Grouping(grouping.table, number, rows, pieces.firsts, count, True)
    again = cut(inner, shape[1])
    if again.whole:
        rest = _block_sums(Block(0, len(count), pieces.firsts, high, None, number), count)
    else:
        rest = _sums(Vector(grouping.table, high), inner, again)
    low, error, odd = (reduced(np.add, held, pieces.firsts) for held in (low, error, odd))
    return _Sums(rest.high, rest.low + low, rest.error + error, odd)


def _block_sums(block: Block, sizes: IntArray) -> _Sums:
    """sizes: int64[pieces], how many rows each has."""
    values = block.values if block.there is None else np.where(block.there, block.values, 0.0)
    odd = None
    if _exact(values, sizes):
        nothing = np.zeros((len(sizes), 1))
        return _Sums(block.reduced(np.add, values), nothing, nothing, None)
    top = _tops(values)
    if not np.isfinite(top).all():
        finite = np.isfinite(values)
        odd = block.reduced(np.add, np.where(finite, 0.0, values))
        values = np.where(finite, values, 0.0)
        top = _tops(values)
    top = np.maximum.reduceat(top, block.starts)
    # A power of two that no sum of the group's values reaches, and half of it neither.
    border = np.ldexp(1.0, np.frexp(np.minimum(top, _LARGEST))[1] + np.frexp(sizes)[1] + 1)
    by_row = np.repeat(border, sizes)[:, None]
    parts = values + by_row
    parts -= by_row
    high = block.reduced(np.add, parts)
    np.subtract(values, parts, out=parts)
    low = block.reduced(np.add, parts)
    # What the low parts' sum may be wrong by: each is below border * eps.
    error = (_EPS * _EPS * sizes * sizes * border)[:, None]
    if (error > _TOLERANCE * np.abs(high + low)).any():
        error = (_EPS * sizes)[:, None] * block.reduced(np.add, np.abs(parts))
    return _Sums(high, low, np.where((top >= _LARGEST)[:, None], np.inf, error), odd)


def _exact(values: FloatArray, sizes: IntArray) -> bool:
    """Are these whole numbers whose sums all stay in the range where floats hold each of them? So are most
    gauges, which are percent, degrees or bytes."""
    if not values.size or values[0, 0] != np.rint(values[0, 0]):
        return False
    most = max(float(values.max()), -float(values.min())) * float(sizes.max())
    return most < _WHOLE and bool((np.rint(values) == values).all())


def _tops(values: FloatArray) -> FloatArray:
    """float64[rows]: the largest absolute value of each row; not finite if one is not."""
    if values.shape[1] == 1:
        return np.asarray(np.abs(values[:, 0]))
    return np.asarray(np.maximum(values.max(axis=1, initial=0.0), -values.min(axis=1, initial=0.0)))


def one_by_one(
    vector: Vector, grouping: Grouping, groups: IntArray, steps: IntArray, is_mean: bool
) -> FloatArray:
    """float64[cells]: sums or means of these groups at these steps, int64[cells] each, added up in the order
    of the series; a mean goes on without the sum once that would leave the range of floats."""
    largest_first = np.argsort(-grouping.sizes[groups], kind="stable")
    groups, steps = groups[largest_first], steps[largest_first]
    starts, sizes = grouping.starts[groups], grouping.sizes[groups]
    cells = _Cells.at_zero(len(groups))
    with np.errstate(all="ignore"):
        for place in range(int(sizes.max(initial=0))):
            active = int(np.count_nonzero(sizes > place))
            rows = grouping.order[starts[:active] + place]
            value = vector.values[rows, steps[:active]]
            some: slice | IntArray = slice(0, active)
            if vector.there is not None:
                some = np.flatnonzero(vector.there[rows, steps[:active]])
                value = value[some]
            cells.add(some, value, is_mean)
        found = cells.means() if is_mean else cells.total + cells.rest
    back = np.empty(len(groups))
    back[largest_first] = found
    return back


@dataclass(frozen=True, slots=True, eq=False)
class _Cells:
    """Sums that grow by one value at a time, all float64[cells]. rest: what the roundings of `total` (or of
    `mean`) have lost. stepwise: where the sum would have overflowed and the mean is kept instead."""

    count: FloatArray
    total: FloatArray
    rest: FloatArray
    mean: FloatArray
    stepwise: BoolArray

    @classmethod
    def at_zero(cls, cells: int) -> "_Cells":
        count, total, rest, mean = np.zeros((4, cells))
        return cls(count, total, rest, mean, np.zeros(cells, dtype=np.bool_))

    def add(self, some: slice | IntArray, value: FloatArray, is_mean: bool) -> None:
        """One more value for some of the cells."""
        self.count[some] += 1
        old, lost = self.total[some], self.rest[some]
        total, rest = _plus(old, lost, value)
        if is_mean:
            count = self.count[some]
            was = self.stepwise[some]
            now = was | (np.isinf(total) & (count > 1))
            if now.any():
                before = count - 1
                turned = now & ~was
                middle = np.where(turned, old / before, self.mean[some])
                lost = np.where(turned, lost / before, lost)
                ratio = before / count
                middle, left = _plus(ratio * middle, ratio * lost, value / count)
                self.mean[some] = np.where(now, middle, self.mean[some])
                rest = np.where(now, left, rest)
                self.stepwise[some] = now
        self.total[some], self.rest[some] = total, rest

    def means(self) -> FloatArray:
        direct = self.total / self.count + self.rest / self.count
        return np.where(self.stepwise, self.mean + self.rest, direct)


def _plus(held: FloatArray, rest: FloatArray, value: FloatArray) -> tuple[FloatArray, FloatArray]:
    """held + value, and what all roundings until now have lost."""
    new = held + value
    larger = np.abs(held) >= np.abs(value)
    lost = np.where(larger, (held - new) + value, (value - new) + held)
    return new, np.where(np.isinf(new), 0.0, rest + lost)
