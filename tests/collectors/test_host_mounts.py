"""A dead mount never holds up the others, nor a second collection."""

import errno
import os
import threading
import time
from pathlib import Path

import pytest

from collectors.host_filesystem import Filesystem
from collectors.host_mounts import STUCK, Mount, MountSizes
from tests.genuine_node_exporter import Page, page_of

SIZES = os.statvfs("/")
DEAD = [f"/dead/{number}" for number in range(10)]


class _Server:
    """statvfs that hangs on some paths until it is released, as on a dead NFS server."""

    def __init__(self, *hanging: str) -> None:
        self.hanging = hanging
        self.asked: list[str] = []
        self.back = threading.Event()

    def __call__(self, path: str) -> os.statvfs_result:
        self.asked.append(path)
        if path in self.hanging:
            self.back.wait(20)
        return SIZES


def _mount(path: str, fstype: str = "nfs4") -> Mount:
    return Mount("filer:/x", path, fstype, False, path)


def _sizes(server: _Server, timeout: float = 0.1) -> MountSizes:
    return MountSizes(time.monotonic, server, timeout)


@pytest.fixture
def server():
    hung = _Server("/dead", *DEAD)
    yield hung
    hung.back.set()


def test_dead_mounts_cost_one_timeout_together_and_the_others_nothing(server: _Server):
    started = time.monotonic()
    answers = _sizes(server, timeout=0.4).read([*map(_mount, DEAD), _mount("/alive")])
    assert answers == {**dict.fromkeys(DEAD, STUCK), "/alive": SIZES}
    assert time.monotonic() - started < 2


def test_stuck_mount_is_not_asked_again_until_it_answers(server: _Server):
    sizes = _sizes(server, timeout=0.05)
    mounts = [_mount("/dead"), _mount("/alive")]
    sizes.read(mounts)
    threads = threading.active_count()
    for _ in range(3):
        assert sizes.read(mounts)["/dead"] == STUCK
    assert server.asked.count("/dead") == 1
    assert server.asked.count("/alive") == 4
    assert threading.active_count() == threads

    server.back.set()
    for _ in range(100):
        answer = sizes.read(mounts)["/dead"]
        if answer == SIZES:
            break
        time.sleep(0.02)
    assert answer == SIZES


def test_mount_that_refuses_says_why():
    def refuse(path: str) -> os.statvfs_result:
        raise OSError(errno.ESTALE, "Stale file handle", path)

    assert MountSizes(time.monotonic, refuse).read([_mount("/stale")]) == {"/stale": "stale file handle"}


def test_memory_file_systems_are_asked_without_a_thread():
    asked_by: list[str] = []

    def ask(path: str) -> os.statvfs_result:
        asked_by.append(threading.current_thread().name)
        return SIZES

    MountSizes(time.monotonic, ask).read([_mount("/run", "tmpfs"), _mount("/data", "xfs")])
    assert asked_by == [threading.current_thread().name, "statvfs /data"]


def _page(tmp_path: Path, mounts: bytes, server: _Server, rootfs: str = "/") -> Page:
    (tmp_path / "mounts").write_bytes(mounts)
    return page_of(Filesystem(tmp_path, Path(rootfs), _sizes(server)).families())


def test_stuck_mount_is_an_error_with_a_reason_and_no_numbers(tmp_path: Path, server: _Server):
    page = _page(tmp_path, b"filer:/x /dead nfs4 ro,hard 0 0\n/dev/sda1 / ext4 rw 0 0\n", server)
    dead = {"device": "filer:/x", "fstype": "nfs4", "mountpoint": "/dead"}
    assert page.where("node_filesystem_device_error", device_error=STUCK, **dead) == 1
    assert page.where("node_filesystem_readonly", **dead) == 1
    sized = [labels for name, labels in page.values if name == "node_filesystem_size_bytes"]
    assert sized == [frozenset({("device", "/dev/sda1"), ("fstype", "ext4"), ("mountpoint", "/")})]


@pytest.mark.parametrize(
    "line",
    [
        b"proc /proc proc rw 0 0",
        b"none /anywhere overlay rw 0 0",
        b"/dev/sdb /var/lib/docker/volumes/x ext4 rw 0 0",
        b"/dev/sdb /dev/shm/x ext4 rw 0 0",
        b"tmpfs /run/credentials/systemd-x.service tmpfs ro 0 0",
        b"none /x cgroup2 rw 0 0",
    ],
)
def test_mounts_without_storage_of_their_own_are_left_out(tmp_path: Path, line: bytes):
    server = _Server()
    assert _page(tmp_path, line + b"\n", server).values == {}
    assert server.asked == []


@pytest.mark.parametrize("mountpoint", ["/mnt/models", "/run", "/devices", "/var/lib/docker", "/procurement"])
def test_mounts_that_only_look_like_excluded_ones_are_kept(tmp_path: Path, mountpoint: str):
    page = _page(tmp_path, f"/dev/sdb {mountpoint} ext4 rw 0 0\n".encode(), _Server())
    labels = {"device": "/dev/sdb", "fstype": "ext4", "mountpoint": mountpoint}
    assert page.where("node_filesystem_size_bytes", **labels) == SIZES.f_blocks * SIZES.f_frsize
    assert page.where("node_filesystem_avail_bytes", **labels) == SIZES.f_bavail * SIZES.f_frsize


def test_hostile_mount_names_are_asked_as_they_are_and_labelled_readably(tmp_path: Path):
    server = _Server()
    page = _page(tmp_path, rb'/dev/x /a\040b\011\134"' + b"\xff ext4 rw 0 0\n", server)
    assert os.fsencode(server.asked[0]) == b'/a b\t\\"\xff'
    assert page.labels_of("node_filesystem_size_bytes") == {"device", "fstype", "mountpoint"}
    (labels,) = (dict(labels) for name, labels in page.values if name == "node_filesystem_size_bytes")
    assert labels["mountpoint"] == '/a b\t\\"\N{REPLACEMENT CHARACTER}'


def test_first_process_sees_the_mounts_of_the_host(tmp_path: Path):
    (tmp_path / "1").mkdir()
    (tmp_path / "1" / "mounts").write_bytes(b"/dev/host / ext4 rw 0 0\n")
    page = _page(tmp_path, b"/dev/container / ext4 rw 0 0\n", _Server())
    assert page.where("node_filesystem_files", device="/dev/host", fstype="ext4", mountpoint="/")


def test_mounts_are_asked_below_the_folder_where_a_container_sees_the_host(tmp_path: Path):
    server = _Server()
    mounts = b"/dev/a /host ext4 rw 0 0\n/dev/b /host/data ext4 rw 0 0\n/dev/c /hostile ext4 rw 0 0\n"
    page = _page(tmp_path, mounts, server, rootfs="/host")
    assert sorted(server.asked) == ["/host/", "/host/data", "/host/hostile"]
    points = {dict(labels)["mountpoint"] for name, labels in page.values if name.endswith("size_bytes")}
    assert points == {"/", "/data", "/hostile"}


def test_two_lines_of_one_mount_are_reported_once(tmp_path: Path):
    line = b"/dev/a /data ext4 rw 0 0\n"
    families = Filesystem(tmp_path, Path("/"), _sizes(_Server())).families
    (tmp_path / "mounts").write_bytes(line + line)
    assert [len(family.samples) for family in families()] == [1] * 7
