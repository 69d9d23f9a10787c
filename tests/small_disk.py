"""Real file systems of a few megabytes, mounted for one test: a full or read-only disk is a real one."""

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


class SmallDisk:
    """A mounted file system; `fill` leaves no byte of it, `free` gives them back."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._ballast = folder / "ballast"

    def fill(self) -> None:
        with self._ballast.open("ab", buffering=0) as file:
            for size in (1 << 20, 1 << 12, 1):
                try:
                    while True:
                        file.write(bytes(size))
                        os.fsync(file.fileno())
                except OSError:
                    continue

    def free(self) -> None:
        self._ballast.unlink()

    @contextmanager
    def read_only(self) -> Iterator[None]:
        _mount("-o", "remount,ro", str(self.folder))
        try:
            yield
        finally:
            _mount("-o", "remount,rw", str(self.folder))


@contextmanager
def small_disk(folder: Path, kind: str, megabytes: int = 8) -> Iterator[SmallDisk]:
    """kind: tmpfs or ext4. Skips where mounting is not allowed."""
    place = folder / "disk"
    place.mkdir()
    if kind == "tmpfs":
        arguments = ["-t", "tmpfs", "-o", f"size={megabytes}m", "tmpfs", str(place)]
    else:
        image = folder / "disk.img"
        with image.open("wb") as file:
            file.truncate(megabytes << 20)
        _run("mkfs.ext4", "-q", "-m", "0", "-O", "^has_journal", str(image))
        arguments = ["-o", "loop", str(image), str(place)]
    _mount(*arguments)
    try:
        yield SmallDisk(place)
    finally:
        subprocess.run(["umount", "--lazy", str(place)], check=False)


def _mount(*arguments: str) -> None:
    _run("mount", *arguments)


def _run(*command: str) -> None:
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        pytest.skip(f"needs {command[0]}")
    if done.returncode != 0:
        pytest.skip(f"needs leave to mount file systems: {' '.join(done.stderr.split())[:120]}")
