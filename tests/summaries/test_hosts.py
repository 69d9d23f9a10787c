import numpy as np
import pytest

from app.analysis.grid import time_grid
from app.summaries.hosts import summarise_hosts
from db.labels import labels_from
from db.records import Series
from tests.stores import GIB, host_samples

START = 1_000_000_000_000
SCRAPES = range(0, 65, 5)


def host(changes=lambda samples: samples, *, instance="box-1"):
    columns: dict = {}
    for seconds in SCRAPES:
        for key, value in changes(host_samples(seconds)).items():
            columns.setdefault(key, []).append(value)
    series = [
        Series(
            labels_from({**dict(labels), "job": "node", "instance": instance}, name),
            START + np.array(SCRAPES, dtype=np.int64) * 1000,
            np.array(values),
        )
        for (name, labels), values in columns.items()
    ]
    return summarise_hosts(series, time_grid(START + 60_000, 60_000, 12))


def without(*names):
    return lambda samples: {key: value for key, value in samples.items() if key[0] not in names}


def test_busy_is_what_the_processors_were_not_idle():
    (found,) = host()
    shares = []
    for cpu in range(4):
        key = "node_cpu_seconds_total", (("cpu", str(cpu)), ("mode", "idle"))
        shares.append(1 - (host_samples(60)[key] - host_samples(45)[key]) / 15)
    assert found.cores == 4
    assert found.cpu_busy_ratio.value == pytest.approx(sum(shares) / 4)


def test_memory_in_bytes():
    (found,) = host()
    assert found.memory_used_bytes.value == 12 * GIB
    assert found.memory_total_bytes == 16 * GIB


def test_stacked_disks_and_virtual_networks_are_not_counted_twice():
    (found,) = host()
    assert found.disk_read_bytes.value == pytest.approx(3.0e6)
    assert found.disk_written_bytes.value == pytest.approx(8.5e6)
    assert found.network_in_bytes.value == pytest.approx(1.25e6)
    assert found.network_out_bytes.value == pytest.approx(4.0e5)


def test_a_machine_with_only_stacked_disks_shows_those():
    (found,) = host(
        lambda samples: {key: value for key, value in samples.items() if ("device", "nvme0n1") not in key[1]}
    )
    assert found.disk_read_bytes.value == pytest.approx(3.0e6)


def test_the_fullest_filesystem_is_never_one_in_memory():
    (found,) = host()
    assert found.fullest is not None
    assert found.fullest.mountpoint == "/data"
    assert found.fullest.used_ratio == pytest.approx(0.79)
    assert found.fullest.available_bytes == 420 * GIB


def test_pressure_is_the_share_of_time_somebody_waited():
    (found,) = host()
    shares = {name: reading.value for name, reading in found.pressure_ratio.items()}
    assert shares == pytest.approx({"cpu": 0.031, "memory": 0.0, "io": 0.012})


def test_what_is_not_reported_is_missing_not_zero():
    (found,) = host(
        without("node_memory_MemAvailable_bytes", "node_load1", "node_network_receive_bytes_total")
    )
    assert found.memory_used_bytes.value is None
    assert found.load1 is None
    assert found.network_in_bytes.value is None


def test_a_series_that_ended_is_missing():
    def ended(samples):
        return {
            key: float("nan") if key[0] == "node_memory_MemTotal_bytes" else value
            for key, value in samples.items()
        }

    (found,) = host(ended)
    assert found.memory_total_bytes is None


def test_hosts_come_in_natural_order():
    grid = time_grid(START + 60_000, 60_000, 12)
    series = [
        Series(
            labels_from({"job": "node", "instance": name}, "node_load1"), np.array([START]), np.array([1.0])
        )
        for name in ("gpu-10", "gpu-9", "gpu-1")
    ]
    assert [one.instance for one in summarise_hosts(series, grid)] == ["gpu-1", "gpu-9", "gpu-10"]


def reported(instance: str, *, ended: bool, nodename: str = "gpu-1") -> list[Series]:
    """A host's load and name, as one source reports them."""
    names = {"node_load1": {}, "node_uname_info": {"nodename": nodename}}
    values = np.array([1.0, np.nan if ended else 1.0])
    return [
        Series(
            labels_from({"job": "node", "instance": instance, **labels}, name),
            np.array([START, START + 5_000]),
            values,
        )
        for name, labels in names.items()
    ]


def test_a_host_that_another_source_took_over_is_shown_once():
    grid = time_grid(START + 60_000, 60_000, 12)
    found = summarise_hosts([*reported("gpu-1", ended=True), *reported("127.0.0.1:9100", ended=False)], grid)
    assert [(one.instance, one.nodename, one.ended) for one in found] == [("127.0.0.1:9100", "gpu-1", False)]


def test_a_host_that_nobody_reports_any_more_is_still_shown_as_ended():
    grid = time_grid(START + 60_000, 60_000, 12)
    other = reported("gpu-2:9100", ended=False, nodename="gpu-2")
    found = summarise_hosts([*reported("gpu-1:9100", ended=True), *other], grid)
    assert [(one.instance, one.ended) for one in found] == [("gpu-1:9100", True), ("gpu-2:9100", False)]
