"""Which series, names and values there are, in a window or ever."""

import numpy as np
import pytest
from sqlalchemy import text

from db.errors import BadMatcher
from db.labels import labels_from
from db.maintenance import Maintainer
from db.nan import ABSENT
from db.records import FIRST_MS, LAST_MS, DenseAppend, Matcher, SparseAppend, named
from db.series_lookup import find_series, label_names, label_values
from db.store import SampleStore
from tests.db.stored_content import BEGIN, DAY, HOUR, gauges, scrape

ALWAYS = (FIRST_MS, LAST_MS)
SCRAPE_MS = 15_000


def series(name: str, **labels: str):
    return labels_from(labels, name)


def append(store: SampleStore, labels, at_ms: int) -> None:
    store.write([SparseAppend([labels], np.array([at_ms]), np.array([1.0]))])


def test_series_meet_a_selector_and_are_named_once(store: SampleStore) -> None:
    for labels in (series("up", job="b"), series("up", job="a"), series("down", job="a")):
        append(store, labels, BEGIN)
    up, of_a = [named("up")], [Matcher("job", "=", "a")]
    assert find_series(store.engine, [up, of_a], *ALWAYS) == [
        series("down", job="a"),
        series("up", job="a"),
        series("up", job="b"),
    ]
    assert find_series(store.engine, [[named("up"), Matcher("job", "!=", "a")]], *ALWAYS) == [
        series("up", job="b")
    ]
    assert find_series(store.engine, [], *ALWAYS) == []


def test_names_and_values(store: SampleStore) -> None:
    append(store, series("m", a='1"\n', b="x"), BEGIN)
    append(store, series("n", a="2", c="y"), BEGIN + HOUR)
    assert label_names(store.engine, [], *ALWAYS) == ["__name__", "a", "b", "c"]
    assert label_values(store.engine, "a", [], *ALWAYS) == ['1"\n', "2"]
    assert label_values(store.engine, "nobody", [], *ALWAYS) == []
    assert label_values(store.engine, "", [], *ALWAYS) == []
    of_n = [[named("n")]]
    assert label_names(store.engine, of_n, *ALWAYS) == ["__name__", "a", "c"]
    assert label_values(store.engine, "a", of_n, *ALWAYS) == ["2"]
    assert label_values(store.engine, "a", of_n, BEGIN, BEGIN + 1) == []
    assert label_names(store.engine, of_n, BEGIN, BEGIN + 1) == []
    # Without a selector the window is not looked at.
    assert label_values(store.engine, "a", [], BEGIN, BEGIN + 1) == ['1"\n', "2"]


@pytest.mark.parametrize("count", [5, 5_000])
def test_names_and_values_of_many_series(store: SampleStore, count: int) -> None:
    """Of few series the labels are read, of many the postings; these are in two chunks."""
    with store.engine.begin() as connection:
        connection.execute(text("UPDATE store_state SET next_series_id = :id"), {"id": 65_536 - count // 2})
    many = [series("m", n=str(number), half=str(2 * number // count)) for number in range(count)]
    store.write([SparseAppend(many, np.full(count, BEGIN), np.zeros(count))])
    store.write([SparseAppend([series("other", n="x", only="y")], np.array([BEGIN]), np.zeros(1))])
    of_m = [[named("m")]]
    assert label_names(store.engine, of_m, *ALWAYS) == ["__name__", "half", "n"]
    assert label_values(store.engine, "half", of_m, *ALWAYS) == ["0", "1"]
    assert label_values(store.engine, "__name__", of_m, *ALWAYS) == ["m"]
    assert label_values(store.engine, "n", of_m, *ALWAYS) == sorted(str(number) for number in range(count))
    assert label_values(store.engine, "only", of_m, *ALWAYS) == []
    assert label_names(store.engine, of_m, BEGIN + 1, LAST_MS) == []


def test_a_scraped_series_counts_while_it_has_samples(store: SampleStore) -> None:
    """One is there from the first scrape to the second, one in the third alone, one in all."""
    short, late, steady = series("m", n="short"), series("m", n="late"), series("m", n="steady")
    times = [BEGIN + number * SCRAPE_MS for number in range(3)]
    store.write(
        [
            DenseAppend("t", [short, steady], times[0], np.array([1.0, 1.0])),
            DenseAppend("t", [], times[1], np.array([1.0, 1.0])),
            DenseAppend("t", [late], times[2], np.array([ABSENT, 1.0, 1.0])),
        ]
    )

    def within(start_ms: int, end_ms: int):
        return find_series(store.engine, [[named("m")]], start_ms, end_ms)

    assert within(times[0], times[2]) == [late, short, steady]
    assert within(times[0], times[1]) == [short, steady]
    assert within(times[1], times[1]) == [short, steady]
    assert within(times[2], times[2]) == [late, steady]
    assert within(times[2] + 1, times[2] + HOUR) == []
    assert within(times[0] - HOUR, times[0] - 1) == []


def test_a_window_is_looked_at_by_blocks_once_samples_are_sealed(
    store: SampleStore, maintainer: Maintainer
) -> None:
    """More series than a bundle holds; the odd ones are only there in the last hour of three."""
    every = gauges(70)
    odd = every[1::2]
    scrape(store, "even", every[0::2], [BEGIN + minute * 60_000 for minute in range(180)])
    scrape(store, "odd", odd, [BEGIN + 2 * HOUR + minute * 60_000 for minute in range(60)])
    maintainer.seal(BEGIN + DAY, kept_ms=60_000)
    everything = [[named("m")]]
    assert find_series(store.engine, everything, BEGIN, BEGIN + HOUR) == sorted(every[0::2])
    assert find_series(store.engine, everything, BEGIN, BEGIN + 3 * HOUR) == sorted(every)
    assert find_series(store.engine, everything, BEGIN + 2 * HOUR + 600_000, BEGIN + DAY) == sorted(every)
    assert find_series(store.engine, everything, BEGIN + 4 * HOUR, LAST_MS) == []
    assert find_series(store.engine, everything, FIRST_MS, BEGIN - 1) == []


def test_series_of_one_bundle_that_were_there_in_turn(store: SampleStore, maintainer: Maintainer) -> None:
    """One ends hours before the other begins, in the third minute of a block's window."""
    early, late = gauges(2)
    begun = BEGIN + 3 * HOUR + 150_000
    store.write([DenseAppend("t", [early, late], BEGIN, np.array([1.0, ABSENT]))])
    store.write([DenseAppend("t", [], begun, np.array([ABSENT, 2.0]))])
    maintainer.seal(BEGIN + DAY, kept_ms=60_000)
    everything = [[named("m")]]
    assert find_series(store.engine, everything, BEGIN, begun) == [early, late]
    assert find_series(store.engine, everything, BEGIN + HOUR, begun) == [late]
    assert find_series(store.engine, everything, BEGIN + HOUR, begun - 1) == []
    assert find_series(store.engine, everything, BEGIN, begun - 1) == [early]


def test_a_bad_pattern_is_refused(store: SampleStore) -> None:
    with pytest.raises(BadMatcher):
        find_series(store.engine, [[Matcher("a", "=~", "(")]], *ALWAYS)
