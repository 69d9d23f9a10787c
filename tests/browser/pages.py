"""A page in Debian's chromium that records every request, console message and error."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

from playwright.sync_api import Browser, ConsoleMessage, Page, expect, sync_playwright

from tests.needs import require_program

ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
]
PATIENCE_MS = 30_000
expect.set_options(timeout=PATIENCE_MS)

# Streamlit's own, each with its reason. A message is tolerated when it contains the text.
TOLERATED = {
    "WARN Infinite extent for field": "vega-lite lays a sparkline out once before its data arrives",
    "Failed to load resource: the server responded with a status of 404": "see TOLERATED_404",
}
# On a deep link Streamlit's client tries where the server's root is, one path segment after the other.
TOLERATED_404 = ("/_stcore/health", "/_stcore/host-config")


class Recorder:
    """What the page did besides showing itself."""

    def __init__(self, page: Page, origin: str) -> None:
        self._origin = origin
        self.foreign: list[str] = []
        self.messages: list[str] = []
        self.errors: list[str] = []
        self.missing: list[str] = []
        page.on("request", lambda request: self._requested(request.url))
        page.on("websocket", lambda socket: self._requested(socket.url))
        page.on("response", lambda answer: self._answered(answer.status, answer.url))
        page.on("console", self._said)
        page.on("pageerror", lambda error: self.errors.append(str(error)))

    def check(self) -> None:
        """No other host was asked for anything, and nothing went wrong that is not named above."""
        unknown = [text for text in self.messages if not any(known in text for known in TOLERATED)]
        problems = [
            *(f"asked another host: {url}" for url in self.foreign),
            *(f"answered: {text}" for text in self.missing),
            *(f"raised: {text}" for text in self.errors),
            *(f"said: {text}" for text in sorted(set(unknown))),
        ]
        assert not problems, "\n".join(problems)

    def _requested(self, url: str) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("data", "blob") and parts.netloc != urlsplit(self._origin).netloc:
            self.foreign.append(url)

    def _answered(self, status: int, url: str) -> None:
        if status >= 400 and not (status == 404 and urlsplit(url).path.endswith(TOLERATED_404)):
            self.missing.append(f"{status} {url}")

    def _said(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            self.messages.append(f"{message.type}: {message.text}")


@contextmanager
def chromium() -> Iterator[Browser]:
    path = require_program("chromium")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=ARGUMENTS)
        try:
            yield browser
        finally:
            browser.close()


@contextmanager
def opened(
    browser: Browser, url: str, *, scheme: str = "light", width: int = 1440, height: int = 900
) -> Iterator[tuple[Page, Recorder]]:
    """The page at the URL; leaving the block checks what was recorded."""
    context = browser.new_context(color_scheme=scheme, viewport={"width": width, "height": height})  # type: ignore[arg-type]
    try:
        page = context.new_page()
        page.set_default_timeout(PATIENCE_MS)
        recorder = Recorder(page, url)
        page.goto(url)
        yield page, recorder
        recorder.check()
    finally:
        context.close()


def tile(page: Page, label: str, nth: int = 0) -> str:
    """The value of the nth tile with that label, as it stands in the DOM."""
    tiles = page.get_by_test_id("stMetric").filter(
        has=page.get_by_test_id("stMetricLabel").get_by_text(label, exact=True)
    )
    return tiles.nth(nth).get_by_test_id("stMetricValue").inner_text().strip()


def picture(page: Page, name: str) -> None:
    """A screenshot for people, in STRATA_SCREENSHOTS or tests/browser/artifacts; the whole page."""
    folder = Path(os.environ.get("STRATA_SCREENSHOTS") or Path(__file__).parent / "artifacts")
    folder.mkdir(parents=True, exist_ok=True)
    size = page.viewport_size
    assert size is not None
    height = page.evaluate("document.querySelector('[data-testid=stMain]').scrollHeight")
    page.set_viewport_size({"width": size["width"], "height": max(int(height), size["height"])})
    page.wait_for_timeout(800)  # charts are drawn again after a resize
    page.screenshot(path=folder / f"{name}.png")
    page.set_viewport_size(size)
