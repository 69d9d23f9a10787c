"""Threads that share a store read whole snapshots, while its series come and go."""

import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event

import numpy as np
import pytest

from db.engine import writing
from db.index import forget_series
from db.labels import labels_from
from db.nan import is_absent
from db.promql.engine import instant, ranged
from db.ragged import Ragged
from db.records import DenseAppend, Matcher, SparseAppend, named
from db.series_match import match_series
from db.store import SampleStore

WRITES = 60
START, STEP = 1_000_000, 1_000
END = START + WRITES * STEP
EVEN = (named("m"), Matcher("half", "=~", "e.*"))


@pytest.fixture
def hurried() -> Iterator[None]:
    """Threads take turns a hundred times as often as usual."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(before / 100)
    yield
    sys.setswitchinterval(before)


def series(number: int):
    # Every seventh brings a label that none had before.
    further = {f"since{number}": "x"} if number % 7 == 0 else {}
    half = "odd" if number % 2 else "even"
    return labels_from({"i": str(number), "half": half, **further}, "m")


def known(writes: int) -> int:
    """Series of m after so many writes: every second one brings one."""
    return (writes + 1) // 2


def write(store: SampleStore, number: int) -> None:
    """The write of this number, from 1: all series so far have the value `number`. Every fifth write the
    target has a new order; a passing series comes with every third write, and every fourth all of these are
    forgotten."""
    at = START + number * STEP
    new = [series(place) for place in range(known(number) if number % 5 == 1 else 0)]
    if number % 5 != 1 and number % 2:
        new = [series(known(number) - 1)]
    ends = number % 5 == 0
    appends = [DenseAppend(f"t{(number - 1) // 5}", new, at, np.full(known(number), float(number)), ends)]
    passing = SparseAppend([labels_from({"i": str(number)}, "passing")], np.array([at]), np.ones(1))
    store.write([*appends, passing] if number % 3 == 0 else appends)
    if number % 4 == 0:
        with writing(store.engine) as connection:
            forget_series(connection, match_series(connection, [named("passing")]))


def by_latest(store: SampleStore) -> int:
    found = store.latest_columns([named("m")], END)
    return _whole(found.series, found.values)


def by_steps(store: SampleStore) -> int:
    found = store.at_steps([named("m")], START, END, STEP)
    count = _whole(found.series, found.values[:, -1])
    for row, labels in enumerate(found.series):
        first = 2 * int(dict(labels)["i"]) + 1
        there = np.flatnonzero(~is_absent(found.values[row]))
        expected = np.minimum(np.arange(first, WRITES + 1), count)
        assert there.tolist() == list(range(first, WRITES + 1))
        assert found.values[row, there].tolist() == expected.tolist()
    return count


def by_rectangles(store: SampleStore) -> int:
    found, rectangles = store.rectangles([named("m")], START, END)
    labels, newest = list(found), {}
    for rectangle in rectangles:
        newest |= dict(zip(rectangle.rows.tolist(), rectangle.values[:, -1].tolist(), strict=True))
    return _whole([labels[row] for row in sorted(newest)], np.array([newest[row] for row in sorted(newest)]))


def by_ragged(store: SampleStore) -> int:
    found, held = store.ragged([named("m")], START, END)
    if not isinstance(held, Ragged):
        assert not held  # nothing was written yet
        return 0
    labels = list(found)
    return _whole([labels[row] for row in held.rows.tolist()], held.values[held.begin[1:] - 1])


def by_half(store: SampleStore) -> int:
    """A selection that only every second new series changes."""
    found = store.latest_columns(EVEN, END)
    numbers = [int(dict(labels)["i"]) for labels in found.series]
    assert numbers == list(range(0, 2 * len(numbers), 2))
    if not numbers:
        return 0
    assert len(set(found.values.tolist())) == 1
    count = int(found.values[0])
    assert len(numbers) == (known(count) + 1) // 2
    return count


def without_the_forgotten(store: SampleStore) -> None:
    numbers = [int(dict(labels)["i"]) for labels in store.latest_columns([named("passing")], END).series]
    assert max(numbers, default=0) - min(numbers, default=0) < 4


def by_instant_query(store: SampleStore) -> int:
    """One selector: one snapshot."""
    halves = instant(store, "avg by (half) (m)", END).values[:, 0].tolist()
    assert len(set(halves)) <= 1
    return int(halves[0]) if halves else 0


def by_range_query(store: SampleStore) -> int:
    sums = ranged(store, "sum(count_over_time(m[1h]))", END - STEP, END, STEP).values
    wanted = np.cumsum([known(writes) for writes in range(WRITES + 1)]).tolist()
    return wanted.index(int(sums[0, -1])) if len(sums) else 0


def _whole(found, values) -> int:
    """How many writes an answer knows."""
    assert list(found) == [series(number) for number in range(len(values))]
    if not len(values):
        return 0
    assert len(set(values.tolist())) == 1
    assert known(int(values[0])) == len(values)
    return int(values[0])


READS: list[Callable[[SampleStore], int]] = [
    by_latest,
    by_steps,
    by_rectangles,
    by_ragged,
    by_half,
    by_instant_query,
    by_range_query,
]


@pytest.mark.usefixtures("hurried")
def test_every_answer_is_that_of_one_snapshot_and_none_goes_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("db.ragged._MANY_PIECES", 1)
    store, writer = SampleStore.open(tmp_path / "samples.db"), SampleStore.open(tmp_path / "samples.db")
    written, done = [0], Event()

    def work() -> None:
        try:
            for number in range(1, WRITES + 1):
                write(writer, number)
                written[0] = number
        finally:
            done.set()

    def read(first: int) -> int:
        rounds = 0
        while True:
            last = done.is_set()
            for number in range(len(READS)):
                before = written[0]
                found = READS[(first + number) % len(READS)](store)
                assert before <= found <= written[0] + 1
                without_the_forgotten(store)
            rounds += 1
            if last:
                return rounds

    with ThreadPoolExecutor(5) as pool:
        writing_all = pool.submit(work)
        reading_all = [pool.submit(read, number) for number in (0, 2, 3, 4)]
        assert all(each.result() for each in reading_all)
        writing_all.result()
    assert [read_one(store) for read_one in READS] == [WRITES] * len(READS)
    for opened in (store, writer):
        opened.close()
