"""One commit for what comes together; nothing lost or reordered while the store refuses."""

import asyncio
from pathlib import Path

import numpy as np

from collectors.commit import PART_BYTES, Committer, Scraped
from db.errors import StoreError, StoreUnreachable, WriteRefused
from db.held_samples import Held
from db.labels import labels_from
from db.records import DenseAppend, MetricMetadata, SourceReport, named
from db.store import SampleStore
from tests.fakes_clock import FakeClock

UP = labels_from({}, "up")


class RefusingStore:
    """The real store behind a door that is closed for the first writes."""

    def __init__(self, store: SampleStore, refusals: int, refusal: type[StoreError]) -> None:
        self.store = store
        self.refusal = refusal
        self.refusals = refusals
        self.batches: list[int] = []
        self.metadata: list[int] = []

    def write(self, appends, reports, metadata) -> None:
        if self.refusals:
            self.refusals -= 1
            raise self.refusal("samples.db: the disk is full; free space on it")
        self.batches.append(len(appends))
        self.metadata.append(len(metadata))
        self.store.write(appends, reports, metadata)


def scraped(at_ms: int, first: bool = False, state: str = "up", lost=None) -> Scraped:
    append = DenseAppend("t#0", [UP] if first else [], at_ms, np.array([float(at_ms)]))
    report = SourceReport("scrape", "j", "h", "u", state, 5.0, last_attempt_ms=at_ms)
    return Scraped([append], report, [MetricMetadata("up", "gauge", "help", "")], lost)


def run(folder: Path, refusals: int, work, refusal: type[StoreError] = WriteRefused, **options):
    store = SampleStore.open(folder / "samples.db")
    door = RefusingStore(store, refusals, refusal)

    async def go() -> Committer:
        committer = Committer(door, FakeClock(), **options)
        task = asyncio.create_task(committer.run())
        await work(committer)
        committer.stop()
        await task
        return committer

    committer = asyncio.run(go())
    found = store.select([named("up")], 0, 10**9)
    reports = store.sources()
    store.close()
    return committer, door, [] if not found else found[0].timestamps.tolist(), reports


async def settle() -> None:
    await asyncio.sleep(0.05)


def test_what_arrives_together_is_one_commit(tmp_path: Path) -> None:
    async def work(committer: Committer) -> None:
        for at in (1, 2, 3):
            committer.submit(scraped(at, first=at == 1, state="down" if at < 3 else "up"))
        await settle()
        committer.submit(scraped(4))
        await settle()

    committer, door, times, reports = run(tmp_path, 0, work)
    assert times == [1, 2, 3, 4]
    assert door.batches == [3, 1]
    assert committer.commits == 2
    assert (reports[0].state, reports[0].last_attempt_ms) == ("up", 4)


def test_metadata_is_told_once(tmp_path: Path) -> None:
    async def work(committer: Committer) -> None:
        committer.submit(scraped(1, first=True))
        await settle()
        committer.submit(scraped(2))
        await settle()

    _, door, _, _ = run(tmp_path, 0, work)
    assert door.metadata == [1, 0]


def test_a_refused_batch_is_kept_in_order_and_tried_again(tmp_path: Path) -> None:
    async def work(committer: Committer) -> None:
        committer.submit(scraped(1, first=True))
        await settle()
        committer.submit(scraped(2))
        await settle()

    committer, _, times, _ = run(tmp_path, 2, work)
    assert times == [1, 2]
    assert committer.dropped == 0


def test_a_store_that_cannot_be_read_while_it_is_written_costs_nothing_either(tmp_path: Path) -> None:
    async def work(committer: Committer) -> None:
        committer.submit(scraped(1, first=True))
        await settle()

    committer, _, times, _ = run(tmp_path, 2, work, refusal=StoreUnreachable)
    assert times == [1]
    assert committer.dropped == 0


def test_a_stop_commits_what_waits(tmp_path: Path) -> None:
    async def work(committer: Committer) -> None:
        committer.submit(scraped(1, first=True))

    _, _, times, _ = run(tmp_path, 0, work)
    assert times == [1]


def test_past_the_bound_everything_waiting_goes_and_its_sources_are_told(tmp_path: Path) -> None:
    lost = []

    async def work(committer: Committer) -> None:
        committer.submit(scraped(1, first=True, lost=lambda: lost.append(1)))
        committer.submit(scraped(2, lost=lambda: lost.append(2)))
        await settle()

    committer, _, times, _ = run(tmp_path, 10**6, work, held_bytes=100)
    assert times == []
    assert lost == [1, 2]
    assert committer.dropped == 2


def test_first_pages_wait_while_the_store_is_behind(tmp_path: Path) -> None:
    order: list[str] = []

    async def work(committer: Committer) -> None:
        big = DenseAppend(
            "big#0", [labels_from({"i": str(i)}, "m") for i in range(8_000)], 1, np.zeros(8_000)
        )
        committer.submit(Scraped([big], None))

        async def page() -> None:
            await committer.room()
            order.append(f"room after {committer.commits}")

        await asyncio.wait_for(page(), 20)

    run(tmp_path, 0, work)
    assert order == ["room after 1"]


class SmallStore:
    """Takes so many writes; then there is no space."""

    def __init__(self, room: int) -> None:
        self.room = room
        self.batches: list[int] = []

    def write(self, appends, reports, metadata) -> None:
        if not self.room:
            raise WriteRefused("samples.db: the disk is full; free space on it")
        self.room -= 1
        self.batches.append(len(appends))


def test_much_that_waited_is_caught_up_in_parts_so_that_a_little_space_stores_some() -> None:
    store = SmallStore(room=3)
    values = np.zeros(PART_BYTES // 8)  # one such scrape is a part

    async def go() -> None:
        committer = Committer(store, FakeClock())
        for at in range(1, 6):
            committer.submit(Scraped([DenseAppend("t#0", [], at, values)], None))
        task = asyncio.create_task(committer.run())
        await settle()
        assert store.batches == [1, 1, 1]
        store.room = 10
        await settle()
        committer.stop()
        await task

    asyncio.run(go())
    assert store.batches == [1, 1, 1, 1, 1]


def test_what_waits_is_told_at_every_try_and_that_nothing_does_once_it_is_stored(tmp_path: Path) -> None:
    told: list[Held | None] = []

    async def work(committer: Committer) -> None:
        committer.submit(scraped(1, first=True))
        await settle()

    run(tmp_path, 2, work, tell=told.append)
    first, second, last = told
    assert (first.reason, first.dropped) == ("samples.db: the disk is full; free space on it", 0)
    assert first.bytes == second.bytes > 0
    assert first.since_ms == first.told_ms == second.since_ms < second.told_ms
    assert last is None


def test_what_was_dropped_is_told_until_something_is_stored_again(tmp_path: Path) -> None:
    told: list[Held | None] = []

    async def work(committer: Committer) -> None:
        committer.submit(scraped(1, first=True))
        committer.submit(scraped(2))
        await settle()

    run(tmp_path, 1, work, held_bytes=100, tell=told.append)
    assert [(held.bytes, held.dropped) for held in told if held] == [(0, 2)]


def test_that_it_cannot_be_told_costs_nothing_else(tmp_path: Path) -> None:
    def full(held: Held | None) -> None:
        raise WriteRefused("held.status: cannot be written")

    async def work(committer: Committer) -> None:
        committer.submit(scraped(1, first=True))
        await settle()

    _, _, times, _ = run(tmp_path, 2, work, tell=full)
    assert times == [1]


def test_a_process_that_ends_no_longer_holds_anything(tmp_path: Path, caplog) -> None:
    told: list[Held | None] = []

    async def work(committer: Committer) -> None:
        committer.submit(scraped(1, first=True))
        await settle()

    run(tmp_path, 10**6, work, tell=told.append)
    assert told[-1] is None
    assert "1 scrapes that waited in memory end with this process" in caplog.text
