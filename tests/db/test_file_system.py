"""Network file systems are refused, whatever stands between a path and its mount."""

from pathlib import Path

import pytest

from db.engine import open_samples, open_state
from db.errors import StoreUnreachable
from db.file_system import mount_of, refuse_unsafe

ROOT = "27 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw"


def table(folder: Path, *lines: str) -> Path:
    path = folder / "mountinfo"
    path.write_text("".join(f"{line}\n" for line in (ROOT, *lines)))
    return path


def kind(folder: Path, path: str, *lines: str) -> str | None:
    mount = mount_of(Path(path), table(folder, *lines))
    return mount and mount.kind


@pytest.mark.parametrize(
    "unsafe",
    [
        *("nfs", "nfs4", "cifs", "smb3", "9p", "afs", "lustre", "gpfs", "ceph", "beegfs", "glusterfs"),
        *("fuse.sshfs", "fuse.glusterfs", "fuse.s3fs"),
    ],
)
def test_network_file_systems_are_refused_with_reason_and_mend(tmp_path: Path, unsafe: str) -> None:
    mounts = table(tmp_path, f"40 27 0:50 / {tmp_path} rw - {unsafe} server:/share rw")
    with pytest.raises(StoreUnreachable) as caught:
        refuse_unsafe(tmp_path / "data" / "samples.db", mounts)
    assert str(caught.value) == (
        f"{tmp_path}/data/samples.db: {tmp_path} is a network file system ({unsafe}), on which SQLite's "
        "write-ahead log is unsafe; keep the data on a local disk (--data DIR)"
    )


@pytest.mark.parametrize("safe", ["ext4", "xfs", "btrfs", "zfs", "tmpfs", "overlay", "fuse.mergerfs"])
def test_local_ones_are_taken(tmp_path: Path, safe: str) -> None:
    refuse_unsafe(tmp_path / "x.db", table(tmp_path, f"40 27 0:50 / {tmp_path} rw - {safe} /dev/x rw"))


def test_the_longest_mount_counts(tmp_path: Path) -> None:
    lines = ["40 27 0:50 / /home rw - nfs4 s:/home rw", "41 40 0:51 / /home/ada/disk rw - xfs /dev/y rw"]
    assert kind(tmp_path, "/home/ada/x.db", *lines) == "nfs4"
    assert kind(tmp_path, "/home/ada/disk/x.db", *lines) == "xfs"
    assert kind(tmp_path, "/home/ada/disk2/x.db", *lines) == "nfs4"
    assert kind(tmp_path, "/homes/x.db", *lines) == "ext4"


def test_a_later_mount_hides_an_earlier_one_at_the_same_place(tmp_path: Path) -> None:
    lines = ["40 27 0:50 / /data rw - xfs /dev/y rw", "41 40 0:51 / /data rw - nfs s:/x rw"]
    assert kind(tmp_path, "/data/x.db", *lines) == "nfs"
    assert kind(tmp_path, "/data/x.db", *reversed(lines)) == "nfs"  # newer kernels sort by other keys


def test_a_later_mount_above_hides_what_lies_below(tmp_path: Path) -> None:
    lines = ["40 27 0:50 / /srv/data rw - nfs s:/x rw", "41 27 0:51 / /srv rw - xfs /dev/y rw"]
    assert kind(tmp_path, "/srv/data/x.db", *lines) == "xfs"


def test_a_bind_mount_of_a_network_file_system_is_one(tmp_path: Path) -> None:
    lines = ["40 27 0:50 / /net rw - nfs4 s:/ rw", "41 27 0:50 /strata /var/data rw master:3 - nfs4 s:/ rw"]
    assert kind(tmp_path, "/var/data/x.db", *lines) == "nfs4"


def test_a_container_whose_root_is_mounted_over(tmp_path: Path) -> None:
    lines = ["500 27 0:60 / / rw - overlay overlay rw", "501 500 0:61 / /data rw - cifs //s/x rw"]
    assert kind(tmp_path, "/etc/x", *lines) == "overlay"
    assert kind(tmp_path, "/data/x", *lines) == "cifs"


def test_names_are_escaped_in_the_table(tmp_path: Path) -> None:
    line = r"40 27 0:50 / /mnt/my\040disk\134\012x rw - nfs s:/my\040share rw"
    assert kind(tmp_path, "/mnt/my disk\\\nx/x.db", line) == "nfs"


def test_a_link_leads_to_where_the_file_really_is(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    line = f"40 27 0:50 / {tmp_path}/real rw - nfs s:/x rw"
    assert kind(tmp_path, f"{tmp_path}/link/deep/x.db", line) == "nfs"


def test_a_sandbox_that_shows_no_root(tmp_path: Path) -> None:
    path = tmp_path / "mountinfo"
    path.write_text("40 27 0:50 / /data rw - nfs s:/x rw\n41 27 0:51 / /data/local rw - ext4 /dev/y rw\n")
    assert mount_of(Path("/data/x"), path).kind == "nfs"
    assert mount_of(Path("/data/local/x"), path).kind == "ext4"
    assert mount_of(Path("/elsewhere"), path) is None


def test_a_table_that_is_no_table_refuses_nothing(tmp_path: Path) -> None:
    (tmp_path / "mountinfo").write_bytes(b"\xff\xfe what - \n\n - - -\n1 2 3\n")
    refuse_unsafe(tmp_path / "x.db", tmp_path / "mountinfo")
    refuse_unsafe(tmp_path / "x.db", tmp_path / "there is none")


def test_this_machines_own_table_is_understood() -> None:
    assert mount_of(Path("/proc/self")).kind == "proc"


@pytest.mark.parametrize("opener", [open_samples, open_state])
def test_both_databases_are_refused_at_opening_and_nothing_is_left_there(tmp_path: Path, opener) -> None:
    mounts = table(tmp_path, f"40 27 0:50 / {tmp_path} rw - nfs4 server:/share rw")
    with pytest.raises(StoreUnreachable, match=r"network file system \(nfs4\)"):
        opener(tmp_path / "x.db", mounts=mounts)
    assert [path.name for path in tmp_path.iterdir()] == ["mountinfo"]
