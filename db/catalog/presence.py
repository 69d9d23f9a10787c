"""Which metrics a source has: what the catalogue resolves signals by."""

from collections.abc import Callable, Set
from typing import TYPE_CHECKING

from db.labels import METRIC_NAME
from db.lookups import find_series, label_values
from db.promql.ast import VectorSelector
from db.promql.parse import parse
from db.records import Matcher

if TYPE_CHECKING:
    from db.joined_source import JoinedSource
    from db.store import SampleStore

# A metric that no target has shown for that long is not there.
RECENT_MS = 3_600_000


def metric_names(source: "SampleStore | JoinedSource", at_ms: int) -> frozenset[str]:
    """Names of the metrics that the source has: of the store every one that is kept, of an engine those of
    the last hour. Raises StoreError, QueryError."""
    return frozenset(label_values(source, METRIC_NAME, [], at_ms - RECENT_MS, at_ms))


def series_finder(source: "SampleStore | JoinedSource", at_ms: int) -> Callable[[str], bool]:
    """Tells of a selector whether it had a series within the hour before at_ms."""

    def has_series(selector: str) -> bool:
        node = parse(selector)
        if not isinstance(node, VectorSelector):
            return False
        return bool(find_series(source, [node.matchers], at_ms - RECENT_MS, at_ms))

    return has_series


def target_metric_names(
    source: "SampleStore | JoinedSource", job: str, instance: str, at_ms: int
) -> frozenset[str]:
    """Names of the metrics that one target showed within the hour before at_ms. Raises StoreError,
    QueryError."""
    target = [Matcher("job", "=", job), Matcher("instance", "=", instance)]
    return frozenset(label_values(source, METRIC_NAME, [target], at_ms - RECENT_MS, at_ms))


def metric_names_by_instance(
    source: "SampleStore | JoinedSource", job: str, wanted: Set[str], at_ms: int
) -> dict[str, frozenset[str]]:
    """Of these metrics the names that each instance of a job showed within the hour before at_ms: a look-up
    for each name, where a look-up for each of a thousand targets takes ten times as long. Raises StoreError,
    QueryError."""
    span = at_ms - RECENT_MS, at_ms
    of_job = Matcher("job", "=", job)
    found: dict[str, set[str]] = {}
    for name in wanted & set(label_values(source, METRIC_NAME, [[of_job]], *span)):
        for instance in label_values(source, "instance", [[of_job, Matcher(METRIC_NAME, "=", name)]], *span):
            found.setdefault(instance, set()).add(name)
    return {instance: frozenset(names) for instance, names in found.items()}
