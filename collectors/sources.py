"""Which targets and collectors run right now: follows discovery and reloads, touching only what changed."""

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Generic, TypeVar
from zlib import crc32

from collectors.clock import Clock
from collectors.commit import Committer, SampleWriter, Scraped
from collectors.discovery import TargetSet
from collectors.enabled import BuiltIn
from collectors.local import LocalCollector
from collectors.local_services import Found, LocalServices
from collectors.scrape import ScrapeJob, ScrapeWorld, TargetScraper
from collectors.targets import Target
from db.records import SourceReport
from db.scrape_settings import GlobalConfig, ScrapeConfig
from db.settings import Jobs, Settings
from db.sources import SourceKey, source_key

log = logging.getLogger(__name__)

# First scrapes are spread, so that a large cluster's first pages do not all come in one burst.
FIRST_SCRAPES_PER_SECOND = 50.0
# Attempts start together on this grid: waking up is a large part of what a small scrape costs.
STARTS_EVERY_SECONDS = 0.1
FINDINGS_EVERY_SECONDS = 1.0
EXPORTERS_FIRST_SECONDS = 2.0
# The fields of a job that say which targets it has; the rest is how they are scraped.
_FINDING: dict[str, tuple[()]] = dict.fromkeys(
    ("static_configs", "file_sd_configs", "http_sd_configs", "relabel_configs"), ()
)
Source = TypeVar("Source", TargetScraper, LocalCollector)


@dataclass(frozen=True, slots=True)
class Plan:
    """What to collect; a reload replaces it as a whole."""

    settings: Settings
    jobs: Jobs
    built_in: Sequence[BuiltIn]
    discover: bool


@dataclass(slots=True)
class _Running(Generic[Source]):
    """A source and the task that drives it."""

    source: Source
    task: asyncio.Task[None]


class Sources:
    """Starts, keeps and ends the tasks of all sources."""

    def __init__(
        self, world: ScrapeWorld, committer: Committer, store: SampleWriter, clock: Clock, hostname: str
    ) -> None:
        self._world = world
        self._committer = committer
        self._store = store
        self._clock = clock
        self._hostname = hostname
        self._jobs: dict[int, ScrapeJob] = {}
        self._scrapers: dict[str, _Running[TargetScraper]] = {}
        self._collectors: dict[tuple[str, float], _Running[LocalCollector]] = {}
        self._targets: TargetSet | None = None
        self._local: LocalServices | None = None
        self._local_defaults = GlobalConfig()
        self._told: set[str] = set()
        self._findings: tuple[SourceReport, ...] = ()
        self._watching: list[asyncio.Task[None]] = []
        self._broken = asyncio.Event()

    async def broken(self) -> bool:
        """Waits until something that follows the targets ends by a defect. Raises RuntimeError then."""
        await self._broken.wait()
        raise RuntimeError("the targets are no longer followed; the log says why")

    async def apply(self, plan: Plan) -> None:
        """Run what the plan says; sources that it leaves as they are go on undisturbed."""
        await self._stop_watching()
        targets = self._target_set(plan)
        self._jobs = {}
        self._apply_targets(targets.targets())
        self._apply_collectors(plan)
        await self._publish(plan, targets)
        self._watching = [
            asyncio.create_task(targets.run()),
            asyncio.create_task(self._follow(plan, targets)),
            asyncio.create_task(self._report_findings(plan, targets)),
        ]
        for task in self._watching:
            task.add_done_callback(self._watcher_ended)

    async def once(self, plan: Plan) -> None:
        """Every source one time."""
        targets = self._target_set(plan)
        await targets.refresh()
        scrapers = [self._scraper(target) for target in targets.targets()]
        # Scrapes first: a collector asks what the targets already report.
        await asyncio.gather(*(scraper.attempt() for scraper in scrapers))
        # And one after the other, as they are listed: one asks what others have seen.
        for item, seconds in _enabled(plan):
            await self._collector(item, seconds, plan.settings).attempt()
        self._submit_findings(self._find(plan, targets))

    async def close(self) -> None:
        """Stop everything; series are not ended, since the process will usually come back."""
        await self._stop_watching()
        tasks = [running.task for running in self._scrapers.values()]
        tasks += [running.task for running in self._collectors.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for scraper in self._scrapers.values():
            scraper.source.close()

    def _target_set(self, plan: Plan) -> TargetSet:
        if not plan.discover:
            self._local = None
        elif self._local is None or self._local_defaults != plan.settings.scrape_defaults:
            self._local_defaults = plan.settings.scrape_defaults
            self._local = LocalServices(
                self._world.session, self._local_defaults, own_ports=(plan.settings.web.port,)
            )
        self._targets = TargetSet(
            plan.jobs.configs,
            self._world.session,
            local=self._local,
            clock=self._clock,
            previous=self._targets,
        )
        return self._targets

    def _scraper(self, target: Target) -> TargetScraper:
        job = self._jobs.get(id(target.config))
        if job is None:
            job = self._jobs[id(target.config)] = ScrapeJob.of(target.config)
        return TargetScraper(target, job, self._world)

    def _collector(self, built_in: BuiltIn, seconds: float, settings: Settings) -> LocalCollector:
        made = built_in.make(self._hostname, self._world.exposed)
        collector = LocalCollector(made, self._hostname, seconds, self._clock, self._committer)
        collector.configure(settings)
        return collector

    def _apply_targets(self, targets: Sequence[Target]) -> None:
        wanted = {target.key: target for target in targets}
        changed = [
            key for key, held in self._scrapers.items() if not _same(wanted.get(key), held.source.target)
        ]
        for key in changed:
            running = self._scrapers.pop(key)
            running.task.cancel()
            running.source.end()
        fresh = [target for key, target in wanted.items() if key not in self._scrapers]
        for target in fresh:
            scraper = self._scraper(target)
            spread = min(target.interval_seconds, len(fresh) / FIRST_SCRAPES_PER_SECOND)
            delay = spread * crc32(target.key.encode()) / 2**32
            self._committer.submit(Scraped((), scraper.report))
            task = asyncio.create_task(self._repeat(scraper, delay))
            self._scrapers[target.key] = _Running(scraper, task)

    def _apply_collectors(self, plan: Plan) -> None:
        wanted = {(item.name, seconds): item for item, seconds in _enabled(plan)}
        for key in [key for key in self._collectors if key not in wanted]:
            running = self._collectors.pop(key)
            running.task.cancel()
            running.source.end()
        for key, built_in in wanted.items():
            if (kept := self._collectors.get(key)) is not None:
                kept.source.configure(plan.settings)
            else:
                collector = self._collector(built_in, key[1], plan.settings)
                # An exporter that reports this machine is heard first, so that nothing is counted twice.
                delay = EXPORTERS_FIRST_SECONDS if plan.discover or self._scrapers else 0.0
                task = asyncio.create_task(self._repeat(collector, delay))
                self._collectors[key] = _Running(collector, task)

    async def _repeat(self, source: TargetScraper | LocalCollector, delay: float) -> None:
        """Attempt after attempt, each one interval after the last one's start; missed ones are left out."""
        due = self._clock.monotonic() + delay
        due += -due % STARTS_EVERY_SECONDS
        while True:
            await self._clock.sleep(max(0.0, due - self._clock.monotonic()))
            try:
                await source.attempt()
            except Exception:  # its next attempt may do better; the task's end would be silence for ever
                log.exception("a source is broken", extra={"source": ascii(source_key(source.report))})
            seconds = source.wait_seconds
            late = self._clock.monotonic() - due
            due += seconds * max(1, -(-late // seconds))

    async def _follow(self, plan: Plan, targets: TargetSet) -> None:
        version = targets.version
        while True:
            version = await targets.changed(version)
            self._apply_targets(targets.targets())
            await self._publish(plan, targets)

    async def _report_findings(self, plan: Plan, targets: TargetSet) -> None:
        while True:
            await self._clock.sleep(FINDINGS_EVERY_SECONDS)
            if self._find(plan, targets) != self._findings:
                await self._publish(plan, targets)

    async def _publish(self, plan: Plan, targets: TargetSet) -> None:
        """The store's list of sources is what runs now, and what is wrong with finding it."""
        self._findings = self._find(plan, targets)
        self._submit_findings(self._findings)
        keys: set[SourceKey] = {source_key(item) for item in self._findings}
        keys.update(source_key(running.source.report) for running in self._scrapers.values())
        keys.update(source_key(running.source.report) for running in self._collectors.values())
        await self._committer.retain_sources(keys)

    def _submit_findings(self, findings: Sequence[SourceReport]) -> None:
        for finding in findings:
            self._committer.submit(Scraped((), finding))

    def _find(self, plan: Plan, targets: TargetSet) -> tuple[SourceReport, ...]:
        """What the configuration and the search for targets have to say, as rows of the Sources page."""
        config = str(plan.settings.prometheus_config or "")
        warnings = [
            SourceReport("config", "prometheus_config", str(number), config, "up", 0.0, note=text)
            for number, text in enumerate(plan.jobs.warnings, 1)
        ]
        errors = [
            SourceReport("discovery", item.job, item.where, "", "down", 0.0, error=item.reason)
            for item in targets.errors()
        ]
        local = []
        for item in self._local.found() if self._local is not None else ():
            self._tell(item)
            if not item.job:  # what is scraped has a row of its own
                row = SourceReport("discovery", item.service, _host_port(item), item.url, "unsupported", 0.0)
                local.append(replace(row, note=item.note))
        return (*warnings, *errors, *local)

    def _tell(self, item: Found) -> None:
        """Each thing that was found on this machine, once."""
        text = f"found {item.service} at {item.url}" + (f": {item.note}" if item.note else "")
        if text not in self._told:
            self._told.add(text)
            log.info("%s", text)

    def _watcher_ended(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and task.exception() is not None:  # without discovery there is an end
            log.error("targets are no longer followed", exc_info=task.exception())
            self._broken.set()

    async def _stop_watching(self) -> None:
        for task in self._watching:
            task.cancel()
        await asyncio.gather(*self._watching, return_exceptions=True)
        self._watching = []


def _same(wanted: Target | None, held: Target) -> bool:
    """Would it be scraped as it is now? How it was found does not count: meta labels may change at every
    refresh, and a job's other targets with every reload."""
    if wanted is None or replace(wanted, discovered=held.discovered, config=held.config) != held:
        return False
    return wanted.config is held.config or _scraping(wanted.config) == _scraping(held.config)


def _scraping(config: ScrapeConfig) -> ScrapeConfig:
    return config.model_copy(update=_FINDING)


def _enabled(plan: Plan) -> list[tuple[BuiltIn, float]]:
    """The collectors that are switched on, with their intervals in seconds."""
    found = []
    for built_in in plan.built_in:
        own = built_in.settings(plan.settings)
        if own.enabled:
            found.append((built_in, own.interval or plan.settings.scrape_interval))
    return found


def _host_port(found: Found) -> str:
    host, port = found.address
    return f"{host}:{port}"
