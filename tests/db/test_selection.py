"""Selections are remembered, and follow the series that come and go."""

import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path
from weakref import ref

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlalchemy import Connection

from db import selection
from db.engine import reading, writing
from db.index import forget_series
from db.labels import Labels, labels_from
from db.nan import IntArray
from db.records import Matcher, SparseAppend, named
from db.selection import Selection, Selections
from db.series_set import SeriesSet
from db.store import SampleStore
from db.store_state import read_state
from tests.db.interruptions import empty_file


def write(store: SampleStore, series: Sequence[Labels]) -> None:
    store.write([SparseAppend(series, np.full(len(series), 1_000), np.ones(len(series)))])


def find(store: SampleStore, selections: Selections, *matchers: Matcher) -> Selection:
    with reading(store.engine) as connection:
        return selections.find(connection, read_state(connection), matchers)


def test_a_selection_takes_in_the_new_series_that_it_means(store: SampleStore) -> None:
    selections = Selections()
    write(store, [labels_from({"gpu": "0"}, "power")])
    first = find(store, selections, named("power"))
    write(store, [labels_from({"gpu": "1", "node": "a"}, "power"), labels_from({}, "heat")])
    second = find(store, selections, named("power"))
    assert list(first.series) == [labels_from({"gpu": "0"}, "power")]
    assert list(second.series) == [
        labels_from({"gpu": "0"}, "power"),
        labels_from({"gpu": "1", "node": "a"}, "power"),
    ]
    assert second.ids.tolist() == find(store, Selections(), named("power")).ids.tolist()
    assert list(find(store, selections, Matcher("node", "!=", "a"), named("power")).series) == [
        labels_from({"gpu": "0"}, "power")
    ]


def test_a_selection_stays_the_same_object_while_others_get_series(store: SampleStore) -> None:
    selections = Selections()
    write(store, [labels_from({}, "power")])
    before = find(store, selections, Matcher("__name__", "=~", "pow.*"))
    write(store, [labels_from({}, "heat")])
    assert find(store, selections, Matcher("__name__", "=~", "pow.*")) is before


def test_very_many_new_series_are_matched_as_the_index_matches(
    store: SampleStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("db.selection._FEW_NEW", 1)
    selections = Selections()
    write(store, [labels_from({}, "power")])
    find(store, selections, named("power"))
    write(store, [labels_from({"gpu": str(number)}, "power") for number in range(3)])
    assert len(find(store, selections, named("power")).series) == 4


def test_forgotten_series_leave_their_selection(store: SampleStore) -> None:
    selections = Selections()
    write(store, [labels_from({"gpu": "old"}, "power"), labels_from({"gpu": "new"}, "power")])
    before = find(store, selections, named("power"))
    with writing(store.engine) as connection:
        forget_series(connection, before.ids[:1])
    assert list(find(store, selections, named("power")).series) == [labels_from({"gpu": "new"}, "power")]


def test_a_reader_of_an_older_snapshot_does_not_spoil_what_is_remembered(store: SampleStore) -> None:
    selections = Selections()
    write(store, [labels_from({"gpu": "0"}, "power")])
    with reading(store.engine) as old:
        state = read_state(old)
        write(store, [labels_from({"gpu": "1"}, "power")])
        assert len(find(store, selections, named("power")).ids) == 2
        selections.find(old, state, [named("power")])
    assert len(find(store, selections, named("power")).ids) == 2


def test_a_slow_reader_of_an_older_snapshot_leaves_the_newer_selection(
    store: SampleStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    selections, newer = Selections(), []
    load = selection.load_series

    def slowly(connection: Connection, ids: IntArray) -> SeriesSet:
        monkeypatch.setattr(selection, "load_series", load)
        newer.append(find(store, selections, named("power")))
        return load(connection, ids)

    write(store, [labels_from({"gpu": "0"}, "power")])
    with reading(store.engine) as old:
        state = read_state(old)
        write(store, [labels_from({"gpu": "1"}, "power")])
        monkeypatch.setattr(selection, "load_series", slowly)
        assert len(selections.find(old, state, [named("power")]).ids) == 1
    assert find(store, selections, named("power")) is newer[0]


def test_a_selection_that_grows_too_large_is_not_held(
    store: SampleStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(selection, "_SERIES_REMEMBERED", 2)
    selections = Selections()
    write(store, [labels_from({"gpu": str(number)}, "power") for number in range(2)])
    small = ref(find(store, selections, named("power")).series)
    assert small() is not None
    write(store, [labels_from({"gpu": "2"}, "power")])
    assert len(find(store, selections, named("power")).ids) == 3
    assert small() is None


TEXTS = ("", "a", "b", "ab", "a\nb", "\n", "é", "\0", "A", " ")
NAMES = ("", "x", "y", "\0")
PATTERNS = (
    "",
    ".*",
    ".+",
    "a|b",
    "a|",
    "a.*",
    ".*b",
    "[^a]*",
    "a.b",
    "(?i)a",
    "\n",
    "(?s:.)",
    "é+",
    "^a$",
    "\\s*",
)
SERIES = st.dictionaries(st.sampled_from(NAMES), st.sampled_from(TEXTS), max_size=4).map(labels_from)
MATCHERS = st.lists(
    st.one_of(
        st.builds(Matcher, st.sampled_from(NAMES), st.sampled_from(("=", "!=")), st.sampled_from(TEXTS)),
        st.builds(Matcher, st.sampled_from(NAMES), st.sampled_from(("=~", "!~")), st.sampled_from(PATTERNS)),
    ),
    max_size=3,
)


@settings(max_examples=60, deadline=None)
@given(st.lists(SERIES, max_size=12), st.lists(SERIES, max_size=12), st.lists(MATCHERS, max_size=12))
def test_new_series_are_taken_in_as_the_index_would_find_them(
    first: list[Labels], new: list[Labels], asked: list[list[Matcher]]
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        shutil.copy(empty_file(), Path(folder) / "samples.db")
        store = SampleStore.open(Path(folder) / "samples.db")
        selections = Selections()
        write(store, first)
        for matchers in asked:
            find(store, selections, *matchers)
        write(store, new)
        for matchers in asked:
            warm, fresh = find(store, selections, *matchers), find(store, Selections(), *matchers)
            assert warm.ids.tolist() == fresh.ids.tolist()
            assert list(warm.series) == list(fresh.series)
        store.close()
