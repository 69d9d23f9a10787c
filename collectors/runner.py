"""The collector process at work: the sources, one committer, and the housekeeping beside them."""

import asyncio
import logging
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from collectors.clock import Clock
from collectors.commit import Committer
from collectors.exposed import Exposed
from collectors.fetch import new_session
from collectors.scrape import ScrapeWorld
from collectors.sources import Plan, Sources
from db.config_errors import SettingsError
from db.errors import StoreError
from db.processes import BEAT_SECONDS, State, beat
from db.store import SampleStore

log = logging.getLogger(__name__)

NAME = "collect"
RETENTION_EVERY_SECONDS = 60.0
RETENTION_PAUSE_SECONDS = 0.05


class Runner:
    """Everything that lives as long as the process. To be made and used inside one event loop."""

    def __init__(self, store: SampleStore, state: State, clock: Clock, hostname: str) -> None:
        self._store = store
        self._state = state
        self._clock = clock
        self._retention_seconds = 0.0
        self._committer = Committer(store, clock)
        self._threads = ThreadPoolExecutor(2, thread_name_prefix="page")
        self._session = new_session()
        self._world = ScrapeWorld(
            self._session, clock, self._committer.submit, self._committer.room, Exposed(), self._threads
        )
        self._sources = Sources(self._world, self._committer, store, clock, hostname)

    async def once(self, plan: Plan) -> None:
        """Every source one time; committed when it returns."""
        committing = asyncio.create_task(self._committer.run())
        await self._sources.once(plan)
        await self._finish(committing)

    async def run(
        self, plan: Plan, stop: asyncio.Event, hangup: asyncio.Event, reload: Callable[[], Plan] | None
    ) -> None:
        """Collect until `stop`, then commit what is in flight; on `hangup` take over what `reload` gives."""
        self._retention_seconds = plan.settings.storage.retention
        committing = asyncio.create_task(self._committer.run())
        await self._sources.apply(plan)
        endless = (self._beat(), self._retain(), self._sources.broken(), stop.wait())
        chores = [asyncio.create_task(work) for work in endless]
        reloading = asyncio.create_task(self._reload_on(hangup, reload))
        done, _ = await asyncio.wait([committing, reloading, *chores], return_when=asyncio.FIRST_COMPLETED)
        for task in (reloading, *chores):
            task.cancel()
        await self._sources.close()
        await self._finish(committing)
        for task in done:
            task.result()  # a chore that broke ends the process loudly; its supervisor restarts it

    async def _finish(self, committing: "asyncio.Task[None]") -> None:
        self._committer.stop()
        await committing
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
            self._retention_seconds = plan.settings.storage.retention
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

    async def _retain(self) -> bool:
        while True:
            cutoff_ms = self._clock.now_ms() - int(self._retention_seconds * 1000)
            more = True
            while more:
                drop = partial(self._store.drop_older, cutoff_ms)
                more = await self._committer.in_writer(drop) is True
                await self._clock.sleep(RETENTION_PAUSE_SECONDS)
            await self._clock.sleep(RETENTION_EVERY_SECONDS)
