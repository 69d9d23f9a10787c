"""Refuses to keep SQLite files where they would be damaged: on network file systems.

SQLite's write-ahead log needs memory that all processes share and locks that all of them see; across a
network there is neither, and two machines that open one file destroy it (https://www.sqlite.org/wal.html).
"""

import os
import re
from dataclasses import dataclass
from pathlib import Path

from db.errors import StoreUnreachable

MOUNTS = Path("/proc/self/mountinfo")

# As /proc/self/mountinfo names them. Unknown kinds are taken: most are local (overlay, zfs, fuse.mergerfs).
UNSAFE = frozenset(
    {
        # servers of files
        *("nfs", "nfs4", "cifs", "smb3", "smbfs", "ncpfs", "9p", "afs", "openafs", "auristorfs", "coda"),
        # clusters of them
        *("lustre", "gpfs", "ceph", "beegfs", "beegfs_nodev", "glusterfs", "orangefs", "pvfs2", "wekafs"),
        *("quobyte", "panfs", "moosefs", "fuse.mfsmount", "fuse.moosefs", "fuse.lizardfs", "fuse.quobyte"),
        *("fuse.ceph", "fuse.ceph-fuse", "fuse.glusterfs", "fuse.beegfs", "fuse.juicefs", "fuse.seaweedfs"),
        # another machine or a bucket behind FUSE
        *("fuse.sshfs", "fuse.nfs", "fuse.smbnetfs", "fuse.rclone", "fuse.curlftpfs", "fuse.davfs", "davfs"),
        *("fuse.s3fs", "fuse.gcsfuse", "fuse.goofys", "fuse.mount-s3", "fuse.mountpoint-s3", "fuse.blobfuse"),
        *("fuse.blobfuse2", "fuse.alluxio-fuse", "fuse.hdfs", "fuse_dfs"),
        # a folder of the host inside a virtual machine: no shared memory
        *("vboxsf", "vmhgfs", "fuse.vmhgfs-fuse", "prl_fs", "fuse.grpcfuse"),
    }
)

_ESCAPED = re.compile(r"\\([0-7]{3})")


@dataclass(frozen=True, slots=True)
class Mount:
    """One line of mountinfo. id, parent: numbers of the mount and of the one it is mounted on."""

    id: str
    parent: str
    point: Path
    kind: str
    source: str


def refuse_unsafe(path: Path, mounts: Path = MOUNTS) -> None:
    """Raises StoreUnreachable when the file would lie on a network file system."""
    mount = mount_of(path, mounts)
    if mount is not None and mount.kind in UNSAFE:
        raise StoreUnreachable(
            f"{path}: {mount.point} is a network file system ({mount.kind}), on which SQLite's write-ahead "
            "log is unsafe; keep the data on a local disk (--data DIR)"
        )


def mount_of(path: Path, mounts: Path = MOUNTS) -> Mount | None:
    """The mount that holds the path, which need not exist; None where the kernel does not tell."""
    try:
        # Names of mount points are bytes: surrogates keep those that are not UTF-8.
        text = mounts.read_text(encoding="utf-8", errors="surrogateescape")
    except OSError:
        return None
    known = [mount for line in text.splitlines() if (mount := _parse(line)) is not None]
    target = Path(os.path.realpath(path))  # unlike resolve(), it takes links that go in circles
    below = [mount for mount in known if target.is_relative_to(mount.point)]
    numbers = {mount.id for mount in known}
    first = (mount for mount in below if mount.parent not in numbers - {mount.id})
    root = next((mount for mount in first if mount.point == Path("/")), None)
    if root is None:  # a sandbox that shows only some mounts
        return max(below, key=lambda mount: len(mount.point.parts), default=None)
    return _walk(root, below)


def _walk(root: Mount, below: list[Mount]) -> Mount:
    """As the kernel finds its way: a mount on top of another, or of a folder above it, hides it."""
    here = root
    left = [mount for mount in below if mount is not root]
    while True:
        above = [mount for mount in left if mount.parent == here.id and mount.parent != mount.id]
        if not above:
            return here
        here = min(above, key=lambda mount: len(mount.point.parts))
        left.remove(here)


def _parse(line: str) -> Mount | None:
    """`36 35 98:0 /root /point options tags - kind source options`; None for what is not such a line."""
    mounted, _, kind = line.partition(" - ")
    fields, kinds = mounted.split(" "), kind.split(" ")
    if len(fields) < 6 or len(kinds) < 2:
        return None
    return Mount(fields[0], fields[1], Path(_plain(fields[4])), kinds[0], _plain(kinds[1]))


def _plain(text: str) -> str:
    return _ESCAPED.sub(lambda match: chr(int(match[1], 8)), text)
