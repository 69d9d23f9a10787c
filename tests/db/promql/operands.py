"""Vectors for tests of operators, written as what each series has at each step, and a context that knows them
by name."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from hypothesis import strategies as st

from db.labels import METRIC_NAME, Labels, labels_from
from db.promql.ast import Expression, Number, Text, VectorSelector
from db.promql.context import Context, Notes
from db.promql.limits import Budget, Limits
from db.promql.table import SeriesTable
from db.promql.vector import Scalar, Vector

# Labels of a series, and its values: None at the steps at which it is not there.
Row = tuple[dict[str, str], Sequence[float | None]]
# What is there at one step, in the order of the series.
Step = list[tuple[Labels, float]]

NAN, INF = math.nan, math.inf


def vector_of(rows: Sequence[Row], steps: int) -> Vector:
    table = SeriesTable.of([labels_from(labels) for labels, _ in rows])
    there = np.array([[value is not None for value in values] for _, values in rows], dtype=bool)
    values = np.array([[0.5 if value is None else value for value in values] for _, values in rows])
    there, values = there.reshape(len(rows), steps), values.reshape(len(rows), steps).astype(float)
    return Vector(table, values, None if there.all() else there)


def at_step(rows: Sequence[Row], step: int) -> Step:
    return [(labels_from(labels), values[step]) for labels, values in rows if values[step] is not None]


def steps_of(vector: Vector) -> list[dict[Labels, float]]:
    """What the vector has at each step; fails when two series have equal labels there."""
    labels, there = list(vector.table.rows()), vector.mask()
    assert vector.values.shape == there.shape == (len(labels), vector.values.shape[1])
    found = []
    for step in range(vector.values.shape[1]):
        present = np.flatnonzero(there[:, step]).tolist()
        held = {labels[row]: float(vector.values[row, step]) for row in present}
        assert len(held) == len(present)
        found.append(held)
    return found


def context_of(steps: int, named: Mapping[str, Vector | Sequence[float]], samples: int = 10**9) -> Context:
    """Selectors by these names are these vectors or, where numbers are given, scalars."""

    def evaluate(context: Context, expression: Expression) -> Any:
        if isinstance(expression, Number):
            return Scalar(np.full(steps, expression.value))
        assert isinstance(expression, VectorSelector), "texts are read from the expression"
        held = named[expression.name or ""]
        return held if isinstance(held, Vector) else Scalar(np.array(held, dtype=float))

    budget = Budget(Limits(samples=samples), clock=lambda: 0.0)
    grid = np.arange(steps, dtype=np.int64) * 1000
    source: Any = None
    return Context(source, grid, 0, 0, 300_000, 60_000, Notes(), budget, evaluate)


def selector(name: str) -> VectorSelector:
    return VectorSelector((), name)


def text(value: str) -> Text:
    return Text(value)


def same(left: float, right: float, relative: float = 1e-12) -> bool:
    if math.isnan(left) or math.isnan(right):
        return math.isnan(left) and math.isnan(right)
    return left == right or math.isclose(left, right, rel_tol=relative)


def assert_same(found: list[dict[Labels, float]], wanted: list[dict[Labels, float]], relative: float = 1e-12):
    assert [set(step) for step in found] == [set(step) for step in wanted]
    for have, want in zip(found, wanted, strict=True):
        for labels, value in want.items():
            assert same(have[labels], value, relative), (labels, have[labels], value)


@st.composite
def row_lists(draw: st.DrawFn, steps: int, values: Sequence[float], most: int = 7) -> list[Row]:
    """Series with few different labels; such with equal labels are there at different steps."""
    rows: list[Row] = []
    taken: set[tuple[Labels, int]] = set()
    for _ in range(draw(st.integers(0, most))):
        labels = {
            name: value
            for name in (METRIC_NAME, "a", "b", "c")
            if (value := draw(st.sampled_from(["", "x", "y"])))
        }
        held: list[float | None] = []
        for step in range(steps):
            value = draw(st.one_of(st.none(), st.sampled_from(values)))
            if (labels_from(labels), step) in taken:
                value = None
            if value is not None:
                taken.add((labels_from(labels), step))
            held.append(value)
        rows.append((labels, held))
    return rows
