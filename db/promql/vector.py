"""What expressions have for values: a number at every step, or series with a value at some of the steps."""

from dataclasses import dataclass

import numpy as np

from db.nan import BoolArray, FloatArray, IntArray
from db.promql.errors import ExecutionError
from db.promql.table import SeriesTable

SAME_LABELS = "vector cannot contain metrics with the same labelset"


@dataclass(frozen=True, slots=True, eq=False)
class Vector:
    """Series over the steps of the query. values: float64[series, steps]. there: bool[series, steps], where
    a series has a value (what `values` holds elsewhere means nothing); None when everywhere.

    Series of one table may have equal labels as long as no step has a value of two of them (`merged`).
    Arrays are never changed once they are in a Vector.
    """

    table: SeriesTable
    values: FloatArray
    there: BoolArray | None = None

    def mask(self) -> BoolArray:
        """bool[series, steps]: `there`, whatever it is."""
        if self.there is None:
            return np.ones(self.values.shape, dtype=np.bool_)
        return self.there

    def take(self, rows: IntArray) -> "Vector":
        there = None if self.there is None else self.there[rows]
        return Vector(self.table.take(rows), self.values[rows], there)

    def only(self, there: BoolArray) -> "Vector":
        """The same series where they were and `there` (bool[series, steps]) says so, too."""
        if self.there is not None:
            there = there & self.there
        return Vector(self.table, self.values, None if there.all() else there)

    def without_empty(self) -> "Vector":
        """Without the series that have no value at any step."""
        if self.there is None:
            return self
        some = self.there.any(axis=1)
        return self if some.all() else self.take(np.flatnonzero(some))

    def merged(self, message: str = SAME_LABELS) -> "Vector":
        """Every label set once. Raises ExecutionError when two series with equal labels meet at a step."""
        if self.table.distinct():
            return self
        groups = self.table.groups()
        there = np.zeros((groups.count, self.values.shape[1]), dtype=np.int64)
        np.add.at(there, groups.number, self.mask())
        if (there > 1).any():
            raise ExecutionError(message)
        values = np.zeros(there.shape)
        rows, steps = np.nonzero(self.mask())
        values[groups.number[rows], steps] = self.values[rows, steps]
        return Vector(self.table.take(groups.first), values, there > 0).without_empty()


@dataclass(frozen=True, slots=True, eq=False)
class Scalar:
    """values: float64[steps]."""

    values: FloatArray


@dataclass(frozen=True, slots=True, eq=False)
class String:
    value: str


def empty(steps: int) -> Vector:
    return Vector(SeriesTable(0, {}), np.zeros((0, steps)))
