"""Scraping over a real network: hostile targets cost their own scrape only, each with a reason."""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from collectors.clock import SystemClock
from collectors.commit import Scraped
from collectors.exposed import Exposed
from collectors.fetch import new_session
from collectors.scrape import ScrapeJob, ScrapeWorld, TargetScraper
from collectors.targets import Target
from db.labels import labels_from
from db.records import DenseAppend
from db.scrape_settings import GlobalConfig, ScrapeConfig
from tests.hostile_targets import HostileTargets, sends


async def _room() -> None:
    """There always is."""


@asynccontextmanager
async def world():
    submitted: list[Scraped] = []
    threads = ThreadPoolExecutor(1)
    async with new_session() as session:
        yield ScrapeWorld(session, SystemClock(), submitted.append, _room, Exposed(), threads), submitted
    threads.shutdown(wait=False)


def scraper(made: ScrapeWorld, url: str, *, timeout: float = 1.0, **config) -> TargetScraper:
    resolved = ScrapeConfig(job_name="j", **config).resolved(GlobalConfig(), Path("/"))
    labels = labels_from({"job": "j", "instance": "h:1"})
    target = Target("j", url, labels, labels, 5.0, timeout, resolved)
    return TargetScraper(target, ScrapeJob.of(resolved), made)


def scrape(name: str, **config):
    """(report, appends, request headers) of one scrape of a hostile target."""

    async def run():
        async with HostileTargets() as hostile, world() as (made, submitted):
            one = scraper(made, hostile.url(name), **config)
            await one.attempt()
            return one.report, submitted[-1].appends, hostile.headers.get(name, "")

    return asyncio.run(run())


@pytest.mark.parametrize("name", ["good", "gzip", "chunked"])
def test_a_page_arrives_however_it_is_packed(name: str) -> None:
    report, appends, _ = scrape(name)
    assert (report.state, report.samples, report.error) == ("up", 50, "")
    assert appends[0].values[0] == 1.0
    assert np.array_equal(np.sort(appends[0].values[5:]), np.arange(50.0))


REASONS = {
    "hangs": "did not answer within 1 s",
    "hangs in the body": "did not answer within 1 s",
    "resets": "closed the connection without an answer|broke before",
    "500": "answered HTTP 500 Internal Server Error",
    "200 MB": "larger than 65536 KiB; raise body_size_limit",
    "gzip bomb": "larger than 65536 KiB; raise body_size_limit",
    "broken gzip": "sent gzip that cannot be unpacked",
    "cut gzip": "sent gzip that ends too early",
    "brotli": "Content-Encoding 'br'; only gzip was offered",
    "binary": "line 2: not UTF-8",
    "half line": "line 52: the page ends in the middle of a line",
    "half page": "broke before the page was complete",
    "html": "line 1: ",
    "malformed at 4000": "line 4000: ",
    "not http": "did not speak HTTP",
    "redirects in a circle": "redirects in a circle",
    "endless header": "did not speak HTTP",
}


@pytest.mark.parametrize("name", REASONS)
def test_a_hostile_target_is_down_with_its_reason(name: str) -> None:
    import re

    report, appends, _ = scrape(name, timeout=10.0 if "MB" in name or "bomb" in name else 1.0)
    assert report.state == "down"
    assert re.search(REASONS[name], report.error), report.error
    assert report.error.isprintable()
    assert len(report.error) < 400
    (append,) = appends
    assert append.values[0] == 0.0  # up
    assert len(append.values) == 5  # nothing of a refused page is kept


def test_a_closed_port_is_one_sentence() -> None:
    async def run():
        async with world() as (made, _):
            one = scraper(made, "http://127.0.0.1:1/metrics")
            await one.attempt()
            return one.report

    assert asyncio.run(run()).error == "no connection: Connection refused"


def test_prometheus_is_asked_for_in_its_own_words() -> None:
    _, _, headers = scrape("good")
    assert "application/openmetrics-text;version=1.0.0;q=0.5" in headers
    assert "text/plain;version=0.0.4;q=0.2" in headers
    assert "X-Prometheus-Scrape-Timeout-Seconds: 1" in headers
    assert "Accept-Encoding: gzip" in headers


def test_secrets_come_from_files_and_a_missing_file_is_named(tmp_path: Path) -> None:
    secret = tmp_path / "token"
    secret.write_text("s3cret\n")
    _, _, headers = scrape("good", authorization={"credentials_file": str(secret)})
    assert "Authorization: Bearer s3cret" in headers
    _, _, headers = scrape("good", basic_auth={"username": "me", "password": "pä:ss"})
    assert "Authorization: Basic bWU6cMOkOnNz" in headers
    report, _, headers = scrape("good", authorization={"credentials_file": str(tmp_path / "none")})
    assert headers == ""
    assert "secret file" in report.error
    assert "none" in report.error


def test_a_body_size_limit_of_the_job_counts() -> None:
    report, _, _ = scrape("good", body_size_limit="1KB")
    assert report.error == "" or "larger than 1 KiB" in report.error
    report, _, _ = scrape("good", body_size_limit="100B")
    assert "body_size_limit" in report.error


def test_a_target_that_comes_back_is_up_again() -> None:
    async def run():
        async with HostileTargets() as hostile, world() as (made, submitted):
            one = scraper(made, hostile.url("good"))
            await one.attempt()
            first = one.report.last_success_ms
            good, one.target = (
                one.target,
                type(one.target)("j", hostile.url("500"), one.target.labels, (), 5.0, 1.0, one.target.config),
            )
            await one.attempt()
            down = one.report
            one.target = good
            await one.attempt()
            return first, down, one.report, submitted

    first, down, up, submitted = asyncio.run(run())
    assert (down.state, down.last_success_ms) == ("down", first)
    assert (up.state, up.error) == ("up", "")
    assert up.last_success_ms >= first
    # The second success is in the same order: no series is announced again.
    assert submitted[-1].appends[0].new_series == []


def test_a_page_that_only_prometheus_accepts_is_read_with_a_note() -> None:
    """OpenMetrics asks for `# EOF`, unit suffixes and more; Prometheus minds only some of it."""
    page = b"# TYPE a counter\na 1\n# EOF\n"  # a counter's sample without _total
    response = (
        b"HTTP/1.1 200 OK\r\nContent-Type: application/openmetrics-text; version=1.0.0\r\n"
        b"Content-Length: %d\r\n\r\n" % len(page)
    ) + page

    async def run():
        async def handle(reader, writer):
            await reader.readuntil(b"\r\n\r\n")
            await sends(response)(writer)
            writer.close()

        server = await asyncio.start_server(handle, "127.0.0.1", 0)
        async with world() as (made, _):
            one = scraper(made, f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/metrics")
            await one.attempt()
            server.close()
            return one.report

    report = asyncio.run(run())
    assert report.state == "up"
    assert "as Prometheus reads it: line 2" in report.note


@settings(max_examples=25, deadline=None)
@given(st.binary(max_size=300))
def test_no_answer_can_break_the_scraper(answer: bytes) -> None:
    async def run():
        async def handle(reader, writer):
            await reader.readuntil(b"\r\n\r\n")
            await sends(answer)(writer)
            writer.close()

        server = await asyncio.start_server(handle, "127.0.0.1", 0)
        async with world() as (made, submitted):
            one = scraper(made, f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/metrics", timeout=0.2)
            await one.attempt()
            server.close()
            return one.report, submitted

    report, submitted = asyncio.run(run())
    assert report.state in ("up", "down")
    assert isinstance(submitted[0].appends[0], DenseAppend)
