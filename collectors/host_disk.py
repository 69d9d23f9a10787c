"""Block devices: /proc/diskstats, and what udev knows about each device."""

import re
from collections.abc import Iterable
from pathlib import Path

from collectors.host_reading import FamilyTable, Metric, read_attribute, read_text
from collectors.types import Family

SECTOR_BYTES = 512.0  # of /proc/diskstats, whatever the device's own block size
TICK_SECONDS = 1.0 / 1000.0
# node_exporter's default: no partitions of whole disks, no ram disks, loops and floppies.
EXCLUDED = re.compile(r"(z?ram|loop|fd|(h|s|v|xv)d[a-z]|nvme\d+n\d+p)\d+")

INFO = Metric(
    "node_disk_info",
    "gauge",
    "Info of /sys/block/<block_device>.",
    ("device", "major", "minor", "model", "path", "revision", "rotational", "serial", "wwn"),
)
FILESYSTEM_INFO = Metric(
    "node_disk_filesystem_info",
    "gauge",
    "Info about disk filesystem.",
    ("device", "type", "usage", "uuid", "version"),
)
DEVICE_MAPPER_INFO = Metric(
    "node_disk_device_mapper_info",
    "gauge",
    "Info about disk device mapper.",
    ("device", "lv_layer", "lv_name", "name", "uuid", "vg_name"),
)
ATA = {
    "ID_ATA_WRITE_CACHE": Metric(
        "node_disk_ata_write_cache", "gauge", "ATA disk has a write cache.", ("device",)
    ),
    "ID_ATA_WRITE_CACHE_ENABLED": Metric(
        "node_disk_ata_write_cache_enabled", "gauge", "ATA disk has its write cache enabled.", ("device",)
    ),
    "ID_ATA_ROTATION_RATE_RPM": Metric(
        "node_disk_ata_rotation_rate_rpm",
        "gauge",
        "ATA disk rotation rate in RPMs (0 for SSDs).",
        ("device",),
    ),
}


def _counter(name: str, text: str) -> Metric:
    return Metric(f"node_disk_{name}_total", "counter", text, ("device",))


# (metric, factor) in the order of the file's columns; older kernels end after 11 or 15 of them.
COLUMNS: tuple[tuple[Metric, float], ...] = (
    (_counter("reads_completed", "The total number of reads completed successfully."), 1),
    (_counter("reads_merged", "The total number of reads merged."), 1),
    (_counter("read_bytes", "The total number of bytes read successfully."), SECTOR_BYTES),
    (_counter("read_time_seconds", "The total number of seconds spent by all reads."), TICK_SECONDS),
    (_counter("writes_completed", "The total number of writes completed successfully."), 1),
    (_counter("writes_merged", "The number of writes merged."), 1),
    (_counter("written_bytes", "The total number of bytes written successfully."), SECTOR_BYTES),
    (
        _counter("write_time_seconds", "This is the total number of seconds spent by all writes."),
        TICK_SECONDS,
    ),
    (Metric("node_disk_io_now", "gauge", "The number of I/Os currently in progress.", ("device",)), 1),
    (_counter("io_time_seconds", "Total seconds spent doing I/Os."), TICK_SECONDS),
    (_counter("io_time_weighted_seconds", "The weighted # of seconds spent doing I/Os."), TICK_SECONDS),
    (_counter("discards_completed", "The total number of discards completed successfully."), 1),
    (_counter("discards_merged", "The total number of discards merged."), 1),
    (_counter("discarded_sectors", "The total number of sectors discarded successfully."), 1),
    (
        _counter("discard_time_seconds", "This is the total number of seconds spent by all discards."),
        TICK_SECONDS,
    ),
    (_counter("flush_requests", "The total number of flush requests completed successfully"), 1),
    (
        _counter(
            "flush_requests_time_seconds", "This is the total number of seconds spent by all flush requests."
        ),
        TICK_SECONDS,
    ),
)


class Diskstats:
    name = "diskstats"

    def __init__(self, proc: Path, sys: Path, udev_data: Path) -> None:
        self._path = f"{proc}/diskstats"
        self._block = f"{sys}/block"
        self._udev = udev_data

    def families(self) -> Iterable[Family]:
        table = FamilyTable()
        for line in read_text(self._path).splitlines():
            major, minor, device, *values = line.split()
            if EXCLUDED.fullmatch(device):
                continue
            for (metric, factor), value in zip(COLUMNS, values, strict=False):
                table.add(metric, int(value) * factor, device)
            self._add_udev(table, device, major, minor)
        return table.families()

    def _add_udev(self, table: FamilyTable, device: str, major: str, minor: str) -> None:
        known = _udev_properties(f"{self._udev}/b{major}:{minor}")
        table.add(
            INFO,
            1,
            device,
            major,
            minor,
            known.get("ID_MODEL", ""),
            known.get("ID_PATH", ""),
            known.get("ID_REVISION", ""),
            read_attribute(f"{self._block}/{device}/queue/rotational") or "",
            # What the disk's label says; virtio devices only have the last.
            known.get("SCSI_IDENT_SERIAL") or known.get("ID_SERIAL_SHORT") or known.get("ID_SERIAL", ""),
            known.get("ID_WWN", ""),
        )
        if known.get("ID_FS_TYPE"):
            values = (known.get(f"ID_FS_{key}", "") for key in ("TYPE", "USAGE", "UUID", "VERSION"))
            table.add(FILESYSTEM_INFO, 1, device, *values)
        if known.get("DM_NAME"):
            keys = ("LV_LAYER", "LV_NAME", "NAME", "UUID", "VG_NAME")
            table.add(DEVICE_MAPPER_INFO, 1, device, *(known.get(f"DM_{key}", "") for key in keys))
        if known.get("ID_ATA"):
            for key, metric in ATA.items():
                if key in known:
                    table.add(metric, float(known[key]), device)


def _udev_properties(path: str) -> dict[str, str]:
    """The "E:NAME=value" lines of udev's record of a device; empty where udev does not run."""
    try:
        record = read_text(path)
    except OSError:
        return {}
    return {
        name: value
        for line in record.splitlines()
        if line.startswith("E:")
        for name, _, value in (line[2:].partition("="),)
    }
