"""Size and free space of mounted file systems."""

import os
import re
from collections.abc import Iterable
from pathlib import Path

from collectors.host_mounts import Mount, MountSizes
from collectors.host_reading import FamilyTable, Metric, read_bytes
from collectors.types import Family

# node_exporter's defaults. (Debian's package also leaves out /run, /mnt and /media; checkpoints and
# models are often on /mnt.)
EXCLUDED_MOUNTPOINTS = re.compile(
    r"/(dev|proc|run/credentials/.+|sys|var/lib/docker/.+|var/lib/containers/storage/.+)(\Z|/)"
)
EXCLUDED_TYPES = re.compile(
    "autofs|binfmt_misc|bpf|cgroup2?|configfs|debugfs|devpts|devtmpfs|erofs|fusectl|hugetlbfs|iso9660|mqueue"
    "|nsfs|overlay|proc|procfs|pstore|rpc_pipefs|securityfs|selinuxfs|squashfs|sysfs|tracefs"
)
ESCAPED = re.compile(rb"\\([0-7]{3})")

LABELS = ("device", "fstype", "mountpoint")
SIZE = Metric("node_filesystem_size_bytes", "gauge", "Filesystem size in bytes.", LABELS)
FREE = Metric("node_filesystem_free_bytes", "gauge", "Filesystem free space in bytes.", LABELS)
AVAILABLE = Metric(
    "node_filesystem_avail_bytes", "gauge", "Filesystem space available to non-root users in bytes.", LABELS
)
FILES = Metric("node_filesystem_files", "gauge", "Filesystem total file nodes.", LABELS)
FILES_FREE = Metric("node_filesystem_files_free", "gauge", "Filesystem total free file nodes.", LABELS)
READONLY = Metric("node_filesystem_readonly", "gauge", "Filesystem read-only status.", LABELS)
ERROR = Metric(
    "node_filesystem_device_error",
    "gauge",
    "Whether an error occurred while getting statistics for the given device.",
    LABELS,
)
# Newer exporters name the reason; where there is none the label is empty, that is: absent.
ERROR_REASON = Metric(ERROR.name, ERROR.type, ERROR.help, ("device", "device_error", "fstype", "mountpoint"))


class Filesystem:
    name = "filesystem"

    def __init__(self, proc: Path, rootfs: Path, sizes: MountSizes) -> None:
        self._proc = proc
        self._rootfs = os.fsencode(rootfs).rstrip(b"/")
        self._sizes = sizes

    def families(self) -> Iterable[Family]:
        mounts = {
            (mount.device, mount.mountpoint, mount.fstype): mount
            for mount in reversed(self._mounts())  # of two equal lines the first counts
            if not EXCLUDED_TYPES.fullmatch(mount.fstype) and not EXCLUDED_MOUNTPOINTS.match(mount.mountpoint)
        }
        answers = self._sizes.read(mounts.values())
        table = FamilyTable()
        for mount in reversed(mounts.values()):
            labels = (mount.device, mount.fstype, mount.mountpoint)
            table.add(READONLY, mount.readonly, *labels)
            found = answers[mount.path]
            if isinstance(found, str):
                table.add(ERROR_REASON, 1, mount.device, found, mount.fstype, mount.mountpoint)
                continue
            table.add(ERROR, 0, *labels)
            # In units of f_frsize, as df counts; f_bsize (equal on all but a few FUSE mounts) is a hint.
            table.add(SIZE, float(found.f_blocks) * found.f_frsize, *labels)
            table.add(FREE, float(found.f_bfree) * found.f_frsize, *labels)
            table.add(AVAILABLE, float(found.f_bavail) * found.f_frsize, *labels)
            table.add(FILES, found.f_files, *labels)
            table.add(FILES_FREE, found.f_ffree, *labels)
        return table.families()

    def _mounts(self) -> list[Mount]:
        try:
            # The first process sees the host's mounts even where this one has a namespace of its own.
            text = read_bytes(f"{self._proc}/1/mounts")
        except OSError:  # hidden from this user (hidepid)
            text = read_bytes(f"{self._proc}/mounts")
        return [self._mount(line) for line in text.splitlines()]

    def _mount(self, line: bytes) -> Mount:
        device, mountpoint, fstype, options = (_unescape(field) for field in line.split(b" ")[:4])
        # Seen from a container, the host's mounts lie under the folder where its root is mounted.
        if mountpoint == self._rootfs:
            mountpoint = b"/"
        elif self._rootfs and mountpoint.startswith(self._rootfs + b"/"):
            mountpoint = mountpoint.removeprefix(self._rootfs)
        return Mount(
            device=device.decode("utf-8", "replace"),
            mountpoint=mountpoint.decode("utf-8", "replace"),
            fstype=fstype.decode("utf-8", "replace"),
            readonly=b"ro" in options.split(b","),
            path=os.fsdecode(self._rootfs + mountpoint),
        )


def _unescape(field: bytes) -> bytes:
    r"""The kernel writes blank, tab, newline, backslash and # as \ooo."""
    return ESCAPED.sub(lambda match: bytes([int(match[1], 8) & 0xFF]), field)
