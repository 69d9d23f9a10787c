"""PromQL text of an expression, for an engine that is to evaluate it: what is parsed again is the same.

Operands are put into parentheses wherever they are not single words, so that no precedence has to be known.
"""

import math
from collections.abc import Iterable, Sequence

from db.promql import wording
from db.promql.ast import (
    Aggregate,
    At,
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
from db.records import Matcher

# Words that are no names of labels where labels are listed.
_NO_GROUPING_LABELS = frozenset({"inf", "nan", "without"})
_SIMPLE = Number | Text | VectorSelector | MatrixSelector | Subquery | Call | Aggregate
_UNITS_MS = (("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1_000), ("ms", 1))


def text_of(expression: Expression) -> str:
    """The expression in PromQL; `parse(text_of(x)) == x` for every x that `parse` gives."""
    match expression:
        case Number(value):
            return _number(value)
        case Text(value):
            return quoted(value)
        case VectorSelector():
            return selector_text(expression.matchers) + _shift(expression.offset_ms, expression.at)
        case MatrixSelector(selector, range_ms):
            inner = f"{selector_text(selector.matchers)}[{duration(range_ms)}]"
            return inner + _shift(selector.offset_ms, selector.at)
        case Subquery():
            step = "" if expression.step_ms is None else duration(expression.step_ms)
            inner = f"{_operand(expression.expression)}[{duration(expression.range_ms)}:{step}]"
            return inner + _shift(expression.offset_ms, expression.at)
        case Negated(inner_expression):
            return f"-({text_of(inner_expression)})"
        case Binary():
            return _binary(expression)
        case Aggregate():
            return _aggregate(expression)
        case Call(function, arguments):
            return f"{function}({', '.join(map(text_of, arguments))})"


def selector_text(matchers: Iterable[Matcher]) -> str:
    """`{__name__="up",job=~"a|b"}`: the name as a matcher, since it may hold anything."""
    return (
        "{" + ",".join(f"{_label(item.name)}{item.operator}{quoted(item.value)}" for item in matchers) + "}"
    )


def quoted(text: str) -> str:
    """A string literal. U+FFFD as it is would be read as what is not UTF-8."""
    return wording.quoted(text).replace("\ufffd", r"\ufffd")


def duration(milliseconds: int) -> str:
    """`1h30m`, `1d500ms`; `0s` for none."""
    if milliseconds == 0:
        return "0s"
    parts, left = [], milliseconds
    for unit, size in _UNITS_MS:
        count, left = divmod(left, size)
        if count:
            parts.append(f"{count}{unit}")
    return "".join(parts)


def _label(name: str) -> str:
    """Prometheus 3 takes other names than words in quotes."""
    return wording.label_name(name).replace("\ufffd", r"\ufffd")


def _number(value: float) -> str:
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "Inf" if value > 0 else "-Inf"
    return repr(value)


def _shift(offset_ms: int, at: At | None) -> str:
    text = ""
    if at is not None:
        text = f" @ {at}()" if isinstance(at, str) else f" @ {_seconds(at)}"
    if offset_ms:
        text += f" offset {'-' if offset_ms < 0 else ''}{duration(abs(offset_ms))}"
    return text


def _seconds(milliseconds: int) -> str:
    sign = "-" if milliseconds < 0 else ""
    whole, rest = divmod(abs(milliseconds), 1000)
    return f"{sign}{whole}.{rest:03}"


def _operand(expression: Expression) -> str:
    text = text_of(expression)
    negative = isinstance(expression, Number) and text.startswith("-")
    return text if isinstance(expression, _SIMPLE) and not negative else f"({text})"


def _binary(node: Binary) -> str:
    words = [_operand(node.left), node.op]
    if node.returns_bool:
        words.append("bool")
    matching = node.matching
    if matching.on or matching.labels:
        words.append(f"{'on' if matching.on else 'ignoring'} ({_labels(matching.labels)})")
    grouped = {"many-to-one": "group_left", "one-to-many": "group_right"}.get(matching.cardinality)
    if grouped is not None:
        words.append(f"{grouped} ({_labels(matching.include)})")
    return " ".join([*words, _operand(node.right)])


def _aggregate(node: Aggregate) -> str:
    grouping = ""
    if node.without or node.labels:
        grouping = f" {'without' if node.without else 'by'} ({_labels(node.labels)})"
    inner = [] if node.parameter is None else [text_of(node.parameter)]
    return f"{node.op}{grouping} ({', '.join([*inner, text_of(node.expression)])})"


def _labels(names: Sequence[str]) -> str:
    return ", ".join(quoted(name) if name.lower() in _NO_GROUPING_LABELS else _label(name) for name in names)
