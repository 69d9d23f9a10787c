"""Merging makes few large blocks of many small ones, and changes nothing that is read."""

import logging
from pathlib import Path

import numpy as np
import pytest

from db.errors import StoreUnreachable
from db.maintenance import Maintainer
from db.records import Slab, SparseAppend, named
from db.store import SampleStore
from tests.db.interruptions import Crash, crash_at, meanwhile
from tests.db.stored_content import BEGIN, DAY, FAR, HOUR, column, content, count, gauges, scrape

SERIES = gauges(4)


def live(store: SampleStore, maintainer: Maintainer, begin: int, end: int) -> None:
    """Scrapes a minute apart, sealed every half hour."""
    for at in range(begin, end, 30 * 60_000):
        scrape(store, f"t {at}", SERIES, range(at, min(end, at + 30 * 60_000), 60_000), ends=True)
        maintainer.seal(at + HOUR, kept_ms=0)


def levels(store: SampleStore) -> list[int]:
    return sorted(column(store, "SELECT level FROM block"))


def test_small_blocks_become_two_hours_and_these_a_day(store: SampleStore, maintainer: Maintainer) -> None:
    live(store, maintainer, BEGIN, BEGIN + 4 * HOUR)
    before = content(store)
    assert levels(store) == [0] * 8
    maintainer.compact(BEGIN + 2 * HOUR)  # the window is not over for long enough
    assert levels(store) == [0] * 8
    maintainer.compact(BEGIN + 2 * HOUR + 10 * 60_000)
    assert levels(store) == [0] * 4 + [1]
    maintainer.compact(BEGIN + 5 * HOUR)
    assert levels(store) == [1, 1]
    maintainer.compact(BEGIN + DAY + HOUR)
    assert levels(store) == [2]
    assert count(store, "timeline") == 1
    assert content(store) == before


def test_late_samples_wait_for_the_hour_and_are_merged_then(
    store: SampleStore, maintainer: Maintainer
) -> None:
    live(store, maintainer, BEGIN, BEGIN + 2 * HOUR)
    now = BEGIN + 2 * DAY
    maintainer.compact(now)
    assert levels(store) == [2]
    store.write([SparseAppend(SERIES[:1], np.array([BEGIN + 1]), np.array([5.0]))])
    maintainer.seal(now)
    before = content(store)
    maintainer.compact(now, late=False)
    assert levels(store) == [0, 2]
    maintainer.compact(now, late=True)
    assert levels(store) == [2]
    assert content(store) == before


def test_a_load_that_is_newer_than_the_head_is_left_alone(store: SampleStore, maintainer: Maintainer) -> None:
    live(store, maintainer, BEGIN, BEGIN + 2 * HOUR)
    store.write([SparseAppend(SERIES[:1], np.array([BEGIN]), np.array([5.0]))])
    store.load([Slab(SERIES[1:], np.array([BEGIN]), np.full((3, 1), 6.0))])
    store.write([SparseAppend(SERIES[1:2], np.array([BEGIN]), np.array([7.0]))])
    before = content(store)
    maintainer.compact(BEGIN + 2 * DAY)
    assert content(store) == before
    assert 0 in levels(store)
    maintainer.seal(BEGIN + 2 * DAY)
    maintainer.compact(BEGIN + 2 * DAY)
    assert content(store) == before
    assert levels(store) == [2]


@pytest.mark.parametrize("commit", range(1, 5))
def test_broken_off_anywhere_nothing_is_lost_or_twice(
    store: SampleStore, tmp_path: Path, maintainer: Maintainer, commit: int
) -> None:
    live(store, maintainer, BEGIN, BEGIN + 3 * HOUR)
    before = content(store)
    dying = Maintainer.open(tmp_path / "samples.db")
    try:
        with crash_at(dying._engine, commit):
            dying.compact(BEGIN + 2 * DAY)
    except Crash:
        assert content(store) == before
    dying.close()
    maintainer.compact(BEGIN + 2 * DAY)
    assert content(store) == before
    assert levels(store) == [2]


def test_merging_in_the_middle_of_a_long_load_keeps_the_order(
    store: SampleStore, maintainer: Maintainer
) -> None:
    """What is merged meanwhile would count as newer than the rest of the load, if its place were older."""
    days = 6
    times = np.arange(BEGIN, BEGIN + days * DAY, HOUR)
    old = np.array([BEGIN + day * DAY for day in range(days)])
    for value in (1.0, 2.0):  # two small blocks a day, for something to be merged
        store.write([SparseAppend(SERIES[:1], old, np.full(days, value), np.zeros(days, dtype=np.int64))])
        maintainer.seal(BEGIN + 9 * DAY)
    for transaction in range(1, 14):
        loaded = np.full((1, len(times)), 100.0 + transaction)

        def late(number: int = transaction) -> None:
            store_beside = SampleStore(store.engine)
            at = old + number
            values = np.full(days, float(number))
            store_beside.write([SparseAppend(SERIES[:1], at, values, np.zeros(days, dtype=np.int64))])
            maintainer.seal(BEGIN + 9 * DAY)
            maintainer.compact(BEGIN + 9 * DAY)

        loader = SampleStore.open(Path(str(store.engine.url.database)))
        with meanwhile(loader.engine, transaction, late):
            loader.load([Slab(SERIES[:1], times, loaded)])
        loader.close()
        (found,) = store.select([named("m")], 0, FAR)
        at = np.isin(found.timestamps, times)
        assert found.values[at].tolist() == loaded[0].tolist()


def test_a_damaged_block_is_told_and_the_rest_goes_on(
    store: SampleStore, maintainer: Maintainer, caplog: pytest.LogCaptureFixture
) -> None:
    live(store, maintainer, BEGIN, BEGIN + 2 * HOUR)
    scrape(store, "other", gauges(3, "other"), [BEGIN, BEGIN + HOUR])
    maintainer.seal(BEGIN + DAY)
    (damaged,) = column(
        store, "SELECT min(b.id) FROM block b JOIN bundle n ON n.id = bundle_id WHERE metric = 'm'"
    )
    with store.engine.begin() as connection:
        connection.exec_driver_sql("UPDATE block SET data = x'01ffff0102' WHERE id = ?", (damaged,))
    for read in (
        lambda: store.select([named("m")], 0, FAR),
        lambda: store.slabs([], 0, FAR),
        lambda: store.latest([], BEGIN + HOUR, 2 * HOUR),
        lambda: store.at_steps([], BEGIN, BEGIN + HOUR, 60_000),
    ):
        with pytest.raises(StoreUnreachable, match=r"samples\.db: is damaged: a block .* restore a backup"):
            read()
    with caplog.at_level(logging.ERROR):
        maintainer.compact(BEGIN + 2 * DAY)
    assert "stays unmerged" in caplog.text
    assert len(store.select([named("other")], 0, FAR)) == 3
    assert 2 in levels(store)


def test_a_missing_timeline_is_damage_too(store: SampleStore, maintainer: Maintainer) -> None:
    live(store, maintainer, BEGIN, BEGIN + HOUR)
    with store.engine.begin() as connection:
        connection.exec_driver_sql("DELETE FROM timeline")
    with pytest.raises(StoreUnreachable, match="its timestamps are missing"):
        store.select([], 0, FAR)


def test_loads_of_one_day_become_one_block(store: SampleStore) -> None:
    third = DAY // 3
    for part in range(3):
        times = np.arange(BEGIN + part * third, BEGIN + (part + 1) * third, 15_000)
        store.load([Slab(gauges(4), times, np.arange(4.0 * len(times)).reshape(4, -1))])
    before = content(store)
    maintainer = Maintainer(store.engine)
    maintainer.seal(BEGIN + 2 * DAY)
    assert count(maintainer, "block") == 3
    maintainer.compact(BEGIN + 2 * DAY, late=False)
    assert count(maintainer, "block") == 3
    maintainer.compact(BEGIN + 2 * DAY)
    assert column(maintainer, "SELECT level FROM block") == [2]
    assert content(store) == before
