"""The current scrape targets: what static_configs, files, URLs and this machine's services name right now."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import urlsplit

import aiohttp

from collectors.clock import Clock, SystemClock
from collectors.discovery_sources import FILE_POLL_SECONDS, FileSource, GroupSource, HttpSource
from collectors.local_services import LocalServices
from collectors.targets import BuiltTargets, Target, TargetBuilder
from db.scrape_settings import FileSdConfig, HttpSdConfig, ScrapeConfig, TargetGroup

__all__ = ["DiscoveryError", "Target", "TargetSet"]

_LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})


@dataclass(frozen=True, slots=True)
class DiscoveryError:
    """Something of a job that yields no targets now. where: a file, a URL, or "" for an address."""

    job: str
    where: str
    reason: str


class _Job:
    """One job: its groups' sources, and the targets they gave when they last changed."""

    def __init__(
        self,
        config: ScrapeConfig,
        session: aiohttp.ClientSession,
        poll_seconds: float,
        former: Sequence[GroupSource],
    ) -> None:
        self.config = config
        self.sources: list[GroupSource] = []
        wanted: list[FileSdConfig | HttpSdConfig] = [*config.file_sd_configs, *config.http_sd_configs]
        for settings in wanted:
            kept = next((source for source in former if source.config == settings), None)
            if kept is not None:
                self.sources.append(kept)
            elif isinstance(settings, FileSdConfig):
                self.sources.append(FileSource(settings, poll_seconds))
            else:
                self.sources.append(HttpSource(settings, session))
        self._builder = TargetBuilder(config)
        self._building = asyncio.Lock()
        self.built: BuiltTargets = self._builder.build(self._groups())

    async def rebuild(self) -> None:
        async with self._building:
            # Thousands of targets take a while; scrapes must not wait for them.
            self.built = await asyncio.to_thread(self._builder.build, self._groups())

    def _groups(self) -> list[TargetGroup]:
        discovered = [group for source in self.sources for group in source.groups]
        return [*self.config.static_configs, *discovered]

    def errors(self) -> list[DiscoveryError]:
        name = self.config.job_name
        broken = [
            DiscoveryError(name, where, reason) for source in self.sources for where, reason in source.errors
        ]
        return broken + [DiscoveryError(name, "", reason) for reason in self.built.errors]


class TargetSet:
    """Holds the current targets and says when they change. Static targets are there from the start.

    session: for http_sd, from `collectors.fetch.new_session`. local: services of this machine, or None.
    previous: the set this one replaces after a reload (its `run` has ended); what its unchanged files and
    URLs gave is there from the start too, so that a reload ends no target that goes on.
    """

    def __init__(
        self,
        configs: Sequence[ScrapeConfig],
        session: aiohttp.ClientSession,
        *,
        local: LocalServices | None = None,
        clock: Clock | None = None,
        poll_seconds: float = FILE_POLL_SECONDS,
        previous: "TargetSet | None" = None,
    ) -> None:
        former = {job.config.job_name: job.sources for job in previous._jobs} if previous is not None else {}
        self._jobs: list[_Job] = [
            _Job(config, session, poll_seconds, former.get(config.job_name, ())) for config in configs
        ]
        self._local = local
        self._clock = clock or SystemClock()
        self._targets: tuple[Target, ...] = ()
        self._version = 0
        self._changed = asyncio.Event()
        self._publish()

    @property
    def version(self) -> int:
        """Rises by one with every change of the targets."""
        return self._version

    def targets(self) -> tuple[Target, ...]:
        """Every target once, in the order of the configuration."""
        return self._targets

    def dropped(self) -> dict[str, int]:
        """How many discovered targets each job's relabelling drops."""
        return {job.config.job_name: job.built.dropped for job in self._jobs}

    def errors(self) -> list[DiscoveryError]:
        """Everything that is wrong now."""
        return [error for job in self._jobs for error in job.errors()]

    async def changed(self, version: int) -> int:
        """Wait until the targets are no longer those of `version`; gives the new version."""
        while self._version == version:
            await self._changed.wait()
        return self._version

    async def refresh(self) -> None:
        """Look at every source once, all at the same time."""
        rounds = [self._refresh_source(job, source) for job in self._jobs for source in job.sources]
        if self._local is not None:
            rounds.append(self._refresh_local(self._local))
        await asyncio.gather(*rounds)

    async def run(self) -> None:
        """Keep the targets current until cancelled; no source waits for another one."""
        async with asyncio.TaskGroup() as tasks:
            for job in self._jobs:
                for source in job.sources:
                    tasks.create_task(self._keep_source(job, source))
            if self._local is not None:
                tasks.create_task(self._keep_local(self._local))

    async def _keep_source(self, job: _Job, source: GroupSource) -> None:
        while True:
            await self._refresh_source(job, source)
            await self._clock.sleep(source.interval_seconds)

    async def _keep_local(self, local: LocalServices) -> None:
        while True:
            await self._refresh_local(local)
            await self._clock.sleep(local.interval_seconds)

    async def _refresh_source(self, job: _Job, source: GroupSource) -> None:
        if await source.refresh():
            await job.rebuild()
            self._publish()

    async def _refresh_local(self, local: LocalServices) -> None:
        if await local.refresh():
            self._publish()

    def _publish(self) -> None:
        found = {target.key: target for job in self._jobs for target in job.built.targets}
        if self._local is not None:
            configured = {_endpoint(target) for target in found.values()}
            for target in self._local.targets():
                if _endpoint(target) not in configured:
                    found.setdefault(target.key, target)
        targets = tuple(found.values())
        if targets != self._targets:
            self._targets = targets
            self._version += 1
            self._changed.set()
            self._changed = asyncio.Event()


def _endpoint(target: Target) -> tuple[str, int | None, str]:
    """Where a target listens, so that one that is configured is not found a second time."""
    parts = urlsplit(target.url)
    host = parts.hostname or ""
    return ("loopback" if host in _LOOPBACK else host), parts.port, parts.path.rstrip("/")
