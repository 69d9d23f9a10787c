"""topk, bottomk and quantile: what needs the order of a group's values at each step."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from db.nan import BoolArray, FloatArray, IntArray
from db.promql.ast import Aggregate
from db.promql.context import Context, Notes
from db.promql.errors import ExecutionError
from db.promql.grouping import BLOCK, Grouping, counts, grouped
from db.promql.heaps import kept
from db.promql.label_order import places_by_labels
from db.promql.vector import Vector, empty
from db.promql.wording import general

# The floats next to the ends of int64, as Prometheus has them.
_INT_MAX = 9223372036854774784.0
# Cells (a group at a step) and values among which ties are settled at once: the heaps' calls have a price.
_CELLS, _AT_ONCE = 1 << 13, 1 << 22


def largest_or_smallest(context: Context, node: Aggregate) -> Vector:
    """topk, bottomk: of each group the k series with the largest or smallest values, with all their labels,
    and NaN only when nothing else is left. At a single step the series are in the order of their groups and
    values.

    Where more series are equal at the k-th place than there is room for, those are chosen that Prometheus 3
    chooses (`heaps`) when it sees the series sorted by labels, as its storage gives them. (In another order
    it sees them only behind aggregations, in that in which their groups begin, and in range queries behind
    binary operators and functions of instant vectors, in none that can be known.)"""
    limit = _limits(context, node)
    vector = context.vector(node.expression)
    if limit is None or not len(vector.table):
        return empty(context.steps)
    grouping = grouped(vector.table, node.labels, node.without)
    chosen = np.zeros(vector.values.shape, dtype=np.bool_)
    ties = _Ties(vector, grouping, chosen)
    for box in _boxes(vector, grouping):
        keys = -box.values if node.op == "topk" else box.values
        some = limit[box.steps]
        smallest, tied = _first(keys, box.there, some)
        chosen[box.rows[:, :, None], box.columns] = smallest.transpose(0, 2, 1)
        for k in np.unique(some[tied.any(axis=0)]).tolist():
            ties.add(box, keys, tied & (some == k), k)
    ties.settle()
    rows = np.flatnonzero(chosen.any(axis=1))
    if context.steps == 1:
        keys = vector.values[rows, 0] if node.op == "bottomk" else -vector.values[rows, 0]
        rows = rows[np.lexsort((keys, grouping.number[rows]))]
    found, there = vector.take(rows), chosen[rows]
    return Vector(found.table, found.values, None if there.all() else there)


def _limits(context: Context, node: Aggregate) -> IntArray | None:
    """int64[steps]; None where all are below 1. Raises ExecutionError for what is no whole number."""
    wanted = _parameter(context, node)
    if not np.isnan(wanted).any() and (wanted < 1).all():
        return None
    if np.isnan(wanted).any():
        raise ExecutionError("Parameter value is NaN")
    if wanted.min() <= -_INT_MAX:
        raise ExecutionError(f"Scalar value {general(float(wanted.min()))} underflows int64")
    if wanted.max() >= _INT_MAX:
        raise ExecutionError(f"Scalar value {general(float(wanted.max()))} overflows int64")
    return wanted.astype(np.int64)


def _parameter(context: Context, node: Aggregate) -> FloatArray:
    assert node.parameter is not None, "the parser asks for it"  # noqa: S101
    return context.scalar(node.parameter)


def _first(keys: FloatArray, there: BoolArray | None, limit: IntArray) -> tuple[BoolArray, BoolArray]:
    """The members with the smallest keys, bool[groups, steps, members], and where there are more equal ones
    than room, bool[groups, steps]: of these none is among the first. keys: float64[groups, steps, members].
    limit: int64[steps]."""
    members = keys.shape[2]
    if int(limit.min()) >= members:
        every = np.ones(keys.shape, dtype=np.bool_) if there is None else there
        return every, np.zeros(keys.shape[:2], dtype=np.bool_)
    if there is not None:
        keys = np.where(there, keys, np.nan)
    place = np.clip(limit, 1, members) - 1
    if (place == place[0]).all():
        last = np.partition(keys, int(place[0]), axis=2)[:, :, place[0]]
    else:
        last = np.sort(keys, axis=2)[:, np.arange(len(place)), place]
    found = keys < last[:, :, None]
    equal = keys == last[:, :, None]
    short = np.isnan(last)
    if short.any():
        # Fewer numbers than wanted: all of them, and NaN for the rest.
        nan = np.isnan(keys[short])
        found[short] = ~nan
        equal[short] = nan if there is None else nan & there[short]
    crowded = equal.sum(axis=2) > place + 1 - found.sum(axis=2)
    equal[crowded] = False
    found |= equal
    wanted = limit >= 1
    found &= wanted[:, None]
    return found, crowded & wanted


def quantile(context: Context, node: Aggregate) -> Vector:
    """By linear interpolation between the two nearest values, where NaN counts as the smallest; -Inf for
    quantiles below 0, +Inf above 1, NaN for NaN."""
    wanted = _parameter(context, node)
    if node.parameter is not None:
        _warn(context.notes.at(node.parameter), wanted)
    vector = context.vector(node.expression)
    if not len(vector.table):
        return empty(context.steps)
    grouping = grouped(vector.table, node.labels, node.without)
    values = np.empty((grouping.count, context.steps))
    with np.errstate(all="ignore"):
        for box in _boxes(vector, grouping):
            values[box.groups[:, None], box.columns] = _quantiles(box.values, box.there, wanted[box.steps])
    values[:, wanted < 0], values[:, wanted > 1] = -np.inf, np.inf
    there = counts(vector, grouping) > 0
    return Vector(grouping.table, values, None if there.all() else there).without_empty()


def _warn(notes: Notes, wanted: FloatArray) -> None:
    wrong = {float(value) for value in (wanted.max(), wanted.min()) if not 0 <= value <= 1}
    if np.isnan(wanted).any():
        wrong = {float("nan")}
    for value in sorted(wrong):
        notes.warn(f"quantile value should be between 0 and 1, got {general(value)}")


def _quantiles(values: FloatArray, there: BoolArray | None, wanted: FloatArray) -> FloatArray:
    """float64[groups, steps]; values: float64[groups, steps, members], wanted: float64[steps]."""
    nan = np.isnan(values)
    count: IntArray | int = values.shape[2]
    if there is not None:
        nan &= there
        values = np.where(there, values, np.inf)
        count = there.sum(axis=2)
    # Sorted: the numbers, what is not there as +Inf (which the numbers may be, too), NaN.
    values = np.sort(values, axis=2)
    below = nan.sum(axis=2)
    rank = np.clip(wanted, 0.0, 1.0) * (count - 1)
    low = np.maximum(0, np.nan_to_num(np.floor(rank))).astype(np.int64)
    high = np.minimum(np.maximum(count, 1) - 1, low + 1)
    weight = rank - np.floor(rank)
    left, right = (_at(values, place - below) for place in (low, high))
    return left * (1 - weight) + right * weight


def _at(values: FloatArray, places: IntArray) -> FloatArray:
    """The values at these places, int64[groups, steps]; NaN for places before the first."""
    found = np.take_along_axis(values, np.maximum(places, 0)[:, :, None], axis=2)[:, :, 0]
    return np.where(places < 0, np.nan, found)


@dataclass(frozen=True, slots=True, eq=False)
class _Box:
    """Groups that have equally many members, at some of the steps. rows: int64[groups, members]. steps: which
    of the steps. columns: the same to index beside rows or groups. values: float64[groups, steps, members],
    there: bool of the same shape, or None."""

    groups: IntArray
    rows: IntArray
    steps: slice
    columns: IntArray
    values: FloatArray
    there: BoolArray | None


def _boxes(vector: Vector, grouping: Grouping) -> Iterator[_Box]:
    steps = vector.values.shape[1]
    by_size = np.argsort(grouping.sizes, kind="stable")
    sizes, firsts = np.unique(grouping.sizes[by_size], return_index=True)
    for size, same in zip(sizes.tolist(), np.split(by_size, firsts[1:]), strict=True):
        # Sorting wants a group's values at one step beside each other; blocks of several steps keep the
        # turning around of the matrix cheap.
        width = min(steps, max(8, BLOCK // size))
        some = max(1, BLOCK // (size * width))
        for first in range(0, len(same), some):
            groups = same[first : first + some]
            rows = grouping.order[grouping.starts[groups][:, None] + np.arange(size)]
            for start in range(0, steps, width):
                chosen = slice(start, min(start + width, steps))
                yield _Box(
                    groups,
                    rows,
                    chosen,
                    np.arange(chosen.start, chosen.stop),
                    _turned(vector.values, rows, chosen),
                    None if vector.there is None else _turned(vector.there, rows, chosen),
                )


def _turned(held: Any, rows: IntArray, steps: slice) -> Any:
    """[groups, steps, members]"""
    return np.ascontiguousarray(held[rows, steps].transpose(0, 2, 1))


class _Ties:
    """The cells where more series are equal than there is room for, kept until there are many."""

    def __init__(self, vector: Vector, grouping: Grouping, chosen: BoolArray) -> None:
        """chosen: bool[series, steps], to which is added what is chosen here."""
        self._vector, self._grouping, self._chosen = vector, grouping, chosen
        self._pending: dict[tuple[int, int], list[tuple[Any, ...]]] = {}
        self._values = 0

    def add(self, box: _Box, keys: FloatArray, tied: BoolArray, k: int) -> None:
        """keys: float64[groups, steps, members], of which the k smallest are chosen. tied: bool[groups,
        steps]."""
        groups, steps = np.nonzero(tied)
        there = None if box.there is None else box.there[groups, steps]
        found = (box.groups[groups], box.columns[steps], keys[groups, steps], there)
        self._pending.setdefault((keys.shape[2], k), []).append(found)
        self._values += found[2].size
        if self._values > _AT_ONCE:
            self.settle()

    def settle(self) -> None:
        """Chooses in all cells that were added."""
        if not self._pending:
            return
        number, starts = self._grouping.number, self._grouping.starts
        order = np.lexsort((places_by_labels(self._vector.table), number))
        # Which member of its group each series is in the boxes.
        member = np.empty(len(order), dtype=np.int64)
        member[self._grouping.order] = np.arange(len(order)) - starts[np.sort(number)]
        for (size, k), pieces in self._pending.items():
            groups, steps, keys, there = (_joined(part) for part in zip(*pieces, strict=True))
            for start in range(0, len(groups), _CELLS):
                block = slice(start, start + _CELLS)
                rows = order[starts[groups[block]][:, None] + np.arange(size)]
                members = member[rows]
                here = None if there is None else np.take_along_axis(there[block], members, axis=1)
                places = kept(np.take_along_axis(keys[block], members, axis=1), here, k)
                self._chosen[np.take_along_axis(rows, places, axis=1), steps[block][:, None]] = True
        self._pending.clear()
        self._values = 0


def _joined(parts: Sequence[Any]) -> Any:
    return None if parts[0] is None else np.concatenate(parts)
