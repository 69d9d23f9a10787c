"""The ctypes path itself: real pynvml, in a fresh process, against a C library with NVML's interface."""

import ctypes
import inspect
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pynvml
import pytest

import collectors.nvml_driver
import collectors.nvml_gpm
from collectors.nvml_fields import BATCH_FIELDS, GPM_METRICS
from tests.nvml_abi.build import SOURCE, build

ROOT = Path(__file__).parent.parent.parent
CAPTURE = ROOT / "tests/fixtures/nvidia-smi/nvidia-h100-mig__590.48.01.capture.txt"


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    return build(tmp_path_factory.mktemp("nvml"))


@pytest.fixture(scope="module")
def old_library(tmp_path_factory):
    return build(tmp_path_factory.mktemp("nvml_old"), old_driver=True)


def read(library: Path | None, *scenarios: str, proc: Path = Path("/nonexistent")) -> list[dict]:
    """One reading per scenario, in one process."""
    environment = os.environ | {"LD_LIBRARY_PATH": "" if library is None else str(library.parent)}
    command = [sys.executable, "-W", "error", "-m", "tests.nvml_abi.dump", str(proc), *scenarios]
    done = subprocess.run(
        command, capture_output=True, text=True, cwd=ROOT, env=environment, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def rows(reading: dict, name: str) -> list[tuple[dict[str, str], float]]:
    return [(labels, value) for labels, value in reading["families"].get(name, {"samples": []})["samples"]]


GPM_FUNCTIONS = ("QueryDeviceSupport", "SampleAlloc", "SampleFree", "SampleGet", "MigSampleGet", "MetricsGet")


def dcgm(reading: dict, gpu: str) -> dict[str, float]:
    """The whole-GPU values of one GPU, by the name behind DCGM_FI_DEV_."""
    return {
        name.removeprefix("DCGM_FI_DEV_"): value
        for name in reading["families"]
        for labels, value in rows(reading, name)
        if labels["gpu"] == gpu and "GPU_I_ID" not in labels and "pid" not in labels
    }


BATCHED = {
    "POWER_VIOLATION": 5074, "THERMAL_VIOLATION": 5075, "SYNC_BOOST_VIOLATION": 5076,
    "BOARD_LIMIT_VIOLATION": 5077, "LOW_UTIL_VIOLATION": 5078, "RELIABILITY_VIOLATION": 5079,
    "ECC_SBE_VOL_TOTAL": 5003, "ECC_DBE_VOL_TOTAL": 5004, "ECC_SBE_AGG_TOTAL": 5005,
    "ECC_DBE_AGG_TOTAL": 5006, "PCIE_REPLAY_COUNTER": 5094, "CORRECTABLE_REMAPPED_ROWS": 5142,
    "UNCORRECTABLE_REMAPPED_ROWS": 5143, "ROW_REMAP_PENDING": 5144, "ROW_REMAP_FAILURE": 5145,
    "NVLINK_COUNT_TX_BYTES": 5202, "NVLINK_COUNT_RX_BYTES": 5204, "GET_GPU_RECOVERY_ACTION": 5230,
    "CLOCKS_EVENT_REASON_SW_THERM_SLOWDOWN_NS": 5269, "CLOCKS_EVENT_REASON_HW_THERM_SLOWDOWN_NS": 5270,
    "CLOCKS_EVENT_REASON_HW_POWER_BRAKE_SLOWDOWN_NS": 5271,
    "NVLINK_ERROR_DL_REPLAY": 5161, "NVLINK_ERROR_DL_RECOVERY": 5162, "NVLINK_ERROR_DL_CRC": 5163,
    "NVLINK_COUNT_RX_ERRORS": 5208, "NVLINK_COUNT_LOCAL_LINK_INTEGRITY_ERRORS": 5211,
    "NVLINK_COUNT_TX_DISCARDS": 5212, "NVLINK_COUNT_LINK_RECOVERY_SUCCESSFUL_EVENTS": 5213,
    "NVLINK_COUNT_LINK_RECOVERY_FAILED_EVENTS": 5214, "NVLINK_COUNT_EFFECTIVE_ERRORS": 5219,
    "NVLINK_COUNT_RX_SYMBOL_ERRORS": 5221,
}  # fmt: skip
SINGLE = {
    "strata_gpu_up": 1, "SM_CLOCK": 1980, "MEM_CLOCK": 3201, "GPU_TEMP": 52, "MEMORY_TEMP": 40,
    "POWER_USAGE": 627.4, "TOTAL_ENERGY_CONSUMPTION": 5551899580, "GPU_UTIL": 97, "MEM_COPY_UTIL": 7,
    "ENC_UTIL": 11, "DEC_UTIL": 21, "FB_FREE": 142157, "FB_USED": 1000, "FB_RESERVED": 614,
    "POWER_MGMT_LIMIT": 690, "POWER_MGMT_LIMIT_MIN": 200, "POWER_MGMT_LIMIT_MAX": 700,
    "POWER_MGMT_LIMIT_DEF": 695, "ENFORCED_POWER_LIMIT": 680, "PCIE_LINK_GEN": 3, "PCIE_LINK_WIDTH": 8,
    "PCIE_MAX_LINK_GEN": 5, "PCIE_MAX_LINK_WIDTH": 16, "CLOCKS_EVENT_REASONS": 0x100000044, "XID_ERRORS": 0,
}  # fmt: skip


def test_structures_have_the_layout_that_pynvml_uses(library):
    abi = ctypes.CDLL(str(library))
    abi.nvml_abi_layout.restype = ctypes.c_char_p
    lines = abi.nvml_abi_layout().decode().splitlines()
    assert len(lines) == 10
    for line in lines:
        name, size, *members = line.split()
        structure = getattr(pynvml, name)
        if size != "any":  # GPM's request grows with every release of NVML
            assert ctypes.sizeof(structure) == int(size), name
        for member, offset in (one.split(":") for one in members):
            assert getattr(structure, member).offset == int(offset), f"{name}.{member}"
    assert pynvml.nvmlMemory_v2 == ctypes.sizeof(pynvml.c_nvmlMemory_v2_t) | 2 << 24


def test_stand_in_and_driver_name_only_symbols_that_a_real_library_exports():
    real = set(re.findall(r"^nvml\w+$", CAPTURE.read_text(encoding="utf-8"), flags=re.MULTILINE))
    assert len(real) > 400
    ours = set(
        re.findall(
            r"^(?:nvmlReturn_t|const char \*)\s*(nvml[A-Z]\w+)\(", SOURCE.read_text(), flags=re.MULTILINE
        )
    )
    assert len(ours) > 35
    assert ours <= real
    sources = inspect.getsource(collectors.nvml_driver) + inspect.getsource(collectors.nvml_gpm)
    called = set(re.findall(r"nvml\.(nvml[A-Z]\w+)\b", sources))
    functions = [getattr(pynvml, name) for name in called if callable(getattr(pynvml, name))]
    assert len(functions) > 35
    assert {name for name in called if "Gpm" in name} == {f"nvmlGpm{name}" for name in GPM_FUNCTIONS}
    looked_up = {
        symbol for one in functions for symbol in re.findall(r'Pointer\("(\w+)"\)', inspect.getsource(one))
    }
    assert looked_up <= real


def test_every_batched_field_and_gpm_metric_is_known_to_the_installed_pynvml():
    assert [name for name in (*BATCH_FIELDS, *GPM_METRICS) if not hasattr(pynvml, name)] == []


def test_a_healthy_machine_is_read_field_by_field(library):
    (reading,) = read(library, "healthy")
    assert dcgm(reading, "0") == SINGLE | BATCHED
    second = dcgm(reading, "1")
    assert {name: second[name] for name in BATCHED} == {name: value + 100 for name, value in BATCHED.items()}
    assert (second["GPU_TEMP"], second["POWER_USAGE"], second["FB_USED"]) == (53, 627.401, 1001)
    assert rows(reading, "DCGM_FI_DEV_GPU_TEMP")[1][0] == {
        "gpu": "1", "UUID": "GPU-bbbb", "pci_bus_id": "00000000:84:00.0", "device": "nvidia1",
        "modelName": "NVIDIA H200", "Hostname": "node-7", "DCGM_FI_DRIVER_VERSION": "590.48.01",
    }  # fmt: skip


def test_one_reading_costs_few_calls(library):
    _, again = read(library, "healthy", "healthy")
    assert again["calls"] / 2 < 32  # a GPU: one for the whole batch, and none that samples for milliseconds


def test_what_is_refused_or_unknown_is_absent(library):
    (reading,) = read(library, "unsupported")
    assert dcgm(reading, "1") == {"strata_gpu_up": 1, "GPU_TEMP": 53}
    assert dcgm(reading, "0") == SINGLE | BATCHED  # and no RETIRED_*, NVLINK_*_ERROR_COUNT_TOTAL: see field()


def test_memory_temperature_is_read_as_an_integer_whatever_the_driver_calls_it(library):
    (reading,) = read(library, "r545")
    assert dcgm(reading, "0")["MEMORY_TEMP"] == 40


def test_nvlink_is_summed_over_all_links(library):
    first, second, third = read(library, "nvlink", "nvlink", "nvlink")
    assert rows(first, "DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL") == []
    # 1,000,000 KiB each way between two looks at a GPU, which are 20 s of this clock apart.
    assert [value for _, value in rows(second, "DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL")] == [100.0, 100.0]
    assert [value for _, value in rows(third, "DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL")] == [100.0, 100.0]


def test_mig_instances_have_their_own_memory_and_processes_once_each(library):
    (reading,) = read(library, "mig")
    assert {"GPU_UTIL", "MEM_COPY_UTIL", "ENC_UTIL", "DEC_UTIL"} & dcgm(reading, "0").keys() == set()
    assert dcgm(reading, "0")["FB_USED"] == 1000
    assert dcgm(reading, "1")["GPU_UTIL"] == 98
    instances = [
        (labels["UUID"], labels["GPU_I_ID"], labels["GPU_I_PROFILE"], value)
        for labels, value in rows(reading, "DCGM_FI_DEV_FB_FREE")
        if "GPU_I_ID" in labels
    ]
    assert instances == [("GPU-aaaa", "1", "3g.71gb", 70424), ("GPU-aaaa", "9", "1g.18gb+me", 15381)]
    processes = [
        (labels["GPU_I_ID"], labels["pid"]) for labels, _ in rows(reading, "strata_gpu_process_memory_bytes")
    ]
    both_compute_instances = [("1", "1101"), ("1", "1102"), ("1", "2101"), ("1", "2102")]
    assert processes == [*both_compute_instances, ("9", "4101"), ("9", "4102")]


def test_processes_are_listed_once_with_user_and_command(library, tmp_path):
    (tmp_path / "101").mkdir()
    (tmp_path / "101/status").write_text("Name:\tpt_main\nUid:\t3999999999\t0\t0\t0\n")
    (tmp_path / "101/cmdline").write_bytes(b"/usr/bin/python3\0train.py\0--lr\0001\0")
    (reading,) = read(library, "healthy", proc=tmp_path)
    found = rows(reading, "strata_gpu_process_memory_bytes")
    assert found[0] == (
        {
            "gpu": "0",
            "UUID": "GPU-aaaa",
            "pid": "101",
            "user": "3999999999",
            "command": "python3 train.py",
            "type": "compute",
        },
        101 * 2**20,
    )
    kinds = [(labels["pid"], labels["type"]) for labels, _ in found]
    assert kinds == [("101", "compute"), ("102", "compute"), ("104", "compute"), ("103", "graphics")]


def test_processes_whose_memory_is_not_available_are_absent(library):
    (reading,) = read(library, "process_na")
    assert rows(reading, "strata_gpu_process_memory_bytes") == []


def test_xid_events_are_kept_per_gpu_and_other_events_ignored(library):
    first, second, third = read(library, "healthy", "xid", "healthy")
    assert [value for _, value in rows(first, "DCGM_FI_DEV_XID_ERRORS")] == [0, 0]
    assert [value for _, value in rows(second, "DCGM_FI_DEV_XID_ERRORS")] == [31, 94]
    assert [value for _, value in rows(third, "DCGM_FI_DEV_XID_ERRORS")] == [31, 94]


@pytest.mark.parametrize("scenario", ["lost", "falling", "silent"])
def test_one_lost_gpu_does_not_hide_the_other_and_comes_back(library, scenario):
    healthy, broken, still, mended = read(library, "healthy", scenario, scenario, "healthy")
    for reading in (broken, still):
        assert dcgm(reading, "0").items() >= (SINGLE | BATCHED).items()
        assert dcgm(reading, "1") == {"strata_gpu_up": 0}
    assert [labels["UUID"] for labels, _ in rows(still, "strata_gpu_up")] == ["GPU-aaaa", "GPU-bbbb"]
    assert dcgm(mended, "1").items() >= dcgm(healthy, "1").items()
    assert mended["open"] == 1


def test_a_gpu_lost_from_the_start_is_reported_by_its_index(library):
    (reading,) = read(library, "lost")
    assert rows(reading, "strata_gpu_up")[1] == (
        {"gpu": "1", "device": "nvidia1", "Hostname": "node-7", "DCGM_FI_DRIVER_VERSION": "590.48.01"},
        0,
    )


def test_a_driver_reload_is_a_failure_while_it_lasts_and_then_mends_itself(library):
    _, gone, absent, back = read(library, "healthy", "unloaded", "not_loaded", "healthy")
    assert gone["error"] == "CollectFailed"
    assert "kernel driver is not loaded" in gone["message"]
    assert absent["error"] == "CollectFailed"
    assert dcgm(back, "0").items() >= (SINGLE | BATCHED).items()
    assert (back["inits"], back["open"]) == (2, 1)


@pytest.mark.parametrize(
    ("scenario", "error", "words"),
    [
        ("mismatch", "CollectFailed", "differ in version"),
        ("no_permission", "CollectFailed", "/dev/nvidia"),
        ("not_loaded", "Unsupported", "kernel driver is not loaded"),
        ("no_gpus", "NoData", "lists no GPU"),
    ],
)
def test_a_driver_that_does_not_start_says_why(library, scenario, error, words):
    refused, mended = read(library, scenario, "healthy")
    assert refused["error"] == error
    assert words in refused["message"]
    assert dcgm(mended, "0") == SINGLE | BATCHED


def test_a_driver_before_510_gives_what_it_has(old_library):
    (reading,) = read(old_library, "healthy")
    new_only = {"FB_RESERVED", "GET_GPU_RECOVERY_ACTION"}
    newer = ("CLOCKS_EVENT_REASON_", "NVLINK_COUNT_", "NVLINK_ERROR_DL_")
    new_only |= {name for name in BATCHED if name.startswith(newer)}
    expected = {name: value for name, value in (SINGLE | BATCHED).items() if name not in new_only}
    assert dcgm(reading, "0") == expected | {"FB_USED": 1614}  # version 1 counts the reserve as used
    assert len(rows(reading, "strata_gpu_process_memory_bytes")) == 4


def failed_start(environment: dict[str, str]) -> str:
    program = (
        "from collectors.nvml import NvmlCollector\n"
        "try: NvmlCollector('n').collect()\n"
        "except Exception as error: print(type(error).__name__, error)"
    )
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", program],
        capture_output=True, text=True, cwd=ROOT, env=os.environ | environment, timeout=60, check=True,
    )  # fmt: skip
    return done.stdout.strip()


def test_a_library_that_cannot_be_loaded_says_so(tmp_path):
    (tmp_path / "libnvidia-ml.so.1").write_text("not a library" * 1000)
    assert re.match(
        r"CollectFailed libnvidia-ml\.so\.1 cannot be loaded: .*invalid ELF header$",
        failed_start({"LD_LIBRARY_PATH": str(tmp_path)}),
    )


@pytest.mark.skipif(Path("/proc/driver/nvidia/version").exists(), reason="this machine has an NVIDIA driver")
def test_a_machine_without_a_driver_is_unsupported(tmp_path):
    assert failed_start({"LD_LIBRARY_PATH": str(tmp_path)}) == (
        "Unsupported no NVIDIA driver on this machine (libnvidia-ml.so.1 not found)"
    )
