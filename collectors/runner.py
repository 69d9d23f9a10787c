"""The collector process at work: the sources, one committer, and the housekeeping beside them."""

import asyncio
import logging
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import aiohttp

from collectors.clock import Clock
from collectors.commit import Committer, SampleWriter
from collectors.exposed import Exposed
from collectors.fetch import new_session
from collectors.maintenance import Maintenance
from collectors.remote_write_sender import RemoteWriteSender
from collectors.scrape import ScrapeWorld
from collectors.sources import Plan, Sources
from db.config_errors import SettingsError
from db.errors import StoreError
from db.held_samples import HeldFile
from db.maintenance_process import Keep
from db.processes import BEAT_SECONDS, State, beat
from db.settings import Settings

log = logging.getLogger(__name__)

NAME = "collect"


class Runner:
    """Everything that lives as long as the process. To be made and used inside one event loop.

    held: where pages read what waits in memory while the store refuses it. maintenance: of the samples file,
    when nobody else does it. sender: what sends the samples on, when they do not stay here.
    """

    def __init__(
        self,
        store: SampleWriter,
        state: State,
        clock: Clock,
        hostname: str,
        held: HeldFile | None = None,
        maintenance: Maintenance | None = None,
        sender: Callable[[aiohttp.ClientSession], RemoteWriteSender] | None = None,
    ) -> None:
        self._state = state
        self._clock = clock
        self._maintenance = maintenance
        self._committer = Committer(store, clock, tell=None if held is None else held.tell)
        self._threads = ThreadPoolExecutor(2, thread_name_prefix="page")
        self._session = new_session()
        self._sender = None if sender is None else sender(self._session)
        self._world = ScrapeWorld(
            self._session, clock, self._committer.submit, self._committer.room, Exposed(), self._threads
        )
        self._sources = Sources(self._world, self._committer, store, clock, hostname)

    async def once(self, plan: Plan) -> None:
        """Every source one time; committed when it returns."""
        committing = asyncio.create_task(self._committer.run())
        await self._sources.once(plan)
        self._committer.stop()
        await committing
        if self._sender is not None:
            await self._sender.once()
        await self._finish(committing)

    async def run(
        self, plan: Plan, stop: asyncio.Event, hangup: asyncio.Event, reload: Callable[[], Plan] | None
    ) -> None:
        """Collect until `stop`, then commit what is in flight; on `hangup` take over what `reload` gives."""
        committing = asyncio.create_task(self._committer.run())
        await self._sources.apply(plan)
        endless = [self._beat(), self._sources.broken(), stop.wait()]
        if self._maintenance is not None:
            endless.append(self._maintenance.run())
        chores = [asyncio.create_task(work) for work in endless]
        sending = [] if self._sender is None else [asyncio.create_task(self._sender.run())]
        reloading = asyncio.create_task(self._reload_on(hangup, reload))
        working = [committing, reloading, *sending, *chores]
        done, _ = await asyncio.wait(working, return_when=asyncio.FIRST_COMPLETED)
        for task in (reloading, *sending, *chores):
            task.cancel()
        await self._sources.close()
        await asyncio.gather(*sending, return_exceptions=True)  # before its session is closed
        await self._finish(committing)
        await asyncio.gather(reloading, *chores, return_exceptions=True)  # the maintenance has a child to end
        for task in done:
            task.result()  # a chore that broke ends the process loudly; its supervisor restarts it

    async def _finish(self, committing: "asyncio.Task[None]") -> None:
        self._committer.stop()
        await committing
        if self._sender is not None:
            self._sender.close()
        await self._session.close()
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def _reload_on(self, hangup: asyncio.Event, reload: Callable[[], Plan] | None) -> None:
        while True:
            await hangup.wait()
            hangup.clear()
            if reload is None:
                continue
            try:
                plan = reload()
            except SettingsError as error:
                log.error("the old configuration stays: %s", error)
                continue
            if self._maintenance is not None:
                self._maintenance.change(keep_of(plan.settings))
            await self._sources.apply(plan)
            log.info("configuration reloaded")

    async def _beat(self) -> bool:
        started_ms = self._clock.now_ms()
        while True:
            try:
                await asyncio.to_thread(
                    beat,
                    self._state,
                    NAME,
                    pid=os.getpid(),
                    started_ms=started_ms,
                    now_ms=self._clock.now_ms(),
                )
            except StoreError as error:  # a full disk must not end the process that has to tell of it
                log.warning("the heartbeat could not be written: %s", error)
            await self._clock.sleep(BEAT_SECONDS)


def keep_of(settings: Settings) -> Keep:
    """What the configuration says of keeping samples."""
    return Keep(int(settings.storage.retention * 1000), settings.storage.retention_size)
