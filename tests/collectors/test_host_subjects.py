"""Single subjects where a stored machine shows too little: steps back, refusals, odd hardware."""

import math
from collections.abc import Iterable
from pathlib import Path

import pytest

from collectors.host_cpu import Cpu
from collectors.host_disk import Diskstats
from collectors.host_edac import Edac
from collectors.host_infiniband import Infiniband
from collectors.host_load import Pressure
from collectors.host_memory import Meminfo
from collectors.host_netstat import Netstat
from collectors.host_network import Netclass, Netdev
from collectors.host_rapl import Rapl
from collectors.host_sensors import Hwmon
from collectors.host_thermal import ThermalZone
from collectors.host_timex import NANOSECONDS_FLAG, UNSYNCHRONISED, Timex, TimexSubject
from collectors.types import Family, Unsupported
from tests.genuine_node_exporter import Page, page_of


@pytest.fixture
def write(tmp_path: Path):
    def into(files: dict[str, str]) -> Path:
        for name, text in files.items():
            path = tmp_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text + "\n")
        return tmp_path

    return into


def _page(families: Iterable[Family]) -> Page:
    return page_of(families)


def _cpu_line(user: int, idle: int, iowait: int = 0) -> str:
    return f"cpu  0 0 0 0\ncpu0 {user} 0 0 {idle} {iowait} 0 0 0 0 0\nintr 1"


def test_cpu_time_never_steps_back(write):
    cpu = Cpu(write({"stat": _cpu_line(100, 1000, 50)}), Path("/nowhere"))
    cpu.families()
    write({"stat": _cpu_line(150, 990, 40)})
    page = _page(cpu.families())
    assert page.where("node_cpu_seconds_total", cpu="0", mode="user") == 1.5
    assert page.where("node_cpu_seconds_total", cpu="0", mode="idle") == 10
    assert page.where("node_cpu_seconds_total", cpu="0", mode="iowait") == 0.5


def test_cpu_that_was_unplugged_starts_anew(write):
    cpu = Cpu(write({"stat": _cpu_line(5000, 100000)}), Path("/nowhere"))
    cpu.families()
    write({"stat": _cpu_line(10, 20)})
    page = _page(cpu.families())
    assert page.where("node_cpu_seconds_total", cpu="0", mode="user") == 0.1
    assert page.where("node_cpu_seconds_total", cpu="0", mode="idle") == 0.2


def test_cpu_that_went_offline_is_not_reported_any_more(write):
    cpu = Cpu(write({"stat": "cpu0 1 1 1 1\ncpu1 1 1 1 1\nintr 1"}), Path("/nowhere"))
    assert len([s for f in cpu.families() for s in f.samples if ("cpu", "1") in s.labels]) == 4
    write({"stat": "cpu0 1 1 1 1\nintr 1"})
    assert not [s for f in cpu.families() for s in f.samples if ("cpu", "1") in s.labels]


def test_old_kernel_has_no_steal_and_guest_time_and_they_are_not_zero(write):
    page = _page(Cpu(write({"stat": "cpu0 1 2 3 4 5 6 7\nintr 1"}), Path("/nowhere")).families())
    modes = {dict(labels)["mode"] for _, labels in page.values}
    assert modes == {"user", "nice", "system", "idle", "iowait", "irq", "softirq"}
    assert "node_cpu_guest_seconds_total" not in page.types


def test_page_counts_of_meminfo_are_no_bytes(write):
    text = "MemTotal:       24684096 kB\nInactive(anon):    10 kB\nHugePages_Total:    1024"
    page = _page(Meminfo(write({"meminfo": text})).families())
    assert page.where("node_memory_MemTotal_bytes") == 24684096 * 1024
    assert page.where("node_memory_Inactive_anon_bytes") == 10240
    assert page.where("node_memory_HugePages_Total") == 1024


def test_kernel_without_pressure_is_unsupported_and_one_resource_may_be_missing(write, tmp_path: Path):
    with pytest.raises(Unsupported, match="CONFIG_PSI"):
        Pressure(tmp_path).families()
    write({"pressure/memory": "some avg10=0.00 avg60=0.00 avg300=0.00 total=2500000"})
    page = _page(Pressure(tmp_path).families())
    assert page.values == {("node_pressure_memory_waiting_seconds_total", frozenset()): 2.5}


def test_old_kernel_counts_no_discards_and_they_are_not_zero(write):
    proc = write({"diskstats": "8 0 sda 1 2 3 4 5 6 7 8 9 10 11"})
    page = _page(Diskstats(proc, Path("/nowhere"), Path("/nowhere")).families())
    assert page.where("node_disk_read_bytes_total", device="sda") == 3 * 512
    assert page.where("node_disk_io_time_weighted_seconds_total", device="sda") == 0.011
    assert "node_disk_discards_completed_total" not in page.types
    assert page.where("node_disk_info", device="sda", major="8", minor="0") == 1


@pytest.mark.parametrize(
    ("device", "reported"),
    [
        ("nvme0n1", True),
        ("nvme0n1p2", False),
        ("sda", True),
        ("sda1", False),
        ("xvdb", True),
        ("xvdb3", False),
        ("loop7", False),
        ("zram0", False),
        ("dm-3", True),
        ("md127", True),
        ("mmcblk0p1", True),
        ("sdaa", True),
    ],
)
def test_whole_disks_are_reported_and_their_partitions_are_not(write, device: str, reported: bool):
    proc = write({"diskstats": f"8 0 {device} 1 2 3 4 5 6 7 8 9 10 11"})
    page = _page(Diskstats(proc, Path("/nowhere"), Path("/nowhere")).families())
    assert bool(page.values) is reported


def test_serial_number_is_the_one_on_the_disk_label(write):
    base = write({"proc/diskstats": "8 0 sda 1", "udev/b8:0": "E:ID_SERIAL=long\nE:ID_SERIAL_SHORT=short"})

    def serial() -> str:
        page = _page(Diskstats(base / "proc", base, base / "udev").families())
        return next(dict(labels)["serial"] for name, labels in page.values if name == "node_disk_info")

    assert serial() == "short"
    write({"udev/b8:0": "E:ID_SERIAL=long"})
    assert serial() == "long"
    write({"udev/b8:0": "E:ID_SERIAL_SHORT=short\nE:SCSI_IDENT_SERIAL=printed"})
    assert serial() == "printed"


def test_interface_of_unknown_speed_has_none(write):
    sys = write(
        {
            "class/net/eth0/operstate": "up",
            "class/net/eth0/speed": "-1",
            "class/net/ib0/operstate": "down",
            "class/net/ib0/speed": "400000",
        }
    )
    page = _page(Netclass(sys).families())
    assert page.where("node_network_speed_bytes", device="ib0") == 50e9
    assert page.where("node_network_up", device="eth0") == 1
    assert page.where("node_network_up", device="ib0") == 0
    assert page.labels_of("node_network_speed_bytes") == {"device"}
    assert len([1 for name, _ in page.values if name == "node_network_speed_bytes"]) == 1


def test_counter_beyond_53_bits_and_an_alias_name_survive(write):
    columns = " ".join(["18446744073709551615", *(str(n) for n in range(15))])
    page = _page(Netdev(write({"net/dev": f"h1|h2\n eth0:1:{columns}"}), Path("/nowhere")).families())
    assert page.where("node_network_receive_bytes_total", device="eth0:1") == 2.0**64


def test_kernel_without_ipv6_has_the_other_protocols(write):
    proc = write({"net/netstat": "IpExt: InOctets OutOctets\nIpExt: 5 6", "net/snmp": "Tcp: InSegs\nTcp: 7"})
    page = _page(Netstat(proc).families())
    assert page.values == {
        ("node_netstat_IpExt_InOctets", frozenset()): 5,
        ("node_netstat_IpExt_OutOctets", frozenset()): 6,
        ("node_netstat_Tcp_InSegs", frozenset()): 7,
    }
    assert set(page.types.values()) == {"untyped"}


IB = "class/infiniband/mlx5_0"


def test_infiniband_data_is_counted_in_octets_and_refused_counters_are_absent(write):
    sys = write(
        {
            f"{IB}/ports/1/state": "4: ACTIVE",
            f"{IB}/ports/1/rate": "200 Gb/sec (2X NDR)",
            f"{IB}/ports/1/counters/port_xmit_data": "1000",
            f"{IB}/ports/1/counters/port_xmit_packets": "10",
            f"{IB}/ports/1/counters/port_xmit_wait": "N/A (no PMA)",
            f"{IB}/ports/1/hw_counters/np_ecn_marked_roce_packets": "7",
        }
    )
    page = _page(Infiniband(sys).families())
    port = {"device": "mlx5_0", "port": "1"}
    assert page.where("node_infiniband_port_data_transmitted_bytes_total", **port) == 4000
    assert page.where("node_infiniband_port_packets_transmitted_total", **port) == 10
    assert page.where("node_infiniband_rate_bytes_per_second", **port) == 25e9
    assert page.where("node_infiniband_np_ecn_marked_roce_packets_received_total", **port) == 7
    assert "node_infiniband_port_transmit_wait_total" not in page.types
    assert "node_infiniband_physical_state_id" not in page.types


def test_several_sensors_chips_of_one_device_keep_apart(write, tmp_path: Path):
    write(
        {"devices/phy/phy0/x": "", "class/hwmon/hwmon0/name": "radio0", "class/hwmon/hwmon1/name": "radio1"}
    )
    for number in (0, 1):
        folder = tmp_path / f"class/hwmon/hwmon{number}"
        (folder / "device").symlink_to("../../../devices/phy/phy0")
        (folder / "temp1_input").write_text(f"{40 + number}000\n")
    page = _page(Hwmon(tmp_path).families())
    assert page.where("node_hwmon_temp_celsius", chip="phy_phy0_radio0", sensor="temp1") == 40
    assert page.where("node_hwmon_temp_celsius", chip="phy_phy0_radio1", sensor="temp1") == 41


def test_frequency_of_a_gpu_is_named_by_its_label(write):
    chip = "class/hwmon/hwmon4"
    sys = write({f"{chip}/name": "amdgpu", f"{chip}/freq1_input": "214000000", f"{chip}/freq1_label": "sclk"})
    page = _page(Hwmon(sys).families())
    assert page.where("node_hwmon_freq_freq_mhz", chip="amdgpu", sensor="sclk") == 214
    assert page.where("node_hwmon_sensor_label", chip="amdgpu", sensor="freq1", label="sclk") == 1


def test_thermal_zone_that_refuses_leaves_the_others(write, tmp_path: Path):
    write({"class/thermal/thermal_zone0/type": "acpitz", "class/thermal/thermal_zone1/temp": "41500"})
    (tmp_path / "class/thermal/thermal_zone0/temp").mkdir()  # reading it fails, whoever reads
    page = _page(ThermalZone(tmp_path).families())
    assert page.values == {("node_thermal_zone_temp", frozenset({("zone", "1")})): 41.5}


def test_memory_errors_name_the_module_to_replace(write):
    row = "devices/system/edac/mc/mc0/csrow3"
    sys = write(
        {f"{row}/ue_count": "1", f"{row}/ch1_ce_count": "12", f"{row}/ch1_dimm_label": "CPU1_DIMM_B2"}
    )
    page = _page(Edac(sys).families())
    place = {"controller": "0", "csrow": "3"}
    assert page.where("node_edac_csrow_uncorrectable_errors_total", **place) == 1
    assert (
        page.where(
            "node_edac_channel_correctable_errors_total", channel="1", dimm_label="CPU1_DIMM_B2", **place
        )
        == 12
    )
    assert "node_edac_correctable_errors_total" not in page.types


def test_energy_counters_are_joules_and_numbered_by_package(write):
    zones = "class/powercap"
    sys = write(
        {
            f"{zones}/intel-rapl/enabled": "1",
            f"{zones}/intel-rapl:1/name": "package-1",
            f"{zones}/intel-rapl:1/energy_uj": "2500000",
            f"{zones}/intel-rapl:1:0/name": "dram",
            f"{zones}/intel-rapl:1:0/energy_uj": "1",
        }
    )
    page = _page(Rapl(sys).families())
    package = {"index": "1", "path": f"{sys}/{zones}/intel-rapl:1"}
    assert page.where("node_rapl_package_joules_total", **package) == 2.5
    assert math.isclose(sum(page.values.values()), 2.500001)


@pytest.mark.parametrize(("status", "seconds"), [(0, 0.25), (NANOSECONDS_FLAG, 0.00025)])
def test_clock_offset_is_in_the_unit_that_the_kernel_says(status: int, seconds: float):
    now = Timex(offset=250000, status=status, maxerror=16000000, freq=65536 * 1000, tick=10000)
    page = _page(TimexSubject(lambda: (0, now)).families())
    assert page.where("node_timex_offset_seconds") == seconds
    assert page.where("node_timex_maxerror_seconds") == 16
    assert page.where("node_timex_frequency_adjustment_ratio") == 1.001
    assert page.where("node_timex_tick_seconds") == 0.01


@pytest.mark.parametrize(("state", "synchronised"), [(0, 1), (UNSYNCHRONISED, 0)])
def test_clock_without_a_server_says_so(state: int, synchronised: int):
    page = _page(TimexSubject(lambda: (state, Timex())).families())
    assert page.where("node_timex_sync_status") == synchronised
