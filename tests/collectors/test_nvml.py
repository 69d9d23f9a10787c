"""The NVML collector over a fake driver: what it publishes, under which labels, and how it fails."""

import os
import threading
import time
from pathlib import Path

import pytest

from collectors.nvml import REOPEN_EVERY, NvmlCollector
from collectors.nvml_device import (
    MIB,
    DriverFailed,
    FieldValue,
    GpuField,
    GpuProcess,
    MigInstance,
    NoDriver,
    NotLoaded,
    XidError,
)
from collectors.types import CollectFailed, Family, NoData, Unsupported
from tests.fakes_nvml import FakeDriver, driver_of_capture, gpu, reading

CAPTURES = Path(__file__).parent.parent / "fixtures" / "nvidia-smi"
ALL_FIELDS = {name: 1000 + number for number, name in enumerate(GpuField)}


def collector(driver, **more):
    return NvmlCollector("node-7", open_devices=driver, **({"proc": Path("/nonexistent")} | more))


def samples(families: tuple[Family, ...], name: str) -> list[tuple[dict[str, str], float]]:
    return [
        (dict(one.labels), one.value) for family in families if family.name == name for one in family.samples
    ]


def values(families, name):
    return [value for _, value in samples(families, name)]


def test_labels_are_those_of_dcgm_exporter_in_its_order():
    families = collector(FakeDriver()).collect()
    (family,) = [one for one in families if one.name == "DCGM_FI_DEV_GPU_TEMP"]
    assert family.samples[0].labels == (
        ("gpu", "0"),
        ("UUID", "GPU-00000000"),
        ("pci_bus_id", "00000000:1B:00.0"),
        ("device", "nvidia0"),
        ("modelName", "NVIDIA H200"),
        ("Hostname", "node-7"),
        ("DCGM_FI_DRIVER_VERSION", "590.48.01"),
    )
    assert family.samples[0].timestamp_ms is None


@pytest.mark.parametrize(
    ("field", "raw", "name", "published"),
    [
        (GpuField.POWER_MILLIWATTS, 627_400, "DCGM_FI_DEV_POWER_USAGE", 627.4),
        (GpuField.ENERGY_MILLIJOULES, 5_551_899_580, "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", 5_551_899_580),
        (GpuField.FB_USED_BYTES, 3 * MIB // 2, "DCGM_FI_DEV_FB_USED", 1.5),
        (GpuField.POWER_VIOLATION_NANOSECONDS, 7_000, "DCGM_FI_DEV_POWER_VIOLATION", 7_000),
        (GpuField.SM_CLOCK_MHZ, 1980, "DCGM_FI_DEV_SM_CLOCK", 1980),
        (GpuField.GPM_TENSOR_PERCENT, 41.5, "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE", 0.415),
        (GpuField.GPM_NVLINK_RECEIVED_MIB_PER_SECOND, 1.5, "DCGM_FI_PROF_NVLINK_RX_BYTES", 1.5 * MIB),
    ],
)
def test_units_are_the_exporters(field, raw, name, published):
    families = collector(FakeDriver(readings={"GPU-00000000": reading({field: raw})})).collect()
    assert values(families, name) == [published]


def test_a_field_that_the_driver_does_not_answer_is_absent_and_a_true_zero_is_not():
    driver = FakeDriver(readings={"GPU-00000000": reading({GpuField.GPU_UTIL_PERCENT: 0}, watches_xid=False)})
    families = collector(driver).collect()
    assert {one.name: one.samples[0].value for one in families} == {
        "strata_gpu_up": 1,
        "DCGM_FI_DEV_GPU_UTIL": 0,
    }


def test_every_field_but_the_two_link_counters_has_a_metric():
    families = collector(FakeDriver(readings={"GPU-00000000": reading(ALL_FIELDS)})).collect()
    names = [one.name for one in families]
    assert (
        len(names) == len(set(names)) == len(GpuField) - 2 + len({"strata_gpu_up", "DCGM_FI_DEV_XID_ERRORS"})
    )


@pytest.mark.parametrize("load", [False, True])
def test_the_numbers_of_a_real_h200_come_out_under_dcgm_names(load):
    families = collector(driver_of_capture(CAPTURES / "nvidia-h200__590.48.01.capture.txt", load)).collect()
    seen = {one.name.removeprefix("DCGM_FI_DEV_"): one.samples[0].value for one in families}
    expected = {"SM_CLOCK": 1980, "GPU_TEMP": 52, "MEMORY_TEMP": 40, "POWER_USAGE": 627.4, "GPU_UTIL": 100}
    expected |= {"MEM_COPY_UTIL": 7, "FB_USED": 32362, "FB_FREE": 110796, "CLOCKS_EVENT_REASONS": 0}
    if not load:
        expected = {"SM_CLOCK": 345, "GPU_TEMP": 28, "MEMORY_TEMP": 32, "GPU_UTIL": 0, "MEM_COPY_UTIL": 0}
        expected |= {"FB_USED": 0, "FB_FREE": 143158, "CLOCKS_EVENT_REASONS": 1}
    always = {"MEM_CLOCK": 3201, "FB_RESERVED": 614, "ENFORCED_POWER_LIMIT": 700, "POWER_MGMT_LIMIT_MIN": 200}
    always |= {
        "PCIE_LINK_GEN": 5,
        "PCIE_LINK_WIDTH": 16,
        "CORRECTABLE_REMAPPED_ROWS": 0,
        "ROW_REMAP_FAILURE": 0,
    }
    assert expected | always == {name: seen[name] for name in expected | always}
    assert "RETIRED_SBE" not in seen  # nvidia-smi: [N/A]
    assert abs(seen["FB_FREE"] + seen["FB_USED"] + seen["FB_RESERVED"] - 143771) <= 1  # three rounded MiB
    pids = {
        labels["pid"]: value / MIB for labels, value in samples(families, "strata_gpu_process_memory_bytes")
    }
    assert pids == ({"10291": 2566, "10293": 1542, "10309": 28234} if load else {})


def test_an_l40s_has_no_memory_temperature_instead_of_zero_degrees():
    families = collector(driver_of_capture(CAPTURES / "nvidia-l40s__595.80.capture.txt", False)).collect()
    assert values(families, "DCGM_FI_DEV_MEMORY_TEMP") == []
    assert values(families, "DCGM_FI_DEV_GPU_TEMP") == [63]
    assert values(families, "DCGM_FI_DEV_POWER_VIOLATION") == [200_740_215_000]


def test_mig_instances_are_rows_of_their_own_beside_their_gpu():
    families = collector(
        driver_of_capture(CAPTURES / "nvidia-h100-mig__590.48.01.capture.txt", True)
    ).collect()
    assert values(families, "DCGM_FI_DEV_GPU_UTIL") == []  # N/A in MIG mode
    rows = samples(families, "DCGM_FI_DEV_FB_USED")
    whole, *instances = rows
    assert "GPU_I_ID" not in whole[0]
    assert [(one["GPU_I_ID"], one["GPU_I_PROFILE"], value) for one, value in instances] == [
        ("2", "3g.40gb", 11091),
        ("3", "2g.20gb", 17),
        ("9", "1g.10gb", 9),
        ("10", "1g.10gb", 9),
    ]
    assert {one["UUID"] for one, _ in rows} == {whole[0]["UUID"]}
    processes = samples(families, "strata_gpu_process_memory_bytes")
    assert [(one["GPU_I_ID"], one["pid"], value / MIB) for one, value in processes] == [
        ("2", "21180", 2296),
        ("2", "21181", 1272),
        ("2", "21198", 7484),
    ]


def test_no_driver_is_unsupported_and_the_collector_stays_usable():
    driver = FakeDriver(unopenable=NoDriver("no NVIDIA driver on this machine (libnvidia-ml.so.1 not found)"))
    one = collector(driver)
    with pytest.raises(
        Unsupported, match=r"^no NVIDIA driver on this machine \(libnvidia-ml\.so\.1 not found\)$"
    ):
        one.collect()
    driver.unopenable = None  # installed since
    assert values(one.collect(), "strata_gpu_up") == [1]


def test_a_driver_that_is_not_loaded_fails_where_the_hardware_is_there(tmp_path):
    driver = FakeDriver(unopenable=NotLoaded("not loaded"))
    with pytest.raises(Unsupported):
        collector(driver, proc=tmp_path).collect()
    (tmp_path / "bus/pci").mkdir(parents=True)
    (tmp_path / "bus/pci/devices").write_text("0000\t80860d57\t0\t\n8300\t10de2335\t7e\t10de\n")
    with pytest.raises(CollectFailed, match="modprobe nvidia"):
        collector(driver, proc=tmp_path).collect()


def test_a_driver_without_gpus_has_no_data():
    with pytest.raises(NoData, match="lists no GPU"):
        collector(FakeDriver(gpus=[])).collect()


def test_a_driver_that_stops_answering_fails_with_its_reason_and_is_opened_again():
    driver = FakeDriver()
    one = collector(driver)
    one.collect()
    driver.broken = DriverFailed("the driver was unloaded")
    with pytest.raises(CollectFailed, match="the driver was unloaded"):
        one.collect()
    driver.unopenable = NoDriver("no driver")  # it was there: absence is now a failure, not "unsupported"
    with pytest.raises(CollectFailed, match="answered before"):
        one.collect()
    driver.broken = driver.unopenable = None
    assert values(one.collect(), "strata_gpu_up") == [1]
    assert (driver.opened, driver.closed) == (2, 1)


def test_one_lost_gpu_does_not_hide_the_others(caplog):
    driver = FakeDriver(gpus=[gpu(0), gpu(1), gpu(2)])
    one = collector(driver)
    one.collect()
    driver.lost["GPU-00000001"] = "GPU is lost"
    driver.xids.append(XidError("GPU-00000001", 79, None))
    families = one.collect()
    assert {labels["gpu"]: value for labels, value in samples(families, "strata_gpu_up")} == {
        "0": 1,
        "2": 1,
        "1": 0,
    }
    assert {labels["gpu"] for labels, _ in samples(families, "DCGM_FI_DEV_GPU_TEMP")} == {"0", "2"}
    assert {one["gpu"]: value for one, value in samples(families, "DCGM_FI_DEV_XID_ERRORS")}["1"] == 79
    one.collect()
    assert [record.message for record in caplog.records] == ["GPU GPU-00000001 does not answer: GPU is lost"]


def test_a_gpu_that_the_driver_no_longer_lists_is_still_reported_by_name():
    driver = FakeDriver(gpus=[gpu(0), gpu(1), gpu(2)])
    one = collector(driver)
    one.collect()
    del driver.gpus[1]  # after a driver restart the index of GPU 2 moves down
    up = {labels["UUID"]: value for labels, value in samples(one.collect(), "strata_gpu_up")}
    assert up == {"GPU-00000000": 1, "GPU-00000001": 0, "GPU-00000002": 1}


def test_a_lost_gpu_makes_the_driver_be_opened_again_at_once_and_then_rarely():
    driver = FakeDriver(gpus=[gpu(0), gpu(1)], lost={"GPU-00000001": "GPU requires restart"})
    one = collector(driver)
    for _ in range(REOPEN_EVERY):
        one.collect()
    assert driver.opened == 2
    for _ in range(REOPEN_EVERY):
        one.collect()
    assert driver.opened == 3
    driver.lost.clear()
    assert values(one.collect(), "strata_gpu_up") == [1, 1]


def test_of_a_gpu_that_a_scraped_target_exposes_only_the_processes_are_published():
    driver = FakeDriver(
        gpus=[gpu(0), gpu(1)],
        readings={
            "GPU-00000000": reading(
                instances=(
                    MigInstance(
                        9,
                        "1g.10gb",
                        (FieldValue(GpuField.FB_USED_BYTES, MIB),),
                        (GpuProcess(2, "compute", 2 * MIB),),
                    ),
                ),
                processes=(GpuProcess(1, "compute", MIB),),
            )
        },
    )
    exposed: set[str] = set()
    one = collector(driver, suppressed_uuids=lambda: frozenset(exposed))
    one.collect()
    exposed.add("GPU-00000000")
    families = one.collect()
    names = {
        family.name
        for family in families
        for sample in family.samples
        if dict(sample.labels)["UUID"] == "GPU-00000000"
    }
    assert names == {"strata_gpu_process_memory_bytes"}
    assert [
        (labels["pid"], labels.get("GPU_I_ID"), value)
        for labels, value in samples(families, "strata_gpu_process_memory_bytes")
    ] == [("1", None, MIB), ("2", "9", 2 * MIB)]
    assert values(families, "strata_gpu_up") == [1]
    exposed.add("GPU-00000001")
    assert [family.name for family in one.collect()] == ["strata_gpu_process_memory_bytes"]
    driver.lost["GPU-00000000"] = driver.lost["GPU-00000001"] = "lost"  # which is the exporter's to say
    with pytest.raises(NoData, match="scraped target"):
        one.collect()
    driver.lost.clear()
    exposed.clear()
    assert values(one.collect(), "strata_gpu_up") == [1, 1]


def test_a_gpu_that_this_process_may_not_see_is_skipped():
    assert values(collector(FakeDriver(gpus=[None, gpu(1)])).collect(), "strata_gpu_up") == [1]
    with pytest.raises(NoData, match="hidden"):
        collector(FakeDriver(gpus=[None])).collect()


def test_xid_is_zero_until_one_is_seen_then_the_last_one_and_absent_where_unwatched():
    driver = FakeDriver(gpus=[gpu(0), gpu(1)], readings={"GPU-00000001": reading(watches_xid=False)})
    one = collector(driver)
    assert values(one.collect(), "DCGM_FI_DEV_XID_ERRORS") == [0]
    driver.xids += [XidError("GPU-00000000", 31, None), XidError("GPU-00000000", 48, None)]
    assert values(one.collect(), "DCGM_FI_DEV_XID_ERRORS") == [48]
    assert values(one.collect(), "DCGM_FI_DEV_XID_ERRORS") == [48]


def test_an_xid_of_a_mig_instance_is_its_own():
    driver = FakeDriver(
        readings={
            "GPU-00000000": reading(
                instances=(MigInstance(9, "1g.10gb", (), ()), MigInstance(10, "", (), ()))
            )
        },
        xids=[XidError("GPU-00000000", 43, 9)],
    )
    rows = samples(collector(driver).collect(), "DCGM_FI_DEV_XID_ERRORS")
    assert [(labels.get("GPU_I_ID"), value) for labels, value in rows] == [(None, 0), ("9", 43), ("10", 0)]
    assert "GPU_I_PROFILE" not in rows[2][0]  # a profile that is not known is no label


def test_nvlink_bandwidth_is_a_rate_over_all_links_and_starts_with_the_second_reading():
    now = [100.0]
    driver = FakeDriver()
    one = collector(driver, clock=lambda: now[0])

    def read(sent: int, received: int) -> list[float]:
        driver.readings["GPU-00000000"] = reading(
            {GpuField.NVLINK_DATA_TRANSMITTED_KIB: sent, GpuField.NVLINK_DATA_RECEIVED_KIB: received}
        )
        return values(one.collect(), "DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL")

    assert read(1_000_000, 0) == []
    now[0] += 10
    assert read(4_000_000, 2_000_000) == [500.0]  # 5,000,000 KiB in 10 s, in DCGM's 1000-KiB "MB"
    assert read(5_000_000, 2_000_000) == []  # no time has passed
    now[0] += 10
    assert read(0, 0) == []  # a reset
    now[0] += 10
    assert read(0, 0) == [0.0]


def test_processes_whose_memory_the_driver_hides_are_absent(tmp_path):
    processes = (GpuProcess(7, "compute", None), GpuProcess(8, "graphics", 3 * MIB))
    driver = FakeDriver(readings={"GPU-00000000": reading(processes=processes)})
    rows = samples(collector(driver, proc=tmp_path).collect(), "strata_gpu_process_memory_bytes")
    assert rows == [({"gpu": "0", "UUID": "GPU-00000000", "pid": "8", "type": "graphics"}, 3 * MIB)]


def test_a_forked_child_opens_the_driver_for_itself():
    driver = FakeDriver()
    one = collector(driver)
    one.collect()
    child = os.fork()
    if child == 0:
        try:
            one.collect()
        finally:  # whatever happened, the child must not go on with the test run
            os._exit(0 if (driver.opened, driver.closed) == (2, 0) else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_a_driver_that_hangs_fails_the_next_reading_at_once():
    release = threading.Event()
    entered = threading.Event()

    def hanging() -> frozenset[str]:
        entered.set()
        release.wait(20)
        return frozenset()

    one = collector(FakeDriver(), suppressed_uuids=hanging)
    stuck = threading.Thread(target=one.collect)
    stuck.start()
    assert entered.wait(20)
    with pytest.raises(CollectFailed, match="hangs"):
        one.collect()
    release.set()
    stuck.join()
    assert values(one.collect(), "strata_gpu_up") == [1]


def test_eight_gpus_with_processes_take_milliseconds(tmp_path):
    for pid in range(64):
        (tmp_path / str(pid)).mkdir()
        (tmp_path / str(pid) / "status").write_text("Name:\tpython\nUid:\t0\t0\t0\t0\n")
        (tmp_path / str(pid) / "cmdline").write_bytes(b"python\0train.py\0")
    cards = [gpu(index) for index in range(8)]
    driver = FakeDriver(cards)
    for number, card in enumerate(cards):
        held = tuple(GpuProcess(8 * number + one, "compute", MIB) for one in range(8))
        driver.readings[card.uuid] = reading(ALL_FIELDS, processes=held)
    one = collector(driver, proc=tmp_path)
    one.collect()
    started = time.process_time()
    for _ in range(10):
        one.collect()
    assert (time.process_time() - started) / 10 < 0.05
