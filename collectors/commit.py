"""Groups what finishes within 200 ms into one durable commit, and keeps it when the store refuses.

An append that is waiting here is not acknowledged. What the store refuses stays in order and is tried
again, and the pages are told of it; past a stated bound all of it is dropped and its targets begin new
orders, said in the log. What the store can never take is found and left out, so that it costs its own
source only.
"""

import asyncio
import logging
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from typing import Protocol

from collectors.clock import Clock
from db.errors import StoreError, StoreUnreachable, WriteRefused
from db.held_samples import Held
from db.records import DenseAppend, MetricMetadata, SourceReport, SparseAppend
from db.sources import SourceKey, source_key

log = logging.getLogger(__name__)

GROUP_SECONDS = 0.2
RETRY_FIRST_SECONDS = 0.5
RETRY_LAST_SECONDS = 10.0
# What may wait in memory while the store refuses: about a day of one box, minutes of a large cluster.
HELD_BYTES = 256 * 1024 * 1024
# What is caught up in one transaction: where little space came back, a part is better than nothing.
PART_BYTES = 8 * 1024 * 1024
# Above this a page whose series are all new waits before it is read.
ROOM_BYTES = 8 * 1024 * 1024
_SERIES_BYTES = 1_200  # measured: the labels of a new DCGM series as tuples of strings
# A page whose HELP changes at every scrape must not fill the memory; forgetting costs a few known rows.
_METADATA_KNOWN = 50_000


class SampleWriter(Protocol):
    """Where samples go: a `db.store.SampleStore` or a `db.queued_store.QueuedStore`."""

    def write(
        self,
        appends: Sequence[DenseAppend | SparseAppend],
        reports: Sequence[SourceReport] = ...,
        metadata: Sequence[MetricMetadata] = ...,
    ) -> None: ...

    def retain_sources(self, keys: Collection[SourceKey]) -> None: ...


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

    def __init__(
        self,
        store: SampleWriter,
        clock: Clock,
        held_bytes: int = HELD_BYTES,
        tell: Callable[[Held | None], None] | None = None,
    ) -> None:
        """tell: what waits because the store refused it, None once nothing does; may raise a StoreError."""
        self._store = store
        self._clock = clock
        self._held_bytes = held_bytes
        self._tell = tell or (lambda _held: None)
        self._held: Held | None = None
        self._dropped_held = 0
        self._refusal = ""
        self._waiting: list[Scraped] = []
        self._waiting_bytes = 0
        self._writing_bytes = 0
        self._room = asyncio.Event()
        self._arrived = asyncio.Event()
        self._stop = asyncio.Event()
        self._sources: frozenset[SourceKey] | None = None
        self._sources_due = False
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
        self._stop.set()
        self._arrived.set()

    async def retain_sources(self, keys: Collection[SourceKey]) -> None:
        """These are all sources there are: forget the others' reports, those that still wait here, too."""
        self._sources = frozenset(keys)
        await self._retain_sources()

    async def run(self) -> None:
        """Commit until stopped. On a stop the last attempt is made without waiting."""
        retry = 0.0
        while True:
            await self._arrived.wait()
            await self._pause(retry)
            self._arrived.clear()
            batch, self._waiting = self._waiting, []
            self._writing_bytes, self._waiting_bytes = self._waiting_bytes, 0
            if refused := await self._write_parts(batch):
                self._hold(refused)
                await self._tell_held()
                retry = min(RETRY_LAST_SECONDS, retry * 2 or RETRY_FIRST_SECONDS)
            else:
                retry = 0.0
                if batch:  # an empty one says nothing about the store: all that waited was dropped
                    await self._tell_nothing_held()
                if self._sources_due:
                    await self._retain_sources()
            del batch, refused
            self._writing_bytes = 0
            self._room.set()
            if self._stop.is_set() and (retry or not self._waiting):
                await self._end()
                break
            if self._waiting or self._stop.is_set():
                self._arrived.set()
        self._thread.shutdown()

    async def _end(self) -> None:
        if self._waiting:
            log.error("%d scrapes that waited in memory end with this process", len(self._waiting))
        if self._held is not None:
            await self.in_writer(partial(self._tell, None))

    async def _pause(self, retry: float) -> None:
        """Wait for what comes together, or for the next try; that one not past a stop."""
        if self._stop.is_set():
            return
        if not retry:
            await self._clock.sleep(GROUP_SECONDS)
            return
        stopped = asyncio.ensure_future(self._stop.wait())
        slept = asyncio.ensure_future(self._clock.sleep(retry))
        await asyncio.wait((stopped, slept), return_when=asyncio.FIRST_COMPLETED)
        stopped.cancel()
        slept.cancel()

    async def _write_parts(self, batch: Sequence[Scraped]) -> Sequence[Scraped]:
        """Commit the batch, a large one in several transactions. Gives what the store refused, as _write."""
        first, size = 0, 0
        for index, scraped in enumerate(batch):
            size += scraped.size_bytes()
            if size >= PART_BYTES:
                if refused := await self._write(batch[first : index + 1]):
                    return [*refused, *batch[index + 1 :]]
                first, size = index + 1, 0
        return await self._write(batch[first:])

    async def _write(self, batch: Sequence[Scraped]) -> Sequence[Scraped]:
        """Commit the batch. Gives what the store refused and may take later: the end of the batch, or
        nothing."""
        if not batch:
            return ()
        try:
            await self._commit(batch)
        except (WriteRefused, StoreUnreachable) as error:
            log.error("samples are kept in memory: %s", error)
            self._refusal = str(error)
            return batch
        except Exception as error:  # noqa: BLE001 - one source's unfit samples must not cost the others theirs
            if len(batch) == 1:
                return await self._leave_out(batch[0], error)
            middle = len(batch) // 2
            refused = await self._write(batch[:middle])
            return [*refused, *batch[middle:]] if refused else await self._write(batch[middle:])
        return ()

    async def _leave_out(self, scraped: Scraped, error: Exception) -> Sequence[Scraped]:
        """Give up on what can never be stored, and say so where its samples would be missed."""
        reason = f"its samples cannot be stored: {type(error).__name__}: {error}"[:300]
        log.error("%s", reason, extra={"source": ascii(scraped.report and source_key(scraped.report))})
        self.dropped += 1
        if scraped.lost is not None:
            scraped.lost()
        if scraped.report is None or not (scraped.appends or scraped.metadata):
            return ()
        reason = reason.encode(errors="replace").decode()
        return await self._write([Scraped((), replace(scraped.report, state="down", error=reason))])

    async def _commit(self, batch: Sequence[Scraped]) -> None:
        metadata = [
            item for scraped in batch for item in scraped.metadata if item not in self._known_metadata
        ]
        appends = [append for scraped in batch for append in scraped.appends]
        # One row a source: of several reports in a batch the newest counts.
        reports = {source_key(item.report): item.report for item in batch if item.report is not None}
        if self._sources is not None:
            reports = {key: report for key, report in reports.items() if key in self._sources}
        loop = asyncio.get_running_loop()
        await loop.run_in_executor(self._thread, self._store.write, appends, list(reports.values()), metadata)
        if len(self._known_metadata) > _METADATA_KNOWN:
            self._known_metadata.clear()
        self._known_metadata.update(metadata)
        self.commits += 1

    async def _retain_sources(self) -> None:
        keys = self._sources or frozenset()
        self._sources_due = not await self.in_writer(partial(self._retained, keys))

    def _retained(self, keys: Collection[SourceKey]) -> bool:
        self._store.retain_sources(keys)
        return True

    def _hold(self, batch: Sequence[Scraped]) -> None:
        self._waiting = [*batch, *self._waiting]
        sizes = [scraped.size_bytes() for scraped in self._waiting]
        self._waiting_bytes = sum(sizes)
        if self._waiting_bytes <= self._held_bytes:
            return
        # Everything goes: what stays would be rows of orders whose beginning was dropped.
        gone, self._waiting, self._waiting_bytes = self._waiting, [], 0
        self.dropped += len(gone)
        self._dropped_held += len(gone)
        log.error("dropped %d scrapes: the store refused them for too long; see the errors above", len(gone))
        for scraped in gone:
            if scraped.lost is not None:
                scraped.lost()

    async def _tell_held(self) -> None:
        now_ms = self._clock.now_ms()
        since_ms = now_ms if self._held is None else self._held.since_ms
        self._held = Held(
            since_ms, now_ms, self._waiting_bytes, self._held_bytes, self._dropped_held, self._refusal
        )
        await self.in_writer(partial(self._tell, self._held))

    async def _tell_nothing_held(self) -> None:
        if self._held is not None:
            log.info("the store takes samples again; what waited in memory is stored")
            self._held, self._dropped_held = None, 0
            await self.in_writer(partial(self._tell, None))

    async def in_writer(self, work: Callable[[], object]) -> object:
        """Run other work on the store between commits and give its result; a StoreError is logged."""
        try:
            return await asyncio.get_running_loop().run_in_executor(self._thread, work)
        except StoreError as error:
            log.error("%s", error)
            return None
