"""The simulated cluster over HTTP: found by http_sd, scraped by the real scraper, and not to be changed."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from collectors.demo_server import ClusterPages, ClusterServer
from collectors.discovery import TargetSet
from collectors.fetch import FetchError, FetchOptions, fetch, new_session
from db.scrape_settings import GlobalConfig, HttpSdConfig, ScrapeConfig
from tests.collectors.demo_clusters import START, quiet

OPTIONS = FetchOptions(protocols=("PrometheusText0.0.4",))


class Cluster:
    """A served simulation; `now` is its clock."""

    def __init__(self, *faults: str, spread: bool = False) -> None:
        self.now = START
        simulation = quiet(8, *faults)
        self.server = ClusterServer(ClusterPages(simulation, lambda: self.now), spread=spread)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server.port}"

    async def ask(self, text: str) -> bytes:
        """The raw answer to these bytes, up to the end of the connection."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.server.port)
        writer.write(text.encode("latin-1"))
        answer = await reader.read()
        writer.close()
        return answer


def served(check: Callable[[Cluster], Awaitable[None]], *faults: str, spread: bool = False) -> None:
    @asynccontextmanager
    async def running() -> AsyncIterator[Cluster]:
        cluster = Cluster(*faults, spread=spread)
        await cluster.server.start()
        try:
            yield cluster
        finally:
            cluster.server.close()

    async def run() -> None:
        async with running() as cluster:
            await check(cluster)

    asyncio.run(run())


def job(cluster: Cluster, kind: str = "") -> ScrapeConfig:
    url = f"{cluster.url}/targets/{kind}" if kind else f"{cluster.url}/targets"
    config = ScrapeConfig(job_name="demo", http_sd_configs=(HttpSdConfig(url=url),))
    return config.resolved(GlobalConfig(scrape_interval=5.0), Path("/"))


@pytest.mark.parametrize("spread", [False, True])
def test_its_targets_are_discovered_with_their_own_names_and_can_be_scraped(spread):
    async def check(cluster: Cluster) -> None:
        async with new_session() as session:
            found = TargetSet([job(cluster)], session)
            await found.refresh()
            assert found.errors() == []
            jobs = {target.instance: dict(target.labels)["job"] for target in found.targets()}
            assert jobs == {
                "node1:9400": "dcgm-exporter",
                "node1:9100": "node-exporter",
                **{f"node1:{port}": "vllm" for port in range(8000, 8006)},
            }
            hosts = {target.url.split("/")[2] for target in found.targets()}
            assert len(hosts) == (8 if spread else 1)
            for target in found.targets():
                page = await fetch(session, target.url, OPTIONS, 5.0)
                assert page.body.startswith(b"# HELP ")
                assert page.framed

    served(check, spread=spread)


def test_each_kind_has_a_list_of_its_own():
    async def check(cluster: Cluster) -> None:
        async with new_session() as session:
            for kind, count in (("dcgm", 1), ("node", 1), ("vllm", 6)):
                found = TargetSet([job(cluster, kind)], session)
                await found.refresh()
                assert len(found.targets()) == count

    served(check)


def test_the_page_follows_the_clock():
    async def check(cluster: Cluster) -> None:
        async with new_session() as session:
            url = f"{cluster.url}/vllm/node1:8000/metrics"
            first = (await fetch(session, url, OPTIONS, 5.0)).body
            assert (await fetch(session, url, OPTIONS, 5.0)).body == first
            cluster.now += 5
            assert (await fetch(session, url, OPTIONS, 5.0)).body != first

    served(check)


def test_a_dying_target_is_a_failed_scrape_each_in_its_way():
    async def check(cluster: Cluster) -> None:
        async with new_session() as session:
            url = f"{cluster.url}/dcgm/node1:9400/metrics"
            said = []
            for second in (15, 60, 100):
                cluster.now = START + second
                try:
                    said.append((await fetch(session, url, OPTIONS, 5.0)).body[:6].decode())
                except FetchError as error:
                    said.append(str(error))
            assert said == [
                "the connection broke before the page was complete",
                "closed the connection without an answer",
                "# HELP",
            ]

    served(check, "dying@0s+90s:node1")


@pytest.mark.parametrize(
    ("request_line", "status"),
    [
        ("POST /dcgm/node1:9400/metrics HTTP/1.1", b"405 Method Not Allowed"),
        ("PUT /targets HTTP/1.1", b"405 Method Not Allowed"),
        ("GET / HTTP/1.1", b"404 Not Found"),
        ("GET /targets/gpus HTTP/1.1", b"404 Not Found"),
        ("GET /dcgm/../../etc/passwd HTTP/1.1", b"404 Not Found"),
        ("GET /dcgm/node1:9400/metrics\xff HTTP/1.1", b"404 Not Found"),
        ("nonsense", b"405 Method Not Allowed"),
    ],
)
def test_it_answers_nothing_else(request_line, status):
    async def check(cluster: Cluster) -> None:
        async def ask() -> bytes:
            reader, writer = await asyncio.open_connection("127.0.0.1", cluster.server.port)
            writer.write(f"{request_line}\r\nHost: x\r\n\r\n".encode("latin-1"))
            head = await reader.readuntil(b"\r\n\r\n")
            writer.close()
            return head

        assert (await ask()).startswith(b"HTTP/1.1 " + status)

    served(check)


def test_a_request_without_end_is_cut_off():
    async def check(cluster: Cluster) -> None:
        assert await cluster.ask("GET /targets HTTP/1.1\r\n" + "x" * 100_000) == b""

    served(check)


def test_requests_that_come_together_are_answered_in_order():
    async def check(cluster: Cluster) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", cluster.server.port)
        writer.write(b"GET /targets/dcgm HTTP/1.1\r\n\r\nGET /targets/node HTTP/1.1\r\n\r\nGET /x H")
        for instance in ("node1:9400", "node1:9100"):
            head = await reader.readuntil(b"\r\n\r\n")
            length = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
            (group,) = json.loads(await reader.readexactly(length))
            assert group["labels"]["instance"] == instance
        writer.write(b"TTP/1.1\r\n\r\n")
        assert b"404" in await reader.readuntil(b"\r\n\r\n")
        writer.close()

    served(check)


def test_it_is_heard_on_the_loopback_alone():
    async def check(cluster: Cluster) -> None:
        for server in cluster.server._servers:
            assert {sock.getsockname()[0] for sock in server.sockets} == {"127.0.0.1"}

    served(check)
