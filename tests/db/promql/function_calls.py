"""Calls a function of `SPECIAL` over values that a test gives, without a store, a parser or an evaluator."""

from collections.abc import Mapping, Sequence

import numpy as np

from db.labels import METRIC_NAME, Labels
from db.promql.ast import Call, Expression, Negated, Number, Text
from db.promql.context import Context, Notes, Value
from db.promql.functions import SPECIAL
from db.promql.limits import Budget, Limits
from db.promql.table import SeriesTable
from db.promql.vector import Scalar, String, Vector

Given = float | str | Value | Expression


def labels(name: str = "", **others: str) -> Labels:
    """Sorted, with the metric's name if there is one."""
    pairs = {**others, **({METRIC_NAME: name} if name else {})}
    return tuple(sorted(pairs.items()))


def vector(series: Mapping[Labels, Sequence[float | None]]) -> Vector:
    """The values of each series at each step, None where it has none."""
    rows = list(series.values())
    values = np.array([[np.nan if value is None else value for value in row] for row in rows], dtype=float)
    there = np.array([[value is not None for value in row] for row in rows])
    table = SeriesTable.of(list(series))
    # Where nothing is, any number may stand.
    return Vector(table, np.where(there, values, -7.0), None if there.all() else there)


def called(function: str, *given: Given, grid: Sequence[int] = (0,)) -> tuple[Value, Notes]:
    """given: numbers, texts, values (in place of expressions that have them), expressions whose value nobody
    asks for. grid: ms UTC."""
    values: dict[Expression, Value] = {}
    arguments: list[Expression] = []
    for place, one in enumerate(given):
        if isinstance(one, int | float):
            arguments.append(Number(float(one)))
            values[arguments[-1]] = Scalar(np.full(len(grid), float(one)))
        elif isinstance(one, str):
            arguments.append(Text(one))
        elif isinstance(one, Vector | Scalar | String):
            arguments.append(Negated(Number(float(place))))
            values[arguments[-1]] = one
        else:
            arguments.append(one)
    return evaluated(Call(function, tuple(arguments)), values, grid)


def evaluated(call: Call, values: Mapping[Expression, Value], grid: Sequence[int]) -> tuple[Value, Notes]:
    notes = Notes()
    context = Context(
        source=None,
        grid=np.array(grid, dtype=np.int64),
        start_ms=grid[0],
        end_ms=grid[-1],
        lookback_ms=300_000,
        default_step_ms=60_000,
        notes=notes,
        budget=Budget(Limits()),
        evaluate=lambda _, expression: values[expression],
    )
    return SPECIAL[call.function](context, call), notes


def shown(value: Value) -> dict[Labels, list[float | None]]:
    """What `vector` was given."""
    assert isinstance(value, Vector)
    assert value.table.distinct()
    rows = zip(value.values.tolist(), value.mask().tolist(), strict=True)
    found = [[one if there else None for one, there in zip(*row, strict=True)] for row in rows]
    return dict(zip(value.table.rows(), found, strict=True))


def numbers(value: Value) -> list[float]:
    assert isinstance(value, Scalar)
    return value.values.tolist()
