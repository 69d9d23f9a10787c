"""Constants of the GPUs that were seen, from the table of hardware and the user's prices alone."""

import asyncio
from pathlib import Path

import pytest
from aiohttp import web

from collectors.clock import SystemClock
from collectors.enabled import BUILT_IN, BuiltIn
from collectors.engine_models import ASK_EVERY_SECONDS, LABELS, EngineModels
from collectors.exposed import MAX_MODEL_LENGTH, MAX_MODELS, Exposed
from collectors.exposition import PageParser
from collectors.hardware_facts import HardwareCollector
from collectors.nvml import NvmlCollector
from collectors.runner import Runner
from collectors.sources import Plan
from collectors.types import CollectFailed, Configured, Family, NoData, Sample
from db.engine import open_state
from db.promql.errors import SourceUnavailable
from db.records import named
from db.remote_settings import PrometheusSettings
from db.settings import CollectorSettings, Settings, load_jobs, load_settings
from db.store import SampleStore
from tests.fakes_nvml import FakeDriver, gpu

FIXTURES = Path(__file__).parents[1] / "fixtures"
PRICED = """
prices:
  gpus:
    - {gpu: NVIDIA H200, usd_per_hour: 3.5, owned: false}
    - {gpu: Home*, usd_per_hour: 0.25, owned: true}
  electricity_usd_per_kwh: 0.2
  power_usage_effectiveness: 1.25
"""


def settings(tmp_path: Path, text: str = "") -> Settings:
    (tmp_path / "strata.yaml").write_text(text)
    return load_settings(tmp_path / "strata.yaml", {}, {"HOME": "/home/ada"})


def collector(tmp_path: Path, models: set[str], text: str = "") -> HardwareCollector:
    one = HardwareCollector(lambda: models)
    one.configure(settings(tmp_path, text))
    return one


def facts(one: HardwareCollector) -> dict[str, dict[tuple[str, ...], float]]:
    return {
        family.name: {tuple(value for _, value in sample.labels): sample.value for sample in family.samples}
        for family in one.collect()
    }


def test_what_the_table_knows_of_a_seen_gpu_is_published_and_no_price(tmp_path):
    found = facts(collector(tmp_path, {"NVIDIA H200"}))
    assert found.keys() == {
        "strata_gpu_peak_flops",
        "strata_gpu_memory_bandwidth_bytes_per_second",
        "strata_gpu_memory_bytes",
        "strata_gpu_tdp_watts",
    }
    assert found["strata_gpu_peak_flops"]["NVIDIA H200", "bf16"] == 989e12
    assert found["strata_gpu_peak_flops"]["NVIDIA H200", "fp8"] == 1979e12
    assert found["strata_gpu_memory_bandwidth_bytes_per_second"] == {("NVIDIA H200",): 4.8e12}
    assert found["strata_gpu_memory_bytes"] == {("NVIDIA H200",): 141 * 2**30}
    assert found["strata_gpu_tdp_watts"] == {("NVIDIA H200",): 700}


def test_labels_are_the_reported_name_and_the_number_format(tmp_path):
    families = {family.name: family for family in collector(tmp_path, {"NVIDIA-L40S"}).collect()}
    peak = families["strata_gpu_peak_flops"]
    assert peak.samples[0].labels == (("modelName", "NVIDIA-L40S"), ("dtype", "fp64"))
    assert {family.type for family in families.values()} == {"gauge"}


def test_prices_are_those_of_the_settings_for_gpus_that_were_seen(tmp_path):
    found = facts(collector(tmp_path, {"NVIDIA H200", "NVIDIA L40S", "Home made"}, PRICED))
    assert found["strata_gpu_price_usd_per_hour"] == {("NVIDIA H200",): 3.5, ("Home made",): 0.25}
    assert found["strata_gpu_owned"] == {("NVIDIA H200",): 0, ("Home made",): 1}
    assert found["strata_electricity_price_usd_per_kwh"] == {(): 0.2}
    assert found["strata_power_usage_effectiveness"] == {(): 1.25}
    assert ("Home made", "bf16") not in found["strata_gpu_peak_flops"]


def test_a_price_may_be_given_for_the_name_that_the_table_has(tmp_path):
    text = "prices: {gpus: [{gpu: H200 SXM*, usd_per_hour: 2, owned: false}]}"
    assert facts(collector(tmp_path, {"NVIDIA H200"}, text))["strata_gpu_price_usd_per_hour"] == {
        ("NVIDIA H200",): 2
    }


def test_without_a_gpu_there_is_no_data_whatever_the_prices_are(tmp_path):
    with pytest.raises(NoData, match="no GPU is known yet"):
        collector(tmp_path, set(), PRICED).collect()


def test_a_gpu_that_the_table_lacks_is_told_and_its_name_cannot_harm(tmp_path):
    one = collector(tmp_path, {"Evil\x1b[31m\n" + "x" * 150, "A", "B", "C", "NVIDIA H200"})
    assert facts(one)["strata_gpu_tdp_watts"] == {("NVIDIA H200",): 700}
    assert one.note.startswith("not in the table of hardware: A, B, C and 1 more; add them in a file")
    assert one.note.isprintable()
    with pytest.raises(NoData, match="not in the table of hardware: Unheard of"):
        collector(tmp_path, {"Unheard of"}).collect()


def test_a_file_of_the_users_own_is_used_and_a_broken_one_told_until_it_is_mended(tmp_path):
    own = tmp_path / "mine.csv"
    own.write_text("name,names,bf16_tflops\nHome,Home made,1e\n")
    one = collector(tmp_path, {"Home made", "NVIDIA H200"}, "hardware_file: mine.csv")
    with pytest.raises(CollectFailed, match=r"mine.csv:2: bf16_tflops '1e' is not a number"):
        one.collect()
    own.write_text("name,names,bf16_tflops\nHome,Home made,1\n")
    assert facts(one)["strata_gpu_peak_flops"]["Home made", "bf16"] == 1e12


def test_a_reload_changes_prices_and_file(tmp_path):
    one = collector(tmp_path, {"NVIDIA H200"})
    assert isinstance(one, Configured)
    assert "strata_gpu_price_usd_per_hour" not in facts(one)
    (tmp_path / "mine.csv").write_text("name,tdp_w\nH200 SXM 141GB,600\n")
    one.configure(settings(tmp_path, PRICED + "hardware_file: mine.csv\n"))
    assert facts(one)["strata_gpu_price_usd_per_hour"] == {("NVIDIA H200",): 3.5}
    assert facts(one)["strata_gpu_tdp_watts"] == {("NVIDIA H200",): 600}
    one.configure(settings(tmp_path))
    assert facts(one)["strata_gpu_tdp_watts"] == {("NVIDIA H200",): 700}


def seen(*pages: bytes) -> Exposed:
    exposed = Exposed()
    for number, page in enumerate(pages):
        exposed.update(number, PageParser().parse(page, "text").layout)
    return exposed


def test_models_of_scraped_pages_are_remembered_when_the_target_is_gone(tmp_path):
    page = (FIXTURES / "dcgm/a100-mig-mixed.prom").read_bytes()
    exposed = seen(page, b'gpu_package_power{card_model="AMD Instinct MI300X"} 1\n')
    exposed.forget(0)
    assert exposed.gpu_models() == {"NVIDIA A100-SXM4-40GB", "AMD Instinct MI300X"}
    one = HardwareCollector(exposed.gpu_models)
    assert facts(one)["strata_gpu_tdp_watts"] == {
        ("NVIDIA A100-SXM4-40GB",): 400,
        ("AMD Instinct MI300X",): 750,
    }


@pytest.mark.parametrize(
    ("line", "models"),
    [
        (b'DCGM_FI_DEV_GPU_TEMP{uuid="a",model_name="NVIDIA L4"} 1', {"NVIDIA L4"}),
        (b'amd_gpu_gfx_activity{card_model="AMD Instinct MI325X"} 1', {"AMD Instinct MI325X"}),
        (b'nvidia_smi_gpu_info{name="NVIDIA L40S"} 1', {"NVIDIA L40S"}),
        (
            b'amd_gpu_health{card_model="102-G3",card_series="AMD Instinct MI300X OAM"} 1',
            {"102-G3", "AMD Instinct MI300X OAM"},
        ),
        (b'gpu_power_usage_W{devicename="NVIDIA L40S"} 1', {"NVIDIA L40S"}),
        (b'all_smi_gpu_utilization{gpu="NVIDIA H200"} 1', {"NVIDIA H200"}),
        (b'nvidia_smi_power_draw_watts{name="NVIDIA L40S"} 1', set()),
        (b'vllm:num_requests_running{model_name="NVIDIA L4"} 1', set()),
        (b'node_disk_info{model="NVIDIA L4",card_model="x"} 1', set()),
        (b'DCGM_FI_DEV_GPU_TEMP{modelName=""} 1', set()),
        (b'DCGM_FI_DEV_GPU_TEMP{modelName="' + b"x" * (MAX_MODEL_LENGTH + 1) + b'"} 1', set()),
    ],
)
def test_a_model_is_what_gpu_exporters_say_it_is(line, models):
    assert seen(line + b"\n").gpu_models() == models


def test_a_page_of_many_models_is_bounded():
    lines = [f'DCGM_FI_DEV_GPU_TEMP{{modelName="m{number:04}"}} 1' for number in range(2 * MAX_MODELS)]
    exposed = seen("\n".join([*lines, ""]).encode())
    assert len(exposed.gpu_models()) == MAX_MODELS


def test_models_of_this_machines_driver_are_seen_also_where_an_exporter_reports_them():
    exposed = Exposed()
    driver = FakeDriver(gpus=[gpu(0), None])
    one = NvmlCollector(
        "node-7",
        open_devices=driver,
        proc=Path("/nonexistent"),
        suppressed_uuids=lambda: frozenset({"GPU-00000000"}),
        tell_models=exposed.add_gpu_models,
    )
    with pytest.raises(NoData):
        one.collect()
    assert exposed.gpu_models() == {"NVIDIA H200"}


class FakeEngine:
    """Answers label values from a dict; `gone` makes it unreachable."""

    def __init__(self, values: dict[str, list[str]]) -> None:
        self.values = values
        self.asked: list[tuple[str, int, int]] = []
        self.gone = False

    def label_values(self, name: str, *, start_ms: int, end_ms: int) -> list[str]:
        self.asked.append((name, start_ms, end_ms))
        if self.gone:
            raise SourceUnavailable("http://e:9090 cannot be reached: connection refused")
        return self.values.get(name, [])


def test_an_engine_that_is_only_read_says_which_gpus_there_are_and_is_asked_rarely():
    engine, now = FakeEngine({"modelName": ["NVIDIA H200", "x" * 1000], "card_model": ["?"]}), [0.0]
    models = EngineModels(
        PrometheusSettings(query_url="http://e:9090"), engine=engine, clock=lambda: now[0], now=lambda: 7200.0
    )
    assert models() == {"NVIDIA H200", "?"}
    assert engine.asked == [(label, 3_600_000, 7_200_000) for label in LABELS]
    now[0] += ASK_EVERY_SECONDS - 1
    engine.gone = True
    assert models() == {"NVIDIA H200", "?"}
    assert len(engine.asked) == len(LABELS)
    now[0] += 1
    assert models() == {"NVIDIA H200", "?"}  # it is away: what it said before still holds
    engine.gone, engine.values = False, {"modelName": ["NVIDIA L4"]}
    assert models() == {"NVIDIA H200", "?", "NVIDIA L4"}


def test_an_engine_that_does_not_answer_is_a_failure_and_one_without_gpus_is_asked_again():
    engine = FakeEngine({})
    models = EngineModels(
        PrometheusSettings(query_url="http://e:9090"), engine=engine, clock=lambda: 0.0, now=lambda: 7200.0
    )
    engine.gone = True
    with pytest.raises(CollectFailed, match=r"which GPUs there are cannot be asked: .* connection refused"):
        models()
    engine.gone = False
    assert models() == frozenset()
    engine.values = {"card_model": ["AMD Instinct MI300X"]}
    assert models() == {"AMD Instinct MI300X"}


async def serve_dcgm(_request: web.Request) -> web.Response:
    return web.Response(
        body=(FIXTURES / "dcgm/t4x2-k8s-fraction.prom").read_bytes(), content_type="text/plain"
    )


def test_a_scraped_gpu_has_its_constants_in_the_store_after_one_collection(tmp_path: Path):
    async def main() -> None:
        app = web.Application()
        app.router.add_get("/metrics", serve_dcgm)
        server = web.AppRunner(app)
        await server.setup()
        await (site := web.TCPSite(server, "127.0.0.1", 0)).start()
        port = site._server.sockets[0].getsockname()[1]
        targets = f"scrape_configs: [{{job_name: dcgm, static_configs: [{{targets: ['127.0.0.1:{port}']}}]}}]"
        text = f"{targets}\nprices: {{gpus: [{{gpu: Tesla T4, usd_per_hour: 0.5, owned: false}}]}}\n"
        current = replace_data(settings(tmp_path, text), tmp_path)
        built_in = [item for item in BUILT_IN if item.name == "hardware"]
        await Runner(store, state, SystemClock(), "me").once(
            Plan(current, load_jobs(current), built_in, discover=False)
        )
        await server.cleanup()

    store, state = SampleStore.open(tmp_path / "samples.db"), open_state(tmp_path / "state.db")
    asyncio.run(main())
    (price,) = store.select([named("strata_gpu_price_usd_per_hour")], 0, 2**53)
    (up,) = [one for one in store.select([named("up")], 0, 2**53) if dict(one.labels)["job"] == "hardware"]
    assert dict(price.labels) | {"__name__": ""} == {
        "__name__": "", "modelName": "Tesla T4", "job": "hardware", "instance": "me"
    }  # fmt: skip
    assert (list(price.values), list(up.values)) == ([0.5], [1.0])
    state.dispose()
    store.close()


def replace_data(current: Settings, folder: Path) -> Settings:
    return current.model_copy(update={"data": folder})


class Told:
    """A collector that keeps what it is told."""

    name = "told"
    job = "told"

    def __init__(self) -> None:
        self.settings: list[Settings] = []

    def configure(self, settings: Settings) -> None:
        self.settings.append(settings)

    def collect(self):
        assert self.settings
        return [Family("told_total", "counter", "help", (Sample("told_total", (), 1.0),))]


def test_a_collector_is_told_the_settings_before_it_collects_and_at_every_reload(tmp_path: Path):
    told = Told()
    item = BuiltIn("told", lambda _hostname, _exposed: told, lambda _settings: CollectorSettings())

    def plan(text: str) -> Plan:
        current = replace_data(settings(tmp_path, text), tmp_path)
        return Plan(current, load_jobs(current), [item], discover=False)

    async def main() -> None:
        stop, hangup = asyncio.Event(), asyncio.Event()
        runner = Runner(store, state, SystemClock(), "me")
        running = asyncio.create_task(runner.run(plan(""), stop, hangup, lambda: plan(PRICED)))
        async with asyncio.timeout(20):
            while not told.settings:
                await asyncio.sleep(0.01)
            hangup.set()
            while len(told.settings) < 2:
                await asyncio.sleep(0.01)
        stop.set()
        await running

    store, state = SampleStore.open(tmp_path / "samples.db"), open_state(tmp_path / "state.db")
    asyncio.run(main())
    assert [one.prices.electricity_usd_per_kwh for one in told.settings] == [None, 0.2]
    state.dispose()
    store.close()
