"""A power cut leaves any beginning of the write-ahead log: what reopens is whole commits, the first ones.

A killed process does not test this, since the kernel still writes what it was given.
"""

import shutil
from pathlib import Path

import numpy as np
import pytest

from db.store import SampleStore
from tests.chaos.rounds import look
from tests.chaos.workers import appends_of

COMMITS = 40
CUTS = 100


def written(folder: Path) -> tuple[bytes, bytes, list[int]]:
    """Commits that are only in the log: the file, the log, and its size after each commit."""
    path = folder / "samples.db"
    SampleStore.open(path).close()
    store = SampleStore.open(path)
    log = path.with_name("samples.db-wal")
    sizes = []
    for number in range(COMMITS):
        store.write(list(appends_of(number, fresh=number == 0)))
        sizes.append(log.stat().st_size)
    found = path.read_bytes(), log.read_bytes(), sizes
    store.close()
    assert sizes == sorted(set(sizes)), "the log was emptied meanwhile"
    return found


@pytest.mark.parametrize("garbage", [False, True])
def test_a_torn_log_reopens_to_the_first_commits(tmp_path: Path, garbage: bool) -> None:
    file, log, sizes = written(tmp_path / "whole")
    random = np.random.default_rng(1)
    for cut in random.integers(0, len(log) + 1, CUTS).tolist():
        folder = tmp_path / "torn"
        folder.mkdir()
        path = folder / "samples.db"
        path.write_bytes(file)
        rest = random.bytes(int(random.integers(1, 20_000))) if garbage else b""
        path.with_name("samples.db-wal").write_bytes(log[:cut] + rest)
        assert look(path).commits == set(range(sum(size <= cut for size in sizes)))
        shutil.rmtree(folder)


def test_damage_in_the_middle_of_the_log_ends_it_there(tmp_path: Path) -> None:
    file, log, sizes = written(tmp_path / "whole")
    random = np.random.default_rng(2)
    for at in random.integers(0, len(log), 20).tolist():
        folder = tmp_path / "damaged"
        folder.mkdir()
        path = folder / "samples.db"
        path.write_bytes(file)
        path.with_name("samples.db-wal").write_bytes(log[:at] + bytes([log[at] ^ 1]) + log[at + 1 :])
        found = look(path).commits
        assert found == set(range(len(found)))
        assert len(found) >= sum(size <= at for size in sizes) or at < 4_096
        shutil.rmtree(folder)
