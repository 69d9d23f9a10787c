"""What each target lacks of what its exporters could say; targets that lack the same are one row."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING

from app.summaries.targets import source_job
from db.catalog.catalog import Catalog
from db.catalog.coverage import Coverage, cover
from db.catalog.presence import metric_names_by_instance, target_metric_names
from db.labels import METRIC_NAME
from db.lookups import find_series
from db.records import Matcher, SourceReport

if TYPE_CHECKING:
    from db.joined_source import JoinedSource
    from db.store import SampleStore

RECENT_MS = 3_600_000
# A job of more targets is looked up by its metrics.
_MANY = 20


@dataclass(frozen=True, slots=True)
class TargetCoverage:
    """Targets whose pages are alike in what they have and lack, as (job, instance), and that."""

    targets: tuple[tuple[str, str], ...]
    coverage: Coverage


@dataclass(frozen=True, slots=True)
class Lack:
    """What one change would add, and the targets that lack it: most versions lack much the same. titles: of
    the signals."""

    titles: tuple[str, ...]
    mend: str
    targets: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class ExporterCoverage:
    """An exporter over all of its targets that lack something. least, most: how many of its signals they
    have, out of `of`."""

    title: str
    targets: tuple[tuple[str, str], ...]
    least: int
    most: int
    of: int
    lacks: tuple[Lack, ...]

    @property
    def share(self) -> str:
        """ "22 of 39", "19 to 26 of 39"."""
        had = str(self.most) if self.least == self.most else f"{self.least} to {self.most}"
        return f"{had} of {self.of}"


def by_exporter(rows: Sequence[TargetCoverage]) -> list[ExporterCoverage]:
    """What is lacking, each change once; first what most targets lack."""
    together: dict[str, list[TargetCoverage]] = {}
    for row in rows:
        if row.coverage.gaps:
            together.setdefault(row.coverage.exporter, []).append(row)
    return [_of_exporter(some) for some in together.values()]


def _of_exporter(rows: Sequence[TargetCoverage]) -> ExporterCoverage:
    lacking: dict[tuple[tuple[str, ...], str], list[tuple[str, str]]] = {}
    for row in rows:
        for gap in row.coverage.gaps:
            lacking.setdefault((gap.titles, gap.mend), []).extend(row.targets)
    lacks = [Lack(titles, mend, tuple(sorted(targets))) for (titles, mend), targets in lacking.items()]
    had = [row.coverage.had for row in rows]
    return ExporterCoverage(
        title=rows[0].coverage.title,
        targets=tuple(sorted(target for row in rows for target in row.targets)),
        least=min(had),
        most=max(had),
        of=rows[0].coverage.of,
        lacks=tuple(sorted(lacks, key=lambda lack: -len(lack.targets))),
    )


def cover_targets(
    catalog: Catalog,
    source: "SampleStore | JoinedSource",
    reports: Sequence[SourceReport],
    at_ms: int,
) -> list[TargetCoverage]:
    """The largest gaps first. Targets of an engine that is only read are those whose `up` it has. Raises
    StoreError, QueryError."""
    together: dict[Coverage, list[tuple[str, str]]] = {}
    alike: dict[frozenset[str], list[tuple[str, str]]] = {}
    for target, names in _names(catalog, source, _targets(source, reports, at_ms), at_ms):
        alike.setdefault(names, []).append(target)
    for names, targets in alike.items():
        for coverage in cover(catalog, names):
            together.setdefault(coverage, []).extend(targets)
    found = [TargetCoverage(tuple(sorted(targets)), coverage) for coverage, targets in together.items()]
    return sorted(found, key=lambda item: (item.coverage.had - item.coverage.of, item.targets))


def _names(
    catalog: Catalog, source: "SampleStore | JoinedSource", targets: Sequence[tuple[str, str]], at_ms: int
) -> Iterator[tuple[tuple[str, str], frozenset[str]]]:
    """Each target, and which of the catalogue's metrics it shows."""
    wanted = catalog.metric_names()
    for job, members in groupby(targets, key=lambda target: target[0]):
        instances = [instance for _, instance in members]
        if len(instances) > _MANY:
            shown = metric_names_by_instance(source, job, wanted, at_ms)
            yield from (((job, instance), shown.get(instance, frozenset())) for instance in instances)
        else:
            for instance in instances:
                yield (job, instance), wanted & target_metric_names(source, job, instance, at_ms)


def _targets(
    source: "SampleStore | JoinedSource", reports: Sequence[SourceReport], at_ms: int
) -> list[tuple[str, str]]:
    scraped = [report for report in reports if report.kind in ("scrape", "collector")]
    found = {(source_job(report), dict(report.labels).get("instance", report.instance)) for report in scraped}
    up = [Matcher(METRIC_NAME, "=", "up")]
    for labels in find_series(source, [up], at_ms - RECENT_MS, at_ms):
        found.add((dict(labels).get("job", ""), dict(labels).get("instance", "")))
    return sorted(found)
