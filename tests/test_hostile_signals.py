"""Hostile pages all the way: scraped by the real collector, stored, read as signals, drawn by the pages.
Limits apply and say why, nothing breaks, nothing of it is executed."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from collectors.clock import SystemClock
from collectors.runner import Runner
from collectors.sources import Plan
from db.catalog.load import load_catalog
from db.catalog.presence import metric_names
from db.catalog.read import read_signal
from db.catalog.signal import Resolved
from db.engine import open_state
from db.records import SourceReport, named
from db.settings import load_jobs, load_settings
from db.store import SampleStore
from tests.views.pages import Site, frame, markup, words
from tests.views.pages import site as opened_site

HTML = "<script>alert(1)</script><img src=x onerror=alert(2)>**bold** [link](javascript:alert(3))"
PROMQL = 'x"} or vector(1) or on() group_left label_replace(up, "a", "$1", "b", "(.*)") # '
CONTROL = "".join(map(chr, [*range(1, 10), *range(11, 32), 0x7F, 0x85, 0x2028, 0x202E])) + "\x1b[2Jend"
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain; version=0.0.4\r\nContent-Length: %d\r\n\r\n"
MEGABYTE = "m" * 1_000_000
GPU = 'gpu="0",UUID="GPU-1",modelName="NVIDIA H200",Hostname="n1"'


def escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def engine(model: str, turn: int) -> str:
    """A vLLM page whose model has that name."""
    label = f'model_name="{escaped(model)}",engine="0"'
    return (
        "# TYPE vllm:num_requests_running gauge\n"
        f"vllm:num_requests_running{{{label}}} 3\n"
        "# TYPE vllm:generation_tokens_total counter\n"
        f"vllm:generation_tokens_total{{{label}}} {100 * turn}\n"
    )


def bomb(turn: int) -> str:
    """Other series at every scrape, very many of them."""
    return "".join(f'vllm:num_requests_running{{model_name="m{turn}-{index}"}} 1\n' for index in range(3_000))


def huge(turn: int) -> str:
    """Counters beyond 2^63, what is no number, and what no GPU has."""
    return "".join(
        f"# TYPE {name} {kind}\n{name}{{{GPU}}} {value}\n"
        for name, kind, value in (
            ("DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", "counter", 9223372036854775808 + turn),
            ("DCGM_FI_DEV_PCIE_REPLAY_COUNTER", "counter", "1.8446744073709552e19"),
            ("DCGM_FI_DEV_POWER_USAGE", "gauge", "+Inf"),
            ("DCGM_FI_DEV_GPU_TEMP", "gauge", "NaN"),
            ("DCGM_FI_DEV_SM_CLOCK", "gauge", "-1e308"),
            ("DCGM_FI_DEV_FB_USED", "gauge", 9223372036854775794),
            ("DCGM_FI_DEV_GPU_UTIL", "gauge", 50),
        )
    )


def out_of_time(turn: int) -> str:
    """Samples of 1970 and of 2200 beside one of now."""
    return (
        "# TYPE vllm:num_requests_running gauge\n"
        'vllm:num_requests_running{model_name="past"} 1 1000\n'
        'vllm:num_requests_running{model_name="future"} 2 7258118400000\n'
        'vllm:num_requests_running{model_name="now"} 4\n'
    )


PAGES: dict[str, Callable[[int], str]] = {
    "html": lambda turn: engine(HTML, turn),
    "promql": lambda turn: engine(PROMQL, turn),
    "control": lambda turn: engine(CONTROL, turn),
    "megabyte": lambda turn: engine(MEGABYTE, turn),
    "bomb": bomb,
    "huge": huge,
    "out_of_time": out_of_time,
}
LIMITS = {
    "megabyte_limited": ("megabyte", "label_value_length_limit: 2048"),
    "bomb_limited": ("bomb", "sample_limit: 1000"),
}


@asynccontextmanager
async def served() -> Iterator[dict[str, int]]:
    """The pages, a new turn at every request; their ports by name."""
    ports, servers = {}, []

    def handler(page: Callable[[int], str]) -> Callable[..., Awaitable[None]]:
        turns = iter(range(1, 1_000_000))

        async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            while True:
                try:
                    await reader.readuntil(b"\r\n\r\n")
                except (asyncio.IncompleteReadError, ConnectionError):
                    break
                body = page(next(turns)).encode()
                writer.write(HEAD % len(body) + body)
                await writer.drain()
            writer.close()

        return handle

    for name, page in PAGES.items():
        server = await asyncio.start_server(handler(page), "127.0.0.1", 0)
        servers.append(server)
        ports[name] = server.sockets[0].getsockname()[1]
    try:
        yield ports
    finally:
        for server in servers:
            server.close()


async def scrape_for_a_while(folder: Path) -> None:
    async with served() as ports:
        jobs = "".join(
            f"- {{job_name: {name}, static_configs: [{{targets: ['127.0.0.1:{ports[page]}']}}]{more}}}\n"
            for name, page, more in [
                *((name, name, "") for name in PAGES),
                *((name, page, f", {limit}") for name, (page, limit) in LIMITS.items()),
            ]
        )
        config = folder / "prometheus.yml"
        config.write_text(f"global: {{scrape_interval: 1s, scrape_timeout: 1s}}\nscrape_configs:\n{jobs}")
        settings = load_settings(None, {"data": folder, "prometheus_config": config}, {})
        plan = Plan(settings, load_jobs(settings), (), discover=False)
        store, state = SampleStore.open(folder / "samples.db"), open_state(folder / "state.db")
        stop = asyncio.Event()
        running = asyncio.create_task(
            Runner(store, state, SystemClock(), "me").run(plan, stop, asyncio.Event(), None)
        )
        await asyncio.sleep(5)
        stop.set()
        await running
        state.dispose()
        store.close()


@pytest.fixture(scope="module")
def scraped(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("hostile")
    asyncio.run(scrape_for_a_while(folder))
    return folder


@pytest.fixture
def site(scraped: Path) -> Iterator[Site]:
    with opened_site(scraped) as opened:
        newest = max(report.last_success_ms or 0 for report in opened.store.sources())
        opened.now_ms = newest
        yield opened


def reports(site: Site) -> dict[str, SourceReport]:
    return {report.pool: report for report in site.store.sources()}


def test_limits_apply_and_the_reason_is_on_the_page(site: Site):
    found = reports(site)
    assert found["bomb_limited"].state == found["megabyte_limited"].state == "down"
    text = words(site.page("sources"))
    assert "the page has 3000 samples, more than sample_limit 1000" in text
    assert "longer than label_value_length_limit 2048" in text


def test_everything_else_goes_on(site: Site):
    found = reports(site)
    assert {name: found[name].state for name in PAGES} == dict.fromkeys(PAGES, "up")


def test_what_is_of_another_time_is_left_out_and_said(site: Site):
    models = {
        dict(series.labels).get("model_name")
        for series in site.store.select([named("vllm:num_requests_running")], 0, 2**53)
    }
    assert "now" in models
    assert "future" not in models
    note = reports(site)["out_of_time"].note
    assert "ahead" in note


def test_every_signal_can_be_read(site: Site):
    catalog, names = load_catalog(), metric_names(site.store, site.now_ms)
    found = {}
    for signal in catalog.signals.values():
        answer = catalog.resolve(signal.id, names)
        if isinstance(answer, Resolved):
            found[signal.id] = read_signal(site.store, answer, site.now_ms)
    running = {dict(reading.labels)["model"]: reading.value for reading in found["requests_running"]}
    assert running[HTML] == running[PROMQL] == running[CONTROL] == running[MEGABYTE] == 3.0
    assert running["now"] == 4.0
    assert [reading.value for reading in found["gpu_utilization"]] == [0.5]
    assert found["gpu_memory_used_bytes"] == []  # a blank value is no value


@pytest.mark.parametrize("layer", ["Client", "Application", "Model", "Infrastructure", "Cost"])
def test_the_pages_show_it_as_text_alone(site: Site, layer: str):
    for page in (site.page("signals", layer=layer), site.page("sources"), site.page()):
        assert not page.exception
        drawn = markup(page)
        for text in (HTML, PROMQL, CONTROL):
            assert text not in drawn
        assert "<script" not in drawn


def test_a_label_of_a_megabyte_is_cut_on_the_page(site: Site):
    page = site.page("signals", layer="Application")
    longest = max(len(str(cell)) for cell in frame(page, "now").to_numpy().ravel())
    assert longest < 2_000
