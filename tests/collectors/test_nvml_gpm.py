"""GPM activity: the real pynvml against the C library, and a fake module for what that cannot do."""

import ctypes
import math
from pathlib import Path
from types import SimpleNamespace

import pynvml
import pytest

from collectors.nvml import NvmlCollector
from collectors.nvml_device import MIB, FieldValue, GpuField, GpuLost
from collectors.nvml_fields import GPM_METRICS, averaged
from collectors.nvml_gpm import REFUSED, SHORTEST_INTERVAL_SECONDS, UNSUPPORTED, GpmReader
from tests.collectors.test_nvml_driver import read, rows
from tests.fakes_nvml import FakeDriver, gpu, reading
from tests.nvml_abi.build import build

# GPM's number of each metric is what the C library answers, and a quarter: percent, and MiB/s from 20 on.
RATIOS = {
    "GR_ENGINE_ACTIVE": 1, "SM_ACTIVE": 2, "SM_OCCUPANCY": 3, "PIPE_TENSOR_ACTIVE": 5, "DRAM_ACTIVE": 10,
    "PIPE_FP64_ACTIVE": 11, "PIPE_FP32_ACTIVE": 12, "PIPE_FP16_ACTIVE": 13,
}  # fmt: skip
RATES = {"PCIE_TX_BYTES": 20, "PCIE_RX_BYTES": 21, "NVLINK_RX_BYTES": 60, "NVLINK_TX_BYTES": 61}


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    return build(tmp_path_factory.mktemp("nvml_gpm"))


def activity(reading: dict, gpu: str, instance: str | None = None) -> dict[str, float]:
    """By the name behind DCGM_FI_PROF_."""
    return {
        name.removeprefix("DCGM_FI_PROF_"): value
        for name in reading["families"]
        if name.startswith("DCGM_FI_PROF_")
        for labels, value in rows(reading, name)
        if labels["gpu"] == gpu and labels.get("GPU_I_ID") == instance
    }


def expected(more: float = 0.25) -> dict[str, float]:
    ratios = {name: (number + more) / 100 for name, number in RATIOS.items()}
    return ratios | {name: (number + more) * MIB for name, number in RATES.items()}


def test_the_second_reading_has_ratios_and_bytes_a_second_over_the_interval(library):
    first, second, third = read(library, "healthy", "healthy", "healthy")
    assert activity(first, "0") == activity(first, "1") == {}
    assert activity(second, "0") == activity(third, "0") == expected()
    assert activity(second, "1") == expected(10.25)
    assert (first["samples"], second["samples"], third["samples"]) == (4, 4, 4)  # two a GPU, and no more


def test_labels_are_those_of_the_other_metrics_of_the_gpu(library):
    _, second = read(library, "healthy", "healthy")
    tensor, power = rows(second, "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE"), rows(second, "DCGM_FI_DEV_POWER_USAGE")
    assert [labels for labels, _ in tensor] == [labels for labels, _ in power]


def test_a_gpu_before_hopper_has_none_and_takes_no_memory(library):
    _, second = read(library, "unsupported", "unsupported")
    assert activity(second, "0") == expected()
    assert activity(second, "1") == {}
    assert second["samples"] == 2
    assert second["note"] == f"GPU 1: {UNSUPPORTED}"


def test_a_driver_before_520_has_none(tmp_path):
    _, second = read(build(tmp_path, old_driver=True), "healthy", "healthy")
    assert activity(second, "0") == {}
    assert second["samples"] == 0


def test_what_is_not_permitted_is_absent_costs_nothing_else_and_leaks_nothing(library):
    *_, denied, permitted, after = read(library, *["gpm_denied"] * 5, "healthy", "healthy")
    assert activity(denied, "0") == {}
    assert len(rows(denied, "DCGM_FI_DEV_POWER_USAGE")) == 2
    assert denied["samples"] == 0
    assert denied["note"] == f"GPU 0, 1: {REFUSED}"
    assert permitted["note"] == ""
    assert activity(permitted, "0") == {}  # the interval begins with it
    assert activity(after, "0") == expected()


def test_a_metric_that_is_not_a_number_is_absent(library):
    _, second = read(library, "gpm_nan", "gpm_nan")
    assert activity(second, "0") == {
        name: value for name, value in expected().items() if name != "DRAM_ACTIVE"
    }


def test_mig_instances_have_their_own_and_those_that_are_gone_are_freed(library):
    first, second, resized, again, off = read(library, "mig", "mig", "gpm_resized", "gpm_resized", "healthy")
    assert activity(first, "0", "1") == {}
    few = {name: value for name, value in expected().items() if name in RATIOS and RATIOS[name] <= 5}
    assert activity(second, "0", "1") == activity(second, "0", "9") == few
    assert activity(second, "0") == {}  # the whole GPU refuses it in MIG mode
    assert second["note"] == ""
    assert activity(second, "1") == expected(10.25)
    # Instance 9 is another one by now: what was counted for the former is not its own.
    assert activity(resized, "0", "9") == {}
    assert activity(resized, "0", "1") == activity(again, "0", "9") == few
    assert [one["samples"] for one in (first, second, resized, again, off)] == [6, 6, 6, 6, 4]


@pytest.mark.parametrize("how", ["lost", "falling", "gpm_falling", "silent"])
def test_a_lost_gpu_begins_anew_when_it_is_back_and_leaks_nothing(library, how):
    read_before, lost, back, after = read(library, "healthy", how, "healthy", "healthy")
    assert activity(lost, "1") == {}
    assert activity(back, "0") == activity(back, "1") == {}  # the driver was opened anew in between
    assert activity(after, "0") == expected()
    assert activity(after, "1") == expected(10.25)
    assert (read_before["samples"], lost["samples"], after["samples"]) == (4, 0, 4)


def test_a_driver_that_goes_away_takes_its_samples_along(library):
    _, gone, back, after = read(library, "healthy", "unloaded", "healthy", "healthy")
    assert gone["error"] == "CollectFailed"
    assert gone["samples"] == 0
    assert activity(back, "0") == {}
    assert activity(after, "0") == expected()


class FakeLibrary:
    """The part of pynvml that GPM needs; a sample is a list that holds when it was taken."""

    NVML_SUCCESS = 0
    NVML_GPM_METRICS_GET_VERSION = 1
    NVML_GPM_METRIC_SM_UTIL = 2
    NVML_GPM_METRIC_PCIE_TX_PER_SEC = 20

    def __init__(self) -> None:
        self.held: list[list[int]] = []
        self.taken = 0
        self.room = 99
        self.lost = False
        self.intervals: list[tuple[int, int]] = []
        self.answer = 40.0
        self.supported = 1
        self.refuses = False

    def ask(self, function, *arguments):
        if self.lost:
            raise GpuLost("gone")
        return function(*arguments)

    @staticmethod
    def c_nvmlGpmMetricsGet_t():
        return SimpleNamespace(
            metrics=[SimpleNamespace(metricId=0, nvmlReturn=0, value=0.0) for _ in range(2)]
        )

    def nvmlGpmQueryDeviceSupport(self, handle):
        return SimpleNamespace(isSupportedDevice=self.supported)

    def nvmlGpmSampleAlloc(self):
        if len(self.held) >= self.room:
            return None
        self.held.append(sample := [])
        return sample

    def nvmlGpmSampleFree(self, sample):
        self.held = [one for one in self.held if one is not sample]

    def nvmlGpmSampleGet(self, handle, sample):
        if self.refuses:
            return None
        self.taken += 1
        sample[:] = [self.taken]
        return sample

    def nvmlGpmMetricsGet(self, request):
        self.intervals.append((*request.sample1, *request.sample2))
        for metric in request.metrics:
            metric.value = self.answer
        return request


def test_two_readings_too_close_together_answer_the_last_values_and_keep_the_interval_open():
    library, now = FakeLibrary(), [0.0]
    reader = GpmReader(library, library.ask, lambda: now[0])
    assert reader.read("handle", "GPU-a") == ()
    now[0] += SHORTEST_INTERVAL_SECONDS / 2
    assert reader.read("handle", "GPU-a") == ()
    now[0] += SHORTEST_INTERVAL_SECONDS
    values = reader.read("handle", "GPU-a")
    assert values[0] == FieldValue(GpuField.GPM_SM_PERCENT, 40.0)
    library.answer = 50.0
    now[0] += SHORTEST_INTERVAL_SECONDS / 2
    assert reader.read("handle", "GPU-a") == values
    assert library.taken == 2


def test_each_interval_begins_where_the_one_before_ended():
    library, now = FakeLibrary(), iter(range(100))
    reader = GpmReader(library, library.ask, lambda: float(next(now)))
    for _ in range(4):
        reader.read("handle", "GPU-a")
    assert library.intervals == [(1, 2), (2, 3), (3, 4)]


def test_why_there_is_no_activity_is_said_in_words():
    library = FakeLibrary()
    reader = GpmReader(library, library.ask, lambda: 0.0)
    assert reader.missing("GPU-a") == ""
    library.refuses = True
    reader.read("handle", "GPU-a")
    assert reader.missing("GPU-a") == REFUSED
    library.refuses = False
    reader.read("handle", "GPU-a")
    assert reader.missing("GPU-a") == ""
    library.supported = 0
    reader.read("handle", "GPU-b")
    assert reader.missing("GPU-b") == UNSUPPORTED


def test_the_row_on_the_sources_page_says_which_gpus_lack_it():
    lacking = reading(activity_missing=UNSUPPORTED)
    driver = FakeDriver([gpu(0), gpu(1), gpu(2)], {"GPU-00000000": lacking, "GPU-00000002": lacking})
    one = NvmlCollector("node-7", open_devices=driver, proc=Path("/nonexistent"))
    one.collect()
    assert one.note == f"GPU 0, 2: {UNSUPPORTED}"
    assert one.trouble == ""
    driver.readings.clear()
    one.collect()
    assert one.note == ""


def test_no_memory_for_a_sample_is_no_values_and_no_leak():
    library = FakeLibrary()
    reader = GpmReader(library, library.ask, lambda: 0.0)
    library.room = 1
    assert reader.read("handle", "GPU-a") == ()
    assert library.held == []


def test_closing_frees_all_and_never_raises_even_when_the_gpu_is_lost():
    library, now = FakeLibrary(), iter(range(100))
    reader = GpmReader(library, library.ask, lambda: float(next(now)))
    for uuid in ("GPU-a", "GPU-b"):
        reader.read("handle", uuid)
    assert len(library.held) == 4
    reader.close()
    assert library.held == []
    reader.read("handle", "GPU-a")
    library.lost = True
    with pytest.raises(GpuLost):
        reader.read("handle", "GPU-a")
    reader.close()


@pytest.mark.parametrize(
    ("value", "kept"),
    [
        (0.0, 0.0),
        (0.013, 0.013),
        (100.0, 100.0),
        (100.4, 100.0),
        *((value, None) for value in (101.5, -0.1, math.nan, math.inf, 2.0**63)),
    ],
)
def test_a_percentage_is_within_its_range_or_absent(value, kept):
    assert [one.value for one in averaged(GpuField.GPM_TENSOR_PERCENT, value)] == (
        [] if kept is None else [kept]
    )


def test_a_rate_that_no_link_has_is_absent():
    rate = GpuField.GPM_NVLINK_TRANSMITTED_MIB_PER_SECOND
    assert [one.value for one in averaged(rate, 900e9 / MIB)] == [900e9 / MIB]
    assert list(averaged(rate, 2.0**50)) == []


def test_the_numbers_of_the_metrics_are_those_of_the_installed_pynvml():
    numbers = {name: getattr(pynvml, name) for name in GPM_METRICS}
    assert sorted(numbers.values()) == sorted((RATIOS | RATES).values())
    assert ctypes.sizeof(pynvml.c_nvmlGpmMetricsGet_t) >= 24 + 40 * max(numbers.values())
