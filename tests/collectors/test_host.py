"""The host collector as a whole: what it yields, what it says when something is missing, what it costs."""

import itertools
import logging
import shutil
import time
from collections.abc import Iterable
from pathlib import Path

import pytest

from collectors.host import HostCollector
from collectors.types import CollectFailed, Family, NoData, Sample, Unsupported
from tests.fakes_machine import Machine, unpack
from tests.genuine_node_exporter import Page, page_of


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return unpack("gpu-node", tmp_path)


def _host(machine: Machine, **arguments) -> HostCollector:
    return HostCollector(machine.proc, machine.sys, rootfs=machine.root, udev_data=machine.udev, **arguments)


def _success(page: Page, subject: str) -> float:
    return page.where("node_scrape_collector_success", collector=subject)


class _Steady:
    name = "steady"

    def families(self) -> Iterable[Family]:
        return [Family("node_steady", "gauge", "H", (Sample("node_steady", (), 1.0),))]


class _Broken:
    name = "broken"

    def __init__(self, error: Exception) -> None:
        self.error = error

    def families(self) -> Iterable[Family]:
        raise self.error


def test_reports_the_job_under_which_node_exporter_is_scraped():
    assert (HostCollector.name, HostCollector.job) == ("host", "node")


def test_says_nothing_while_a_scraped_exporter_reports_this_host(machine: Machine):
    reported = True
    host = _host(machine, suppressed=lambda: reported)
    with pytest.raises(NoData, match="scraped node_exporter"):
        host.collect()
    reported = False
    assert page_of(host.collect()).where("node_boot_time_seconds") == 1795263271


def test_does_not_claim_to_be_node_exporter(machine: Machine):
    assert "node_exporter_build_info" not in page_of(_host(machine).collect()).types


def test_no_series_appears_twice(machine: Machine):
    samples = [(s.name, s.labels) for family in _host(machine).collect() for s in family.samples]
    assert len(samples) == len(set(samples))
    families = [family.name for family in _host(machine).collect()]
    assert len(families) == len(set(families))


@pytest.mark.parametrize(
    ("path", "subject", "metric"),
    [
        ("proc/stat", "stat", "node_boot_time_seconds"),
        ("proc/stat", "cpu", "node_cpu_seconds_total"),
        ("proc/loadavg", "loadavg", "node_load1"),
        ("proc/meminfo", "meminfo", "node_memory_MemTotal_bytes"),
        ("proc/vmstat", "vmstat", "node_vmstat_oom_kill"),
        ("proc/pressure", "pressure", "node_pressure_cpu_waiting_seconds_total"),
        ("proc/diskstats", "diskstats", "node_disk_read_bytes_total"),
        ("proc/net/dev", "netdev", "node_network_receive_bytes_total"),
        ("proc/net/snmp", "netstat", "node_netstat_Tcp_CurrEstab"),
        ("proc/sys", "filefd", "node_filefd_allocated"),
        ("proc/sys", "uname", "node_uname_info"),
        ("proc/sys/net", "conntrack", "node_nf_conntrack_entries"),
        ("sys/class/net/bonding_masters", "bonding", "node_bonding_active"),
        ("sys/class/net", "netclass", "node_network_up"),
        ("sys/class/infiniband", "infiniband", "node_infiniband_state_id"),
        ("sys/class/hwmon", "hwmon", "node_hwmon_temp_celsius"),
        ("sys/class/thermal", "thermal_zone", "node_thermal_zone_temp"),
        ("sys/class/powercap", "rapl", "node_rapl_package_joules_total"),
        ("sys/devices/system/edac", "edac", "node_edac_correctable_errors_total"),
    ],
)
def test_missing_file_costs_only_its_own_subject(machine: Machine, path: str, subject: str, metric: str):
    whole = page_of(_host(machine).collect())
    assert metric in whole.types
    assert _success(whole, subject) == 1
    target = machine.proc.parent / path
    shutil.rmtree(target) if target.is_dir() else target.unlink()
    host = _host(machine)
    page = page_of(host.collect())
    assert metric not in page.types
    assert _success(page, subject) == 0
    assert isinstance(host.problems[subject], Unsupported)
    lost = {name for name, _ in whole.values} - {name for name, _ in page.values}
    assert len(lost) < len(whole.types) / 2
    assert sum(value for (name, _), value in page.values.items() if name.endswith("collector_success")) >= 18


@pytest.mark.parametrize(
    ("path", "text", "subject"),
    [
        ("proc/meminfo", "MemTotal: lots kB\n", "meminfo"),
        ("proc/loadavg", "0.1\n", "loadavg"),
        ("proc/diskstats", "259 0\n", "diskstats"),
        ("proc/net/dev", "eth0: 1 2 3\n", "netdev"),
        ("proc/stat", "cpu0 x\n", "cpu"),
        ("proc/1/mounts", "proc\n", "filesystem"),
    ],
)
def test_file_that_is_not_as_documented_is_a_failure_with_its_reason(
    machine: Machine, path: str, text: str, subject: str, caplog: pytest.LogCaptureFixture
):
    (machine.proc.parent / path).write_text(text)
    host = _host(machine)
    with caplog.at_level(logging.WARNING):
        page = page_of(host.collect())
        list(host.collect())
    assert _success(page, subject) == 0
    assert isinstance(host.problems[subject], CollectFailed)
    told = [record.message for record in caplog.records if f"subject {subject}" in record.message]
    assert len(told) == 1, "said at every scrape"


def test_subject_that_recovers_is_no_problem_any_more(machine: Machine):
    text = (machine.proc / "meminfo").read_text()
    (machine.proc / "meminfo").write_text("half a li")
    host = _host(machine)
    list(host.collect())
    assert "meminfo" in host.problems
    (machine.proc / "meminfo").write_text(text)
    list(host.collect())
    assert "meminfo" not in host.problems


def test_machine_without_proc_and_sys_is_unsupported(tmp_path: Path):
    host = HostCollector(tmp_path / "proc", tmp_path / "sys", subjects=[_Broken(Unsupported("no"))])
    with pytest.raises(Unsupported, match="need Linux"):
        host.collect()


def test_each_subject_is_timed_and_judged_by_itself():
    ticks = itertools.count(step=0.25)
    host = HostCollector(subjects=[_Steady(), _Broken(OSError("gone"))], timer=lambda: next(ticks))
    page = page_of(host.collect())
    assert page.where("node_steady") == 1
    assert (_success(page, "steady"), _success(page, "broken")) == (1, 0)
    assert page.where("node_scrape_collector_duration_seconds", collector="broken") == 0.25


def test_mistake_in_a_subject_is_not_hidden():
    with pytest.raises(TypeError):
        HostCollector(subjects=[_Broken(TypeError("bug"))]).collect()


def test_container_names_the_host_it_was_given(machine: Machine):
    def node_name(host: HostCollector) -> str:
        info = next(f for f in host.collect() if f.name == "node_uname_info")
        return dict(info.samples[0].labels)["nodename"]

    assert node_name(_host(machine)) == "gpu-node-17"
    assert node_name(_host(machine, hostname="rack7-node3")) == "rack7-node3"


def test_clock_is_the_argument(machine: Machine):
    page = page_of(_host(machine, clock=lambda: 1234.5).collect())
    assert page.where("node_time_seconds") == 1234.5


def test_collecting_a_gpu_node_takes_few_milliseconds(machine: Machine):
    """About 5 ms of CPU when alone; the bound leaves room for a busy machine."""
    host = _host(machine)
    costs = []
    for _ in range(5):
        started = time.thread_time()
        list(host.collect())
        costs.append(time.thread_time() - started)
    assert min(costs) < 0.05
