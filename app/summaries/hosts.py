"""A host in eight numbers, from node_exporter's metric names (its own, or our host collector's).

Not from signals: a card needs what the vocabulary has no signal for (processors, sizes of file systems, which
job reports the machine, its own name), and rates that stand after the second scrape. Nobody but node_exporter
yields those signals.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from app.summaries.reading import (
    ByMetric,
    Labelled,
    Reading,
    all_ended,
    by_owner,
    gauge,
    gauge_any,
    job_and_instance,
    natural,
    newest_ms,
    rate_mean,
    rate_sum,
    reading,
)
from db.nan import IntArray
from db.records import Series

CPU = "node_cpu_seconds_total"
MEMORY_AVAILABLE = "node_memory_MemAvailable_bytes"
MEMORY_TOTAL = "node_memory_MemTotal_bytes"
FILESYSTEM_AVAILABLE = "node_filesystem_avail_bytes"
FILESYSTEM_SIZE = "node_filesystem_size_bytes"
DISK_READ = "node_disk_read_bytes_total"
DISK_WRITTEN = "node_disk_written_bytes_total"
NETWORK_IN = "node_network_receive_bytes_total"
NETWORK_OUT = "node_network_transmit_bytes_total"
LOAD = "node_load1"
UNAME = "node_uname_info"
PRESSURE = {
    "cpu": "node_pressure_cpu_waiting_seconds_total",
    "memory": "node_pressure_memory_waiting_seconds_total",
    "io": "node_pressure_io_waiting_seconds_total",
}
# The processors are read apart: of their eight modes only "idle" is needed.
METRICS = (
    MEMORY_AVAILABLE,
    MEMORY_TOTAL,
    FILESYSTEM_AVAILABLE,
    FILESYSTEM_SIZE,
    DISK_READ,
    DISK_WRITTEN,
    NETWORK_IN,
    NETWORK_OUT,
    LOAD,
    UNAME,
    *PRESSURE.values(),
)

# Devices stacked on others would count the same bytes twice.
_STACKED_DISKS = re.compile(r"(dm-|md|loop|ram|zram|sr)\d")
_VIRTUAL_NETWORKS = re.compile(r"lo$|veth|docker|br-|bond\d|cni|cali|flannel|virbr|tun|tap|kube|ifb|dummy")
_MEMORY_FILESYSTEMS = {"tmpfs", "devtmpfs", "ramfs", "overlay", "squashfs", "iso9660", "nsfs", "fuse.lxcfs"}


@dataclass(frozen=True, slots=True)
class Filesystem:
    mountpoint: str
    used_ratio: float
    available_bytes: float
    size_bytes: float


@dataclass(frozen=True, slots=True, eq=False)
class Host:
    """nodename: the machine's own name, "" where it is not told. ended: nothing reports it any more.

    Ratios are 0..1; bytes; bytes per second; pressure = share of time in which some task waited."""

    job: str
    instance: str
    nodename: str
    newest_ms: int | None
    ended: bool
    cores: int
    load1: float | None
    cpu_busy_ratio: Reading
    memory_used_bytes: Reading
    memory_total_bytes: float | None
    disk_read_bytes: Reading
    disk_written_bytes: Reading
    network_in_bytes: Reading
    network_out_bytes: Reading
    pressure_ratio: dict[str, Reading]
    filesystems: tuple[Filesystem, ...]

    @property
    def fullest(self) -> Filesystem | None:
        return max(self.filesystems, key=lambda item: item.used_ratio, default=None)


def summarise_hosts(series: Iterable[Series], at: IntArray) -> list[Host]:
    """One Host for each (job, instance) with these metrics, ordered by them. `at`: the time grid, ms.

    One that has ended is left out while another source reports the same machine: it was taken over.
    """
    hosts = [
        _host(job, instance, metrics, at)
        for (job, instance), metrics in sorted(
            by_owner(series, job_and_instance).items(), key=lambda item: [natural(part) for part in item[0]]
        )
    ]
    live = {host.nodename for host in hosts if not host.ended and host.nodename}
    return [host for host in hosts if not (host.ended and host.nodename in live)]


def _host(job: str, instance: str, metrics: ByMetric, at: IntArray) -> Host:
    total = gauge_any(metrics.get(MEMORY_TOTAL, ()), at)
    used = total - gauge_any(metrics.get(MEMORY_AVAILABLE, ()), at)
    disks = {name: _physical(metrics.get(name, ()), _STACKED_DISKS) for name in (DISK_READ, DISK_WRITTEN)}
    networks = {
        name: _physical(metrics.get(name, ()), _VIRTUAL_NETWORKS) for name in (NETWORK_IN, NETWORK_OUT)
    }
    processors = [item for item in metrics.get(CPU, ()) if item[0].get("mode") == "idle"]
    return Host(
        job=job,
        instance=instance,
        nodename=next((labels.get("nodename", "") for labels, _ in metrics.get(UNAME, ())), ""),
        newest_ms=newest_ms(item for items in metrics.values() for item in items),
        ended=all_ended(item for items in metrics.values() for item in items),
        cores=len({labels.get("cpu", "") for labels, _ in processors}),
        load1=reading(gauge_any(metrics.get(LOAD, ()), at)).value,
        cpu_busy_ratio=reading(np.clip(1.0 - rate_mean(processors, at), 0.0, 1.0)),
        memory_used_bytes=reading(used),
        memory_total_bytes=reading(total).value,
        disk_read_bytes=reading(rate_sum(disks[DISK_READ], at)),
        disk_written_bytes=reading(rate_sum(disks[DISK_WRITTEN], at)),
        network_in_bytes=reading(rate_sum(networks[NETWORK_IN], at)),
        network_out_bytes=reading(rate_sum(networks[NETWORK_OUT], at)),
        pressure_ratio={
            resource: reading(rate_sum(metrics[name], at))
            for resource, name in PRESSURE.items()
            if name in metrics
        },
        filesystems=_filesystems(metrics, at),
    )


def _physical(items: Sequence[Labelled], stacked: re.Pattern[str]) -> Sequence[Labelled]:
    """Without the devices that stand on others; all of them where nothing else is left (a container)."""
    return [item for item in items if not stacked.match(item[0].get("device", ""))] or items


def _filesystems(metrics: ByMetric, at: IntArray) -> tuple[Filesystem, ...]:
    end = at[-1:]
    sizes = {
        labels.get("mountpoint", ""): gauge(item, end)[0] for labels, item in metrics.get(FILESYSTEM_SIZE, ())
    }
    items = metrics.get(FILESYSTEM_AVAILABLE, ())
    lasting = [item for item in items if item[0].get("fstype", "") not in _MEMORY_FILESYSTEMS]
    found = []
    for labels, item in lasting or items:
        mountpoint = labels.get("mountpoint", "")
        size, available = sizes.get(mountpoint, np.nan), gauge(item, end)[0]
        if size > 0 and not np.isnan(available):
            found.append(Filesystem(mountpoint, float(1.0 - available / size), float(available), float(size)))
    return tuple(sorted(found, key=lambda one: one.mountpoint))
