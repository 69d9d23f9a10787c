"""Queries with a fixed `@` on everything that had none: the official runner asks every instant query so from
other times, too, and wants the same answer."""

from dataclasses import replace

from db.promql.ast import (
    Aggregate,
    Binary,
    Call,
    Expression,
    MatrixSelector,
    Negated,
    Subquery,
    VectorSelector,
)
from db.promql.parse import parse
from db.promql.printer import text_of

# Their value depends on the time of the evaluation even if their arguments do not.
_OF_THE_TIME = frozenset(
    {"time", "timestamp", "predict_linear", "minute", "hour", "month", "year"}
    | {"day_of_month", "day_of_week", "day_of_year", "days_in_month"}
)


def variants(query: str, at_ms: int) -> list[tuple[str, int]]:
    """The pinned query with each time from which it is to be asked; none where the answer depends on that.
    Raises BadQuery."""
    expression = parse(query)
    if _depends_on_time(expression):
        return []
    moved = text_of(pinned(expression, at_ms))
    return [(moved, time) for time in asked_from(at_ms)]


def asked_from(at_ms: int) -> list[int]:
    """The times from which the official runner asks a pinned query."""
    if at_ms == 0:
        return [-1000, 0, 1000]
    return [-10 * at_ms, 0, at_ms // 5, at_ms, 10 * at_ms]


def pinned(node: Expression, at_ms: int) -> Expression:
    """With `@ at_ms` on every selector and subquery that has none. What is inside of a subquery keeps its own
    time."""
    match node:
        case VectorSelector() | Subquery():
            return node if node.at is not None else replace(node, at=at_ms)
        case MatrixSelector(selector):
            return node if selector.at is not None else replace(node, selector=replace(selector, at=at_ms))
        case Negated(inner):
            return Negated(pinned(inner, at_ms))
        case Binary(_, left, right):
            return replace(node, left=pinned(left, at_ms), right=pinned(right, at_ms))
        case Aggregate(_, inner, parameter):
            moved = None if parameter is None else pinned(parameter, at_ms)
            return replace(node, expression=pinned(inner, at_ms), parameter=moved)
        case Call(function, arguments):
            return Call(function, tuple(pinned(item, at_ms) for item in arguments))
        case _:
            return node


def _depends_on_time(node: Expression) -> bool:
    match node:
        case Call(function, arguments):
            return function in _OF_THE_TIME or any(map(_depends_on_time, arguments))
        case Negated(inner):
            return _depends_on_time(inner)
        case Binary(_, left, right):
            return _depends_on_time(left) or _depends_on_time(right)
        case Aggregate(_, inner, parameter):
            return _depends_on_time(inner) or (parameter is not None and _depends_on_time(parameter))
        case _:  # a subquery's steps do not move once it is pinned
            return False
