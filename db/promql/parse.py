"""PromQL text to the expressions of `db.promql.ast`, by the Rust port of Prometheus's grammar.

The one importer of promql_parser, which is given `db.promql.canonical`'s text: what it says of structure and
types holds, and what its placeholders stand for we know.
"""

import re
import sys
from dataclasses import replace
from datetime import timedelta
from functools import lru_cache

import promql_parser

from db.promql.ast import (
    Aggregate,
    At,
    Binary,
    Call,
    Cardinality,
    Expression,
    Matching,
    MatrixSelector,
    Negated,
    Number,
    Subquery,
    Text,
    ValueType,
    VectorSelector,
    value_type,
)
from db.promql.canonical import Canonical, canonical
from db.promql.errors import BadQuery
from db.promql.names import SET_OPERATORS
from db.promql.scan import parse_error

# Python ends at 1000 calls, one inside the other. Whoever walks the deepest expression, of
# `canonical.MAX_DEPTH`, needs up to ten for each of its levels and has some hundred open already.
_CALLS = 4_000
if sys.getrecursionlimit() < _CALLS:
    sys.setrecursionlimit(_CALLS)
# Rules and dashboards ask the same few hundred texts again and again.
_REMEMBERED = 1024
# What of a text may be read again to find the place of a mistake: hostile nesting would take seconds.
_REREAD_CHARACTERS = 50_000


@lru_cache(maxsize=_REMEMBERED)
def parse(text: str) -> Expression:
    """Raises BadQuery, which says what is wrong and where."""
    source = canonical(text)
    if source.plus:
        # The parser leaves a unary plus out, even before a string or a range vector; a minus it checks.
        with_minus = list(source.pieces)
        for place in source.plus:
            with_minus[place] = "-"
        _tree(text, source, with_minus)
    return _Reader(source).expression(_tree(text, source, source.pieces))


def _tree(text: str, source: Canonical, pieces: list[str]) -> promql_parser.Expr:
    try:
        return promql_parser.parse(" ".join(pieces))
    except ValueError as error:
        start, message = _mistake(source, pieces, str(error))
        raise parse_error(text, start, _as_prometheus(message)) from None


def _mistake(source: Canonical, pieces: list[str], message: str) -> tuple[int, str]:
    """The parser says what is wrong in the whole, not where: the first of the innermost parts that is refused
    when read alone."""
    left = _REREAD_CHARACTERS
    for first, end, start in source.spans:
        part = " ".join(pieces[first:end])
        left -= len(part)
        if left < 0:
            break
        try:
            promql_parser.parse(part)
        except ValueError as error:
            return start, str(error)
    return source.spans[-1][2], message


_TYPES = {"vector": "instant vector", "matrix": "range vector", "scalar": "scalar", "string": "string"}
_TYPE = re.compile(r"(?<=expected type )\w+|(?<=, got )\w+|(?<=, got: )\w+")


def _as_prometheus(message: str) -> str:
    """The parser's message in Prometheus's words."""
    message = _TYPE.sub(lambda found: _TYPES.get(found.group(), found.group()), message)
    message = message.replace(" an vector selector or matrix", " an instant vector selector or range vector")
    message = re.sub(
        r"only allowed (on expressions of type scalar or|between|on) vector",
        r"only allowed \1 instant vector",
        message,
    )
    message = re.sub(" '[a-z_]+' provided", " provided", message)
    message = re.sub("(unary expression .*), got:? (.*)", r'\1, got "\2"', message)
    return re.sub(r"'([^']*)'", r'"\1"', message)


_CARDINALITIES: list[tuple[promql_parser.VectorMatchCardinality, Cardinality]] = [
    (promql_parser.VectorMatchCardinality.ManyToOne, "many-to-one"),
    (promql_parser.VectorMatchCardinality.OneToMany, "one-to-many"),
]


class _Reader:
    """Puts what the placeholders stand for into the parser's tree."""

    def __init__(self, source: Canonical) -> None:
        self._source = source
        # Calls are read in the order in which they begin in the text.
        self._calls = iter(source.calls)

    def expression(self, node: promql_parser.Expr) -> Expression:
        while isinstance(node, promql_parser.ParenExpr):
            node = node.expr
        match node:
            case promql_parser.NumberLiteral():
                number = self._source.numbers[int(abs(node.val)) - 1]
                return Number(-number if node.val < 0 else number)
            case promql_parser.StringLiteral():
                return Text(self._source.strings[int(node.val) - 1])
            case promql_parser.VectorSelector():
                return self._selector(node)
            case promql_parser.MatrixSelector():
                return MatrixSelector(self._selector(node.vector_selector), self._duration(node.range))
            case promql_parser.SubqueryExpr():
                return Subquery(
                    self.expression(node.expr),
                    self._duration(node.range),
                    self._duration(node.step) or None,
                    self._duration(node.offset),
                    self._at(node.at),
                )
            case promql_parser.UnaryExpr():
                return Negated(self.expression(node.expr))
            case promql_parser.BinaryExpr():
                return self._binary(node)
            case promql_parser.AggregateExpr():
                return self._aggregate(node)
            case promql_parser.Call():
                start, *starts = next(self._calls)
                return Call(node.func.name, self._arguments(node.args, starts), start=start)
        raise BadQuery(f"parse error: the parser gives {type(node).__name__}, which is not evaluated")

    def _arguments(self, nodes: list[promql_parser.Expr], starts: list[int]) -> tuple[Expression, ...]:
        return tuple(
            replace(self.expression(node), start=start) for node, start in zip(nodes, starts, strict=True)
        )

    def _aggregate(self, node: promql_parser.AggregateExpr) -> Aggregate:
        by = node.modifier
        start, *starts = next(self._calls)
        *parameter, expression = self._arguments(
            [each for each in (node.param, node.expr) if each is not None], starts
        )
        return Aggregate(
            str(node.op),
            expression,
            parameter[0] if parameter else None,
            () if by is None else self._labels(by.labels),
            by is not None and by.type == promql_parser.AggModifierType.Without,
            start=start,
        )

    def _binary(self, node: promql_parser.BinaryExpr) -> Binary:
        op, modifier = str(node.op), node.modifier
        left, right = self.expression(node.lhs), self.expression(node.rhs)
        cardinality: Cardinality = "many-to-many" if op in SET_OPERATORS else "one-to-one"
        if modifier is None:
            return Binary(op, left, right, matching=Matching(cardinality))
        if ValueType.SCALAR in (value_type(left), value_type(right)):
            return Binary(op, left, right, modifier.return_bool)
        cardinality = next((ours for theirs, ours in _CARDINALITIES if modifier.card == theirs), cardinality)
        by = modifier.matching
        matching = Matching(
            cardinality,
            by is not None and by.type == promql_parser.LabelModifierType.Include,
            () if by is None else self._labels(by.labels),
            self._labels(modifier.group_labels or []),
        )
        return Binary(op, left, right, modifier.return_bool, matching)

    def _selector(self, node: promql_parser.VectorSelector) -> VectorSelector:
        found = self._source.selectors[int((node.name or "")[1:]) - 1]
        if node.offset is None and node.at is None:
            return found
        return VectorSelector(found.matchers, found.name, self._duration(node.offset), self._at(node.at))

    def _labels(self, names: list[str]) -> tuple[str, ...]:
        return tuple(self._source.strings[int(name[1:]) - 1] for name in names)

    def _duration(self, placeholder: timedelta | None) -> int:
        return 0 if placeholder is None else self._source.times[round(placeholder.total_seconds()) - 1]

    def _at(self, modifier: promql_parser.AtModifier | None) -> At | None:
        if modifier is None:
            return None
        if modifier.at is not None:
            return self._source.times[round(modifier.at.timestamp()) - 1]
        return "start" if modifier.type == promql_parser.AtModifierType.Start else "end"
