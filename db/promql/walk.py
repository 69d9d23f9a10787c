"""Walks and rebuilds expressions, for what rewrites them before they are evaluated."""

from collections.abc import Callable, Iterator
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


def parts_of(expression: Expression) -> tuple[Expression, ...]:
    """The expressions directly inside."""
    match expression:
        case Negated(inner):
            return (inner,)
        case Subquery():
            return (expression.expression,)
        case MatrixSelector(selector):
            return (selector,)
        case Binary():
            return expression.left, expression.right
        case Aggregate():
            parameter = () if expression.parameter is None else (expression.parameter,)
            return (*parameter, expression.expression)
        case Call():
            return expression.arguments
        case _:
            return ()


def with_parts(expression: Expression, change: Callable[[Expression], Expression]) -> Expression:
    """The same expression with every one directly inside changed. A range selector's own stays a selector:
    change gives one for one."""
    match expression:
        case Negated(inner):
            return replace(expression, expression=change(inner))
        case Subquery():
            return replace(expression, expression=change(expression.expression))
        case MatrixSelector(selector):
            changed = change(selector)
            assert isinstance(changed, VectorSelector)  # noqa: S101  the caller's promise
            return replace(expression, selector=changed)
        case Binary():
            return replace(expression, left=change(expression.left), right=change(expression.right))
        case Aggregate():
            parameter = None if expression.parameter is None else change(expression.parameter)
            return replace(expression, expression=change(expression.expression), parameter=parameter)
        case Call():
            return replace(expression, arguments=tuple(map(change, expression.arguments)))
        case _:
            return expression


def selectors(expression: Expression) -> Iterator[VectorSelector]:
    """All of them, those of ranges, too."""
    if isinstance(expression, VectorSelector):
        yield expression
    for part in parts_of(expression):
        yield from selectors(part)
