import numpy as np
import pytest

from app.analysis.grid import time_grid
from app.summaries.gpus import read_gpus
from db.labels import labels_from
from db.nan import STALE
from db.records import Series
from tests.summaries.readers import reader, write

END = 1_000_000_060_000
GRID = time_grid(END, 60_000, 12)


def series(metric, value, /, *, at=(END - 10_000, END - 5_000), before=0.0, **labels):
    pairs = {"job": "nvml", "instance": "box-1", "gpu": "0", "UUID": "GPU-a", "modelName": "H200", **labels}
    return Series(labels_from(pairs, metric), np.array(at), np.array([before, value]))


@pytest.fixture
def gpus(store):
    def read(*found, files=()):
        write(store, *found)
        return read_gpus(reader(store, GRID, *files))

    return read


def test_units_are_ratio_bytes_watts_and_degrees(gpus):
    (gpu,) = gpus(
        series("DCGM_FI_DEV_GPU_UTIL", 71.0),
        series("DCGM_FI_DEV_FB_USED", 90_000.0),
        series("DCGM_FI_DEV_FB_FREE", 50_000.0),
        series("DCGM_FI_DEV_FB_RESERVED", 500.0),
        series("DCGM_FI_DEV_POWER_USAGE", 412.375),
        series("DCGM_FI_DEV_GPU_TEMP", 63.0),
    )
    assert gpu.utilisation_ratio.value == pytest.approx(0.71)
    assert gpu.memory_used_bytes.value == 90_000 * 2**20
    assert gpu.memory_total_bytes == 140_500 * 2**20
    assert gpu.power_watts.value == 412.375
    assert gpu.temperature_celsius.value == 63.0
    assert (gpu.host, gpu.index, gpu.uuid, gpu.model, gpu.mig) == ("box-1", "0", "GPU-a", "H200", "")


def test_the_trend_has_the_samples_where_they_were(gpus):
    (gpu,) = gpus(series("DCGM_FI_DEV_POWER_USAGE", 412.0, before=300.0))
    trend = gpu.power_watts.trend
    assert len(trend) == len(GRID)
    expected = np.where(GRID < END - 10_000, np.nan, np.where(GRID < END - 5_000, 300.0, 412.0))
    np.testing.assert_array_equal(trend, expected)


def test_memory_without_its_free_part_has_no_total(gpus):
    (gpu,) = gpus(series("DCGM_FI_DEV_FB_USED", 5.0))
    assert gpu.memory_total_bytes is None


def test_a_mig_instance_is_a_device_of_its_own_with_its_own_activity(gpus):
    mig = {"GPU_I_ID": "3", "GPU_I_PROFILE": "1g.18gb"}
    whole, slice_ = gpus(
        series("DCGM_FI_DEV_GPU_UTIL", 9.0), series("DCGM_FI_PROF_GR_ENGINE_ACTIVE", 0.5, **mig)
    )
    assert (whole.mig, slice_.mig) == ("", "3 1g.18gb")
    assert whole.utilisation_ratio.value == pytest.approx(0.09)
    assert slice_.utilisation_ratio.value == 0.5
    assert slice_.newest_ms == END - 5_000


def test_a_gpu_without_utilisation_shows_how_active_its_engine_is(gpus):
    """As one in MIG mode: it has no utilisation."""
    one, other = gpus(
        series("DCGM_FI_PROF_GR_ENGINE_ACTIVE", 0.4),
        series("DCGM_FI_DEV_GPU_TEMP", 50.0),
        series("DCGM_FI_PROF_GR_ENGINE_ACTIVE", 0.8, gpu="1", UUID="GPU-b"),
        series("DCGM_FI_DEV_GPU_UTIL", 90.0, gpu="1", UUID="GPU-b"),
    )
    assert one.utilisation_ratio.value == 0.4
    assert other.utilisation_ratio.value == pytest.approx(0.9)


def test_a_gpu_that_has_nothing_but_its_activity_is_there(gpus):
    found = gpus(
        series("DCGM_FI_DEV_GPU_UTIL", 90.0),
        series("DCGM_FI_PROF_GR_ENGINE_ACTIVE", 0.8, gpu="1", UUID="GPU-b"),
    )
    assert [gpu.utilisation_ratio.value for gpu in found] == pytest.approx([0.9, 0.8])


def test_an_exporter_that_changed_its_labels_is_still_one_gpu(gpus):
    old = series("DCGM_FI_DEV_GPU_UTIL", float("nan"), pod="a")
    (gpu,) = gpus(old, series("DCGM_FI_DEV_GPU_UTIL", 40.0, pod="b"))
    assert gpu.utilisation_ratio.value == pytest.approx(0.4)


def test_gpus_come_in_natural_order(gpus):
    found = gpus(*(series("DCGM_FI_DEV_GPU_UTIL", 1.0, gpu=str(n), UUID=f"GPU-{n}") for n in (10, 2, 0)))
    assert [gpu.index for gpu in found] == ["0", "2", "10"]


def test_an_unsupported_field_is_missing_not_zero(gpus):
    (gpu,) = gpus(series("DCGM_FI_DEV_GPU_UTIL", 1.0))
    assert gpu.power_watts.value is None
    assert gpu.temperature_celsius.value is None


OLD = {
    "DCGM_FI_DEV_GPU_UTIL": 71.0,
    "DCGM_FI_DEV_FB_USED": 90_000.0,
    "DCGM_FI_DEV_FB_FREE": 50_000.0,
    "DCGM_FI_DEV_POWER_USAGE": 412.375,
    "DCGM_FI_DEV_GPU_TEMP": 63.0,
    "DCGM_FI_DEV_SM_CLOCK": 1980.0,
}
# As dcgm-exporter 4.9 calls them, with DCGM 4.7's units.
NEW = {
    "DCGM_FI_DEV_GPU_UTIL_RATIO": 0.71,
    "DCGM_FI_DEV_FB_USED_BYTES": 90_000.0 * 2**20,
    "DCGM_FI_DEV_FB_FREE_BYTES": 50_000.0 * 2**20,
    "DCGM_FI_DEV_BOARD_POWER_WATTS": 412.375,
    "DCGM_FI_DEV_GPU_TEMP_CELSIUS": 63.0,
    "DCGM_FI_DEV_SM_CLOCK_HERTZ": 1.98e9,
}


def test_new_names_and_units_of_an_exporter_make_the_same_card(gpus):
    old, new = gpus(
        *(series(name, value, Hostname="box-1") for name, value in OLD.items()),
        *(
            series(name, value, gpu="1", UUID="GPU-b", hostname="box-1", modelName="H200")
            for name, value in NEW.items()
        ),
    )
    assert (old.uuid, new.uuid) == ("GPU-a", "GPU-b")
    values = [
        (
            gpu.instance,
            gpu.host,
            gpu.model,
            gpu.newest_ms,
            pytest.approx(gpu.utilisation_ratio.value),
            gpu.memory_used_bytes.value,
            gpu.memory_total_bytes,
            gpu.power_watts.value,
            gpu.temperature_celsius.value,
        )
        for gpu in (old, new)
    ]
    assert values[0] == values[1]
    assert old.utilisation_ratio.value == pytest.approx(0.71)


def test_a_gpu_that_two_exporters_report_is_one_card(gpus):
    found = gpus(
        *(series(name, value, Hostname="box-1") for name, value in OLD.items()),
        *(series(name, value, hostname="box-1", instance="box-1:9400") for name, value in NEW.items()),
    )
    assert [gpu.uuid for gpu in found] == ["GPU-a"]
    assert found[0].power_watts.value == 412.375


def test_other_makers_gpus_are_there_too(gpus):
    amd = {"UUID": "", "modelName": "", "gpu": "", "gpu_id": "3", "gpu_uuid": "u-3", "hostname": "amd-1"}
    (gpu,) = gpus(
        series("amd_gpu_gfx_activity", 64.0, card_series="MI300X", **amd),
        series("amd_gpu_used_vram", 1024.0, card_series="MI300X", **amd),
        series("amd_gpu_package_power", 600.0, card_series="MI300X", **amd),
    )
    assert (gpu.host, gpu.index, gpu.uuid, gpu.model) == ("amd-1", "3", "u-3", "MI300X")
    assert gpu.utilisation_ratio.value == pytest.approx(0.64)
    assert gpu.memory_used_bytes.value == 2**30
    assert gpu.power_watts.value == 600.0


def test_it_is_as_old_as_its_newest_sample(gpus):
    (gpu,) = gpus(
        series("DCGM_FI_DEV_GPU_UTIL", 1.0, at=(END - 50_000, END - 40_000)),
        series("DCGM_FI_DEV_GPU_TEMP", 50.0, at=(END - 50_000, END - 40_000)),
    )
    assert gpu.newest_ms == END - 40_000
    assert gpu.instance == "box-1"
    assert gpu.temperature_celsius.value == 50.0


def test_a_gpu_that_ended_is_shown_with_what_is_known(gpus):
    ended = series("DCGM_FI_DEV_GPU_TEMP", STALE, before=50.0, at=(END - 42_000, END - 27_000))
    alive = series("DCGM_FI_DEV_GPU_TEMP", 60.0, gpu="1", UUID="GPU-b")
    gone, there = gpus(ended, alive)
    assert gone.temperature_celsius.value is None
    assert gone.newest_ms is not None
    assert END - 42_000 <= gone.newest_ms < END - 27_000
    assert there.newest_ms == END - 5_000


def test_an_exporter_that_names_its_gpus_in_its_promql_is_as_old_as_its_page(gpus):
    own = {"UUID": "", "gpu": "", "modelName": "", "uuid": "a1", "instance": "win-1:9835"}
    (gpu,) = gpus(
        series("nvidia_smi_temperature_gpu", 55.0, **own),
        series("nvidia_smi_gpu_info", 1.0, before=1.0, index="0", name="RTX", **own),
    )
    assert (gpu.host, gpu.uuid, gpu.index, gpu.model) == ("win-1", "GPU-a1", "0", "RTX")
    assert gpu.newest_ms == END - 5_000
    assert gpu.instance == "win-1:9835"


def test_a_signal_that_fails_is_told_and_the_others_stand(store, tmp_path):
    file = tmp_path / "mine.yaml"
    file.write_text(
        "exporters:\n"
        "  mine:\n"
        "    title: Mine\n"
        "    detect: [DCGM_FI_DEV_POWER_USAGE]\n"
        "    signals:\n"
        "      gpu_power_watts: {value: DCGM_FI_DEV_POWER_USAGE * on (instance) DCGM_FI_DEV_POWER_USAGE}\n"
    )
    write(
        store,
        series("DCGM_FI_DEV_POWER_USAGE", 1.0),
        series("DCGM_FI_DEV_POWER_USAGE", 1.0, gpu="1", UUID="GPU-b"),
        series("DCGM_FI_DEV_GPU_TEMP", 50.0),
    )
    look = reader(store, GRID, file)
    (gpu,) = read_gpus(look)
    assert gpu.temperature_celsius.value == 50.0
    assert gpu.power_watts.value is None
    [problem] = look.problems
    assert problem.startswith("gpu_power_watts: ")
    assert "many-to-many" in problem or "duplicate" in problem


def test_a_users_signal_of_something_else_under_that_name_is_told(store, tmp_path):
    file = tmp_path / "mine.yaml"
    file.write_text(
        "signals:\n"
        "  gpu_temperature_celsius:\n"
        "    {layer: infrastructure, entity: node, unit: celsius, good: low, by: [node], combine: max,\n"
        "     title: T, means: 'Mine.'}\n"
    )
    write(store, series("DCGM_FI_DEV_GPU_UTIL", 40.0), series("DCGM_FI_DEV_GPU_TEMP", 50.0))
    look = reader(store, GRID, file)
    (gpu,) = read_gpus(look)
    assert gpu.utilisation_ratio.value == pytest.approx(0.4)
    assert [problem.split(" ")[0] for problem in look.problems] == ["gpu_temperature_celsius:"]
