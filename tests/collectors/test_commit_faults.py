"""What cannot be stored costs its own source only; stops and forgotten sources do not wait."""

import asyncio
from pathlib import Path

import numpy as np
import pytest

from collectors.commit import RETRY_FIRST_SECONDS, Committer, Scraped
from db.errors import WriteRefused
from db.labels import labels_from
from db.records import DenseAppend, SourceReport, named
from db.sources import source_key
from db.store import SampleStore
from tests.fakes_clock import FakeClock


@pytest.fixture
def store(tmp_path: Path):
    opened = SampleStore.open(tmp_path / "samples.db")
    yield opened
    opened.close()


def report(pool: str) -> SourceReport:
    return SourceReport("scrape", pool, "h", "u", "up", 5.0)


def scraped(pool: str, value: str, lost=None) -> Scraped:
    append = DenseAppend(pool, [labels_from({"pool": pool, "value": value}, "m")], 1, np.array([1.0]))
    return Scraped([append], report(pool), (), lost)


def commit(store, *items: Scraped) -> Committer:
    async def go() -> Committer:
        committer = Committer(store, FakeClock())
        for item in items:
            committer.submit(item)
        committer.stop()
        await committer.run()
        return committer

    return asyncio.run(go())


@pytest.mark.parametrize("place", range(5))
def test_one_source_that_cannot_be_stored_leaves_the_others_whole(store: SampleStore, place: int) -> None:
    lost = []
    items = [scraped(f"p{number}", "fine") for number in range(5)]
    items[place] = scraped(f"p{place}", "\udce4", lambda: lost.append(place))
    committer = commit(store, *items)
    found = {dict(series.labels)["pool"] for series in store.select([named("m")], 0, 9)}
    assert found == {f"p{number}" for number in range(5)} - {f"p{place}"}
    assert (lost, committer.dropped) == ([place], 1)
    states = {item.pool: (item.state, item.error) for item in store.sources()}
    assert states.pop(f"p{place}") == (
        "down",
        "its samples cannot be stored: Unstorable: str is not valid UTF-8: surrogates not allowed",
    )
    assert set(states.values()) == {("up", "")}


def test_a_report_that_cannot_be_stored_ends_nothing(store: SampleStore) -> None:
    commit(store, scraped("\udce4", "fine"), scraped("b", "fine"))
    assert [item.pool for item in store.sources()] == ["b"]


class FullDisk:
    """Takes the first `writes` writes, then none."""

    def __init__(self, store: SampleStore, writes: int) -> None:
        self._store = store
        self._writes = writes

    def write(self, appends, reports, metadata) -> None:
        self._writes -= 1
        if self._writes < 0:
            raise WriteRefused("the disk is full; free space on it")
        self._store.write(appends, reports, metadata)


def test_what_was_committed_before_the_disk_was_full_is_not_written_again(store: SampleStore) -> None:
    """The batch is split for the unfit one; the disk fills up between its parts."""
    items = [scraped(f"p{number}", "fine") for number in range(4)] + [scraped("bad", "\udce4")]

    async def go() -> Committer:
        # whole (unfit), first half, then: refused once, and taken again
        disk = FullDisk(store, 2)
        committer = Committer(disk, FakeClock())
        for item in items:
            committer.submit(item)
        running = asyncio.create_task(committer.run())
        while disk._writes >= 0:
            await asyncio.sleep(0)
        disk._writes = 1_000
        for _ in range(200):
            await asyncio.sleep(0.001)
        committer.stop()
        await running
        return committer

    committer = asyncio.run(go())
    found = [dict(series.labels)["pool"] for series in store.select([named("m")], 0, 9)]
    assert found == ["p0", "p1", "p2", "p3"]
    assert committer.dropped == 1


class NextTryNeverComes(FakeClock):
    """Time stands still for who sleeps until the second try."""

    def __init__(self) -> None:
        super().__init__()
        self.reached = asyncio.Event()

    async def sleep(self, seconds: float) -> None:
        if seconds > RETRY_FIRST_SECONDS:
            self.reached.set()
            await asyncio.Event().wait()
        await super().sleep(seconds)


def test_a_stop_does_not_wait_for_the_next_try() -> None:
    async def go() -> Committer:
        clock = NextTryNeverComes()
        committer = Committer(FullDisk(None, 0), clock)
        running = asyncio.create_task(committer.run())
        committer.submit(scraped("a", "fine"))
        await clock.reached.wait()
        committer.stop()
        await asyncio.wait_for(running, 60)
        return committer

    assert asyncio.run(go()).commits == 0


def test_a_report_that_still_waits_does_not_bring_a_forgotten_source_back(store: SampleStore) -> None:
    async def go() -> None:
        committer = Committer(store, FakeClock())
        committer.submit(scraped("gone", "fine"))
        committer.submit(scraped("stays", "fine"))
        await committer.retain_sources([source_key(report("stays"))])
        committer.stop()
        await committer.run()

    asyncio.run(go())
    assert [item.pool for item in store.sources()] == ["stays"]
    assert len(store.select([named("m")], 0, 9)) == 2  # its samples are kept


def test_forgetting_is_tried_again_when_the_store_refused_it(store: SampleStore) -> None:
    class Refusing:
        refusals = 1

        def write(self, *what) -> None:
            store.write(*what)

        def retain_sources(self, keys) -> None:
            self.refusals -= 1
            if self.refusals >= 0:
                raise WriteRefused("locked")
            store.retain_sources(keys)

    commit(store, scraped("gone", "fine"))

    async def go() -> None:
        committer = Committer(Refusing(), FakeClock())
        await committer.retain_sources([source_key(report("stays"))])
        committer.submit(scraped("stays", "fine"))
        committer.stop()
        await committer.run()

    asyncio.run(go())
    assert [item.pool for item in store.sources()] == ["stays"]
