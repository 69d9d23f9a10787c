"""A target that fails, comes back, or goes while its page is being read leaves nothing wrong behind."""

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from pathlib import Path

from collectors.clock import SystemClock
from collectors.commit import Scraped
from collectors.exposed import Exposed
from collectors.fetch import new_session
from collectors.scrape import ScrapeJob, ScrapeWorld, TargetScraper
from collectors.targets import Target
from db.labels import labels_from
from db.nan import is_stale
from db.records import SourceReport
from db.scrape_settings import GlobalConfig, ScrapeConfig
from db.store import SampleStore

GPU = b'DCGM_FI_DEV_GPU_UTIL{gpu="0",UUID="GPU-a"} 1\nnode_uname_info{nodename="me"} 1\n'
BIG = b"".join(b'm{i="%d"} 1\n' % number for number in range(20_000)) + GPU  # read in a thread
TARGET = labels_from({"job": "j", "instance": "h:1"})


async def _room() -> None:
    """There always is."""


class Gate(ThreadPoolExecutor):
    """One page thread that waits before it reads, until the test lets it."""

    def __init__(self) -> None:
        super().__init__(1)
        self.open = threading.Event()

    def submit(self, work, /, *args):
        def wait_and_work():
            self.open.wait(10)
            return work(*args)

        return super().submit(wait_and_work)


class Site:
    """A target whose page is `body`, or an error when that is None."""

    def __init__(self, body: bytes | None = GPU) -> None:
        self.body = body
        self.exposed = Exposed()
        self.threads = Gate()
        self.submitted: list[Scraped] = []

    async def _handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        status, body = (b"200 OK", self.body) if self.body is not None else (b"500 No", b"")
        writer.write(b"HTTP/1.1 %b\r\nConnection: close\r\nContent-Length: %d\r\n\r\n" % (status, len(body)))
        writer.write(body)
        await writer.drain()
        writer.close()

    @asynccontextmanager
    async def scraper(self):
        server = await asyncio.start_server(self._handle, "127.0.0.1", 0)
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/metrics"
        config = ScrapeConfig(job_name="j").resolved(GlobalConfig(), Path("/"))
        target = Target("j", url, TARGET, TARGET, 5.0, 2.0, config)
        async with server, new_session() as session:
            world = ScrapeWorld(
                session, SystemClock(), self.submitted.append, _room, self.exposed, self.threads
            )
            yield TargetScraper(target, ScrapeJob.of(config), world)
        self.threads.open.set()
        self.threads.shutdown()


def test_what_a_target_reports_is_known_again_once_it_is_back() -> None:
    async def go() -> list[tuple[bool, bool]]:
        site = Site()
        known = []
        async with site.scraper() as one:
            for body in (GPU, None, GPU):  # the second page is the very same
                site.body = body
                await one.attempt()
                known.append((site.exposed.gpu_uuids() == {"GPU-a"}, site.exposed.reports_host("me")))
        return known

    assert asyncio.run(go()) == [(True, True), (False, False), (True, True)]


def test_a_target_that_goes_while_its_page_is_read_ends_after_that(tmp_path: Path) -> None:
    async def go() -> Site:
        site = Site(BIG)
        async with site.scraper() as one:
            site.threads.open.set()
            await one.attempt()
            site.threads.open.clear()
            site.body = BIG.replace(b"m{", b"other{")  # every series is new
            task = asyncio.create_task(one.attempt())
            while one._reading is None or one._reading.done():
                await asyncio.sleep(0.01)
            task.cancel()
            one.end()
            assert len(site.submitted) == 1  # not yet: the thread holds the series
            site.threads.open.set()
            while len(site.submitted) < 3:
                await asyncio.sleep(0.01)
        return site

    site = asyncio.run(go())
    assert site.exposed.gpu_uuids() == frozenset()
    assert not site.exposed.reports_host("me")
    store = SampleStore.open(tmp_path / "samples.db")
    store.write([append for scraped in site.submitted for append in scraped.appends])
    ends = [bool(is_stale(series.values[-1:]).all()) for series in store.select([], 0, 2**53)]
    assert ends
    assert all(ends)
    store.close()


def test_the_end_of_the_process_does_not_wait_for_a_page() -> None:
    async def go() -> None:
        site = Site(BIG)
        async with site.scraper() as one:
            task = asyncio.create_task(one.attempt())
            while one._reading is None:
                await asyncio.sleep(0.01)
            task.cancel()
            one.close()
            await asyncio.gather(task, return_exceptions=True)
            assert site.submitted == []

    asyncio.run(go())


def test_a_defect_in_reading_is_the_targets_own_reason(caplog) -> None:
    def broken(*_):
        raise MemoryError("too large")

    async def go() -> list[SourceReport]:
        site = Site()
        reports = []
        async with site.scraper() as one:
            reads, one._read = one._read, broken
            await one.attempt()
            reports.append(one.report)
            one._read = reads
            await one.attempt()
            reports.append(one.report)
        return reports

    first, second = asyncio.run(go())
    assert first.error == "Strata could not read this page: MemoryError: too large"
    assert (second.state, second.error) == ("up", "")


def test_what_was_dropped_is_announced_again() -> None:
    async def go() -> list[Scraped]:
        site = Site(b"# TYPE m gauge\nm 1\n")
        async with site.scraper() as one:
            for _ in range(3):
                await one.attempt()
                if len(site.submitted) == 2:
                    site.submitted[-1].lost()
        return site.submitted

    first, second, third = asyncio.run(go())
    assert [len(item.metadata) for item in (first, second, third)] == [1, 0, 1]
    assert [len(item.appends[0].new_series) for item in (first, second, third)] == [6, 0, 6]
    assert first.appends[0].layout_key != third.appends[0].layout_key


def test_many_threads_may_tell_and_ask_at_once() -> None:
    exposed = Exposed()
    failures: list[Exception] = []

    def work(name: str) -> None:
        from collectors.exposition import PageParser

        order = PageParser().parse(GPU, "text").layout
        try:
            for number in range(2_000):
                exposed.update((name, number % 300), order)
                exposed.reports_host("me")
                exposed.forget((name, (number * 7) % 300))
        except RuntimeError as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(name,)) for name in "abc"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    for name in "abc":
        for number in range(300):
            exposed.forget((name, number))
    assert (exposed.gpu_uuids(), exposed._by_target) == (frozenset(), {})
