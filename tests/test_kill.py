"""kill -9 of each process in turn, while scraping: nothing acknowledged is lost, and all of it comes back."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from collectors.target_series import REPORT_METRICS
from db.labels import METRIC_NAME, Labels
from db.nan import is_stale
from db.records import Matcher
from db.store import SampleStore
from tests.browser.conftest import browser
from tests.recording_proxy import RecordingProxy
from tests.running_strata import RunningStrata, prometheus_config, running_strata
from tests.test_first_light import VLLM_PAGES, replayed

__all__ = ["browser"]  # the fixture

pytestmark = [pytest.mark.browser, pytest.mark.slow, pytest.mark.timeout(240)]

KILLED = ("collect", "alert", "web", "maintain")
SCRAPES_BEFORE_A_KILL = 5

Stored = dict[Labels, dict[int, int]]


@pytest.fixture
def strata(tmp_path: Path) -> Iterator[RunningStrata]:
    with RecordingProxy(replayed(sorted(VLLM_PAGES.glob("*.prom")))) as proxy:
        config = prometheus_config(tmp_path, {"vllm": [proxy.address]}, "1s")
        options = ("--prometheus-config", str(config), "--no-discover")
        with running_strata(tmp_path, *options) as running:
            yield running


def stored(store: SampleStore) -> Stored:
    """Every sample, by the bits of its value."""
    return {
        series.labels: dict(
            zip(series.timestamps.tolist(), series.values.view("uint64").tolist(), strict=True)
        )
        for series in store.select([], 0, 2**53)
    }


def lost(before: Stored, after: Stored) -> list[str]:
    return [
        f"{labels} at {at}"
        for labels, samples in before.items()
        for at, bits in samples.items()
        if after.get(labels, {}).get(at) != bits
    ]


def assert_no_half_scrape(store: SampleStore) -> int:
    """Every successful scrape holds as many samples as it says; gives their number."""
    counts: dict[int, int] = {}
    said: dict[int, float] = {}
    for series in store.select([Matcher("job", "=", "vllm")], 0, 2**53):
        name = dict(series.labels)[METRIC_NAME]
        live = series.timestamps[~is_stale(series.values)].tolist()
        if name == "scrape_samples_scraped":
            said = dict(zip(live, series.values.tolist(), strict=True))
        elif name not in REPORT_METRICS:
            for at in live:
                counts[at] = counts.get(at, 0) + 1
    assert said
    assert {at: counts.get(at, 0) for at in said} == said
    return len(said)


def test_each_process_killed_in_turn_loses_nothing_and_comes_back(
    strata: RunningStrata, browser: Browser
) -> None:
    context = browser.new_context()
    page = context.new_page()
    page.goto(strata.url)
    expect(page.get_by_text("Running", exact=True).first).to_be_visible(timeout=30_000)
    with strata.store() as store:
        for name in KILLED:
            scrapes = assert_no_half_scrape(store)
            strata.wait_for(
                lambda seen=scrapes: assert_no_half_scrape(store) >= seen + SCRAPES_BEFORE_A_KILL, "scraping"
            )
            acknowledged = stored(store)
            former = strata.processes()[name]
            assert former.pid is not None
            os.kill(former.pid, signal.SIGKILL)
            strata.wait_for(lambda n=name, pid=former.pid: is_back(strata, n, pid), f"{name} to come back")
            assert lost(acknowledged, stored(store)) == []
            assert_page_works(page)
        scrapes = assert_no_half_scrape(store)
        strata.wait_for(lambda: assert_no_half_scrape(store) > scrapes, "scraping after the last kill")
        assert {item.name: item.restarts for item in strata.processes().values()} == dict.fromkeys(KILLED, 1)
    context.close()
    assert strata.stop() < 5
    assert "Traceback" not in strata.log.read_text()


def is_back(strata: RunningStrata, name: str, former_pid: int) -> bool:
    """Does the new process itself report?"""
    now = strata.processes()[name]
    started = now.started_ms or 0
    beaten = now.beat_ms is not None and now.beat_ms >= started > 0
    return now.state == "running" and now.pid != former_pid and beaten and strata.is_ready()


def assert_page_works(page: Page) -> None:
    """The page that was open all along shows its tiles, and no error."""
    expect(page.get_by_text("Running", exact=True).first).to_be_visible(timeout=30_000)
    expect(page.get_by_test_id("stException")).to_have_count(0)
    expect(page.get_by_text("Connection error")).to_have_count(0, timeout=30_000)
