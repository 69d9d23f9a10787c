"""The first minute of a new user: the page is open before there is anything to show, and fills by itself."""

from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from db.store import SampleStore
from tests.browser.conftest import now_ms
from tests.browser.pages import opened, tile
from tests.browser.server import web_server
from tests.stores import Box

pytestmark = [pytest.mark.browser, pytest.mark.slow]


def fill(path: Path) -> None:
    store = SampleStore.open(path)
    end = now_ms() // 1000 * 1000
    Box(store).fill(end - 60_000, end)
    store.close()


def test_a_page_opened_before_the_first_sample_fills_without_a_reload(
    tmp_path: Path, browser: Browser
) -> None:
    data = tmp_path / "data"
    with web_server(data) as server, opened(browser, server.url) as (page, _recorder):
        expect(page.get_by_text("nothing has been collected yet")).to_be_visible()
        page.wait_for_timeout(6_000)  # a tick of the tiles with nothing to show
        fill(data / "samples.db")
        expect(page.get_by_text("CPU busy", exact=True).first).to_be_visible()
        expect(page.get_by_text("newest sample").first).to_be_visible()
        assert tile(page, "Memory used") == "12.0 GiB"
        expect(page.get_by_test_id("stException")).to_have_count(0)
    assert "Traceback" not in server.log.read_text()


def test_a_page_over_a_broken_file_recovers_when_the_file_does(tmp_path: Path, browser: Browser) -> None:
    data = tmp_path / "data"
    samples = data / "samples.db"
    with web_server(data) as server:
        for path in data.glob("samples.db*"):
            path.unlink()
        samples.write_bytes(b"no database " * 1_000)
        with opened(browser, server.url) as (page, _recorder):
            expect(page.get_by_text("the samples file cannot be read")).to_be_visible()
            page.wait_for_timeout(6_000)
            samples.unlink()
            fill(samples)
            expect(page.get_by_text("CPU busy", exact=True).first).to_be_visible()
            expect(page.get_by_test_id("stException")).to_have_count(0)
    assert "Traceback" not in server.log.read_text()
