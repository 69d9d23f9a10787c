"""The layer pages in a browser: themed lines, deep links, and nothing that leaves the page or the window."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from db.store import SampleStore
from tests.browser.conftest import now_ms
from tests.browser.pages import opened, picture, tile
from tests.browser.server import WebServer, web_server
from tests.stores import Box, Target, gpu_samples, report

pytestmark = [pytest.mark.browser, pytest.mark.slow]

PAGES = ("client", "application", "model", "infrastructure")
HOSTILE = "<img src=x onerror=\"document.title='owned'\">**x** :red[y] [z](http://evil.example)"


@pytest.fixture(scope="module")
def server(data: Path) -> Iterator[WebServer]:
    """Fifteen minutes of one box with two GPUs and a vLLM server; a node with a hostile name."""
    store = SampleStore.open(data / "samples.db")
    end = now_ms() // 1000 * 1000
    Box(store).fill(end - 900_000, end, 15_000)
    odd = Target("dcgm", "odd:9400")
    for at_ms in (end - 15_000, end):
        store.write([odd.append(at_ms, gpu_samples(0, 2, host=HOSTILE))])
    store.write([], [report("dcgm", "odd:9400", end)])
    store.close()
    with web_server(data) as running:
        yield running


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("name", PAGES)
def test_a_page_is_drawn_in_both_themes(browser: Browser, server: WebServer, name: str, scheme: str):
    with opened(browser, f"{server.url}/{name}", scheme=scheme) as (page, _):
        expect(page.get_by_test_id("stMetric").first).to_be_visible()
        expect(page.get_by_test_id("stException")).to_have_count(0)
        if name in ("application", "infrastructure"):
            line = page.locator(".scatterlayer path.js-line").first
            expect(line).to_be_attached()
            # Streamlit's client has put the theme's colour where the figure names a placeholder.
            stroke = line.evaluate("path => getComputedStyle(path).stroke")
            assert stroke == {"light": "rgb(36, 87, 197)", "dark": "rgb(123, 165, 245)"}[scheme]
        page.wait_for_timeout(1_500)
        picture(page, f"{name}-{scheme}")


@pytest.mark.parametrize("name", PAGES)
def test_a_phone_scrolls_only_downwards(browser: Browser, server: WebServer, name: str):
    with opened(browser, f"{server.url}/{name}", width=390) as (page, _):
        expect(page.get_by_test_id("stMetric").first).to_be_visible()
        page.wait_for_timeout(3_000)
        wider = page.evaluate("document.querySelector('[data-testid=stMain]').scrollWidth - innerWidth")
        assert wider <= 0
        picture(page, f"narrow-{name}")


def test_a_link_opens_the_node_and_what_its_heat_map_shows(browser: Browser, server: WebServer):
    link = f"{server.url}/infrastructure?node=box-1&heat=Power&range=5m"
    with opened(browser, link) as (page, _):
        expect(page.get_by_test_id("stMetric").first).to_be_visible()
        expect(page.locator(".heatmaplayer image").first).to_be_attached()
        assert page.get_by_text("2 GPUs", exact=True).count() == 1
        assert "W" in tile(page, "GPU power")


def test_a_chart_has_its_table(browser: Browser, server: WebServer):
    with opened(browser, f"{server.url}/application") as (page, _):
        expect(page.locator(".js-plotly-plot").first).to_be_visible()
        page.get_by_role("button", name="Table").first.click()
        expect(page.get_by_test_id("stPopoverBody").get_by_test_id("stDataFrame")).to_be_visible()


def test_hostile_names_stay_text(browser: Browser, server: WebServer):
    with opened(browser, f"{server.url}/infrastructure") as (page, _):
        expect(page.locator(".heatmaplayer image").first).to_be_attached()
        expect(page.get_by_text("onerror").first).to_be_attached()
        assert page.title() == "Strata"
        assert page.locator("img[src='x']").count() == 0
        assert page.locator("a[href*=evil]").count() == 0
