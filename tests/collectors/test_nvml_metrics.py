"""The published page against genuine dcgm-exporter pages: same names, types, help texts and labels."""

import re
from pathlib import Path

import pytest

from collectors.nvml import NvmlCollector
from collectors.nvml_device import FieldValue, GpuField, MigInstance
from collectors.nvml_fields import BATCH_FIELDS
from collectors.nvml_metrics import METRICS
from tests.fakes_nvml import FakeDriver, reading

PAGES = sorted((Path(__file__).parent.parent / "fixtures" / "dcgm").glob("*.prom"))
# These pages are older than the label; newer exporters print it between UUID and device.
NEWER_LABELS = {"pci_bus_id"}
BEFORE_4_9 = [page for page in PAGES if "4.9" not in page.name and "blank" not in page.name]


def our_page():
    everything = {name: 7 + number for number, name in enumerate(GpuField)}
    instance = MigInstance(7, "1g.5gb", (FieldValue(GpuField.FB_USED_BYTES, 1),), ())
    driver = FakeDriver(readings={"GPU-00000000": reading(everything, instances=(instance,))})
    now = iter(range(100))
    one = NvmlCollector("node-7", open_devices=driver, clock=lambda: float(next(now)))
    one.collect()  # the second reading has the NVLink rate
    return {family.name: family for family in one.collect()}


def declared(page: Path) -> dict[str, tuple[str, str]]:
    text = page.read_text(encoding="utf-8")
    types = dict(re.findall(r"^# TYPE (\S+) (\S+)$", text, flags=re.MULTILINE))
    helps = dict(re.findall(r"^# HELP (\S+) (.*)$", text, flags=re.MULTILINE))
    # These pages call the ratios percentages; later releases mended the words.
    return {
        name: (kind, helps[name].replace(" (in %)", "") if "PROF" in name else helps[name])
        for name, kind in types.items()
    }


@pytest.mark.parametrize("page", BEFORE_4_9, ids=lambda page: page.stem)
def test_what_a_genuine_page_declares_is_declared_alike(page):
    ours, theirs = our_page(), declared(page)
    shared = ours.keys() & theirs.keys()
    assert {name: (ours[name].type, ours[name].help) for name in shared} == {
        name: theirs[name] for name in shared
    }
    assert theirs.keys() - ours.keys() <= {"DCGM_FI_DEV_VGPU_LICENSE_STATUS"}


@pytest.mark.parametrize("page", BEFORE_4_9, ids=lambda page: page.stem)
def test_labels_are_a_subset_of_a_genuine_page_in_the_same_order(page):
    rows = re.findall(r"^DCGM_FI_DEV_FB_USED\{(.*)\}", page.read_text(encoding="utf-8"), flags=re.MULTILINE)
    theirs = re.findall(r'(\w+)="', rows[0])
    whole, instance = (
        [name for name, _ in sample.labels if name not in NEWER_LABELS]
        for sample in our_page()["DCGM_FI_DEV_FB_USED"].samples
    )
    ours = instance if "GPU_I_ID" in theirs else whole
    assert ours == [name for name in theirs if name not in {"container", "namespace", "pod"}]


def test_every_field_is_either_published_or_the_source_of_the_link_rate():
    sources = {GpuField.NVLINK_DATA_TRANSMITTED_KIB, GpuField.NVLINK_DATA_RECEIVED_KIB}
    assert set(GpuField) - set(METRICS) == sources
    assert len({metric.name for metric in METRICS.values()}) == len(METRICS)


def test_batched_fields_carry_dcgms_name_for_nvmls_field():
    # Where NVML and DCGM name a thing alike, the names are equal but for the prefix.
    alike = {"MEMORY_TEMP", "TOTAL_ENERGY_CONSUMPTION", "PCIE_REPLAY_COUNTER", "ECC_SBE_VOL_TOTAL"}
    alike |= {"ECC_DBE_VOL_TOTAL", "ECC_SBE_AGG_TOTAL", "ECC_DBE_AGG_TOTAL", "RETIRED_SBE", "RETIRED_DBE"}
    alike |= {"RETIRED_PENDING", "NVLINK_CRC_FLIT_ERROR_COUNT_TOTAL", "NVLINK_CRC_DATA_ERROR_COUNT_TOTAL"}
    alike |= {
        "NVLINK_REPLAY_ERROR_COUNT_TOTAL",
        "NVLINK_RECOVERY_ERROR_COUNT_TOTAL",
        "GET_GPU_RECOVERY_ACTION",
    }
    alike |= {"NVLINK_ERROR_DL_CRC", "NVLINK_ERROR_DL_REPLAY", "NVLINK_ERROR_DL_RECOVERY"}
    alike |= {"NVLINK_COUNT_EFFECTIVE_ERRORS", "NVLINK_COUNT_LOCAL_LINK_INTEGRITY_ERRORS"}
    alike |= {"NVLINK_COUNT_LINK_RECOVERY_SUCCESSFUL_EVENTS", "NVLINK_COUNT_LINK_RECOVERY_FAILED_EVENTS"}
    assert {name: METRICS[BATCH_FIELDS[f"NVML_FI_DEV_{name}"]].name for name in alike} == {
        name: f"DCGM_FI_DEV_{name}" for name in alike
    }
