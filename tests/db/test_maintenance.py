"""Maintenance beside writers and readers: nobody waits long, sees half a commit, or finds a large log."""

import sqlite3
import time
from pathlib import Path

import numpy as np
import pytest

from db.maintenance import SEAL_EVERY_MS, Maintainer
from db.records import DenseAppend, SparseAppend
from db.store import SampleStore
from tests.chaos.rounds import Worker, look
from tests.chaos.workers import maintain, read, write
from tests.db.stored_content import BEGIN, DAY, HOUR, column, content, count, gauges, scrape, wal_bytes

SERIES = gauges(4)
RETENTION = 30 * DAY
# What the log may keep once its content is in the file (`db.sqlite_engine`), and some more commits.
LOG_BYTES = 72 * 1024 * 1024


def test_a_day_of_rounds_leaves_one_block_a_bundle(store: SampleStore, maintainer: Maintainer) -> None:
    for at in range(BEGIN, BEGIN + DAY, 60_000 * 10):
        scrape(store, f"t {at}", SERIES, range(at, at + 600_000, 60_000), ends=True)
        maintainer.run(at + 600_000, RETENTION)
    before = content(store)
    maintainer.run(BEGIN + DAY + HOUR, RETENTION)
    assert content(store) == before
    assert column(store, "SELECT level FROM block WHERE window_ms = ?", BEGIN) == [2]
    assert count(store, "head_dense") == 0


def test_between_two_rounds_nothing_is_sealed(store: SampleStore, maintainer: Maintainer) -> None:
    maintainer.run(BEGIN, RETENTION)
    scrape(store, "t", SERIES, [BEGIN - HOUR])
    maintainer.run(BEGIN + SEAL_EVERY_MS - 1, RETENTION)
    assert count(store, "head_dense") == 1
    maintainer.run(BEGIN + SEAL_EVERY_MS, RETENTION)
    assert count(store, "head_dense") == 0


def test_a_clock_that_was_set_back_does_not_stop_it(store: SampleStore, maintainer: Maintainer) -> None:
    maintainer.run(BEGIN + DAY, RETENTION)
    scrape(store, "t", SERIES, [BEGIN - HOUR])
    maintainer.run(BEGIN, RETENTION)
    assert count(store, "head_dense") == 0


def test_it_stops_between_two_pieces_of_work(store: SampleStore, maintainer: Maintainer) -> None:
    scrape(store, "t", SERIES, [BEGIN])
    maintainer.run(BEGIN + DAY, RETENTION, stopping=lambda: True)
    assert count(store, "head_dense") == 1


def fill_log(store: SampleStore, path: Path, until: int) -> None:
    random = np.random.default_rng(1)
    series = gauges(5_000)
    number = 0
    while wal_bytes(path) < until:
        appends = [
            DenseAppend("t", series if number + row == 0 else [], BEGIN + number + row, random.random(5_000))
            for row in range(100)
        ]
        store.write(appends)
        number += 100


def test_a_foreign_reader_that_went_leaves_no_large_log(
    store: SampleStore, maintainer: Maintainer, tmp_path: Path
) -> None:
    path = tmp_path / "samples.db"
    foreign = sqlite3.connect(path, isolation_level=None)
    foreign.execute("BEGIN")
    foreign.execute("SELECT count(*) FROM series").fetchall()
    fill_log(store, path, LOG_BYTES + 8 * 1024 * 1024)
    maintainer.checkpoint()
    assert wal_bytes(path) > LOG_BYTES  # it is pinned
    foreign.execute("ROLLBACK")
    foreign.close()
    maintainer.checkpoint()
    store.write([SparseAppend(SERIES[:1], np.array([BEGIN]), np.array([1.0]))])
    assert wal_bytes(path) < LOG_BYTES


def test_the_log_does_not_grow_while_it_is_emptied(
    store: SampleStore, maintainer: Maintainer, tmp_path: Path
) -> None:
    path = tmp_path / "samples.db"
    random = np.random.default_rng(1)
    series = gauges(5_000)
    largest = 0
    for number in range(60):
        row = random.random(len(series))
        store.write([DenseAppend("t", series if number == 0 else [], BEGIN + number * 60_000, row)])
        assert len(store.latest([], BEGIN + number * 60_000)) == len(series)
        if number % 10 == 9:
            maintainer.seal(BEGIN + number * 60_000)
            maintainer.checkpoint()
        if number > 20:
            largest = max(largest, wal_bytes(path))
    assert largest < 16 * 1024 * 1024


@pytest.mark.slow
def test_readers_beside_a_writer_and_maintenance_see_whole_commits(tmp_path: Path) -> None:
    path = tmp_path / "samples.db"
    SampleStore.open(path).close()
    writer = Worker.start(write, path, 0)
    writer.wait_for_first()
    readers = [Worker.start(read, path, seed) for seed in range(2)]
    workers = [writer, Worker.start(maintain, path, 1), *readers]
    ends = time.monotonic() + 120
    while writer.rounds < 60 or any(worker.rounds < 3 for worker in workers):
        for worker in workers:
            worker.take()
            assert not worker.has_ended(), f"{worker.process.name} has failed; its error is on stderr"
        assert time.monotonic() < ends, [worker.rounds for worker in workers]
        readers[0].pipe.poll(0.1)
    for worker in workers:
        worker.kill()
    assert writer.acknowledged <= look(path).commits


def test_a_connection_that_only_reads_writes_nothing(store: SampleStore, tmp_path: Path) -> None:
    """It would wait for the lock of all writers, and tell every cache that something has changed."""
    before = store.generation()
    size = wal_bytes(tmp_path / "samples.db")
    reader = SampleStore.open(tmp_path / "samples.db")
    assert reader.select([], 0, 1) == []
    assert store.generation() == before
    assert wal_bytes(tmp_path / "samples.db") == size
    reader.close()
