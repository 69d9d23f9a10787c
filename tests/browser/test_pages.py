"""The pages as people see them: in a browser, over the real server and a store with known content."""

import signal
from collections.abc import Iterator
from pathlib import Path
from threading import Event, Thread

import pytest
from playwright.sync_api import Browser, Page, expect

from db.records import named
from db.store import SampleStore
from tests.browser.conftest import now_ms
from tests.browser.pages import opened, picture, tile
from tests.browser.server import WebServer, web_server
from tests.stores import STEP_MS, Box, Target, report, scrape_samples

pytestmark = [pytest.mark.browser, pytest.mark.slow]

HOSTILE = "<img src=x onerror=\"document.title='owned'\">**x** :red[y] [z](http://evil.example)"


class Feeder(Thread):
    """Writes a scrape every STEP_MS, as the collectors do, until told to stop."""

    def __init__(self, box: Box, start_ms: int, next_ms: int) -> None:
        super().__init__(daemon=True)
        self._box, self._start_ms, self._next_ms = box, start_ms, next_ms
        self.ended = Event()

    def run(self) -> None:
        while not self.ended.wait(max(0.0, (self._next_ms - now_ms()) / 1000)):
            self._box.write(self._next_ms, self._start_ms)
            self._next_ms += STEP_MS


@pytest.fixture(scope="module")
def live(data: Path) -> Iterator[WebServer]:
    """Fifteen minutes of one box with two GPUs and a vLLM server, and it goes on."""
    store = SampleStore.open(data / "samples.db")
    box = Box(store)
    end = now_ms() // 1000 * 1000
    start = end - 900_000
    box.fill(start, end)
    odd = Target("odd", HOSTILE)
    store.write(
        [odd.append(end, scrape_samples(0.2, 3))],
        [report("odd", HOSTILE, end, state="down", error=HOSTILE, interval_seconds=86_400.0)],
    )
    feeder = Feeder(box, start, end + STEP_MS)
    feeder.start()
    with web_server(data) as server:
        yield server
    feeder.ended.set()
    feeder.join()
    store.close()


def stored(data: Path, metric: str) -> list[tuple[int, float]]:
    store = SampleStore.open(data / "samples.db")
    try:
        (series,) = (
            one for one in store.select([named(metric)], 0, now_ms()) if ("gpu", "1") not in one.labels
        )
    finally:
        store.close()
    return list(zip(series.timestamps.tolist(), series.values.tolist(), strict=True))


STEADY = {"Memory used": "12.0 GiB", "Running": "17", "Network in": "1.19 MiB/s", "Tokens/s": "1,834"}


def wrong_tiles(page: Page, data: Path) -> dict[str, str]:
    """Tiles that show neither the value that never changes nor one of the last three scrapes."""
    shown = {label: tile(page, label) for label in ("Power", "Temperature", *STEADY)}
    right = {label: {value} for label, value in STEADY.items()}
    right["Power"] = {f"{value:,.0f} W" for _, value in stored(data, "DCGM_FI_DEV_POWER_USAGE")[-3:]}
    right["Temperature"] = {f"{value:,.0f} °C" for _, value in stored(data, "DCGM_FI_DEV_GPU_TEMP")[-3:]}
    return {label: value for label, value in shown.items() if value not in right[label]}


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_tiles_show_what_the_store_holds(browser: Browser, live: WebServer, data: Path, scheme: str):
    with opened(browser, f"{live.url}/?history=true", scheme=scheme) as (page, _):
        expect(page.get_by_test_id("stMetric").first).to_be_visible()
        expect(page.locator(".js-plotly-plot").first).to_be_visible()
        for _ in range(20):
            if not (wrong := wrong_tiles(page, data)):
                break
            page.wait_for_timeout(500)  # on a busy machine a scrape or the page comes late
        assert wrong == {}
        background = page.evaluate("getComputedStyle(document.querySelector('.stApp')).backgroundColor")
        assert background == {"light": "rgb(255, 255, 255)", "dark": "rgb(14, 20, 27)"}[scheme]
        picture(page, f"overview-{scheme}")


def test_the_tiles_move_by_themselves(browser: Browser, live: WebServer):
    with opened(browser, live.url) as (page, _):
        expect(page.get_by_test_id("stMetric").first).to_be_visible()
        before = tile(page, "Power")
        page.wait_for_function(
            "value => ![...document.querySelectorAll('[data-testid=stMetricValue]')]"
            ".some(tile => tile.innerText.trim() === value)",
            arg=before,
        )


def test_paused_stays_paused_and_is_in_the_link(browser: Browser, live: WebServer):
    with opened(browser, live.url) as (page, _):
        expect(page.get_by_test_id("stMetric").first).to_be_visible()
        page.get_by_text("Live", exact=True).last.click()
        expect(page.get_by_text("Paused")).to_be_visible()
        # The run that shows it draws the tiles once more.
        page.locator("[data-test-script-state=notRunning]").wait_for()
        assert "live=false" in page.url
        held = page.get_by_test_id("stMetricValue").all_inner_texts()
        page.wait_for_timeout(2.5 * STEP_MS)
        assert page.get_by_test_id("stMetricValue").all_inner_texts() == held


def test_a_range_and_a_chart_are_in_the_link(browser: Browser, live: WebServer):
    with opened(browser, f"{live.url}/?range=5m") as (page, _):
        expect(page.get_by_test_id("stMetric").first).to_be_visible()
        page.get_by_text("History", exact=True).click()
        page.wait_for_url("**history=true**")
        page.get_by_role("button", name="GPU power", exact=True).or_(
            page.get_by_role("radio", name="GPU power", exact=True)
        ).first.click()
        page.wait_for_url("**chart=GPU+power**")
        assert "range=5m" in page.url


def test_sources_by_a_deep_link(browser: Browser, live: WebServer):
    with opened(browser, f"{live.url}/sources") as (page, _):
        expect(page.get_by_test_id("stDataFrame").first).to_be_visible()
        expect(page.get_by_text("1 of 4 down")).to_be_visible()
        picture(page, "sources-light")
        page.get_by_role("link", name="Overview").click()
        expect(page.get_by_test_id("stMetric").first).to_be_visible()


def test_hostile_labels_stay_text(browser: Browser, live: WebServer):
    for path in ("/", "/sources", "/infrastructure", "/application"):
        with opened(browser, live.url + path) as (page, _):
            expect(page.get_by_text("Live", exact=True).last).to_be_visible()
            if path == "/":
                expect(page.get_by_text("onerror").first).to_be_visible()
            assert page.title() == "Strata"
            assert page.locator("img[src='x']").count() == 0
            assert page.locator("a[href*=evil]").count() == 0


def test_a_narrow_window_scrolls_only_downwards(browser: Browser, live: WebServer):
    for path in ("/", "/sources"):
        with opened(browser, live.url + path, width=420) as (page, _):
            expect(page.get_by_text("Live", exact=True).last).to_be_visible()
            page.wait_for_timeout(1500)
            wider = page.evaluate("document.querySelector('[data-testid=stMain]').scrollWidth - innerWidth")
            assert wider <= 0
            picture(page, f"narrow-{path.strip('/') or 'overview'}")


def test_it_stops_within_two_seconds_with_a_tab_open(browser: Browser, tmp_path: Path):
    data = tmp_path / "data"
    with web_server(data) as server, opened(browser, server.url) as (page, recorder):
        expect(page.get_by_text("nothing has been collected yet")).to_be_visible()
        picture(page, "empty-light")
        recorder.check()
        code, seconds = server.stop(signal.SIGTERM)
        assert code == 0
        assert seconds < 2.0
        page.wait_for_timeout(300)
        recorder.messages.clear()  # the tab rightly complains that the server has gone
        recorder.missing.clear()
