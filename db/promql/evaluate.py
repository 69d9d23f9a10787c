"""Evaluates an expression over all steps at once: hands each kind of node to the module that knows it."""

from functools import lru_cache

import numpy as np

from db.labels import METRIC_NAME
from db.promql.aggregate import aggregate
from db.promql.ast import (
    Aggregate,
    Binary,
    Call,
    Expression,
    MatrixSelector,
    Negated,
    Number,
    Subquery,
    Text,
    VectorSelector,
)
from db.promql.binary import binary
from db.promql.context import Context, Notes, Value
from db.promql.counters import RANGE_FUNCTIONS as COUNTERS
from db.promql.dates import DATES
from db.promql.elementwise import ELEMENTWISE
from db.promql.errors import BadQuery, ExecutionError
from db.promql.functions import SPECIAL
from db.promql.over_time import RANGE_FUNCTIONS as OVER_TIME
from db.promql.range_function import RangeFunction
from db.promql.regression import RANGE_FUNCTIONS as REGRESSION
from db.promql.selectors import instant_selector, matrix_selector, subquery
from db.promql.vector import SAME_LABELS, Scalar, String, Vector
from db.promql.wording import quoted

RANGE_FUNCTIONS = {**COUNTERS, **OVER_TIME, **REGRESSION}
# What is at a time of its own by `@`, is the same at every step; these look at the step all the same.
_OF_THE_STEP = frozenset({"time", "timestamp", "predict_linear", *DATES})
_OF_COUNTERS = ("rate", "increase")
_COUNTER_ENDINGS = ("_total", "_sum", "_count", "_bucket")


def evaluate(context: Context, expression: Expression) -> Value:
    """The expression's value at each step of the context. Raises QueryError."""
    if context.steps > 1 and _same_at_every_step(expression):
        return _repeated(evaluate(context.at(context.grid[:1]), expression), context.steps)
    match expression:
        case Number(value):
            return Scalar(np.full(context.steps, value))
        case Text(value):
            return String(value)
        case VectorSelector():
            return instant_selector(context, expression)
        case MatrixSelector():
            return matrix_selector(context, expression)
        case Subquery():
            return subquery(context, expression)
        case Negated(inner):
            return _negated(evaluate(context, inner))
        case Binary():
            return binary(context, expression)
        case Aggregate():
            return aggregate(context, expression)
        case Call():
            return _call(context, expression)


def _negated(value: Value) -> Value:
    if isinstance(value, Scalar):
        return Scalar(-value.values)
    assert isinstance(value, Vector)  # noqa: S101  the parser has checked the types
    return Vector(value.table.nameless(), -value.values, value.there).merged()


def _call(context: Context, call: Call) -> Value:
    context.budget.check()
    if call.function in SPECIAL:
        return SPECIAL[call.function](context, call)
    if call.function in RANGE_FUNCTIONS:
        return _over_range(context, call, RANGE_FUNCTIONS[call.function])
    if call.function not in ELEMENTWISE:
        raise BadQuery(f"not supported: the function {call.function}()")
    vector = context.vector(call.arguments[0])
    parameters = [context.scalar(argument) for argument in call.arguments[1:]]
    values = ELEMENTWISE[call.function](vector.values, parameters)
    return Vector(vector.table.nameless(), values, vector.there).merged()


def _over_range(context: Context, call: Call, function: RangeFunction) -> Vector:
    [ranged] = [item for item in call.arguments if isinstance(item, MatrixSelector | Subquery)]
    parameters = [context.scalar(item) for item in call.arguments if item is not ranged]
    windows = context.windows(ranged)
    # Prometheus places what is said of any argument at the first one.
    notes = context.notes.at(call.arguments[0])
    vector = windows.each(lambda part: function.kernel(part, parameters, notes))
    if function.keeps_name:
        return vector
    if call.function in _OF_COUNTERS:
        _say_what_is_no_counter(notes, vector)
    vector = Vector(vector.table.nameless(), vector.values, vector.there)
    # Other than in functions of instant vectors, the series may not even replace each other in time.
    if not vector.table.distinct() and not vector.without_empty().table.distinct():
        raise ExecutionError(SAME_LABELS)
    return vector.merged()


def _say_what_is_no_counter(notes: Notes, vector: Vector) -> None:
    """Of the metrics that have a value at some step."""
    names = vector.table.column(METRIC_NAME)
    codes = names.codes if vector.there is None else names.codes[vector.there.any(axis=1)]
    used, first = np.unique(codes[codes >= 0], return_index=True)
    for code in used[np.argsort(first)].tolist():
        if not names.texts[code].endswith(_COUNTER_ENDINGS):
            notes.info(
                "metric might not be a counter, name does not end in _total/_sum/_count/_bucket: "
                f"{quoted(names.texts[code])}"
            )


@lru_cache(maxsize=4096)
def _same_at_every_step(expression: Expression) -> bool:
    """Is it a selector with `@`, or made of such and of numbers only?"""
    return _fixed(expression) and not isinstance(expression, Number | Text | MatrixSelector | Subquery)


@lru_cache(maxsize=4096)
def _fixed(expression: Expression) -> bool:
    match expression:
        case Number() | Text():
            return True
        case VectorSelector():
            return expression.at is not None
        case MatrixSelector(selector):
            return selector.at is not None
        case Subquery():
            return expression.at is not None
        case Negated(inner):
            return _fixed(inner)
        case Binary(_, left, right):
            return _fixed(left) and _fixed(right)
        case Aggregate():
            parameter = expression.parameter
            return _fixed(expression.expression) and (parameter is None or _fixed(parameter))
        case Call(function, arguments):
            return function not in _OF_THE_STEP and all(map(_fixed, arguments))


def _repeated(value: Value, steps: int) -> Value:
    if isinstance(value, Scalar):
        return Scalar(np.broadcast_to(value.values, steps))
    if isinstance(value, Vector):
        shape = (len(value.table), steps)
        there = None if value.there is None else np.broadcast_to(value.there, shape)
        return Vector(value.table, np.broadcast_to(value.values, shape), there)
    return value
