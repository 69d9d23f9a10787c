"""What selectors and subqueries see, over a real store; the expectations are counted by hand."""

import pytest

from db.nan import STALE
from db.promql.engine import Options, instant
from db.store import SampleStore
from tests.db.promql.samples import at, every_minute, over, rows_of, write


def test_a_sample_is_looked_back_for_five_minutes_but_one_millisecond(store: SampleStore) -> None:
    write(store, {"x": {0: 7}})
    assert at(store, "x", -0.001) == []
    assert at(store, "x", 0) == [("x", 7)]
    assert at(store, "x", 299.999) == [("x", 7)]
    assert at(store, "x", 300) == []
    assert over(store, "x", -150, 450, 150) == {"x": [None, 7, 7, None, None]}
    assert at(store, "x", 60, Options(lookback_ms=60_000)) == []


def test_a_marker_of_staleness_ends_the_series_at_once(store: SampleStore) -> None:
    write(store, {"x": {0: 1, 60: 2, 120: STALE, 240: 3}})
    assert over(store, "x", 0, 300, 60) == {"x": [1, 2, None, None, 3, 3]}
    assert over(store, "timestamp(x)", 0, 300, 60) == {"{}": [0, 60, None, None, 240, 240]}
    assert at(store, "timestamp(x)", 120) == []
    assert over(store, "count_over_time(x[3m])", 0, 300, 60) == {"{}": [1, 2, 2, 1, 1, 1]}
    assert rows_of(instant(store, "x[5m]", 240_000)) == {"x": [1, 2, 3]}


def test_a_window_is_open_at_its_beginning(store: SampleStore) -> None:
    write(store, {"x": every_minute([1, 2, 4, 8])})
    assert at(store, "sum_over_time(x[2m])", 180) == [("{}", 12)]
    assert at(store, "sum_over_time(x[2m])", 179.999) == [("{}", 6)]
    assert at(store, "sum_over_time(x[121s])", 180) == [("{}", 14)]


@pytest.mark.parametrize(
    ("query", "values"),
    [
        ("x offset 1m", [1, 2, 3]),
        ("x offset -1m", [3, 4, 5]),
        ("x @ 60", [2, 2, 2]),
        ("x @ 180 offset 1m", [3, 3, 3]),
        ("x offset 1m @ 180", [3, 3, 3]),
        ("x @ start()", [2, 2, 2]),
        ("x @ end()", [4, 4, 4]),
        ("x @ end() offset 2m", [2, 2, 2]),
        ("-(x @ end())", [-4, -4, -4]),
        ("sum_over_time(x[2m] @ end())", [7, 7, 7]),
        ("sum_over_time(x[2m] offset 1m)", [1, 3, 5]),
        # What is of the step stays so.
        ("x @ 60 + time()", [62, 122, 182]),
        ("timestamp(x @ 60)", [60, 60, 60]),
        ("timestamp(x @ 60 offset 60)", [60, 60, 60]),
        ("timestamp(x @ 60 + 0)", [60, 120, 180]),
        ("predict_linear(x[2m] @ 120, 60)", [3, 4, 5]),
        ("timestamp(x offset 1m)", [0, 60, 120]),
        ("timestamp((x))", [60, 120, 180]),
    ],
)
def test_offset_and_at_move_what_is_seen(store: SampleStore, query: str, values: list[float | None]) -> None:
    write(store, {"x": every_minute([1, 2, 3, 4, 5])})
    [found] = over(store, query, 60, 180, 60).values()
    assert found == values


def test_the_timestamp_of_a_timestamp_is_that_of_the_evaluation(store: SampleStore) -> None:
    write(store, {"x": {10: 1}})
    assert at(store, "timestamp(x)", 60) == [("{}", 10)]
    assert at(store, "timestamp(timestamp(x))", 60) == [("{}", 60)]
    assert over(store, "timestamp(timestamp(x))", 60, 120, 60) == {"{}": [60, 120]}


@pytest.mark.parametrize(
    ("seconds", "count", "first", "last"),
    [
        (330, 5, 60, 300),
        (300, 5, 60, 300),
        (301, 5, 60, 300),
        (359.999, 5, 60, 300),
        (0, 5, -240, 0),
        (-1, 5, -300, -60),
        (-30, 5, -300, -60),
        (-60, 5, -300, -60),
    ],
)
def test_subqueries_are_evaluated_at_multiples_of_their_step(
    store: SampleStore, seconds: float, count: int, first: float, last: float
) -> None:
    for function, value in (("count", count), ("min", first), ("max", last)):
        assert at(store, f"{function}_over_time(vector(time())[5m:1m])", seconds) == [("{}", value)]


@pytest.mark.parametrize(
    ("query", "values"),
    [
        ("sum_over_time(vector(time())[3m:1m] offset 1m)", [-180, 0, 180]),
        ("sum_over_time(vector(time())[3m:1m] @ 240)", [540, 540, 540]),
        ("sum_over_time(vector(time())[3m:1m] @ 300 offset 1m)", [540, 540, 540]),
        ("max_over_time(vector(time())[1m:1m] @ end())", [180, 180, 180]),
        # `start()` is the query's, not the outer subquery's.
        ("sum_over_time(max_over_time(vector(time())[1m:1m] @ start())[2m:1m])", [120, 120, 120]),
        ("sum_over_time(max_over_time(vector(time())[2m:1m])[2m:1m])", [60, 180, 300]),
        ("max_over_time(sum_over_time(vector(time())[3m:1m] offset 1m)[2m:1m])", [-180, 0, 180]),
        # Between two multiples of the step there is none.
        ("max_over_time(vector(time())[30s:1h])", [None, None, None]),
        ("absent_over_time(vector(time())[30s:1h])", [1, 1, 1]),
    ],
)
def test_subqueries_with_offset_at_and_subqueries(
    store: SampleStore, query: str, values: list[float | None]
) -> None:
    found = over(store, query, 60, 180, 60)
    assert found == ({} if values[0] is None else {"{}": values})


def test_subqueries_look_back_for_samples(store: SampleStore) -> None:
    write(store, {"x": {0: 5}})
    # At 60, 120, 180 and 240 the sample is less than five minutes old.
    assert at(store, "count_over_time(x[10m:1m])", 600) == [("{}", 4)]
    assert at(store, "last_over_time(x[10m:1m])", 600) == [("x", 5)]
    assert at(store, "max_over_time(vector(scalar(x))[10m:1m])", 600) == [("{}", 5)]
    assert at(store, "max_over_time(timestamp(x)[10m:1m])", 600) == [("{}", 0)]


def test_subqueries_without_a_step_have_the_default_one(store: SampleStore) -> None:
    assert at(store, "count_over_time(vector(1)[2m:])", 600) == [("{}", 2)]
    options = Options(default_step_ms=30_000)
    assert at(store, "count_over_time(vector(1)[2m:])", 600, options) == [("{}", 4)]


def test_an_instant_query_may_ask_for_a_subquery(store: SampleStore) -> None:
    write(store, {"x": every_minute([1, 2, 3])})
    answer = instant(store, "x[2m:30s]", 120_000)
    assert rows_of(answer) == {"x": [1, 2, 2, 3]}
    assert answer.timestamps.tolist() == [30_000, 60_000, 90_000, 120_000]


def test_series_of_which_each_has_times_of_its_own(store: SampleStore) -> None:
    write(store, {f'x{{i="{i}"}}': {i: i, 60 + i: 2 * i} for i in range(1, 81)})
    found = over(store, "sum_over_time(x[1m])", 60, 120, 60)
    assert found["{i=7}"] == [7, 14]
    # 70 + 60 is at 130, and 10 within the first minute.
    assert found["{i=70}"] == [None, 70]
    assert len(found) == 80
    write(store, {f'gone{{i="{i}"}}': {i: STALE} for i in range(1, 81)})
    assert at(store, "sum_over_time(gone[5m])", 120) == []
    assert at(store, "absent_over_time(gone[5m])", 120) == [("{}", 1)]
