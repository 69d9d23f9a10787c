"""Groups what finishes within 200 ms into one durable commit, and keeps it when the store refuses.

An append that is waiting here is not acknowledged. What the store refuses stays in order and is tried
again; past a stated bound the oldest is dropped and its target begins a new order, said in the log.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from collectors.clock import Clock
from db.errors import StoreError, WriteRefused
from db.records import DenseAppend, MetricMetadata, SourceReport, SparseAppend
from db.store import SampleStore

log = logging.getLogger(__name__)

GROUP_SECONDS = 0.2
RETRY_FIRST_SECONDS = 0.5
RETRY_LAST_SECONDS = 10.0
# What may wait in memory while the store refuses: about a day of one box, minutes of a large cluster.
HELD_BYTES = 256 * 1024 * 1024
# Above this a page whose series are all new waits before it is read.
ROOM_BYTES = 8 * 1024 * 1024
_SERIES_BYTES = 1_200  # measured: the labels of a new DCGM series as tuples of strings


@dataclass(frozen=True, slots=True)
class Scraped:
    """Everything one attempt on one source yields. lost: called when it had to be dropped."""

    appends: Sequence[DenseAppend | SparseAppend]
    report: SourceReport | None
    metadata: Sequence[MetricMetadata] = ()
    lost: Callable[[], None] | None = None

    def size_bytes(self) -> int:
        return 256 + sum(
            append.values.nbytes + _SERIES_BYTES * len(_series(append)) for append in self.appends
        )


def _series(append: DenseAppend | SparseAppend) -> Sequence[object]:
    return append.new_series if isinstance(append, DenseAppend) else append.series


class Committer:
    """One writer for all sources; `submit` from the event loop, `run` as its task."""

    def __init__(self, store: SampleStore, clock: Clock, held_bytes: int = HELD_BYTES) -> None:
        self._store = store
        self._clock = clock
        self._held_bytes = held_bytes
        self._waiting: list[Scraped] = []
        self._waiting_bytes = 0
        self._writing_bytes = 0
        self._room = asyncio.Event()
        self._arrived = asyncio.Event()
        self._stopping = False
        self._known_metadata: set[MetricMetadata] = set()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="commit")
        self.commits = 0
        self.dropped = 0

    def submit(self, scraped: Scraped) -> None:
        self._waiting.append(scraped)
        self._waiting_bytes += scraped.size_bytes()
        self._arrived.set()

    async def room(self) -> None:
        """Wait until the store has caught up. For first pages: those of a large cluster come faster than
        their series can be interned, and what waits in between is memory."""
        while self._waiting_bytes + self._writing_bytes > ROOM_BYTES:
            self._room.clear()
            await self._room.wait()

    def stop(self) -> None:
        """Let `run` commit what waits and return."""
        self._stopping = True
        self._arrived.set()

    async def run(self) -> None:
        """Commit until stopped. On a stop the last attempt is made without waiting."""
        retry = 0.0
        while True:
            await self._arrived.wait()
            if not self._stopping:
                await self._clock.sleep(retry or GROUP_SECONDS)
            self._arrived.clear()
            batch, self._waiting = self._waiting, []
            self._writing_bytes, self._waiting_bytes = self._waiting_bytes, 0
            if batch and not await self._write(batch):
                self._hold(batch)
                retry = min(RETRY_LAST_SECONDS, retry * 2 or RETRY_FIRST_SECONDS)
            else:
                retry = 0.0
            batch.clear()
            self._writing_bytes = 0
            self._room.set()
            if self._stopping and (retry or not self._waiting):
                break
            if self._waiting or self._stopping:
                self._arrived.set()
        self._thread.shutdown()

    async def _write(self, batch: list[Scraped]) -> bool:
        metadata = [
            item for scraped in batch for item in scraped.metadata if item not in self._known_metadata
        ]
        appends = [append for scraped in batch for append in scraped.appends]
        # One row a source: of several reports in a batch the newest counts.
        reports = {
            (item.report.kind, item.report.pool, item.report.instance, item.report.url): item.report
            for item in batch
            if item.report is not None
        }
        loop = asyncio.get_running_loop()
        try:
            await loop.run_in_executor(
                self._thread, self._store.write, appends, list(reports.values()), metadata
            )
        except WriteRefused as error:
            log.error("samples are kept in memory: %s", error)
            return False
        self._known_metadata.update(metadata)
        self.commits += 1
        return True

    def _hold(self, batch: list[Scraped]) -> None:
        self._waiting = [*batch, *self._waiting]
        sizes = [scraped.size_bytes() for scraped in self._waiting]
        self._waiting_bytes = sum(sizes)
        if self._waiting_bytes <= self._held_bytes:
            return
        # Everything goes: what stays would be rows of orders whose beginning was dropped.
        gone, self._waiting, self._waiting_bytes = self._waiting, [], 0
        self.dropped += len(gone)
        log.error("dropped %d scrapes: the store refused them for too long; see the errors above", len(gone))
        for scraped in gone:
            if scraped.lost is not None:
                scraped.lost()

    async def in_writer(self, work: Callable[[], object]) -> object:
        """Run other work on the store between commits and give its result; a StoreError is logged."""
        try:
            return await asyncio.get_running_loop().run_in_executor(self._thread, work)
        except StoreError as error:
            log.error("%s", error)
            return None
