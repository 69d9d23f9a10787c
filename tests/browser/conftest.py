"""One browser and one data folder for each test module."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser

from tests.browser.pages import chromium


# Not for the session: Playwright keeps an event loop running in this thread, and asyncio.run refuses then.
@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as launched:
        yield launched


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("browser") / "data"


def now_ms() -> int:
    return time.time_ns() // 1_000_000
