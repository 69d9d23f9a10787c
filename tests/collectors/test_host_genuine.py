"""Ours against Debian's node_exporter: on a stored machine to the last bit, on this machine within bounds."""

import re
from pathlib import Path

import pytest

from collectors.expose import render
from collectors.host import HostCollector
from tests.fakes_machine import TREES, Machine, unpack
from tests.genuine_node_exporter import (
    MOUNTPOINTS_EXCLUDED,
    SUBJECTS,
    Page,
    Series,
    node_exporter,
    page_of,
    read_page,
)
from tests.promtool_lint import own_lints

GOLDEN = TREES / "gpu-node.node_exporter-1.5.0.prom"
E2E = Path(__file__).parents[1] / "fixtures" / "node_exporter" / "e2e-output.prom"

# uname(2), adjtimex(2), the clock and statvfs cannot be redirected to a stored tree.
OF_THE_TREE = " ".join(set(SUBJECTS.split()) - {"uname", "time", "timex", "filesystem"})
TREE_PATHS = (
    "--path.procfs=proc",
    "--path.sysfs=sys",
    "--path.udev.data=udev",
    "--path.rootfs=root",
    "--no-collector.netdev.netlink",  # read /proc/net/dev of the tree, not this machine's interfaces
    "--collector.netdev.device-exclude=",  # Debian's package leaves out lo
    f"--collector.filesystem.mount-points-exclude={MOUNTPOINTS_EXCLUDED}",
)

# What exporters newer than Debian's 1.5 print, and ours too.
NEWER_LABELS = {
    "node_disk_info": {"rotational"},
    "node_network_info": {"adminstate"},
    "node_filesystem_device_error": {"device_error"},
}
NEWER_FAMILIES = re.compile(
    r"node_edac_channel_correctable_errors_total"  # 1.8: which memory module
    r"|node_infiniband_(duplicate|implied|lifespan|local_ack|np_|out_of|packet_seq|rnr|roce|rp_|rx_)\w+"
    r"|node_pressure_irq_stalled_seconds_total"  # 1.9
    r"|node_network_receive_nohandler_total"  # 1.5 has it through netlink only
    r"|node_network_speed_bytes"  # an interface here may have none
)
OWN_SUBJECT_RUNS = re.compile(r"node_scrape_collector_\w+")


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return unpack("gpu-node", tmp_path)


def _collect(machine: Machine) -> Page:
    host = HostCollector(machine.proc, machine.sys, rootfs=machine.root, udev_data=machine.udev)
    return read_page(render(host.collect()).replace(str(machine.sys), "sys"))


def _without_newer_labels(page: Page) -> dict[Series, float]:
    return {
        (name, frozenset(pair for pair in labels if pair[0] not in NEWER_LABELS.get(name, ()))): value
        for (name, labels), value in page.values.items()
    }


def _assert_equal(ours: Page, genuine: Page) -> None:
    """Every series of the genuine page, the same TYPE and the same float64; nothing unexplained beyond."""
    values = _without_newer_labels(ours)
    expected = {
        series: value
        for series, value in genuine.values.items()
        if not OWN_SUBJECT_RUNS.match(series[0]) and not _is_exception(series[0], dict(series[1]), value)
    }
    assert {series: values.get(series) for series in expected} == expected
    families = {name for name, _ in expected}
    assert {name: ours.types.get(name) for name in families} == {
        name: genuine.types[name] for name in families
    }
    beyond = {
        name
        for name, _ in values.keys() - expected.keys()
        if not OWN_SUBJECT_RUNS.match(name) and not NEWER_FAMILIES.fullmatch(name)
    }
    outside_the_tree = {name for name in beyond if name.startswith(("node_filesystem", "node_time"))}
    assert beyond - outside_the_tree <= {"node_uname_info"}


def test_stored_machine_reads_as_the_genuine_exporter_read_it(machine: Machine):
    _assert_equal(_collect(machine), read_page(GOLDEN.read_text()))


@pytest.mark.server
def test_stored_machine_reads_as_the_genuine_exporter_reads_it_now(machine: Machine):
    with node_exporter(*TREE_PATHS, subjects=OF_THE_TREE, folder=machine.proc.parent) as exporter:
        genuine = exporter.page()
    _assert_equal(_collect(machine), genuine)
    stored = read_page(GOLDEN.read_text())
    durations = "node_scrape_collector_duration_seconds"
    assert {k: v for k, v in genuine.values.items() if k[0] != durations} == {
        k: v for k, v in stored.values.items() if k[0] != durations
    }, f"{GOLDEN.name} is not what this node_exporter prints: capture it again"


@pytest.mark.server
def test_file_systems_of_a_stored_machine_are_sized_as_the_genuine_exporter_sizes_them(machine: Machine):
    with node_exporter(*TREE_PATHS, subjects="filesystem", folder=machine.proc.parent) as exporter:
        genuine = exporter.page()
    ours = _without_newer_labels(_collect(machine))
    steady = {
        series: value
        for series, value in genuine.values.items()
        if re.fullmatch(r"node_filesystem_(size_bytes|files|readonly|device_error)", series[0])
    }
    assert len(steady) == 4 * 4 + 1  # four healthy mounts and a dead one
    assert {series: ours.get(series) for series in steady} == steady


# Read once at each end: a counter of ours lies between the genuine one's before and after.
NOT_COUNTING = re.compile(r"node_netstat_(Tcp_CurrEstab|Ip_Forwarding)")
# The kernel lets these step back a little between two reads.
MAY_STEP_BACK = {"node_cpu_seconds_total": 0.05}
CONSTANT = re.compile(
    r"node_boot_time_seconds|node_memory_(MemTotal|SwapTotal|HugePages_Total|VmallocTotal|Hugepagesize)\w*"
    r"|node_filesystem_(size_bytes|files|readonly|device_error)|node_filefd_maximum|node_uname_info"
    r"|node_time_(zone|clocksource)\w+|node_disk_info|node_network_(?!receive|transmit_[^q])\w+"
    r"|node_netstat_Ip_Forwarding|node_nf_conntrack_entries_limit"
    r"|node_timex_(sync_status|status|tick_seconds|tai_offset_seconds|loop_time_constant)"
)


@pytest.mark.server
def test_this_machine_reads_as_the_genuine_exporter_reads_it():
    with node_exporter() as exporter:
        before, ours, after = exporter.page(), page_of(HostCollector().collect()), exporter.page()
    own = _without_newer_labels(ours)
    missing, wrong = [], []
    for (name, labels), low in before.values.items():
        high = after.values.get((name, labels))
        value = own.get((name, labels))
        if _is_exception(name, dict(labels), low) or high is None:
            continue
        if value is None:
            missing.append((name, sorted(labels)))
        elif CONSTANT.fullmatch(name) and value != low:
            wrong.append((name, sorted(labels), low, value))
        elif _counts(name, before) and not _between(name, low, value, high):
            wrong.append((name, sorted(labels), low, value, high))
    assert not missing
    assert not wrong
    shared = before.types.keys() & ours.types.keys()
    assert {name: ours.types[name] for name in shared} == {name: before.types[name] for name in shared}
    for name in shared:
        assert ours.labels_of(name) - NEWER_LABELS.get(name, set()) == before.labels_of(name), name


def _is_exception(name: str, labels: dict[str, str], value: float) -> bool:
    return (
        name == "node_exporter_build_info"  # ours is not node_exporter and does not say so
        or labels.get("device", "").startswith("zram")  # left out by newer exporters
        or (name == "node_network_speed_bytes" and value < 0)  # the driver's "unknown"
        or name == "node_scrape_collector_duration_seconds"
        # The genuine one calls a machine without memory controllers a success with nothing in it.
        or (name == "node_scrape_collector_success" and labels["collector"] == "edac")
    )


def _counts(name: str, page: Page) -> bool:
    counting = page.types.get(name) == "counter" or name.startswith(("node_vmstat_", "node_netstat_"))
    return counting and not NOT_COUNTING.fullmatch(name)


def _between(name: str, low: float, value: float, high: float) -> bool:
    slack = MAY_STEP_BACK.get(name, 0.0)
    return low - slack <= value <= high + slack


@pytest.mark.server
def test_every_lint_of_our_page_is_one_of_the_genuine_page():
    ours = render(HostCollector().collect())
    with node_exporter() as exporter:
        genuine = exporter.page().text
    assert own_lints(ours, genuine) == frozenset()


def test_every_lint_of_a_stored_machine_is_one_of_a_genuine_page(machine: Machine):
    ours = _collect(machine).text
    assert own_lints(ours, GOLDEN.read_text(), E2E.read_text()) == frozenset()


def test_names_types_and_label_names_are_those_of_the_newest_exporter_too(machine: Machine):
    """node_exporter's own end-to-end page comes from another machine: only names can be compared."""
    ours, newest = _collect(machine), read_page(E2E.read_text())
    with_samples = {name for name, _ in newest.values}  # that page leaves out what differs between runs
    shared = ours.types.keys() & newest.types.keys()
    assert len(shared) > 200
    for name in shared & with_samples:
        assert ours.types[name] == newest.types[name], name
        if not name.startswith(("node_scrape_collector", "node_time_zone")):
            extra = ours.labels_of(name) - newest.labels_of(name)
            # An empty label is an absent one: the other machine's interface has no alias.
            assert extra <= {"ifalias"}, name
