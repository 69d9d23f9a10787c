"""The simulated pages are what the real exporters' pages are: names, types, labels, edges."""

import json
from collections.abc import Iterable

import pytest

from collectors.exposition import PageLayout, PageParser
from collectors.local_probe import recognise
from db.labels import Labels
from tests.collectors.demo_clusters import Scraper, metric, one, quiet
from tests.collectors.pages import FIXTURES
from tests.collectors.test_shared_pages import shared

DCGM = "/dcgm/node1:9400/metrics"
NODE = "/node/node1:9100/metrics"
VLLM = "/vllm/node1:8004/metrics"


@pytest.fixture(scope="module")
def scraper() -> Scraper:
    return Scraper(quiet(64)).at(20)


def layout(text: bytes) -> PageLayout:
    return PageParser().parse(text, "text").layout


def types(page: PageLayout) -> dict[str, str]:
    return {item.family: item.type for item in page.metadata}


def names_and_labels(page: PageLayout) -> dict[str, set[frozenset[str]]]:
    """Metric name -> the sets of label names it is shown with."""
    found: dict[str, set[frozenset[str]]] = {}
    for index in range(len(page.keys)):
        labels = page.labels(index)
        found.setdefault(dict(labels)["__name__"], set()).add(_keys(labels))
    return found


def _keys(labels: Labels) -> frozenset[str]:
    return frozenset(name for name, _ in labels if name != "__name__")


def families(page: PageLayout, names: Iterable[str]) -> dict[str, str]:
    known = types(page)
    return {name: known[name] for name in names if name in known}


def test_every_page_keeps_strictly_to_its_format_and_has_no_series_twice(scraper):
    for target in scraper.pages.targets:
        page = layout(scraper.text(target.path))
        assert len(set(page.keys)) == len(page.keys) > 150


def test_every_page_is_recognised_as_its_exporter(scraper):
    for path, name in ((DCGM, "dcgm"), (NODE, "node"), (VLLM, "vllm")):
        found = recognise(scraper.text(path))
        assert found is not None
        assert found.name.startswith(name)


def test_vllms_page_is_a_live_servers_page(scraper):
    real = layout(max((FIXTURES / "vllm-live-mfu").iterdir()).read_bytes())
    ours = layout(scraper.text(VLLM))
    assert types(ours) == families(real, types(ours))
    missing = {name for name in set(types(real)) - set(types(ours)) if not name.endswith("_created")}
    assert {name.split(":")[0].split("_")[0] for name in missing} <= {"python", "process", "vllm"}
    assert {name for name in missing if name.startswith("vllm:")} == {
        "vllm:external_prefix_cache_queries_total",
        "vllm:external_prefix_cache_hits_total",
        "vllm:mm_cache_queries_total",
        "vllm:mm_cache_hits_total",
        "vllm:prompt_tokens_cached_by_source_total",
    }
    theirs = names_and_labels(real)
    for name, labels in names_and_labels(ours).items():
        if name != "vllm:cache_config_info":
            assert labels == theirs[name], name
    (config,) = names_and_labels(ours)["vllm:cache_config_info"]
    assert config <= next(iter(theirs["vllm:cache_config_info"]))


@pytest.mark.parametrize(
    "name",
    [
        "vllm:time_to_first_token_seconds",
        "vllm:inter_token_latency_seconds",
        "vllm:request_time_per_output_token_seconds",
        "vllm:e2e_request_latency_seconds",
        "vllm:request_queue_time_seconds",
        "vllm:iteration_tokens_total",
        "vllm:request_num_preemptions",
        "vllm:request_params_n",
        "http_request_duration_highr_seconds",
        "http_request_duration_seconds",
    ],
)
def test_a_histograms_edges_are_vllms(scraper, name):
    def edges(page: PageLayout) -> list[str]:
        every = (dict(page.labels(index)) for index in range(len(page.keys)))
        found = [labels["le"] for labels in every if labels["__name__"] == f"{name}_bucket"]
        return list(dict.fromkeys(found))

    real = layout(max((FIXTURES / "vllm-live-mfu").iterdir()).read_bytes())
    assert edges(layout(scraper.text(VLLM))) == edges(real)


def test_dcgms_page_has_the_default_names_of_4_8(scraper):
    path = shared("dcgm/l40s-idle-default-counters.prom")
    real, ours = layout(path.read_bytes()), layout(scraper.text(DCGM))
    assert set(types(real)) <= set(types(ours))
    assert families(ours, types(real)) == types(real)
    (labels,) = names_and_labels(ours)["DCGM_FI_DEV_GPU_TEMP"]
    assert {labels} == names_and_labels(real)["DCGM_FI_DEV_GPU_TEMP"]


def test_the_newer_exporters_page_has_the_names_and_units_of_4_9(scraper):
    newer = "/dcgm/node8:9400/metrics"
    real = layout(shared("dcgm/l40s-idle-4.9.0-names.TRANSLATED.prom").read_bytes())
    ours = layout(scraper.text(newer))
    assert set(types(real)) <= set(types(ours))
    (labels,) = names_and_labels(ours)["DCGM_FI_DEV_GPU_TEMP_CELSIUS"]
    assert {labels} == names_and_labels(real)["DCGM_FI_DEV_GPU_TEMP_CELSIUS"]
    renamed = json.loads(shared("dcgm/dcgm-field-aliases.json").read_text())["exporter_4_9_0_default"]
    assert not set(renamed) & {name for name in types(ours) if name != renamed.get(name)}


def test_both_generations_say_the_same_of_a_gpu(scraper):
    gpus = scraper.simulation.gpus
    page, own = scraper.samples("/dcgm/node8:9400/metrics"), slice(56, 64)
    assert metric(page, "DCGM_FI_DEV_SM_CLOCK_HERTZ") == (gpus.clock_mhz[own] * 1e6).tolist()
    assert metric(page, "DCGM_FI_DEV_FB_USED_BYTES") == (gpus.used_mib[own] * 2**20).tolist()
    assert metric(page, "DCGM_FI_DEV_GPU_UTIL_RATIO") == pytest.approx(gpus.busy[own], abs=0.005)
    assert metric(page, "DCGM_FI_DEV_BOARD_POWER_WATTS") == pytest.approx(gpus.watts[own], abs=1e-6)
    energy = metric(page, "DCGM_FI_DEV_GPU_ENERGY_JOULES_TOTAL")
    assert energy == pytest.approx(gpus.energy_joules[own], abs=1)
    older = scraper.samples(DCGM)
    assert metric(older, "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION") == pytest.approx(
        gpus.energy_joules[:8] * 1e3, abs=1e3
    )


def test_some_exporters_have_their_default_counters_only(scraper):
    plain, health = scraper.dcgm(4), scraper.dcgm(1)
    assert metric(plain, "DCGM_FI_DEV_ECC_DBE_VOL_TOTAL") == []
    assert len(metric(health, "DCGM_FI_DEV_ECC_DBE_VOL_TOTAL")) == 8
    assert len(metric(plain, "DCGM_FI_DEV_GPU_TEMP")) == 8


def test_the_memory_of_a_gpu_adds_up_to_what_its_data_sheet_says(scraper):
    page = scraper.dcgm()
    parts = [metric(page, f"DCGM_FI_DEV_FB_{part}") for part in ("FREE", "USED", "RESERVED")]
    assert {sum(values) for values in zip(*parts, strict=True)} == {81_559}
    newer = scraper.samples("/dcgm/node8:9400/metrics")
    parts = [metric(newer, f"DCGM_FI_DEV_FB_{part}_BYTES") for part in ("FREE", "USED", "RESERVED")]
    assert {sum(values) for values in zip(*parts, strict=True)} == {143_771 * 2**20}
    assert set(metric(newer, "DCGM_FI_DEV_FB_CAPACITY_BYTES")) == {143_771 * 2**20}


def test_node_exporters_page_has_its_names_types_and_labels(scraper):
    real = [
        layout(path.read_bytes())
        for path in (
            FIXTURES / "node_exporter/e2e-output.prom",
            FIXTURES / "proc/gpu-node.node_exporter-1.5.0.prom",
        )
    ]
    known = types(real[1]) | types(real[0])
    theirs: dict[str, set[frozenset[str]]] = {}
    for page in real:
        for name, labels in names_and_labels(page).items():
            theirs.setdefault(name, set()).update(labels)
    ours = layout(scraper.text(NODE))
    absent = set(types(ours)) - set(known)
    # Left out of both captures: they tell of the machine that they were made on.
    assert absent <= {"node_uname_info", "node_time_seconds", "node_boot_time_seconds"} | {
        name for name in absent if name.startswith(("node_filesystem_", "node_timex_", "node_exporter_"))
    }
    for name, labels in names_and_labels(ours).items():
        if name in theirs and name not in ("node_exporter_build_info",):
            assert labels <= theirs[name] | {frozenset()}, name
    for name, kind in types(ours).items():
        assert known.get(name, kind) == kind, name


def test_a_hosts_processors_spend_each_second_somewhere(scraper):
    other = Scraper(quiet(8)).at(10)
    before, after = other.node(), other.at(40).node()
    name = "node_cpu_seconds_total"
    rises = [new - old for new, old in zip(metric(after, name), metric(before, name), strict=True)]
    assert len(rises) == 32 * 8
    assert min(rises) > -0.011  # printed with two digits
    for modes in zip(*[iter(rises)] * 8, strict=True):
        assert sum(modes) == pytest.approx(30, abs=0.05)
    assert one(after, "node_time_seconds") - one(before, "node_time_seconds") == 30
