"""Vector selectors in the text: a metric's name, label conditions in braces, or both."""

from db.labels import METRIC_NAME
from db.promql.ast import VectorSelector
from db.promql.scan import Cursor, Kind, Token
from db.promql.wording import quoted
from db.records import Matcher, MatchOperator, named
from db.regex import RegexError, compile_anchored

# A pattern may be as long as the query, and the reason repeats it.
_REASON_CHARACTERS = 300
_OPERATORS: dict[str, MatchOperator] = {"=": "=", "!=": "!=", "=~": "=~", "!~": "!~"}


def read_selector(cursor: Cursor) -> VectorSelector:
    """At a name or "{"; matchers of the name come first. Raises BadQuery."""
    first = cursor.now
    name = None if first.text == "{" else cursor.take().text
    names: list[Matcher] = []
    conditions: list[Matcher] = []
    if cursor.now.text == "{":
        cursor.take()
        while cursor.now.text != "}":
            _read_condition(cursor, names, conditions)
        cursor.take()
    if name is not None:
        for matcher in (*names, *conditions):
            if matcher.name == METRIC_NAME:
                message = f"metric name must not be set twice: {quoted(name)} or {quoted(matcher.value)}"
                cursor.fail(first, message)
        return VectorSelector((named(name), *conditions), name)
    if all(map(_matches_empty, (*names, *conditions))):
        cursor.fail(first, "vector selector must contain at least one non-empty matcher")
    names += [each for each in conditions if each.name == METRIC_NAME and each.operator == "="]
    others = [each for each in conditions if each.name != METRIC_NAME or each.operator != "="]
    return VectorSelector((*names, *others), names[0].value if names else None)


def _read_condition(cursor: Cursor, names: list[Matcher], conditions: list[Matcher]) -> None:
    """Between braces, with the comma behind it: a text without an operator is a metric's name."""
    if cursor.now.kind not in (Kind.WORD, Kind.STRING):
        cursor.unexpected("label matching", 'identifier or "}"')
    first = cursor.take()
    operator = _OPERATORS.get(cursor.now.text)
    if operator is not None:
        cursor.take()
        if cursor.now.kind is not Kind.STRING:
            cursor.unexpected("label matching", "string")
        label = _unicode(first.string) if first.kind is Kind.STRING else first.text
        conditions.append(Matcher(label, operator, _unicode(cursor.take().string)))
        _check_regex(cursor, first, conditions[-1])
    elif first.kind is Kind.STRING:
        names.append(named(_unicode(first.string)))
    else:
        cursor.unexpected("label matching", "label matching operator")
    if cursor.now.text == ",":
        cursor.take()
    elif cursor.word == "or":
        cursor.refuse("`or` between label matchers", "write two selectors with `or` between them")
    elif cursor.now.text != "}":
        cursor.unexpected("label matching", '"," or "}"')


def _unicode(text: str) -> str:
    """Bytes that are not UTF-8 become U+FFFD: no series has them."""
    return text.encode(errors="surrogateescape").decode(errors="replace")


def _check_regex(cursor: Cursor, first: Token, matcher: Matcher) -> None:
    if matcher.operator in ("=~", "!~"):
        try:
            compile_anchored(matcher.value)
        except RegexError as error:
            cursor.fail(first, str(error)[:_REASON_CHARACTERS])


def _matches_empty(matcher: Matcher) -> bool:
    match matcher.operator:
        case "=":
            return not matcher.value
        case "!=":
            return bool(matcher.value)
        case "=~":
            return compile_anchored(matcher.value).fullmatch("") is not None
        case _:
            return compile_anchored(matcher.value).fullmatch("") is None
