"""Which of a query's parts are answered by the local store, and which by a remote engine.

What only touches the engine is sent there as it stands. In what touches both, the largest parts that only
touch the engine are sent as they stand, too: `sum by (node) (rate(x[5m])) * on () strata_price` asks the
engine for a sum of each node, not for every series of x. The rest is evaluated here.
"""

import re
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal

from db.labels import METRIC_NAME
from db.promql.ast import (
    Expression,
    MatrixSelector,
    Subquery,
    ValueType,
    VectorSelector,
    value_type,
)
from db.promql.printer import text_of
from db.promql.walk import selectors, with_parts
from db.records import Matcher
from db.regex import RegexError, fullmatch, literals

Place = Literal["local", "remote", "both"]

# Never anywhere but here while an engine is only read.
OWN_PREFIX = "strata_"
# What Strata writes itself; an engine may have its own of these.
_SHARED_PREFIXES = (OWN_PREFIX, "probe_")
_SHARED_NAMES = frozenset({"ALERTS", "ALERTS_FOR_STATE"})
_RECORDED = ":"  # in names that rules record, by Prometheus's convention
# Stands for an expression that the engine evaluates; its text is the value.
_ASIDE = "__strata_remote__"


@dataclass(frozen=True)
class Locality:
    """names: of the metrics that the local store holds. writes: do samples go to the engine, too?"""

    names: Collection[str] = ()
    writes: bool = False

    @cached_property
    def ours(self) -> frozenset[str]:
        """Names in the local store that count. Not what was scraped before there was an engine."""
        return frozenset(name for name in self.names if _may_be_ours(name))

    def place(self, matchers: Sequence[Matcher]) -> Place:
        """Where the series are that the matchers mean."""
        if aside(matchers) is not None:
            return "remote"
        about_name = [item for item in matchers if item.name == METRIC_NAME]
        names = _listed(about_name)
        if names is None:
            found = [name for name in self.ours if all(_matches(item, name) for item in about_name)]
            return "both" if found else "remote"
        places = {self._place_of(name) for name in names}
        return places.pop() if len(places) == 1 else "both"

    def here(self, matchers: Sequence[Matcher]) -> Sequence[Matcher]:
        """The matchers for the store: of several names only those that count there."""
        about_name = [item for item in matchers if item.name == METRIC_NAME]
        if any(item.operator == "=" and item.value for item in about_name):
            return matchers
        names = sorted(name for name in self.ours if all(_matches(item, name) for item in about_name))
        return [*matchers, Matcher(METRIC_NAME, "=~", "|".join(map(re.escape, names)))]

    def _place_of(self, name: str) -> Place:
        if not self.writes and name.startswith(OWN_PREFIX):
            return "local"
        return "both" if name in self.ours else "remote"


@dataclass(frozen=True, slots=True)
class Route:
    """whole: send the text to the engine as it is. Otherwise evaluate `expression` here, over both."""

    whole: bool
    expression: Expression


def route(
    expression: Expression, locality: Locality, start_ms: int, end_ms: int, default_step_ms: int
) -> Route:
    """start_ms, end_ms: of the query, what `@ start()` and `@ end()` mean in it. default_step_ms: of
    subqueries that give none; the engine may have another."""
    places = _places(expression, locality)
    if places == {"remote"}:
        return Route(True, expression)
    if "remote" not in places:
        return Route(False, expression)
    fixed = _fixed(start_ms, end_ms, default_step_ms)

    def sent(node: Expression) -> Expression:
        if isinstance(node, VectorSelector | MatrixSelector):
            return node
        if value_type(node) is ValueType.VECTOR and _places(node, locality) == {"remote"}:
            return VectorSelector((Matcher(_ASIDE, "=", text_of(fixed(node))),), start=node.start)
        return with_parts(node, sent)

    return Route(False, sent(expression))


def aside(matchers: Sequence[Matcher]) -> str | None:
    """The text that the engine is to evaluate, of a selector that stands for it."""
    if len(matchers) == 1 and matchers[0].name == _ASIDE and matchers[0].operator == "=":
        return matchers[0].value
    return None


def _fixed(start_ms: int, end_ms: int, default_step_ms: int) -> Callable[[Expression], Expression]:
    """Makes an expression mean the same in whatever query it stands."""
    times = {"start": start_ms, "end": end_ms}

    def fixed(node: Expression) -> Expression:
        if isinstance(node, Subquery | VectorSelector) and isinstance(node.at, str):
            node = replace(node, at=times[node.at])
        if isinstance(node, Subquery) and node.step_ms is None:
            node = replace(node, step_ms=default_step_ms)
        return with_parts(node, fixed)

    return fixed


def _places(expression: Expression, locality: Locality) -> set[Place]:
    return {locality.place(selector.matchers) for selector in selectors(expression)}


def _may_be_ours(name: str) -> bool:
    return name.startswith(_SHARED_PREFIXES) or name in _SHARED_NAMES or _RECORDED in name


def _listed(matchers: Sequence[Matcher]) -> list[str] | None:
    """The names that are meant, where they are listed; None where they are not."""
    for item in matchers:
        if item.operator == "=" and item.value:
            return [item.value]
        if item.operator == "=~" and (names := literals(item.value)) is not None and all(names):
            return names
    return None


def _matches(matcher: Matcher, name: str) -> bool:
    if matcher.operator in ("=", "!="):
        return (matcher.value == name) == (matcher.operator == "=")
    try:
        return fullmatch(matcher.value, name) == (matcher.operator == "=~")
    except RegexError:
        return True  # whoever evaluates it says so
