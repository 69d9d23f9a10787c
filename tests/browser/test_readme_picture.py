"""The picture in README: the Overview over one box, as anybody's browser shows it."""

from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from db.store import SampleStore
from tests.browser.conftest import now_ms
from tests.browser.pages import opened, picture
from tests.browser.server import web_server
from tests.stores import Box

pytestmark = [pytest.mark.browser, pytest.mark.slow]


def test_the_picture_in_readme_can_be_made_again(tmp_path: Path, browser: Browser) -> None:
    data = tmp_path / "data"
    store = SampleStore.open(data / "samples.db")
    end = now_ms() // 1000 * 1000
    Box(store).fill(end - 900_000, end)
    store.close()
    with (
        web_server(data) as server,
        opened(browser, f"{server.url}/?history=true", width=1280) as (page, _recorder),
    ):
        expect(page.get_by_test_id("stPlotlyChart")).to_be_visible()
        expect(page.get_by_test_id("stMetric").filter(has_text="Utilisation")).to_have_count(2)
        page.wait_for_timeout(2_000)
        picture(page, "readme-overview")
