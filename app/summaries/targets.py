"""A scraped target: does it answer, how fast, how much, and what its serving engine is doing."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from app.analysis.freshness import stale_after_ms
from app.analysis.rates import MAX_WINDOW_MS, MIN_WINDOW_MS, WINDOW_SCRAPES
from app.summaries.reading import Reading, natural, reading
from app.summaries.signal_reader import SignalReader, Trend
from db.catalog.signal import EXPORTER, JOB
from db.labels import Labels
from db.nan import FloatArray
from db.promql.printer import duration
from db.records import SourceReport

SourceStatus = Literal["up", "stale", "down", "waiting", "unsupported", "suppressed"]

DURATION = "target_scrape_seconds"
RUNNING = "requests_running"
WAITING = "requests_waiting"
GENERATED = "tokens_out_per_second"
_BY = ("model", "instance", EXPORTER, JOB)

# Job and instance.
Owner = tuple[str, str]
# By exporter and signal.
Numbers = dict[str, dict[str, FloatArray]]


@dataclass(frozen=True, slots=True, eq=False)
class Serving:
    """What a target's serving engine does now: requests, requests, tokens per second. engine: its title."""

    engine: str
    running: Reading
    waiting: Reading
    generated_per_second: Reading


@dataclass(frozen=True, slots=True, eq=False)
class Target:
    """One scraped target. duration: seconds of the last scrape, and its recent past."""

    job: str
    instance: str
    status: SourceStatus
    report: SourceReport
    duration: Reading
    serving: Serving | None


def source_status(report: SourceReport, now_ms: int) -> SourceStatus:
    """The reported state, unless the report itself is old: then whoever wrote it has stopped."""
    if report.state in ("unsupported", "suppressed", "waiting"):
        return report.state
    attempted = report.last_attempt_ms if report.state == "down" else report.last_success_ms
    if attempted is None or now_ms - attempted > stale_after_ms(report.interval_seconds):
        return "stale"
    return report.state


def source_job(report: SourceReport) -> str:
    """The job label its samples carry (relabelling may differ from the pool's name)."""
    return _label(report.labels, "job") or report.pool


def read_targets(reader: SignalReader, reports: Sequence[SourceReport], now_ms: int) -> list[Target]:
    """One Target for each scrape report, ordered by job and instance. Raises StoreError."""
    scraped = [report for report in reports if report.kind == "scrape"]
    durations = {
        (trend.labels.get("job", ""), trend.labels.get("instance", "")): trend.values
        for trend in reader.trends(DURATION, ("job", "instance"))
    }
    engines = _Engines(reader, scraped)
    nothing = np.full(len(reader.at), np.nan)
    found = [
        Target(
            job=job,
            instance=instance,
            status=source_status(report, now_ms),
            report=report,
            duration=reading(durations.get((job, instance), nothing)),
            serving=engines.serving((job, instance), report),
        )
        for report in scraped
        for job, instance in [_owner(report)]
    ]
    return sorted(
        found, key=lambda target: [natural(part) for part in (target.job, target.instance, target.report.url)]
    )


def rate_window(interval_seconds: float) -> str:
    """The range of rates over what is scraped that often, as PromQL: a few scrapes, so that a rate follows
    what it shows, and one of them may be lost."""
    milliseconds = int(interval_seconds * 1000) * WINDOW_SCRAPES
    return duration(min(max(milliseconds, MIN_WINDOW_MS), MAX_WINDOW_MS))


@dataclass(slots=True)
class _Found:
    """What exporters say of one target. rates: by range, of tokens."""

    numbers: Numbers = field(default_factory=dict)
    rates: dict[str, Numbers] = field(default_factory=dict)


class _Engines:
    """The serving engines' numbers by target: of all its models together."""

    def __init__(self, reader: SignalReader, reports: Sequence[SourceReport]) -> None:
        self._points = len(reader.at)
        self._exporters = reader.catalog.exporters
        self._found: dict[Owner, _Found] = {}
        # A signal made by PromQL that keeps no job is anybody's who has the instance alone.
        owners = [_owner(report) for report in reports]
        shared = Counter(instance for _, instance in owners)
        self._alone = {owner for owner in owners if shared[owner[1]] == 1}
        for signal in (RUNNING, WAITING):
            for trend in reader.trends(signal, _BY):
                _add(self._of(trend).numbers, signal, trend)
        for window in sorted({rate_window(report.interval_seconds) for report in reports}):
            for trend in reader.trends(GENERATED, _BY, window):
                _add(self._of(trend).rates.setdefault(window, {}), GENERATED, trend)

    def _of(self, trend: Trend) -> _Found:
        owner = trend.labels.get(JOB, ""), trend.labels.get("instance", "")
        return self._found.setdefault(owner, _Found())

    def serving(self, owner: Owner, report: SourceReport) -> Serving | None:
        """None where it is no serving engine."""
        found = self._found.get(owner)
        if found is None and owner in self._alone:
            found = self._found.get(("", owner[1]))
        if found is None:
            return None
        numbers = {exporter: dict(values) for exporter, values in found.numbers.items()}
        for exporter, values in found.rates.get(rate_window(report.interval_seconds), {}).items():
            numbers.setdefault(exporter, {}).update(values)
        order = sorted(numbers, key=lambda exporter: (-len(numbers[exporter]), self._place(exporter)))
        if not order:
            return None

        def first(signal: str) -> Reading:
            given = (numbers[exporter][signal] for exporter in order if signal in numbers[exporter])
            return reading(next(given, np.full(self._points, np.nan)))

        title = self._exporters[order[0]].title
        return Serving(title, first(RUNNING), first(WAITING), first(GENERATED))

    def _place(self, exporter: str) -> int:
        return list(self._exporters).index(exporter)


def _add(numbers: Numbers, signal: str, trend: Trend) -> None:
    given = numbers.setdefault(trend.labels.get(EXPORTER, ""), {})
    former = given.get(signal)
    if former is None:
        given[signal] = trend.values
    else:
        both = np.isnan(former) & np.isnan(trend.values)
        given[signal] = np.where(both, np.nan, np.nan_to_num(former) + np.nan_to_num(trend.values))


def _owner(report: SourceReport) -> Owner:
    return source_job(report), _label(report.labels, "instance") or report.instance


def _label(labels: Labels, name: str) -> str:
    return dict(labels).get(name, "")
