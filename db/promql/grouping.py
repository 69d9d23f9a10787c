"""The series of a vector in groups, and walks over the groups in blocks: what all aggregations stand on.

A block holds about BLOCK values, so that what is computed on the way stays in the processor's cache and the
memory that an aggregation needs does not grow with its input.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from db.labels import METRIC_NAME
from db.nan import BoolArray, FloatArray, IntArray
from db.promql.table import SeriesTable
from db.promql.vector import Vector

BLOCK = 1 << 17
# reduceat walks down the columns and the loop along the rows: below these the loop's calls cost more.
_LOOP_STEPS, _LOOP_CELLS = 16, 512


@dataclass(frozen=True, slots=True, eq=False)
class Grouping:
    """table: the groups' labels. number: int64[series], each series' group. order: int64[series], the series
    group by group, in their own order within a group. starts, sizes: int64[groups], where a group begins in
    `order` and how many series it has (one at least). sorted: whether `order` is the series' own."""

    table: SeriesTable
    number: IntArray
    order: IntArray
    starts: IntArray
    sizes: IntArray
    sorted: bool

    @property
    def count(self) -> int:
        return len(self.starts)


def grouped(table: SeriesTable, labels: Sequence[str], without: bool) -> Grouping:
    """By these labels, or by all labels but these and the name. Remembered with the table."""
    return table.remembered(
        ("grouping", without, frozenset(labels)), lambda: _grouped(table, labels, without)
    )


def _grouped(table: SeriesTable, labels: Sequence[str], without: bool) -> Grouping:
    kept = table.drop((*labels, METRIC_NAME)) if without else table.keep(labels)
    groups = kept.groups()
    order = np.argsort(groups.number, kind="stable")
    sizes = np.bincount(groups.number, minlength=groups.count)
    in_order = bool((order == np.arange(len(order))).all())
    return Grouping(kept.take(groups.first), groups.number, order, np.cumsum(sizes) - sizes, sizes, in_order)


@dataclass(frozen=True, slots=True, eq=False)
class Block:
    """Some consecutive pieces of groups. first, end: which pieces. starts: int64[pieces], where each begins
    in values. values: float64[rows, steps], not to be changed. there: bool[rows, steps] or None.
    groups: int64[rows], the rows' groups."""

    first: int
    end: int
    starts: IntArray
    values: FloatArray
    there: BoolArray | None
    groups: IntArray

    def reduced(self, ufunc: np.ufunc, values: FloatArray) -> FloatArray:
        """float64[pieces, steps]; values: instead of the block's own, of the same shape."""
        return reduced(ufunc, values, self.starts)


def reduced(ufunc: np.ufunc, values: FloatArray, starts: IntArray) -> FloatArray:
    """float64[groups, steps]: a ufunc over consecutive rows, float64[rows, steps], from each start up to the
    next one."""
    steps = values.shape[1]
    if steps < _LOOP_STEPS or values.size < _LOOP_CELLS * len(starts):
        found: FloatArray = ufunc.reduceat(values, starts, axis=0)
        return found
    out = np.empty((len(starts), steps))
    bounds = [*starts.tolist(), len(values)]
    for piece, (start, end) in enumerate(pairwise(bounds)):
        ufunc.reduce(values[start:end], axis=0, out=out[piece])
    return out


@dataclass(frozen=True, slots=True, eq=False)
class Pieces:
    """Groups of which the large ones are cut so that a block holds them. starts, sizes: int64[pieces], in
    `Grouping.order`. firsts: int64[groups], the first piece of each group."""

    starts: IntArray
    sizes: IntArray
    firsts: IntArray

    @property
    def whole(self) -> bool:
        """Is every group one piece?"""
        return len(self.starts) == len(self.firsts)


def cut(grouping: Grouping, steps: int) -> Pieces:
    rows = max(1, BLOCK // max(1, steps))
    if int(grouping.sizes.max(initial=0)) <= rows:
        return Pieces(grouping.starts, grouping.sizes, np.arange(grouping.count))
    count = -(-grouping.sizes // rows)
    firsts = np.cumsum(count) - count
    place = np.arange(int(count.sum())) - np.repeat(firsts, count)
    sizes = np.minimum(rows, np.repeat(grouping.sizes, count) - place * rows)
    return Pieces(np.repeat(grouping.starts, count) + place * rows, sizes, firsts)


def blocks(vector: Vector, grouping: Grouping, pieces: Pieces) -> Iterator[Block]:
    """The vector's rows, group by group."""
    values, there = vector.values, vector.there
    rows = max(1, BLOCK // max(1, values.shape[1]))
    ends = pieces.starts + pieces.sizes
    first = 0
    while first < len(ends):
        start = int(pieces.starts[first])
        end_piece = max(first + 1, int(ends.searchsorted(start + rows, side="right")))
        end = int(ends[end_piece - 1])
        chosen = slice(start, end) if grouping.sorted else grouping.order[start:end]
        yield Block(
            first,
            end_piece,
            pieces.starts[first:end_piece] - start,
            _rows(values, chosen),
            None if there is None else there[chosen],
            grouping.number[chosen],
        )
        first = end_piece


def _rows(values: FloatArray, chosen: slice | IntArray) -> FloatArray:
    if isinstance(chosen, slice) or not values.flags.c_contiguous:
        return values[chosen]
    return values.take(chosen, axis=0)


def folded(
    vector: Vector,
    grouping: Grouping,
    ufunc: np.ufunc,
    change: Callable[[Block], FloatArray],
) -> FloatArray:
    """float64[groups, steps]: the ufunc over each group, of what `change` makes of a block's values,
    float64[rows, steps]."""
    pieces = cut(grouping, vector.values.shape[1])
    found = np.empty((len(pieces.starts), vector.values.shape[1]))
    for block in blocks(vector, grouping, pieces):
        found[block.first : block.end] = block.reduced(ufunc, change(block))
    return found if pieces.whole else reduced(ufunc, found, pieces.firsts)


def counts(vector: Vector, grouping: Grouping) -> IntArray:
    """int64[groups, steps or 1]: how many series of each group are there."""
    if vector.there is None:
        return grouping.sizes[:, None]
    return folded(vector, grouping, np.add, _present).astype(np.int64)


def _present(block: Block) -> FloatArray:
    assert block.there is not None, "asked for with a mask only"  # noqa: S101
    return block.there.astype(np.float64)
