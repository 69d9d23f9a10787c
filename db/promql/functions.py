"""The functions that look at more than one value at a time: at labels, at other series, at the query itself.
`SPECIAL` has all of them; what they give needs no further merging."""

from collections.abc import Callable

import numpy as np

from db.labels import METRIC_NAME
from db.nan import BoolArray, FloatArray
from db.promql.ast import Call, Expression, MatrixSelector, VectorSelector
from db.promql.context import Context, Value
from db.promql.dates import DATES
from db.promql.histograms import HISTOGRAM_FUNCTIONS
from db.promql.label_functions import LABEL_FUNCTIONS
from db.promql.selectors import selector_timestamps
from db.promql.table import Column, SeriesTable
from db.promql.vector import Scalar, Vector


def _absent(context: Context, call: Call) -> Vector:
    mask = context.vector(call.arguments[0]).mask()
    return _where_none(call.arguments[0], np.logical_or.reduce(mask, axis=0))


def _absent_over_time(context: Context, call: Call) -> Vector:
    windows = context.windows(call.arguments[0])
    some = np.zeros(context.steps, dtype=np.bool_)
    for part in windows.parts:
        some |= (part.count > 0).any(axis=0)
    return _where_none(call.arguments[0], some)


def _where_none(expression: Expression, some: BoolArray) -> Vector:
    """1 at the steps where nothing was. some: bool[steps]."""
    labels = _labels_asked_for(expression)
    table = SeriesTable(1, {name: Column.of([text]) for name, text in labels.items()})
    return Vector(table, np.ones((1, len(some)))).only(~some[None]).without_empty()


def _labels_asked_for(expression: Expression) -> dict[str, str]:
    """The labels that a selector gives by equality, each by one matcher only; {} for other expressions."""
    if isinstance(expression, MatrixSelector):
        expression = expression.selector
    if not isinstance(expression, VectorSelector):
        return {}
    labels: dict[str, str] = {}
    seen = set()
    for matcher in expression.matchers:
        if matcher.name == METRIC_NAME:
            continue
        if matcher.operator == "=" and matcher.name not in seen:
            labels[matcher.name] = matcher.value
            seen.add(matcher.name)
        else:
            labels.pop(matcher.name, None)
    return labels


def _scalar(context: Context, call: Call) -> Scalar:
    """The value at the steps that have exactly one, else NaN."""
    vector = context.vector(call.arguments[0])
    if not len(vector.table):
        return Scalar(np.full(context.steps, np.nan))
    mask = vector.mask()
    only = vector.values[mask.argmax(axis=0), np.arange(context.steps)]
    return Scalar(np.where(mask.sum(axis=0) == 1, only, np.nan))


def _vector(context: Context, call: Call) -> Vector:
    return Vector(SeriesTable.single(), context.scalar(call.arguments[0])[None])


def _time(context: Context, _call: Call) -> Scalar:
    return Scalar(context.grid / 1000)


def _pi(context: Context, _call: Call) -> Scalar:
    return Scalar(np.full(context.steps, np.pi))


def _timestamp(context: Context, call: Call) -> Vector:
    """Of a selector the samples' own times, of everything else the time of evaluation; in seconds."""
    [expression] = call.arguments
    if isinstance(expression, VectorSelector):
        vector = selector_timestamps(context, expression)
    else:
        vector = context.vector(expression)
        times = np.broadcast_to(context.grid / 1000, vector.values.shape)
        vector = Vector(vector.table, times, vector.there)
    return Vector(vector.table.nameless(), vector.values, vector.there).merged()


def _clamp(context: Context, call: Call) -> Vector:
    low, high = map(context.scalar, call.arguments[1:])
    return _between(context.vector(call.arguments[0]), low, high)


def _clamp_min(context: Context, call: Call) -> Vector:
    low = context.scalar(call.arguments[1])
    return _between(context.vector(call.arguments[0]), low, np.full(context.steps, np.inf))


def _clamp_max(context: Context, call: Call) -> Vector:
    high = context.scalar(call.arguments[1])
    return _between(context.vector(call.arguments[0]), np.full(context.steps, -np.inf), high)


def _between(vector: Vector, low: FloatArray, high: FloatArray) -> Vector:
    """Nothing at the steps where high < low."""
    values = _larger(low, -_larger(-high, -vector.values))
    clamped = Vector(vector.table.nameless(), values, vector.there)
    possible = np.broadcast_to(~(high < low), values.shape)
    return clamped.only(possible).without_empty().merged()


def _larger(left: FloatArray, right: FloatArray) -> FloatArray:
    """Go's math.Max: +Inf is larger than NaN, NaN than everything else, 0 than -0."""
    found = np.where((left == 0) & (right == 0), left + right, np.maximum(left, right))
    return np.where(np.isposinf(left) | np.isposinf(right), np.inf, found)


def _sort(context: Context, call: Call) -> Vector:
    return _sorted(context, call, 1.0)


def _sort_desc(context: Context, call: Call) -> Vector:
    return _sorted(context, call, -1.0)


def _sorted(context: Context, call: Call, sign: float) -> Vector:
    """At a single step the rows by value, NaN last; the rows of more steps have no order."""
    vector = context.vector(call.arguments[0])
    if context.steps != 1:
        notes = context.notes.at(call)
        notes.warn("sort is ineffective for range queries since results are always ordered by labels")
        return vector
    vector = vector.without_empty()
    return vector.take(np.argsort(sign * vector.values[:, 0], kind="stable"))


SPECIAL: dict[str, Callable[[Context, Call], Value]] = {
    "absent": _absent,
    "absent_over_time": _absent_over_time,
    "clamp": _clamp,
    "clamp_max": _clamp_max,
    "clamp_min": _clamp_min,
    "pi": _pi,
    "scalar": _scalar,
    "sort": _sort,
    "sort_desc": _sort_desc,
    "time": _time,
    "timestamp": _timestamp,
    "vector": _vector,
    **DATES,
    **HISTOGRAM_FUNCTIONS,
    **LABEL_FUNCTIONS,
}
