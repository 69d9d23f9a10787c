"""A disk that fills up while collecting: nothing is lost, the Sources page says so, and it catches up."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import numpy as np
import pytest

from collectors.clock import SystemClock
from collectors.commit import HELD_BYTES, Committer, Scraped
from db.held_samples import Held, HeldFile, read_held
from db.labels import labels_from
from db.records import DenseAppend, SourceReport, named
from db.store import SampleStore
from tests.small_disk import SmallDisk, small_disk
from tests.views.pages import site, words

SERIES = [labels_from({"i": str(number)}, "m") for number in range(300)]


class Clock(SystemClock):
    """The wall clock, on which waiting takes a hundredth of the time."""

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds / 100)


@pytest.fixture(params=["tmpfs", "ext4"])
def disk(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[SmallDisk]:
    with small_disk(tmp_path, request.param, megabytes=24) as mounted:
        yield mounted


class Collecting:
    """The real committer over the real store; one scrape after another."""

    def __init__(self, folder: Path, store: SampleStore, held_bytes: int) -> None:
        self.folder = folder
        self._held = HeldFile(folder)
        self._held.tell(None)
        self.committer = Committer(store, Clock(), held_bytes, self._held.tell)
        self.scrapes = 0
        self._begun = False
        self._order = 0
        self.lost: list[int] = []

    def scrape(self) -> None:
        self.scrapes += 1
        at = self.scrapes
        values = np.full(len(SERIES), float(at))
        append = DenseAppend(f"t#{self._order}", [] if self._begun else SERIES, at, values)
        self._begun = True
        report = SourceReport("scrape", "j", "h", "u", "up", 5.0, last_attempt_ms=at)
        self.committer.submit(Scraped([append], report, (), lambda: self._forget(at)))

    def _forget(self, at: int) -> None:
        self.lost.append(at)
        if self._begun:  # as the scraper does: what comes now begins a new order
            self._begun = False
            self._order += 1

    def told(self) -> Held | None:
        return read_held(self.folder, Clock().now_ms())

    async def until(self, true: Callable[[], object], each: Callable[[], None] = lambda: None) -> None:
        async with asyncio.timeout(60):
            while not true():
                each()
                await asyncio.sleep(0.005)


@asynccontextmanager
async def collecting(folder: Path, store: SampleStore, held_bytes: int) -> AsyncIterator[Collecting]:
    work = Collecting(folder, store, held_bytes)
    running = asyncio.create_task(work.committer.run())
    yield work
    work.committer.stop()
    await running


def stored(store: SampleStore) -> list[int]:
    found = store.select([named("m")], 0, 10**9)
    assert len(found) == len(SERIES)
    assert len({tuple(series.timestamps.tolist()) for series in found}) == 1
    return found[0].timestamps.tolist()


def test_what_a_full_disk_refuses_waits_is_shown_and_is_stored_later(disk: SmallDisk) -> None:
    with site(disk.folder) as pages:
        pages.now_ms = Clock().now_ms()
        pages.book.read()  # as a web process that was started in time

        async def go() -> None:
            async with collecting(disk.folder, pages.store, HELD_BYTES) as work:
                work.scrape()
                await work.until(lambda: work.committer.commits)
                assert work.told() is None
                disk.fill()
                await work.until(work.told, each=work.scrape)
                acknowledged = stored(pages.store)
                for _ in range(200):
                    work.scrape()
                first = work.told()
                await work.until(lambda: work.told().bytes > first.bytes)
                held = work.told()
                assert stored(pages.store)[: len(acknowledged)] == acknowledged
                assert held.since_ms == first.since_ms
                assert held.bound_bytes == HELD_BYTES
                assert held.dropped == 0
                pages.now_ms = Clock().now_ms()
                text = await asyncio.to_thread(lambda: words(pages.page("sources")))
                assert ":red[■] Not stored · since 20" in text
                assert "of at most 256 MiB" in text
                assert f"{disk.folder}/samples.db: the disk is full; free space on it" in text
                disk.free()
                await work.until(lambda: work.told() is None)
                await work.until(lambda: len(stored(pages.store)) == work.scrapes)
                assert stored(pages.store) == list(range(1, work.scrapes + 1))
                assert work.committer.dropped == 0
            pages.now_ms = Clock().now_ms()
            assert "Not stored" not in words(pages.page("sources"))

        asyncio.run(go())


def test_beyond_the_bound_all_that_waits_goes_the_page_counts_it_and_new_scrapes_are_stored(
    disk: SmallDisk,
) -> None:
    with site(disk.folder) as pages:
        pages.book.read()

        async def go() -> None:
            async with collecting(disk.folder, pages.store, 2**20) as work:
                work.scrape()
                await work.until(lambda: work.committer.commits)
                disk.fill()
                await work.until(lambda: work.lost, each=work.scrape)
                acknowledged = stored(pages.store)
                await work.until(lambda: work.told() and work.told().dropped, each=work.scrape)
                pages.now_ms = Clock().now_ms()
                text = await asyncio.to_thread(lambda: words(pages.page("sources")))
                assert "scrapes had to be dropped already" in text
                lost = set(work.lost)
                disk.free()
                await work.until(lambda: work.told() is None, each=work.scrape)
                await work.until(lambda: stored(pages.store)[-1] == work.scrapes)
                lost |= set(work.lost)
                assert set(stored(pages.store)) == set(range(1, work.scrapes + 1)) - lost
                assert not lost & set(acknowledged)

        asyncio.run(go())


def test_a_damaged_file_is_survived_by_collecting(tmp_path: Path) -> None:
    """Nothing can be stored, but what waits is shown, and the process goes on."""
    path = tmp_path / "samples.db"
    store = SampleStore.open(path)
    store.write([DenseAppend("other", SERIES, 1, np.zeros(len(SERIES)))])
    store.close()  # moves everything out of the log
    with site(tmp_path) as pages:
        pages.store.engine.dispose()  # nothing is left in a cache
        with path.open("r+b") as file:
            file.seek(3 * 4096)
            file.write(b"\xa5" * (path.stat().st_size - 3 * 4096))

        async def go() -> None:
            async with collecting(tmp_path, pages.store, HELD_BYTES) as work:
                await work.until(work.told, each=work.scrape)
                assert "is damaged; restore a backup: strata backup restore" in work.told().reason
                pages.now_ms = Clock().now_ms()
                text = await asyncio.to_thread(lambda: words(pages.page("sources")))
                assert "Not stored" in text
                assert "strata backup restore" in text

        asyncio.run(go())
