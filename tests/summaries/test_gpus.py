import numpy as np
import pytest

from app.analysis.grid import time_grid
from app.summaries.gpus import summarise_gpus
from db.labels import labels_from
from db.records import Series

END = 1_000_000_060_000
GRID = time_grid(END, 60_000, 12)


def series(name, value, **labels):
    pairs = {"job": "nvml", "instance": "box-1", "gpu": "0", "UUID": "GPU-a", "modelName": "H200", **labels}
    return Series(labels_from(pairs, name), np.array([END - 10_000, END - 5_000]), np.array([0.0, value]))


def test_units_are_ratio_bytes_watts_and_degrees():
    (gpu,) = summarise_gpus(
        [
            series("DCGM_FI_DEV_GPU_UTIL", 71.0),
            series("DCGM_FI_DEV_FB_USED", 90_000.0),
            series("DCGM_FI_DEV_FB_FREE", 50_000.0),
            series("DCGM_FI_DEV_FB_RESERVED", 500.0),
            series("DCGM_FI_DEV_POWER_USAGE", 412.375),
            series("DCGM_FI_DEV_GPU_TEMP", 63.0),
        ],
        GRID,
    )
    assert gpu.utilisation_ratio.value == pytest.approx(0.71)
    assert gpu.memory_used_bytes.value == 90_000 * 2**20
    assert gpu.memory_total_bytes == 140_500 * 2**20
    assert gpu.power_watts.value == 412.375
    assert gpu.temperature_celsius.value == 63.0


def test_memory_without_its_free_part_has_no_total():
    (gpu,) = summarise_gpus([series("DCGM_FI_DEV_FB_USED", 5.0)], GRID)
    assert gpu.memory_total_bytes is None


def test_a_mig_instance_is_a_device_of_its_own_with_its_own_activity():
    mig = {"GPU_I_ID": "3", "GPU_I_PROFILE": "1g.18gb"}
    whole, slice_ = summarise_gpus(
        [series("DCGM_FI_DEV_GPU_UTIL", 9.0), series("DCGM_FI_PROF_GR_ENGINE_ACTIVE", 0.5, **mig)], GRID
    )
    assert (whole.mig, slice_.mig) == ("", "3 1g.18gb")
    assert slice_.utilisation_ratio.value == 0.5


def test_an_exporter_that_changed_its_labels_is_still_one_gpu():
    old = series("DCGM_FI_DEV_GPU_UTIL", float("nan"), pod="a")
    (gpu,) = summarise_gpus([old, series("DCGM_FI_DEV_GPU_UTIL", 40.0, pod="b")], GRID)
    assert gpu.utilisation_ratio.value == pytest.approx(0.4)


def test_gpus_come_in_natural_order():
    found = summarise_gpus(
        [series("DCGM_FI_DEV_GPU_UTIL", 1.0, gpu=str(n), UUID=f"GPU-{n}") for n in (10, 2, 0)], GRID
    )
    assert [gpu.index for gpu in found] == ["0", "2", "10"]


def test_an_unsupported_field_is_missing_not_zero():
    (gpu,) = summarise_gpus([series("DCGM_FI_DEV_GPU_UTIL", 1.0)], GRID)
    assert gpu.power_watts.value is None
    assert gpu.temperature_celsius.value is None
