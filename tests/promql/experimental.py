"""Which cases need what is experimental in Prometheus 3 and has no word that the parser could refuse.

Prometheus's test engine runs with two features that a server has not unless it is asked for them:

delayed name removal  a metric's name that rate() or + drops is there for the expressions around it, and goes
                      from the final result only
start timestamps      a counter's samples may say when it began, which rate() and its like then use
"""

from collections.abc import Iterator

from db.labels import METRIC_NAME
from db.promql.ast import (
    Aggregate,
    Binary,
    Call,
    Expression,
    MatrixSelector,
    Negated,
    Subquery,
    Text,
    VectorSelector,
)

COUNTING = frozenset(("rate", "increase", "irate", "resets"))
_LABEL_FUNCTIONS = frozenset(("label_replace", "label_join"))
_KEEP_NAMES = _LABEL_FUNCTIONS | {"last_over_time", "sort", "sort_desc"}
_ARITHMETIC = frozenset(("+", "-", "*", "/", "%", "^", "atan2"))


def reads_dropped_names(expression: Expression) -> bool:
    """Does it look at the names of what has none any more, as `sum by (__name__) (rate(a[5m]))` does?"""
    return any(_reads_names(node) and any(map(_drops, inside(node))) for node in walk(expression))


def drops_several_names(expression: Expression) -> bool:
    """Are names of metrics that no matcher fixes dropped inside of it, as in `sum(rate({job="x"}[5m]))`? Two
    series may then be alike in between, an error unless the names go later."""
    dropping = [node for node in walk(expression) if node is not expression and _drops(node)]
    return any(
        isinstance(leaf, VectorSelector) and not _is_named(leaf) for node in dropping for leaf in walk(node)
    )


def counts(expression: Expression) -> bool:
    """Does it have a function that start timestamps would change?"""
    return any(isinstance(node, Call) and node.function in COUNTING for node in walk(expression))


def walk(node: Expression) -> Iterator[Expression]:
    """The expression and all that it is made of."""
    yield node
    for part in _parts(node):
        yield from walk(part)


def inside(node: Expression) -> Iterator[Expression]:
    """All that it is made of."""
    for part in _parts(node):
        yield from walk(part)


def _parts(node: Expression) -> tuple[Expression, ...]:
    match node:
        case MatrixSelector(selector):
            return (selector,)
        case Subquery(inner) | Negated(inner):
            return (inner,)
        case Binary(_, left, right):
            return (left, right)
        case Aggregate(_, inner, parameter):
            return (inner,) if parameter is None else (inner, parameter)
        case Call(_, arguments):
            return arguments
        case _:
            return ()


def _reads_names(node: Expression) -> bool:
    match node:
        case Aggregate():
            return METRIC_NAME in node.labels and not node.without
        case Call(function, arguments):
            return function in _LABEL_FUNCTIONS and Text(METRIC_NAME) in arguments
        case _:
            return False


def _drops(node: Expression) -> bool:
    match node:
        case Negated():
            return True
        case Binary(op):
            return op in _ARITHMETIC or node.returns_bool
        case Call(function):
            return function not in _KEEP_NAMES
        case _:
            return False


def _is_named(selector: VectorSelector) -> bool:
    return any(matcher.name == METRIC_NAME and matcher.operator == "=" for matcher in selector.matchers)
