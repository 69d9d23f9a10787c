"""GPU exporters in the catalogue, beyond single pages: old and new names are one vocabulary, a GPU that two
exporters report is one GPU, and the advice for what is missing brings it."""

import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

from db.catalog.catalog import Catalog
from db.catalog.load import load_catalog
from db.catalog.read import read_signal
from db.catalog.signal import Missing
from tests.db.catalog.pages import LAST_MS, Scrape, fixture, names_of, ramped, read_page, stored
from tests.db.catalog.test_expected import resolved_on

Signals = dict[str, dict[tuple[tuple[str, str], ...], float]]

T4 = "dcgm/t4x2-k8s-fraction.prom"
PAGES = [
    T4,
    *(f"dcgm/a100-mig-{mode}.prom" for mode in ("disabled", "mixed", "4-active")),
    "gpu/dcgm-mig.prom",
]
L40S = "dcgm/l40s-idle-default-counters.prom"
L40S_AS_4_9 = "dcgm/l40s-idle-4.9.0-names.TRANSLATED.prom"

# Old name: new name and what the old value is multiplied by (release notes of dcgm-exporter 4.9).
RENAMED = {
    "DCGM_FI_DEV_SM_CLOCK": ("DCGM_FI_DEV_SM_CLOCK_HERTZ", 1e6),
    "DCGM_FI_DEV_MEM_CLOCK": ("DCGM_FI_DEV_MEMORY_CLOCK_HERTZ", 1e6),
    "DCGM_FI_DEV_MEMORY_TEMP": ("DCGM_FI_DEV_MEMORY_TEMP_CELSIUS", 1),
    "DCGM_FI_DEV_GPU_TEMP": ("DCGM_FI_DEV_GPU_TEMP_CELSIUS", 1),
    "DCGM_FI_DEV_POWER_USAGE": ("DCGM_FI_DEV_BOARD_POWER_WATTS", 1),
    "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION": ("DCGM_FI_DEV_GPU_ENERGY_JOULES_TOTAL", 1e-3),
    "DCGM_FI_DEV_PCIE_REPLAY_COUNTER": ("DCGM_FI_DEV_PCIE_REPLAY_TOTAL", 1),
    "DCGM_FI_DEV_GPU_UTIL": ("DCGM_FI_DEV_GPU_UTIL_RATIO", 0.01),
    "DCGM_FI_DEV_MEM_COPY_UTIL": ("DCGM_FI_DEV_MEMORY_UTIL_RATIO", 0.01),
    "DCGM_FI_DEV_ENC_UTIL": ("DCGM_FI_DEV_ENC_UTIL_RATIO", 0.01),
    "DCGM_FI_DEV_DEC_UTIL": ("DCGM_FI_DEV_DEC_UTIL_RATIO", 0.01),
    "DCGM_FI_DEV_XID_ERRORS": ("DCGM_FI_DEV_XID_ERROR", 1),
    "DCGM_FI_DEV_FB_FREE": ("DCGM_FI_DEV_FB_FREE_BYTES", 2**20),
    "DCGM_FI_DEV_FB_USED": ("DCGM_FI_DEV_FB_USED_BYTES", 2**20),
    "DCGM_FI_DEV_FB_RESERVED": ("DCGM_FI_DEV_FB_RESERVED_BYTES", 2**20),
    "DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS": ("DCGM_FI_DEV_ROW_REMAP_UNCORRECTABLE_TOTAL", 1),
    "DCGM_FI_DEV_CORRECTABLE_REMAPPED_ROWS": ("DCGM_FI_DEV_ROW_REMAP_CORRECTABLE_TOTAL", 1),
    "DCGM_FI_DEV_ROW_REMAP_FAILURE": ("DCGM_FI_DEV_ROW_REMAP_FAILED", 1),
    "DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL": ("DCGM_FI_DEV_NVLINK_THROUGHPUT_BYTES_PER_SECOND", 1.024e6),
    "DCGM_FI_PROF_GR_ENGINE_ACTIVE": ("DCGM_FI_PROF_GR_ENGINE_UTIL_RATIO", 1),
    "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE": ("DCGM_FI_PROF_TENSOR_UTIL_RATIO", 1),
    "DCGM_FI_PROF_DRAM_ACTIVE": ("DCGM_FI_PROF_DRAM_UTIL_RATIO", 1),
}
_SAMPLE = re.compile(r"(\w+)\{(.+)\} (\S+)")
_ADVISED = re.compile(r"`(DCGM_\w+), (\w+), ([^`]+)`")
_CATALOG = load_catalog()


def signals_of(path: Path, pages: Iterable[Path]) -> Signals:
    """Of targets with these pages, by the labels of entities."""
    with stored(path, [_scrapes(page, f"node{number}:9400") for number, page in enumerate(pages)]) as store:
        return {
            name: {reading.labels: reading.value for reading in read_signal(store, resolved, LAST_MS)}
            for name, resolved in resolved_on(_CATALOG, store).items()
        }


def _scrapes(page: Path, instance: str) -> Iterable[Scrape]:
    return ramped(read_page(page), {"job": "dcgm", "instance": instance})


def as_4_9(text: str) -> str:
    """A page with the names, units and label of dcgm-exporter 4.9."""
    lines = []
    for line in text.splitlines():
        if line.startswith("# TYPE "):
            _, _, name, kind = line.split()
            line = f"# TYPE {RENAMED.get(name, (name,))[0]} {kind}"
        elif found := _SAMPLE.fullmatch(line):
            name, factor = RENAMED.get(found[1], (found[1], 1))
            labels = (
                found[2].replace("Hostname=", "hostname=").replace("DCGM_FI_DRIVER", "DCGM_FI_SYSTEM_DRIVER")
            )
            line = f"{name}{{{labels}}} {float(found[3]) * factor!r}"
        else:
            continue
        lines.append(line)
    return "\n".join(lines) + "\n"


def almost(signals: Signals) -> dict[str, Any]:
    return {name: pytest.approx(values, rel=1e-6) for name, values in signals.items()}


@pytest.mark.parametrize("page", PAGES)
def test_both_vocabularies_of_a_page_say_the_same(page: str, tmp_path: Path):
    old, new = fixture(page), tmp_path / "new.prom"
    new.write_text(as_4_9(old.read_text()))
    found = signals_of(tmp_path / "old.db", [old])
    assert signals_of(tmp_path / "new.db", [new]) == almost(found)
    assert {"gpu_memory_used_bytes", "gpu_power_watts", "mig_memory_used_bytes"} <= found.keys()


def test_both_vocabularies_of_the_l40s_say_the_same(tmp_path: Path):
    old = signals_of(tmp_path / "old.db", [fixture(L40S)])
    assert signals_of(tmp_path / "new.db", [fixture(L40S_AS_4_9)]) == almost(old)


@pytest.mark.parametrize("page", PAGES)
def test_a_gpu_whose_exporter_is_replaced_counts_once(page: str, tmp_path: Path):
    """For five minutes the series of both versions are there."""
    old, new = fixture(page), tmp_path / "new.prom"
    new.write_text(as_4_9(old.read_text()))
    found = signals_of(tmp_path / "both.db", [old, new])
    assert found == almost(signals_of(tmp_path / "old.db", [old]))


@pytest.mark.parametrize("rewrite", [str, as_4_9])
@pytest.mark.parametrize("name", PAGES)
def test_a_gpu_that_is_scraped_twice_counts_once(name: str, rewrite: Callable[[str], str], tmp_path: Path):
    page = tmp_path / "page.prom"
    page.write_text(rewrite(fixture(name).read_text()))
    assert signals_of(tmp_path / "two.db", [page, page]) == almost(signals_of(tmp_path / "one.db", [page]))


@pytest.mark.parametrize("signal", ["gpu_power_watts", "gpu_usd_per_hour", "gpu_memory_used_bytes"])
def test_a_sum_over_a_fleet_has_each_gpu_once(signal: str, tmp_path: Path):
    pages = [fixture(f"gpu/twice-{name}.prom") for name in ("dcgm", "nvidia-smi", "all-smi", "nvitop")]
    price = tmp_path / "price.prom"
    price.write_text(
        "# TYPE strata_gpu_price_usd_per_hour gauge\n"
        'strata_gpu_price_usd_per_hour{modelName="NVIDIA L40S"} 2\n'
    )
    with stored(
        tmp_path / "a.db", [_scrapes(page, f"n{i}:1") for i, page in enumerate([*pages, price])]
    ) as store:
        resolved = _CATALOG.resolve(signal, names_of(store), by=())
        assert not isinstance(resolved, Missing)
        [reading] = read_signal(store, resolved, LAST_MS)
    assert (
        reading.value
        == {"gpu_power_watts": 301, "gpu_usd_per_hour": 4, "gpu_memory_used_bytes": 3000}[signal]
    )


def advised(catalog: Catalog) -> list[tuple[str, str]]:
    """Signals and the advice that dcgm-exporter's file has for them."""
    return sorted(
        {
            (signal, variant.enable)
            for signal, variants in catalog.exporters["dcgm"].variants.items()
            for variant in variants
            if "`DCGM_" in variant.enable
        }
    )


@pytest.mark.parametrize(("signal", "advice"), advised(_CATALOG), ids=lambda value: value.partition(" ")[0])
def test_the_lines_that_are_advised_bring_the_signal(signal: str, advice: str):
    lines = _ADVISED.findall(advice)
    assert lines
    for _, kind, help_text in lines:
        assert kind in ("gauge", "counter")
        assert "," not in help_text  # the exporter's CSV has no quotes: a third comma is a fourth field
    one_of = "(before" in advice
    for names in [{name} for name, _, _ in lines] if one_of else [{name for name, _, _ in lines}]:
        assert not isinstance(_CATALOG.resolve(signal, names), Missing)


def test_what_the_default_set_lacks_is_advised_by_its_line(tmp_path: Path):
    with stored(tmp_path / "a.db", [_scrapes(fixture(T4), "node1:9400")]) as store:
        missing = _CATALOG.resolve("gpu_sm_activity", names_of(store))
    assert isinstance(missing, Missing)
    [way] = [way for way in missing.ways if way.present]
    assert way.exporter == "dcgm"
    assert (
        "`DCGM_FI_PROF_SM_ACTIVE, gauge, The ratio of cycles an SM has at least 1 warp assigned.`" in way.text
    )
