"""Retention deletes old blocks, then whatever nothing refers to, and never anything that is young enough."""

from pathlib import Path

import numpy as np
import pytest

from db.maintenance import Maintainer
from db.records import DenseAppend, Slab, SparseAppend, named
from db.retention import used_bytes
from db.store import SampleStore
from tests.db.interruptions import Crash, crash_at, meanwhile
from tests.db.stored_content import BEGIN, DAY, FAR, HOUR, column, content, count, gauges, scrape

SERIES = gauges(4)


def days_of(series: list, days: int, step: int = 60_000) -> Slab:
    times = np.arange(BEGIN, BEGIN + days * DAY, step)
    return Slab(series, times, np.arange(len(series) * len(times), dtype=float).reshape(len(series), -1))


def oldest(store: SampleStore) -> int:
    return min(int(item.timestamps[0]) for item in store.select([], 0, FAR))


def test_whole_blocks_that_end_before_the_cutoff_go(store: SampleStore, maintainer: Maintainer) -> None:
    store.load([days_of(SERIES, 5)])
    maintainer.seal(BEGIN + 6 * DAY)
    maintainer.retain(BEGIN + 2 * DAY + HOUR)
    assert oldest(store) == BEGIN + 2 * DAY  # the block that the cutoff lies in stays whole
    assert all(len(item.timestamps) == 3 * 1_440 for item in store.select([], 0, FAR))


def test_the_head_is_never_deleted(store: SampleStore, maintainer: Maintainer) -> None:
    scrape(store, "t", SERIES, [BEGIN])
    maintainer.retain(BEGIN + 365 * DAY)
    assert oldest(store) == BEGIN


def test_beyond_the_size_the_oldest_days_go_and_the_newest_stays(
    store: SampleStore, maintainer: Maintainer
) -> None:
    random = np.random.default_rng(1)
    slab = days_of(SERIES, 6)
    store.load([Slab(slab.series, slab.timestamps, random.random(slab.values.shape))])
    maintainer.seal(BEGIN + 7 * DAY)
    full = used_bytes(maintainer._engine)
    maintainer.retain(0, full * 2 // 3)
    assert used_bytes(maintainer._engine) <= full * 2 // 3
    assert BEGIN + DAY <= oldest(store) <= BEGIN + 4 * DAY
    maintainer.retain(0, 1)
    assert oldest(store) == BEGIN + 5 * DAY


def test_the_file_becomes_smaller(store: SampleStore, maintainer: Maintainer, tmp_path: Path) -> None:
    random = np.random.default_rng(1)
    slab = days_of(gauges(150), 6)
    store.load([Slab(slab.series, slab.timestamps, random.random(slab.values.shape))])
    maintainer.seal(BEGIN + 7 * DAY)
    maintainer.checkpoint()
    before = (tmp_path / "samples.db").stat().st_size
    maintainer.retain(BEGIN + 5 * DAY)
    maintainer.checkpoint()
    assert (tmp_path / "samples.db").stat().st_size < before / 2


def test_series_that_nothing_is_left_of_are_forgotten(store: SampleStore, maintainer: Maintainer) -> None:
    scrape(store, "gone", SERIES, [BEGIN], ends=True)
    scrape(store, "lives", gauges(2, "living"), [BEGIN, BEGIN + 5 * DAY])
    store.load([days_of(gauges(3, "loaded"), 1)])
    maintainer.seal(BEGIN + 6 * DAY)
    maintainer.retain(BEGIN + 3 * DAY)
    assert set(content(store)) == set(gauges(2, "living"))
    assert count(store, "series") == 2
    assert column(store, "SELECT key FROM layout") == ["lives"]
    assert sorted(set(column(store, "SELECT metric FROM bundle"))) == ["living"]
    assert count(store, "bundle_member") == 2
    assert store.label_values("__name__") == ["living"]
    # What was forgotten may come again, and the one that lives on goes on.
    store.write([DenseAppend("new", SERIES, BEGIN + 6 * DAY, np.arange(4.0))])
    store.write([DenseAppend("lives", [], BEGIN + 6 * DAY, np.arange(2.0))])
    assert len(store.select([named("m")], 0, FAR)) == 4
    assert len(store.select([named("living")], BEGIN + 6 * DAY, FAR)) == 2


def test_an_overwritten_sample_does_not_come_to_light_again(
    store: SampleStore, maintainer: Maintainer
) -> None:
    # The older block ends after the cutoff and stays; the newer one, which replaced a part, ends before it.
    store.load([days_of(SERIES[:1], 1)])
    store.write([SparseAppend(SERIES[:1], np.array([BEGIN]), np.array([-1.0]))])
    maintainer.seal(BEGIN + 2 * DAY)
    maintainer.retain(BEGIN + HOUR)
    assert store.select([], BEGIN, BEGIN)[0].values.tolist() == [-1.0]
    maintainer.retain(BEGIN + 2 * DAY)
    assert content(store) == {}
    assert count(store, "block") == 0


def test_a_load_does_not_uncover_what_it_replaced_in_the_head(
    store: SampleStore, maintainer: Maintainer
) -> None:
    store.write([SparseAppend(SERIES[:1], np.array([BEGIN]), np.array([1.0]))])
    store.load([Slab(SERIES[:1], np.array([BEGIN]), np.array([[2.0]]))])
    maintainer.retain(BEGIN + DAY)
    assert content(store) in ({}, {SERIES[0]: [(BEGIN, 2.0)]})


@pytest.mark.parametrize("transaction", range(1, 13))
def test_a_load_of_old_samples_beside_retention_loses_no_young_ones(
    store: SampleStore, maintainer: Maintainer, transaction: int
) -> None:
    """Retention may delete the first days of a load, and forget their series, before the last are written."""
    slab = days_of(SERIES, 5, HOUR)

    def retain() -> None:
        maintainer.seal(BEGIN + 9 * DAY)
        maintainer.retain(BEGIN + 3 * DAY)

    with meanwhile(store.engine, transaction, retain):
        store.load([slab])
    for item in store.select([], BEGIN + 3 * DAY, FAR):
        assert len(item.timestamps) == 48
    assert len(store.select([], BEGIN + 3 * DAY, FAR)) == 4
    maintainer.seal(BEGIN + 9 * DAY)
    maintainer.retain(BEGIN + 3 * DAY)
    assert oldest(store) == BEGIN + 3 * DAY


@pytest.mark.parametrize("commit", range(1, 8))
def test_broken_off_anywhere_it_goes_on(store: SampleStore, tmp_path: Path, commit: int) -> None:
    scrape(store, "gone", gauges(2, "ended"), [BEGIN], ends=True)
    store.load([days_of(SERIES, 4, HOUR)])
    dying = Maintainer.open(tmp_path / "samples.db")
    dying.seal(BEGIN + 9 * DAY)
    try:
        with crash_at(dying._engine, commit):
            dying.retain(BEGIN + 2 * DAY)
    except Crash:
        pass
    dying.close()
    next_one = Maintainer.open(tmp_path / "samples.db")
    next_one.retain(BEGIN + 2 * DAY)
    assert set(content(store)) == set(SERIES)
    assert oldest(store) == BEGIN + 2 * DAY
    assert count(store, "series") == 4
    next_one.close()
