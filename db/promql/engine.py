"""Answers PromQL over a source of samples. This is what everybody outside `db.promql` calls."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import numpy as np

from db.errors import StoreError
from db.nan import IntArray
from db.promql.answer import Answer, ResultType
from db.promql.ast import Expression, ValueType, value_type
from db.promql.context import Context, Notes, Value
from db.promql.errors import BadQuery, LimitExceeded, SourceUnavailable
from db.promql.evaluate import evaluate
from db.promql.limits import Budget, Limits
from db.promql.parse import parse
from db.promql.source import Source, answers_itself
from db.promql.table import SeriesTable
from db.promql.vector import Scalar, String, Vector, empty
from db.promql.windows import WindowPart, Windows


@dataclass(frozen=True, slots=True)
class Options:
    """lookback_ms: how long a series without a new sample keeps its value. default_step_ms: of subqueries
    that give none. limits: what the query may use."""

    lookback_ms: int = 300_000
    default_step_ms: int = 60_000
    limits: Limits = field(default_factory=Limits)


_OPTIONS = Options()


def instant(
    source: Source,
    text: str,
    at_ms: int,
    options: Options = _OPTIONS,
    rewritten: Expression | None = None,
) -> Answer:
    """The value at one time. rewritten: what to evaluate, where it is not just what the text says. Raises
    QueryError."""
    if answers_itself(source):
        with _in_plain_words():
            return source.instant(text, at_ms, options)
    expression = rewritten or parse(text)
    context = _context(source, text, np.array([at_ms], dtype=np.int64), options)
    with _in_plain_words():
        return _instant_answer(context, context.evaluate(context, expression))


def ranged(
    source: Source,
    text: str,
    start_ms: int,
    end_ms: int,
    step_ms: int,
    options: Options = _OPTIONS,
    rewritten: Expression | None = None,
) -> Answer:
    """The values at start_ms, start_ms + step_ms, ... up to end_ms. rewritten: as for `instant`. Raises
    QueryError."""
    if answers_itself(source):
        with _in_plain_words():
            return source.ranged(text, start_ms, end_ms, step_ms, options)
    if step_ms <= 0:
        raise BadQuery("zero or negative query resolution step widths are not accepted; give a positive step")
    if end_ms < start_ms:
        raise BadQuery("end timestamp must not be before start time")
    expression = rewritten or parse(text)
    _refuse_range_of(expression)
    Budget(options.limits).check_steps((end_ms - start_ms) // step_ms + 1)
    context = _context(source, text, np.arange(start_ms, end_ms + 1, step_ms, dtype=np.int64), options)
    with _in_plain_words():
        return _ranged_answer(context, context.evaluate(context, expression))


def _context(source: Source, text: str, grid: IntArray, options: Options) -> Context:
    return Context(
        source=source,
        grid=grid,
        start_ms=int(grid[0]),
        end_ms=int(grid[-1]),
        lookback_ms=options.lookback_ms,
        default_step_ms=options.default_step_ms,
        notes=Notes(text),
        budget=Budget(options.limits),
        evaluate=evaluate,
    )


def _refuse_range_of(expression: Expression) -> None:
    kind = value_type(expression)
    if kind in (ValueType.MATRIX, ValueType.STRING):
        name = {ValueType.MATRIX: "range vector", ValueType.STRING: "string"}[kind]
        raise BadQuery(f'invalid expression type "{name}" for range query, must be Scalar or instant Vector')


@contextmanager
def _in_plain_words() -> Iterator[None]:
    try:
        with np.errstate(all="ignore"):  # what overflows or divides by zero has the value that IEEE 754 gives
            yield
    except StoreError as error:
        raise SourceUnavailable(str(error)) from error
    except RecursionError as error:
        raise LimitExceeded("the expression is too deep; record parts of it with rules") from error
    except MemoryError as error:
        raise LimitExceeded(
            "the query needs more memory than it may have; "
            "select fewer series, a shorter time or a larger step"
        ) from error


def _instant_answer(context: Context, value: Value) -> Answer:
    if isinstance(value, Vector):
        return _answer(context, "vector", context.grid, value.merged().without_empty())
    if isinstance(value, Windows):
        return _answer(context, "matrix", *_all_samples(context, value))
    return _without_series(context, value)


def _ranged_answer(context: Context, value: Value) -> Answer:
    if isinstance(value, Scalar):
        value = Vector(SeriesTable.single(), value.values[None])
    if isinstance(value, Vector):
        return _answer(context, "matrix", context.grid, _ordered(value.merged().without_empty()))
    return _without_series(context, value)


def _answer(context: Context, kind: ResultType, times: IntArray, vector: Vector, text: str = "") -> Answer:
    notes = context.notes
    return Answer(kind, vector.table, times, vector.values, vector.there, text, notes.warnings, notes.infos)


def _without_series(context: Context, value: Value) -> Answer:
    if isinstance(value, String):
        return _answer(context, "string", context.grid, empty(1), value.value)
    assert isinstance(value, Scalar)  # noqa: S101  the others are answered above
    return _answer(context, "scalar", context.grid, Vector(SeriesTable(0, {}), value.values[None]))


def _ordered(vector: Vector) -> Vector:
    """By labels, as Prometheus orders a matrix."""
    table = vector.table
    order = table.remembered("order", lambda: _order(table))
    return vector.take(order)


def _order(table: SeriesTable) -> IntArray:
    rows = list(table.rows())
    return np.array(sorted(range(len(rows)), key=rows.__getitem__), dtype=np.int64)


def _all_samples(context: Context, windows: Windows) -> tuple[IntArray, Vector]:
    """The samples of one step's windows over the times that any of them has."""
    found = [(part, _inside(part)) for part in windows.parts]
    if len(found) == 1 and found[0][0].values.ndim == 2:  # series that share their times
        [(part, (rows, places))] = found
        samples = Vector(windows.table.take(rows), part.values[:, places])
        return part.timestamps[places], _ordered(samples if len(places) else empty(0))
    times = [part.timestamps[places] for part, (_, places) in found]
    union = np.unique(np.concatenate(times)) if times else np.zeros(0, dtype=np.int64)
    context.budget.take(len(windows.table) * len(union))
    values = np.zeros((len(windows.table), len(union)))
    there = np.zeros(values.shape, dtype=np.bool_)
    for (part, (rows, places)), at in zip(found, times, strict=True):
        column = union.searchsorted(at)
        if part.values.ndim == 2:
            values[rows[:, None], column] = part.values[:, places]
            there[rows[:, None], column] = True
        else:
            values[rows, column], there[rows, column] = part.values[places], True
    vector = Vector(windows.table, values, None if there.all() else there)
    return union, _ordered(vector.without_empty())


def _inside(part: WindowPart) -> tuple[IntArray, IntArray]:
    """The places of the samples in the first step's windows, and the series of each (shared: all series)."""
    first, count = part.first[:, 0], part.count[:, 0]
    if part.values.ndim == 2:
        return part.rows, first[0] + np.arange(count[0])
    before = np.cumsum(count) - count
    places = np.arange(count.sum()) + np.repeat(first - before, count)
    return np.repeat(part.rows, count), places
