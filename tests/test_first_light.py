"""The main job on real input: real servers scraped for a minute, looked at in a real browser meanwhile.

Debian's prometheus-node-exporter and prometheus stand behind recording proxies; a captured vLLM server is
replayed page by page. Afterwards every stored sample has to be the one on the page that it came from.
"""

import itertools
import math
import re
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page

from collectors.target_series import REPORT_METRICS
from db.labels import METRIC_NAME
from db.nan import is_stale
from db.records import Matcher, named
from db.store import SampleStore
from tests.browser.conftest import browser
from tests.browser.pages import opened, picture, tile
from tests.genuine_node_exporter import full_node_exporter
from tests.genuine_prometheus import prometheus
from tests.recording_proxy import RecordedPage, RecordingProxy, Series, Source, upstream
from tests.running_strata import RunningStrata, prometheus_config, running_strata

__all__ = ["browser"]  # the fixture

pytestmark = [pytest.mark.server, pytest.mark.browser, pytest.mark.slow, pytest.mark.timeout(240)]

VLLM_PAGES = Path(__file__).parent / "fixtures" / "vllm-live"
INTERVAL_SECONDS = 5
SCRAPED_SECONDS = 60
UNITS = {"B": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40, "ms": 1e-3, "s": 1.0, "": 1.0}


def replayed(pages: list[Path]) -> Source:
    """One captured page after the other, as the captured server would have sent them."""
    bodies = itertools.cycle([path.read_bytes() for path in pages])
    return lambda _accept: RecordedPage(next(bodies), "text/plain; version=0.0.4; charset=utf-8")


@dataclass
class Minute:
    """A running Strata over three recorded targets."""

    strata: RunningStrata
    proxies: dict[str, RecordingProxy]
    until: float


@pytest.fixture(scope="module")
def minute(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Minute]:
    folder = tmp_path_factory.mktemp("first-light")
    with ExitStack() as stack:
        exporter = stack.enter_context(full_node_exporter())
        (folder / "prometheus").mkdir()
        server = stack.enter_context(prometheus(Path("/dev/null"), folder / "prometheus"))
        sources = {
            "node": upstream(exporter.url),
            "prometheus": upstream(f"{server.url}/metrics"),
            "vllm": replayed(sorted(VLLM_PAGES.glob("*.prom"))),
        }
        proxies = {job: stack.enter_context(RecordingProxy(source)) for job, source in sources.items()}
        config = prometheus_config(
            folder, {job: [proxy.address] for job, proxy in proxies.items()}, f"{INTERVAL_SECONDS}s"
        )
        strata = stack.enter_context(
            running_strata(folder, "--prometheus-config", str(config), "--no-discover")
        )
        yield Minute(strata, proxies, time.monotonic() + SCRAPED_SECONDS)


def recent(store: SampleStore, metric: str, *matchers: Matcher) -> list[float]:
    """The values of the last four scrapes."""
    now = time.time_ns() // 1_000_000
    (found,) = store.select([named(metric), *matchers], now - 60_000, now)
    return [float(value) for value in found.values[-4:]]


def shown(text: str) -> float:
    """ "1.63 GiB" -> bytes."""
    match = re.match(r"([\d.,]+) ?(\S*)", text)
    assert match, text
    return float(match[1].replace(",", "")) * UNITS[match[2]]


def assert_shows(page: Page, label: str, values: list[float], nth: int = 0) -> None:
    """The tile shows one of the values, to the digits that it prints (three)."""
    text = tile(page, label, nth)
    assert any(math.isclose(shown(text), value, rel_tol=6e-3, abs_tol=1e-9) for value in values), (
        f"{label} shows {text}, the store holds {values}"
    )


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_page_shows_the_numbers_that_the_store_holds(
    minute: Minute, browser: Browser, scheme: str
) -> None:
    strata = minute.strata
    node, vllm = minute.proxies["node"].address, minute.proxies["vllm"].address
    with strata.store() as store, opened(browser, strata.url, scheme=scheme) as (page, _recorder):
        page.get_by_text("CPU busy", exact=True).first.wait_for()
        strata.wait_for(
            lambda: len(recent(store, "up", Matcher("instance", "=", vllm))) >= 3, "three scrapes"
        )
        page.get_by_text("Tokens/s", exact=True).first.wait_for()
        page.wait_for_timeout(3_000)  # a tick of the tiles
        total = recent(store, "node_memory_MemTotal_bytes")[-1]
        used = [total - free for free in recent(store, "node_memory_MemAvailable_bytes")]
        assert_shows(page, "Memory used", used)
        assert_shows(page, "Running", recent(store, "vllm:num_requests_running"))
        for instance in (node, vllm):
            samples = recent(store, "scrape_samples_scraped", Matcher("instance", "=", instance))
            assert any(page.get_by_text(f"{value:,.0f} samples").count() for value in samples), samples
        picture(page, f"first-light-{scheme}")
    with (
        strata.store() as store,
        opened(browser, f"{strata.url}/sources", scheme=scheme) as (page, _recorder),
    ):
        page.get_by_test_id("stDataFrame").first.wait_for()
        assert page.get_by_text("Collectors").count()
        assert {source.state for source in store.sources() if source.kind == "scrape"} == {"up"}
        picture(page, f"first-light-sources-{scheme}")


def test_every_stored_sample_is_the_one_on_its_page(minute: Minute) -> None:
    time.sleep(max(0.0, minute.until - time.monotonic()))
    assert minute.strata.stop() < 5
    assert "Traceback" not in minute.strata.log.read_text()
    compared = 0
    with minute.strata.store() as store:
        for job, proxy in minute.proxies.items():
            rows = stored_scrapes(store, proxy.address)
            assert len(rows) >= SCRAPED_SECONDS // INTERVAL_SECONDS - 1
            # A page that was being fetched when the stop came was never acknowledged.
            assert len(proxy.pages) - len(rows) in (0, 1)
            for page, (at_ms, samples) in zip(proxy.pages, rows, strict=False):
                target = (("instance", proxy.address), ("job", job))
                expected = {with_target(series, target): value for series, value in page.samples().items()}
                assert same(expected, samples), differences(at_ms, expected, samples)
                compared += len(samples)
    assert compared > 10_000


def stored_scrapes(store: SampleStore, instance: str) -> list[tuple[int, dict[Series, float]]]:
    """Scrapes in order: (timestamp, series -> value), without the report series and staleness markers."""
    rows: dict[int, dict[Series, float]] = {}
    for series in store.select([Matcher("instance", "=", instance)], 0, 2**53):
        ended = is_stale(series.values)
        for at, value, stale in zip(series.timestamps.tolist(), series.values.tolist(), ended, strict=True):
            row = rows.setdefault(at, {})
            if not stale and dict(series.labels)[METRIC_NAME] not in REPORT_METRICS:
                row[series.labels] = value
    return sorted(rows.items())


def with_target(series: Series, target: Series) -> Series:
    """A page's series with the labels of its target; its own ones of the same name are kept aside."""
    names = {name for name, _ in target}
    renamed = [(f"exported_{name}" if name in names else name, value) for name, value in series]
    return tuple(sorted((*renamed, *target)))


def same(expected: dict[Series, float], stored: dict[Series, float]) -> bool:
    return expected.keys() == stored.keys() and all(
        stored[series] == value or (math.isnan(value) and math.isnan(stored[series]))
        for series, value in expected.items()
    )


def differences(at_ms: int, expected: dict[Series, float], stored: dict[Series, float]) -> str:
    wrong = [
        f"{series}: page {expected.get(series)}, store {stored.get(series)}"
        for series in sorted(expected.keys() | stored.keys())
        if expected.get(series) != stored.get(series)
    ]
    return f"{len(wrong)} differ at {at_ms}: " + "; ".join(wrong[:5])
