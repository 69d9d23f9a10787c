"""Sealing moves what is old from the head into blocks, and nobody who reads sees any of it."""

from pathlib import Path

import numpy as np
import pytest
from sqlalchemy import event

from db.maintenance import Maintainer
from db.records import DenseAppend, Slab, SparseAppend, named
from db.seal import TRANSACTION_BYTES
from db.store import SampleStore
from tests.db.interruptions import Crash, crash_at
from tests.db.stored_content import BEGIN, DAY, FAR, HOUR, column, content, count, gauges, scrape, wal_bytes

SERIES = gauges(5)


def test_what_is_older_than_kept_leaves_the_head(store: SampleStore, maintainer: Maintainer) -> None:
    times = [BEGIN + number * 15_000 for number in range(40)]
    scrape(store, "t", SERIES, times)
    before = content(store)
    maintainer.seal(times[-1], kept_ms=60_000)
    assert column(store, "SELECT min(ts) FROM head_dense") == [times[-4]]
    assert count(store, "block") > 0
    assert content(store) == before


def test_the_head_stays_in_the_order_of_writing(store: SampleStore, maintainer: Maintainer) -> None:
    now = BEGIN + HOUR
    scrape(store, "t", SERIES, [now])  # too young to be sealed
    store.write([SparseAppend(SERIES[:1], np.array([BEGIN]), np.array([7.0]))])  # old, but written after it
    maintainer.seal(now, kept_ms=60_000)
    assert count(store, "head_sparse") == 1


def test_rows_from_a_clock_that_was_ahead_do_not_stop_it(store: SampleStore, maintainer: Maintainer) -> None:
    scrape(store, "t", SERIES, [BEGIN + 2 * DAY, BEGIN, BEGIN + 15_000])
    before = content(store)
    maintainer.seal(BEGIN + HOUR, kept_ms=60_000)
    assert count(store, "head_dense") == 0
    assert content(store) == before


def test_a_load_keeps_its_place_among_writes(store: SampleStore, maintainer: Maintainer) -> None:
    def value() -> float:
        return float(store.select([named("m")], 0, FAR)[0].values[0])

    def write(number: float) -> None:
        store.write([SparseAppend(SERIES[:1], np.array([BEGIN]), np.array([number]))])

    write(1.0)
    store.load([Slab(SERIES[:1], np.array([BEGIN]), np.array([[2.0]]))])
    assert value() == 2.0
    write(3.0)
    assert value() == 3.0
    store.load([Slab(SERIES[:1], np.array([BEGIN + 1]), np.array([[4.0]]))])
    maintainer.seal(BEGIN + HOUR)
    assert count(store, "head_sparse") == 0
    assert count(store, "load") == 0
    assert value() == 3.0
    maintainer.compact(BEGIN + 3 * DAY)
    assert value() == 3.0


@pytest.mark.parametrize("commit", range(1, 7))
def test_broken_off_anywhere_it_is_done_anew(store: SampleStore, tmp_path: Path, commit: int) -> None:
    scrape(store, "t", gauges(200), [BEGIN + number * 15_000 for number in range(30)])
    before = content(store)
    dying = Maintainer.open(tmp_path / "samples.db")
    try:
        with crash_at(dying._engine, commit):
            dying.seal(BEGIN + DAY)
    except Crash:
        assert content(store) == before
    dying.close()
    next_one = Maintainer.open(tmp_path / "samples.db")
    next_one.seal(BEGIN + DAY)
    assert content(store) == before
    next_one.compact(BEGIN + 3 * DAY)
    assert content(store) == before
    assert count(store, "head_dense") == 0
    assert column(store, "SELECT sealing_seq FROM store_state") == [None]
    # Nothing is left of what was begun: each sample is in one block.
    assert sorted(column(store, "SELECT level FROM block")) == [2] * count(store, "block")
    assert count(store, "timeline") == 1
    next_one.close()


def test_no_transaction_is_much_longer_than_a_megabyte(store: SampleStore, tmp_path: Path) -> None:
    random = np.random.default_rng(1)
    series = gauges(2_000)
    for number in range(60):  # noise: nothing compresses it
        values = random.random(len(series))
        store.write([DenseAppend("t", series if number == 0 else [], BEGIN + number * 15_000, values)])
    before = content(store)
    maintainer = Maintainer.open(tmp_path / "samples.db")
    longest = 0
    size = wal_bytes(tmp_path / "samples.db")

    def measure(connection) -> None:
        nonlocal longest, size
        now = wal_bytes(tmp_path / "samples.db")
        longest, size = max(longest, now - size), now

    event.listen(maintainer._engine, "engine_connect", measure)
    maintainer.seal(BEGIN + DAY)
    maintainer.compact(BEGIN + 3 * DAY)
    maintainer.retain(BEGIN - DAY)
    with maintainer._engine.connect():
        pass
    maintainer.close()
    assert content(store) == before
    assert 0 < longest < 2 * TRANSACTION_BYTES


def test_an_order_that_names_a_series_twice_keeps_the_others_apart(
    store: SampleStore, maintainer: Maintainer
) -> None:
    one, two, three = SERIES[:3]
    store.write([DenseAppend("t", [one, one, two], BEGIN, np.array([1.0, 2.0, 3.0]))])
    store.write([DenseAppend("t", [three], BEGIN + 1, np.array([1.0, 2.0, 3.0, 4.0]))])
    before = content(store)
    assert before[one] == [(BEGIN, 2.0), (BEGIN + 1, 2.0)]
    assert before[two] == [(BEGIN, 3.0), (BEGIN + 1, 3.0)]
    maintainer.seal(BEGIN + DAY)
    assert content(store) == before
