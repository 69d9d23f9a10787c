"""`/api/v1/targets`, `/targets/metadata`, `/metadata`, `/scrape_pools`, and, as long as nothing evaluates
rules here, the empty `/rules`, `/alerts` and `/alertmanagers`."""

import socket
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from starlette.requests import Request

from app.api.errors import bad_parameter
from app.api.parameters import Parameters, Selector, selector
from app.api.replies import Reply
from app.api.threads import Threads
from db.config_types import format_duration
from db.labels import METRIC_NAME
from db.lookups import engine_targets, label_values, metadata
from db.records import Matcher, MetricMetadata, SourceReport
from db.regex import fullmatch
from db.scrape_settings import DEFAULT_TIMEOUT_SECONDS
from db.settings import Settings, SettingsError, load_jobs
from db.store import SampleStore

if TYPE_CHECKING:
    from db.joined_source import JoinedSource

_HEALTH = {"up": "up", "down": "down"}
_NEVER = "0001-01-01T00:00:00Z"  # Go's zero time
_LOOPBACK = ("localhost", "127.0.0.1", "::1")
# What a family's samples are called besides the family's own name.
_SUFFIXES = ("", "_total", "_bucket", "_count", "_sum", "_created", "_info")
# How far back a target's metrics are looked for.
_RECENT_MS = 600_000


class TargetCalls:
    """The endpoints; each raises ApiError or StoreError."""

    def __init__(
        self,
        store: "Callable[[], SampleStore | JoinedSource]",
        settings: Settings,
        now_ms: Callable[[], int],
        threads: Threads,
    ) -> None:
        self._store = store
        self._settings = settings
        self._now_ms = now_ms
        self._threads = threads

    async def targets(self, _request: Request, asked: Parameters) -> Reply:
        """Targets that relabelling dropped are not kept, so that none are listed."""
        state, pool = asked.text("state").lower(), asked.text("scrapePool")
        reports = await self._threads.run(self._reports)
        active: list[dict[str, Any]] = []
        if state in ("", "any", "active"):
            timeouts = await self._threads.run(self._timeouts)
            active = [_target(report, timeouts) for report in reports if pool in ("", report.pool)]
            elsewhere = await self._threads.run(lambda: engine_targets(self._store()))
            active += [one for one in elsewhere if pool in ("", one.get("scrapePool"))]
        counts = {report.pool: 0 for report in reports if pool in ("", report.pool)}
        return Reply({"activeTargets": active, "droppedTargets": [], "droppedTargetCounts": counts})

    async def pools(self, _request: Request, _asked: Parameters) -> Reply:
        reports = await self._threads.run(self._reports)
        return Reply({"scrapePools": sorted({report.pool for report in reports})})

    async def target_metadata(self, _request: Request, asked: Parameters) -> Reply:
        limit = asked.count("limit")
        matchers: Selector = ()
        if asked.text("match_target"):
            try:
                matchers = selector(asked.text("match_target"))
            except Exception as error:
                raise bad_parameter("match_target", error) from error
        return await self._threads.run(
            lambda: Reply(self._target_metadata(matchers, asked.text("metric"), limit))
        )

    async def metadata(self, _request: Request, asked: Parameters) -> Reply:
        limit, each = asked.count("limit"), asked.count("limit_per_metric")
        wanted = asked.text("metric")

        def find() -> Reply:
            found: dict[str, list[dict[str, str]]] = {}
            for item in metadata(self._store()):
                if wanted in ("", item.metric):
                    held = found.setdefault(item.metric, [])
                    if each <= 0 or len(held) < each:
                        held.append({"type": item.type, "help": item.help, "unit": item.unit})
            names = list(found) if limit < 0 else list(found)[:limit]
            return Reply({name: found[name] for name in names})

        return await self._threads.run(find)

    async def rules(self, _request: Request, asked: Parameters) -> Reply:
        kind = asked.text("type").lower()
        if kind not in ("", "alert", "record"):
            raise bad_parameter("type", f'not supported value "{kind}"')
        return Reply({"groups": []})

    async def alerts(self, _request: Request, _asked: Parameters) -> Reply:
        return Reply({"alerts": []})

    async def alertmanagers(self, _request: Request, _asked: Parameters) -> Reply:
        return Reply({"activeAlertmanagers": [], "droppedAlertmanagers": []})

    def _reports(self) -> list[SourceReport]:
        return [report for report in self._store().sources() if report.kind == "scrape"]

    def _timeouts(self) -> Mapping[str, float]:
        try:
            return {job.job_name: job.scrape_timeout for job in load_jobs(self._settings).configs}
        except SettingsError:  # the file is being edited; the collectors go on with what they have
            return {}

    def _target_metadata(self, matchers: Selector, metric: str, limit: int) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = []
        families: dict[str, list[MetricMetadata]] = {}
        for item in metadata(self._store()):
            if metric in ("", item.metric):
                families.setdefault(item.metric, []).append(item)
        for report in self._reports():
            labels = dict(report.labels)
            if all(_meets(matcher, labels) for matcher in matchers):
                for item in self._described(report, families):
                    if 0 <= limit <= len(found):
                        return found
                    named = {} if metric else {"metric": item.metric}
                    said = {"type": item.type, "help": item.help, "unit": item.unit}
                    found.append({"target": labels, **named, **said})
        return found

    def _described(
        self, report: SourceReport, families: Mapping[str, Sequence[MetricMetadata]]
    ) -> Iterator[MetricMetadata]:
        """The store keeps metadata by metric: a target's are those of the metrics that it has lately had."""
        own = [Matcher(name, "=", value) for name, value in report.labels if name in ("job", "instance")]
        if not own or not families:
            return
        end_ms = report.last_success_ms or self._now_ms()
        store = self._store()
        names = set(label_values(store, METRIC_NAME, [own], end_ms - _RECENT_MS, end_ms + _RECENT_MS))
        for family, items in families.items():
            if any(family + suffix in names for suffix in _SUFFIXES):
                yield items[0]


def _target(report: SourceReport, timeouts: Mapping[str, float]) -> dict[str, Any]:
    url = urlsplit(report.url)
    interval = format_duration(report.interval_seconds)
    timeout = timeouts.get(report.pool, min(DEFAULT_TIMEOUT_SECONDS, report.interval_seconds))
    # Of what discovery said only this is kept.
    discovered = {
        "__address__": url.netloc.rpartition("@")[2],
        "__metrics_path__": url.path,
        "__scheme__": url.scheme,
        "__scrape_interval__": interval,
        "__scrape_timeout__": format_duration(timeout),
        "job": report.pool,
    }
    return {
        "discoveredLabels": discovered,
        "labels": dict(report.labels),
        "scrapePool": report.pool,
        "scrapeUrl": report.url,
        "globalUrl": _from_outside(report.url),
        "lastError": report.error,
        "lastScrape": rfc3339(report.last_attempt_ms),
        "lastScrapeDuration": report.duration_seconds or 0,
        "health": _HEALTH.get(report.state, "unknown"),
        "scrapeInterval": interval,
        "scrapeTimeout": format_duration(timeout),
    }


def rfc3339(timestamp_ms: int | None) -> str:
    """UTC; Go's zero time for None."""
    if timestamp_ms is None:
        return _NEVER
    moment = datetime.fromtimestamp(timestamp_ms / 1000, UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _from_outside(url: str) -> str:
    """The URL with this machine's name instead of a loopback one, as Prometheus shows it."""
    parts = urlsplit(url)
    if parts.hostname not in _LOOPBACK:
        return url
    port = "" if parts.port is None else f":{parts.port}"
    return parts._replace(netloc=socket.gethostname().lower() + port).geturl()


def _meets(matcher: Matcher, labels: Mapping[str, str]) -> bool:
    value = labels.get(matcher.name, "")
    if matcher.operator in ("=", "!="):
        return (value == matcher.value) == (matcher.operator == "=")
    return fullmatch(matcher.value, value) == (matcher.operator == "=~")
