"""Which series of two vectors meet in a binary operation: the labels are compared once for all steps, and
remembered for selections that are asked again; who is there is checked at each step."""

from dataclasses import dataclass
from typing import Literal
from weakref import ref

import numpy as np

from db.labels import METRIC_NAME, Labels
from db.nan import BoolArray, IntArray
from db.promql.ast import Matching
from db.promql.errors import ExecutionError, LimitExceeded
from db.promql.table import SeriesTable, numbered
from db.promql.vector import Vector
from db.promql.wording import label_name, quoted

MANY_MATCHES = "multiple matches for labels: many-to-one matching must be explicit (group_left/group_right)"
NOT_UNIQUE = "multiple matches for labels: grouping labels must ensure unique matches"

# Series that replace each other in time on both sides all meet; more pairs than this would fill the memory.
_MOST_PAIRS = 5_000_000

# What happens to the metric's name: kept (filters), dropped before group_left's labels are set (arithmetic),
# dropped in the end (bool).
NameRule = Literal["kept", "dropped first", "dropped last"]


@dataclass(frozen=True, slots=True, eq=False)
class Crowd:
    """Rows that share a number with other rows. rows: int64[n]; number: int64[n], 0 <= number < count."""

    rows: IntArray
    number: IntArray
    count: int

    @classmethod
    def of(cls, number: IntArray) -> "Crowd":
        """number: int64[rows]."""
        rows = np.flatnonzero(np.bincount(number)[number] > 1) if len(number) else number
        different, own = np.unique(number[rows], return_inverse=True)
        return cls(rows, own.reshape(-1), len(different))

    def meetings(self, there: BoolArray) -> BoolArray:
        """bool[count, steps]: where two rows or more of a number are; there: bool[rows, steps]."""
        met = np.zeros((self.count, there.shape[1]), dtype=np.int64)
        np.add.at(met, self.number, there[self.rows])
        return met > 1

    def meet(self, there: BoolArray | None) -> bool:
        if not len(self.rows):
            return False
        return there is None or bool(self.meetings(there).any())


@dataclass(frozen=True, slots=True, eq=False)
class Signatures:
    """What of the labels is compared, as numbers: equal ones match. left, right: int64[series]. doubled:
    series of the right side that have a number in common."""

    left: IntArray
    right: IntArray
    count: int
    doubled: Crowd

    def on_the_right(self, vector: Vector) -> BoolArray:
        """bool[count, steps or 1]: which signatures the right vector has at each step."""
        return _seen(vector, self.right, self.count)

    def on_the_left(self, vector: Vector) -> BoolArray:
        return _seen(vector, self.left, self.count)


def signatures(left: SeriesTable, right: SeriesTable, matching: Matching) -> Signatures:
    return left.remembered(
        ("signatures", ref(right), matching.on, frozenset(matching.labels)),
        lambda: _signatures(left, right, matching),
    )


def _signatures(left: SeriesTable, right: SeriesTable, matching: Matching) -> Signatures:
    groups = SeriesTable.joined([_compared(left, matching), _compared(right, matching)]).groups()
    ours, theirs = np.split(groups.number, [len(left)])
    return Signatures(ours, theirs, groups.count, Crowd.of(theirs))


def _compared(table: SeriesTable, matching: Matching) -> SeriesTable:
    return table.keep(matching.labels) if matching.on else table.drop((*matching.labels, METRIC_NAME))


def _seen(vector: Vector, number: IntArray, count: int) -> BoolArray:
    if vector.there is None:
        seen = np.zeros((count, 1), dtype=np.bool_)
        seen[number] = True
        return seen
    seen = np.zeros((count, vector.values.shape[1]), dtype=np.bool_)
    order = np.argsort(number, kind="stable")
    if len(order):
        starts = np.flatnonzero(np.diff(number[order], prepend=-1))
        seen[number[order[starts]]] = np.logical_or.reduceat(vector.there[order], starts, axis=0)
    return seen


@dataclass(frozen=True, slots=True, eq=False)
class Match:
    """The pairs of series that meet. `many` and `one` are the sides, even where each has one series.

    many: int64[pairs], rows of the many side. one: int64[pairs], slots of the one side: its series with equal
    signature and equal labels to take over, of which one at a time is there. slot: int64[series of the one
    side], the slot of each; lone: int64[slots], the series of each slot, or None where some have several.
    table: the labels of the pairs' results. rivals: pairs that must not have a result at the same step.
    """

    many: IntArray
    one: IntArray
    slot: IntArray
    slots: int
    lone: IntArray | None
    table: SeriesTable
    rivals: Crowd


def matched(many: SeriesTable, one: SeriesTable, matching: Matching, name: NameRule) -> Match:
    return many.remembered(("match", ref(one), matching, name), lambda: _matched(many, one, matching, name))


def _matched(many: SeriesTable, one: SeriesTable, matching: Matching, name: NameRule) -> Match:
    found = signatures(many, one, matching)
    slots = numbered(
        [
            (found.right.astype(np.int32), found.count),
            *((one.column(label).codes, len(one.column(label).texts)) for label in matching.include),
        ],
        len(one),
    )
    rows, places = _pairs(found.left, found.right[slots.first], found.count)
    lone = slots.first if slots.count == len(one) else None
    table = _result(many, one, matching, name, rows, slots.first[places])
    alike = found.left[rows]
    if matching.cardinality != "one-to-one":
        labels = table.groups()
        alike = numbered(
            [(alike.astype(np.int32), found.count), (labels.number.astype(np.int32), labels.count)],
            len(rows),
        ).number
    return Match(rows, places, slots.number, slots.count, lone, table, Crowd.of(alike))


def _pairs(many: IntArray, one: IntArray, count: int) -> tuple[IntArray, IntArray]:
    """Places of equal numbers in both, each with each, in the order of `many`."""
    order = np.argsort(one, kind="stable")
    each = np.bincount(one, minlength=count)
    starts = np.cumsum(each) - each
    repeated = each[many]
    if int(repeated.sum()) > _MOST_PAIRS:
        raise LimitExceeded(
            f"the operation would join more than {_MOST_PAIRS:,} pairs of series; "
            "name more labels in on() or fewer in group_left() or group_right()"
        )
    rows = np.repeat(np.arange(len(many)), repeated)
    within = np.arange(len(rows)) - np.repeat(np.cumsum(repeated) - repeated, repeated)
    return rows, order[starts[many[rows]] + within]


def _result(
    many: SeriesTable, one: SeriesTable, matching: Matching, name: NameRule, rows: IntArray, taken: IntArray
) -> SeriesTable:
    """The labels of results. rows, taken: int64[pairs], series of both sides."""
    table = many.nameless() if name == "dropped first" else many
    if matching.cardinality == "one-to-one":
        table = table.keep(matching.labels) if matching.on else table.drop(matching.labels)
    table = table.take(rows)
    for label in matching.include:
        table = table.with_column(label, one.column(label).take(taken))
    return table.nameless() if name == "dropped last" else table


def check_one_side(many: Vector, one: Vector, matching: Matching) -> None:
    """Raises ExecutionError when two series of the one side have equal signatures at a step at which the many
    side has series, too (whether they match or not)."""
    crowd = signatures(many.table, one.table, matching).doubled
    if not len(crowd.rows):
        return
    there = one.mask()
    met = crowd.meetings(there) & many.mask().any(axis=0)
    if not met.any():
        return
    step = int(np.flatnonzero(met.any(axis=0))[0])
    seen: dict[int, int] = {}
    for row, number in zip(crowd.rows.tolist(), crowd.number.tolist(), strict=True):
        if there[row, step] and (earlier := seen.setdefault(number, row)) != row:
            raise ExecutionError(_duplicates(one.table, earlier, row, matching))


def _duplicates(table: SeriesTable, earlier: int, later: int, matching: Matching) -> str:
    side = "left" if matching.cardinality == "one-to-many" else "right"
    group = _compared(table, matching).labels(later)
    series = ", ".join(_shown(table.labels(row)) for row in (later, earlier))
    return (
        f"found duplicate series for the match group {_shown(group)} on the {side} hand-side of the "
        f"operation: [{series}];many-to-many matching not allowed: matching labels must be unique on one side"
    )


def _shown(labels: Labels) -> str:
    return "{" + ", ".join(f"{label_name(name)}={quoted(value)}" for name, value in labels) + "}"
