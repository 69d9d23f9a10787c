"""Series, label names, label values, metadata and targets, of the store or of the store and an engine.

Of an engine only what a name can be found by is asked: look-ups that matchers confine to the store do not
reach it.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from db import series_lookup
from db.labels import Labels
from db.records import Matcher, MetricMetadata
from db.series_lookup import Selector
from db.store import SampleStore

if TYPE_CHECKING:
    from db.joined_source import JoinedSource


def find_series(
    source: "SampleStore | JoinedSource", selectors: Sequence[Selector], start_ms: int, end_ms: int
) -> list[Labels]:
    """The series that meet at least one selector, ordered by labels. Raises StoreError, QueryError."""
    if isinstance(source, SampleStore):
        return series_lookup.find_series(source.engine, selectors, start_ms, end_ms)
    here, there = _parted(source, selectors)
    found: set[Labels] = set()
    if here:
        found.update(series_lookup.find_series(source.store.engine, here, start_ms, end_ms))
    if there:
        found.update(source.engine.series(*there, start_ms=start_ms, end_ms=end_ms))
    return sorted(found)


def label_names(
    source: "SampleStore | JoinedSource", selectors: Sequence[Selector], start_ms: int, end_ms: int
) -> list[str]:
    """The label names of such series; without a selector, of all. Ordered."""
    if isinstance(source, SampleStore):
        return series_lookup.label_names(source.engine, selectors, start_ms, end_ms)
    here, there = _parted(source, selectors)
    found: set[str] = set()
    if here or not selectors:
        found.update(series_lookup.label_names(source.store.engine, here, start_ms, end_ms))
    if there or not selectors:
        found.update(source.engine.label_names(*there, start_ms=start_ms, end_ms=end_ms))
    return sorted(found)


def label_values(
    source: "SampleStore | JoinedSource", name: str, selectors: Sequence[Selector], start_ms: int, end_ms: int
) -> list[str]:
    """The label's values in such series; without a selector, in all. Ordered."""
    if isinstance(source, SampleStore):
        return series_lookup.label_values(source.engine, name, selectors, start_ms, end_ms)
    if name == "":
        return []
    here, there = _parted(source, selectors)
    found: set[str] = set()
    if here or not selectors:
        found.update(series_lookup.label_values(source.store.engine, name, here, start_ms, end_ms))
    if there or not selectors:
        found.update(source.engine.label_values(name, *there, start_ms=start_ms, end_ms=end_ms))
    return sorted(found)


def metadata(source: "SampleStore | JoinedSource") -> list[MetricMetadata]:
    """TYPE, HELP and UNIT of every family, each saying once, ordered by metric."""
    if isinstance(source, SampleStore):
        return source.metadata()
    found = dict.fromkeys([*source.store.metadata(), *source.engine.metadata()])
    return sorted(found, key=lambda item: item.metric)


def engine_targets(source: "SampleStore | JoinedSource") -> list[dict[str, Any]]:
    """The active targets that an engine scrapes, as its API lists them; none without an engine."""
    return [] if isinstance(source, SampleStore) else source.engine.targets()


def _parted(
    source: "JoinedSource", selectors: Sequence[Sequence[Matcher]]
) -> tuple[list[Selector], list[Selector]]:
    """Those for the store, and those for the engine; some are for both."""
    locality = source.locality()
    places = [(locality.place(selector), selector) for selector in selectors]
    return (
        [locality.here(selector) for place, selector in places if place != "remote"],
        [selector for place, selector in places if place != "local"],
    )
