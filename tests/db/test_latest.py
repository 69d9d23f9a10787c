"""The newest sample of a series, wherever it is: head row, later sparse row, block, another layout."""

import numpy as np

from db.engine import reading
from db.labels import Labels
from db.latest import LATER_BLOCKS
from db.maintenance import Maintainer
from db.nan import ABSENT, STALE
from db.records import DenseAppend, Matcher, Slab, SparseAppend
from db.store import SampleStore
from tests.db.stored_content import BEGIN, DAY, HOUR, gauges, scrape

ONE, TWO, THREE = gauges(3)


def latest(store: SampleStore, at: int, lookback: int = 300_000) -> dict[Labels, tuple[int, float]]:
    return {item.labels: (item.timestamp_ms, item.value) for item in store.latest([], at, lookback)}


def dense(store: SampleStore, key: str, at: int, values: dict[Labels, float], order: list[Labels]) -> None:
    fresh = [labels for labels in values if labels not in order]
    order += fresh
    row = np.array([values.get(labels, ABSENT) for labels in order], dtype=np.float64)
    store.write([DenseAppend(key, fresh, at, row)])


def test_a_load_at_the_time_of_the_newest_row_was_written_later(store: SampleStore) -> None:
    dense(store, "a", BEGIN, {ONE: 1.0, TWO: 2.0}, [])
    store.load([Slab([ONE], np.array([BEGIN]), np.array([[5.0]]))])
    assert latest(store, BEGIN) == {ONE: (BEGIN, 5.0), TWO: (BEGIN, 2.0)}


def test_a_row_that_was_written_later_for_an_earlier_time_does_not_win(store: SampleStore) -> None:
    order: list[Labels] = []
    dense(store, "a", BEGIN + 1_000, {ONE: 1.0}, order)
    dense(store, "a", BEGIN, {ONE: 2.0}, order)
    assert latest(store, BEGIN + 5_000) == {ONE: (BEGIN + 1_000, 1.0)}
    assert latest(store, BEGIN + 500) == {ONE: (BEGIN, 2.0)}


def test_two_rows_of_one_time_and_a_second_layout(store: SampleStore) -> None:
    """The first layout's later row lacks the series, but its earlier one was written after the second."""
    order: list[Labels] = []
    dense(store, "b", BEGIN, {ONE: 2.0}, [])
    dense(store, "a", BEGIN, {ONE: 1.0, TWO: 1.0}, order)
    dense(store, "a", BEGIN, {TWO: 3.0}, order)
    assert latest(store, BEGIN) == {ONE: (BEGIN, 1.0), TWO: (BEGIN, 3.0)}


def test_a_series_that_moved_between_targets(store: SampleStore) -> None:
    order: list[Labels] = []
    dense(store, "a", BEGIN, {ONE: 1.0}, order)
    dense(store, "b", BEGIN + 15_000, {ONE: 2.0}, [])
    assert latest(store, BEGIN + 20_000) == {ONE: (BEGIN + 15_000, 2.0)}
    dense(store, "a", BEGIN + 30_000, {ONE: STALE}, order)
    assert latest(store, BEGIN + 30_000) == {}
    assert latest(store, BEGIN + 29_999) == {ONE: (BEGIN + 15_000, 2.0)}


def test_a_sparse_sample_after_the_newest_scrape(store: SampleStore) -> None:
    dense(store, "a", BEGIN, {ONE: 1.0, TWO: 2.0}, [])
    store.write([SparseAppend([TWO, THREE], np.array([BEGIN + 1, BEGIN - 1]), np.array([7.0, 8.0]))])
    assert latest(store, BEGIN + 10) == {ONE: (BEGIN, 1.0), TWO: (BEGIN + 1, 7.0), THREE: (BEGIN - 1, 8.0)}


def test_a_target_that_is_only_in_blocks_beside_one_in_the_head(
    store: SampleStore, maintainer: Maintainer
) -> None:
    scrape(store, "a", [ONE], [BEGIN])
    maintainer.seal(BEGIN + HOUR)
    dense(store, "b", BEGIN + 60_000, {TWO: 2.0}, [])
    assert latest(store, BEGIN + 60_000) == {ONE: (BEGIN, 0.0), TWO: (BEGIN + 60_000, 2.0)}
    assert latest(store, BEGIN + 300_000) == {TWO: (BEGIN + 60_000, 2.0)}


def test_a_backfill_ahead_of_the_head_is_seen(store: SampleStore, maintainer: Maintainer) -> None:
    dense(store, "a", BEGIN, {ONE: 1.0}, [])
    store.load([Slab([ONE], np.array([BEGIN + 5_000]), np.array([[9.0]]))])
    assert latest(store, BEGIN + 5_000) == {ONE: (BEGIN + 5_000, 9.0)}
    assert latest(store, BEGIN + 4_999) == {ONE: (BEGIN, 1.0)}
    maintainer.seal(BEGIN + DAY)
    maintainer.compact(BEGIN + 3 * DAY)
    assert latest(store, BEGIN + 5_000) == {ONE: (BEGIN + 5_000, 9.0)}
    assert latest(store, BEGIN + 4_999) == {ONE: (BEGIN, 1.0)}


def test_targets_whose_rows_are_in_another_order_than_the_series(store: SampleStore) -> None:
    """All in one row each: asked again and again, while the targets grow, miss and end some of them."""
    series = gauges(12)
    # Too old to be an answer, but it gives them their order.
    store.write([SparseAppend(series, np.full(12, BEGIN - 600_000), np.zeros(12))])
    orders: dict[str, list[Labels]] = {"a": [], "b": []}

    def both(at: int, some: list[Labels]) -> dict[Labels, tuple[int, float]]:
        """Odd ones to one target and even ones to the other, each a little later than the one before."""
        expected = {}
        for place, key in enumerate(orders):
            held = {
                one: at / 1000 + number for number, one in enumerate(some) if series.index(one) % 2 == place
            }
            dense(store, key, at + place, held, orders[key])
            expected |= {one: (at + place, value) for one, value in held.items()}
        return expected

    before = both(BEGIN, series[7::-1])
    assert latest(store, BEGIN + 1) == latest(store, BEGIN + 1) == before
    expected = both(BEGIN + 15_000, series[8:] + series[:8])
    assert latest(store, BEGIN + 15_001) == latest(store, BEGIN + 15_001) == expected
    assert latest(store, BEGIN + 1) == before
    assert latest(store, BEGIN + 15_001) == expected
    later = both(BEGIN + 30_000, series[1:])
    assert latest(store, BEGIN + 30_001) == {series[0]: expected[series[0]], **later}
    dense(store, "a", BEGIN + 40_000, dict.fromkeys(orders["a"], STALE), orders["a"])
    odd = {one: sample for one, sample in later.items() if series.index(one) % 2}
    assert latest(store, BEGIN + 40_000) == odd
    one = store.latest([Matcher("i", "=", "0003")], BEGIN + 30_001)
    assert [(item.labels, item.timestamp_ms, item.value) for item in one] == [(series[3], *later[series[3]])]


def test_a_later_question_finds_another_row_of_the_same_length(store: SampleStore) -> None:
    for step in range(5):
        store.write([DenseAppend("a", gauges(3) if step == 0 else [], BEGIN + step, np.arange(3.0) + step)])
    for step in range(5):
        held = latest(store, BEGIN + step)
        assert list(held.values()) == [(BEGIN + step, value + step) for value in (0.0, 1.0, 2.0)]


def test_what_was_given_does_not_change_with_the_next_question(store: SampleStore) -> None:
    store.write([DenseAppend("a", gauges(3), BEGIN, np.arange(3.0))])
    before = store.latest_columns([], BEGIN)
    before.values[:] = 7.0
    assert store.latest_columns([], BEGIN).values.tolist() == [0.0, 1.0, 2.0]


def test_later_blocks_are_found_without_walking_all(store: SampleStore) -> None:
    with reading(store.engine) as connection:
        plan = connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {LATER_BLOCKS}", (0, 1)).all()
    assert any("ix_block_end_ms" in row.detail for row in plan), plan
