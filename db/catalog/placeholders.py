"""PromQL of catalogue files: `$window` stands for the range of rates, `{{signal}}` for another signal."""

import re
from collections.abc import Callable, Iterable, Iterator

from db.labels import METRIC_NAME
from db.promql.ast import Expression, VectorSelector
from db.promql.parse import parse
from db.promql.printer import selector_text
from db.promql.walk import selectors

WINDOW = "$window"
_SIGNAL = re.compile(r"\{\{\s*([a-z][a-z0-9_]*)\s*\}\}")
_STAND_IN = "strata_catalog_signal"


def signals_in(text: str) -> tuple[str, ...]:
    """The signals that the text refers to."""
    return tuple(dict.fromkeys(_SIGNAL.findall(text)))


def mentions(texts: Iterable[str]) -> list[str]:
    """The signals that the texts refer to, each as often as they do."""
    return [name for text in texts for name in _SIGNAL.findall(text)]


def filled(text: str, window: str, value_of: Callable[[str], str]) -> str:
    """PromQL: the window's length put in, and for each signal what value_of gives."""
    if "#" in text:
        text += "\n"  # a comment ends with its line, not with what is written behind it
    whole = _SIGNAL.sub(lambda match: f"({value_of(match[1])})", text)
    return whole.replace(WINDOW, window)


def metrics_in(text: str) -> frozenset[str]:
    """The metric names that the text selects by name. Raises BadQuery where it is no PromQL."""
    return frozenset(_names(selectors(parsed(text))) - {_STAND_IN})


def parsed(text: str) -> Expression:
    """The text with a stand-in for each signal. Raises BadQuery where it is no PromQL."""
    return parse(filled(text, "5m", lambda _: _STAND_IN))


def _names(found: Iterator[VectorSelector]) -> set[str]:
    return {
        matcher.value
        for selector in found
        for matcher in selector.matchers
        if matcher.name == METRIC_NAME and matcher.operator == "="
    }


def suffixed(selector: str, suffix: str) -> str:
    """The selector of a family with the suffix on its name. Raises BadQuery, ValueError."""
    node = parse(selector)
    if not isinstance(node, VectorSelector) or node.name is None or node.offset_ms or node.at:
        raise ValueError(f"{selector!r} is not a metric's name with or without matchers")
    others = [matcher for matcher in node.matchers if matcher.name != METRIC_NAME]
    return f"{node.name}{suffix}" + (selector_text(others) if others else "")
