"""The simulated node_exporter: what everybody looks at of a GPU host, not its thousand other lines."""

from dataclasses import dataclass, field

import numpy as np

from collectors.demo_cluster import Cluster
from collectors.demo_hosts import (
    DISK_BYTES,
    INFINIBAND_BYTES_PER_SECOND,
    INFINIBAND_PORTS,
    MEMORY_BYTES,
    MODES,
    PROCESSORS,
    Hosts,
)
from collectors.demo_page import Template, pairs

_ROOT_BYTES = 893e9
_DISKS = ("nvme0n1", "nvme1n1")
_BLOCK_BYTES = 128 * 1024  # a read or write, when many come together
_PACKET_BYTES = 4_096
_ETHERNET_PACKET_BYTES = 1_300
_PRESSURE = (
    ("node_pressure_cpu_waiting_seconds_total", "cpu_waiting", "processes have waited for CPU time"),
    ("node_pressure_io_stalled_seconds_total", "io_stalled", "no process could make progress due to IO"),
    ("node_pressure_io_waiting_seconds_total", "io_waiting", "processes have waited due to IO congestion"),
    ("node_pressure_memory_stalled_seconds_total", "memory_stalled", "no process could make progress"),
    ("node_pressure_memory_waiting_seconds_total", "memory_waiting", "processes have waited for memory"),
)
_DISK = (
    ("node_disk_io_time_seconds_total", "Total seconds spent doing I/Os."),
    ("node_disk_read_bytes_total", "The total number of bytes read successfully."),
    ("node_disk_reads_completed_total", "The total number of reads completed successfully."),
    ("node_disk_writes_completed_total", "The total number of writes completed successfully."),
    ("node_disk_written_bytes_total", "The total number of bytes written successfully."),
)
_NETWORK = ("receive_bytes", "receive_drop", "receive_errs", "receive_packets",
            "transmit_bytes", "transmit_drop", "transmit_errs", "transmit_packets")  # fmt: skip
_FABRIC_COUNTERS = ("link_downed", "link_error_recovery", "port_data_received_bytes",
                    "port_data_transmitted_bytes", "port_errors_received", "port_packets_received",
                    "port_packets_transmitted", "port_transmit_wait")  # fmt: skip


@dataclass(slots=True)
class NodePages:
    """The pages of every node's node_exporter."""

    cluster: Cluster
    _templates: dict[int, Template] = field(default_factory=dict)

    def page(self, node: int, hosts: Hosts, now_seconds: float) -> bytes:
        template = self._templates.get(node)
        if template is None:
            template = self._templates[node] = self._write(node)
        return template.page(self._values(node, hosts, now_seconds))

    def _write(self, node: int) -> Template:
        """Lines in the order of `_values`; what never changes stands in the template."""
        page = Template()

        def single(name: str, kind: str, text: str, labels: str = "", form: str = "%r") -> None:
            page.family(name, kind, text)
            page.sample(name, labels, form)

        single("node_boot_time_seconds", "gauge", "Node boot time, in unixtime.")
        single("node_context_switches_total", "counter", "Total number of context switches.")
        page.family("node_cpu_seconds_total", "counter", "Seconds the CPUs spent in each mode.")
        for processor in range(PROCESSORS):
            for mode in MODES:
                labels = pairs((("cpu", str(processor)), ("mode", mode)))
                page.sample("node_cpu_seconds_total", labels, "%.2f")
        for name, text in _DISK:
            page.family(name, "counter", text)
            for disk in _DISKS:
                page.sample(name, pairs((("device", disk),)), "%r")
        single("node_edac_correctable_errors_total", "counter", "Total correctable memory errors.",
               pairs((("controller", "0"),)), "0")  # fmt: skip
        single("node_edac_uncorrectable_errors_total", "counter", "Total uncorrectable memory errors.",
               pairs((("controller", "0"),)), "0")  # fmt: skip
        build = (("branch", "HEAD"), ("goarch", "amd64"), ("goos", "linux"), ("version", "1.10.2"))
        single("node_exporter_build_info", "gauge", "A metric with a constant '1' value.", pairs(build), "1")
        for name, text in (("avail", "available to non-root users"), ("size", "in all")):
            page.family(f"node_filesystem_{name}_bytes", "gauge", f"Filesystem space {text} in bytes.")
            for device, mountpoint in (("/dev/nvme0n1p2", "/"), ("/dev/nvme1n1", "/data")):
                where = (("device", device), ("fstype", "ext4"), ("mountpoint", mountpoint))
                page.sample(f"node_filesystem_{name}_bytes", pairs(where), "%r")
        self._write_fabric(page)
        for minutes in (1, 15, 5):
            single(f"node_load{minutes}", "gauge", f"{minutes}m load average.", form="%.2f")
        for name in ("MemAvailable", "MemTotal"):
            single(f"node_memory_{name}_bytes", "gauge", f"Memory information field {name}_bytes.")
        for name in _NETWORK:
            page.family(f"node_network_{name}_total", "counter", f"Network device statistic {name}.")
            page.sample(f"node_network_{name}_total", pairs((("device", "eth0"),)), "%r")
        single("node_network_up", "gauge", "Value is 1 if operstate is 'up', 0 otherwise.",
               pairs((("device", "eth0"),)), "1")  # fmt: skip
        for name, _, text in _PRESSURE:
            single(name, "counter", f"Total time in seconds that {text}")
        single("node_procs_blocked", "gauge", "Number of processes blocked waiting for I/O.", form="0")
        single("node_time_seconds", "gauge", "System time in seconds since epoch (1970).")
        single("node_timex_offset_seconds", "gauge", "Time offset to the reference clock.")
        one = self.cluster.nodes[node]
        uname = (
            ("domainname", "(none)"),
            ("machine", "x86_64"),
            ("nodename", one.name),
            ("release", "6.8.0-85-generic"),
            ("sysname", "Linux"),
            ("version", "#85-Ubuntu SMP"),
        )
        single("node_uname_info", "gauge", "Labeled system information as provided by the uname system call.",
               pairs(uname), "1")  # fmt: skip
        single("node_vmstat_oom_kill", "untyped", "/proc/vmstat information field oom_kill.", form="0")
        return page

    def _write_fabric(self, page: Template) -> None:
        ports = [pairs((("device", f"mlx5_{port}"), ("port", "1"))) for port in range(INFINIBAND_PORTS)]
        for name in _FABRIC_COUNTERS:
            page.family(f"node_infiniband_{name}_total", "counter", f"InfiniBand port counter {name}.")
            for labels in ports:
                page.sample(f"node_infiniband_{name}_total", labels, "%r")
        for name, text, value in (
            ("physical_state_id", "Physical state of the InfiniBand port (5: link up)", "5"),
            ("rate_bytes_per_second", "Maximum signal transfer rate", f"{INFINIBAND_BYTES_PER_SECOND:g}"),
            ("state_id", "State of the InfiniBand port (4: active)", "4"),
        ):
            page.family(f"node_infiniband_{name}", "gauge", text)
            for labels in ports:
                page.sample(f"node_infiniband_{name}", labels, value)

    def _values(self, node: int, hosts: Hosts, now_seconds: float) -> list[float]:
        of = {name: float(values[node]) for name, values in hosts.counters.items()}
        values: list[float] = [float(hosts.boot[node]), of["switches"]]
        values += hosts.of_processors(node).ravel().tolist()
        reads, writes = of["disk_read"], of["disk_written"]
        # The system's disk has a hundredth of what the data disk has.
        values += [of["disk_busy"] / 100, of["disk_busy"]]
        for amount in (reads, reads // _BLOCK_BYTES, writes // _BLOCK_BYTES, writes):
            values += [amount // 100, amount]
        root = _ROOT_BYTES * (1.0 - float(hosts.root_used[node]))
        values += [np.floor(root).item(), DISK_BYTES - float(hosts.disk_used[node]) // 1]
        values += [_ROOT_BYTES, DISK_BYTES]
        values += _fabric(of)
        one, five, fifteen = hosts.loads[node].tolist()
        values += [one, fifteen, five]
        values += [float(hosts.available_bytes[node]) // 4096 * 4096, MEMORY_BYTES]
        for amount in (of["received"], of["sent"]):
            values += [amount, 0.0, 0.0, amount // _ETHERNET_PACKET_BYTES]
        values += [of[counter] for _, counter, _ in _PRESSURE]
        values += [now_seconds, 2e-5 * np.sin(now_seconds / 600.0 + node).item()]
        return values


def _fabric(of: dict[str, float]) -> list[float]:
    """The InfiniBand counters, each of every port in turn; a node's ports share its traffic evenly."""
    received, sent = of["fabric_received"], of["fabric_sent"]
    amounts = {
        "link_downed": 0.0,
        "link_error_recovery": 0.0,
        "port_data_received_bytes": received,
        "port_data_transmitted_bytes": sent,
        "port_errors_received": 0.0,
        "port_packets_received": received // _PACKET_BYTES,
        "port_packets_transmitted": sent // _PACKET_BYTES,
        "port_transmit_wait": of["fabric_wait"],
    }
    return [amounts[name] for name in _FABRIC_COUNTERS for _ in range(INFINIBAND_PORTS)]
