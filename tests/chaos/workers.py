"""What the processes do that are killed: write numbered commits, load numbered slabs, maintain.

Everything that a commit or load stores says its number, so that any reader can tell whether it is whole.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from multiprocessing.connection import Connection
from pathlib import Path

import numpy as np

from db.errors import WriteRefused
from db.labels import Labels, labels_from
from db.maintenance import Maintainer
from db.nan import FloatArray, IntArray, is_absent
from db.records import DenseAppend, Slab, SparseAppend
from db.retention import newest_ms
from db.store import SampleStore

FAR = 1 << 50
BEGIN_MS = 1_700_000_000_000
# A clock that is faster than ours: a hundred commits are more than an hour.
STEP_MS = 45_000
TARGETS = {
    target: [labels_from({"job": target, "slot": str(slot)}, f"metric_{slot % 3}") for slot in range(20)]
    for target in ("one", "two")
}
SPARSE = [labels_from({"job": "sparse", "slot": str(slot)}, "metric_0") for slot in range(5)]
SERIES_OF_A_COMMIT = sum(map(len, TARGETS.values())) + len(SPARSE)

LOADED = [labels_from({"job": "load", "slot": str(slot)}, "metric_1") for slot in range(30)]
SAMPLES_OF_A_LOAD = 400
LOAD_STEP_MS = 60_000


def commits_of(timestamps: IntArray) -> IntArray:
    return (timestamps - BEGIN_MS) // STEP_MS


def loads_of(timestamps: IntArray) -> IntArray:
    return timestamps // (LOAD_STEP_MS * SAMPLES_OF_A_LOAD)


def appends_of(number: int, *, fresh: bool) -> Iterator[DenseAppend | SparseAppend]:
    """fresh: the first of its process, whose orders are new."""
    at = BEGIN_MS + number * STEP_MS
    for target, series in TARGETS.items():
        values = np.arange(len(series)) / 8 + number
        yield DenseAppend(target, series if fresh else [], at, values)
    # Twice and with an older sample: what a commit says of a timestamp last is what counts.
    index = np.array([*range(len(SPARSE)), *range(len(SPARSE))])
    values = np.concatenate([np.full(len(SPARSE), -1.0), np.full(len(SPARSE), float(number))])
    yield SparseAppend(SPARSE, np.full(len(index), at), values, index)


def slab_of(number: int) -> Slab:
    first = number * SAMPLES_OF_A_LOAD
    timestamps = np.arange(first, first + SAMPLES_OF_A_LOAD) * LOAD_STEP_MS
    values = np.tile(np.arange(len(LOADED)) / 8 + number, (SAMPLES_OF_A_LOAD, 1)).T
    return Slab(LOADED, timestamps, np.ascontiguousarray(values))


def values_of(labels: Labels, numbers: IntArray) -> FloatArray:
    """Of the samples that commits or loads of these numbers stored for a series."""
    parts = dict(labels)
    return numbers + (0.0 if parts["job"] == "sparse" else int(parts["slot"]) / 8)


def _until_taken(call: Callable[[], None]) -> None:
    """A store that is written to without any pause may refuse; the same call may then be repeated."""
    while True:
        with suppress(WriteRefused):
            call()
            return


def write(path: Path, first: int, acknowledge: Connection) -> None:
    store = SampleStore.open(path)
    number = first
    while True:
        appends = list(appends_of(number, fresh=number == first))
        _until_taken(lambda: store.write(appends))  # noqa: B023 - called before the next turn
        acknowledge.send(number)
        number += 1


def load(path: Path, first: int, acknowledge: Connection) -> None:
    store = SampleStore.open(path)
    number = first
    while True:
        _until_taken(lambda: store.load([slab_of(number)]))  # noqa: B023 - as above
        acknowledge.send(number)
        number += 1


def maintain(path: Path, seed: int, acknowledge: Connection) -> None:
    """As fast as it can, by the clock of what is stored; `seed` decides how much stays in the head."""
    maintainer = Maintainer.open(path)
    engine = maintainer._engine
    random = np.random.default_rng(seed)
    while True:
        with engine.connect() as connection:
            head = connection.exec_driver_sql("SELECT max(ts) FROM head_dense").scalar_one()
        now = max(head or 0, newest_ms(engine) or 0)
        kept = int(random.choice((0, 2, 20))) * STEP_MS
        # Ahead of the newest sample, so that young windows are merged too.
        ahead = int(random.choice((0, 3, 30))) * 3_600_000
        with suppress(WriteRefused):
            maintainer.seal(now, kept)
            maintainer.compact(now + ahead, late=bool(random.random() < 0.7))
            maintainer.checkpoint()
        acknowledge.send(0)


def read(path: Path, seed: int, acknowledge: Connection) -> None:
    """Reads in every way and ends with an error when a commit is there in part. Acknowledges each round."""
    store = SampleStore.open(path)
    random = np.random.default_rng(seed)
    while True:
        whole = store.select([], 0, FAR)
        newest = max((int(series.timestamps[-1]) for series in whole), default=BEGIN_MS)
        start = newest - int(random.integers(1, 200)) * STEP_MS
        _count([(item.labels, item.timestamps, item.values) for item in store.select([], start, FAR)])
        slabs = store.slabs([], start, FAR)
        _count(
            [
                (labels, s.timestamps, row)
                for s in slabs
                for labels, row in zip(s.series, s.values, strict=True)
            ]
        )
        latest = store.latest([], newest, STEP_MS)
        times = {sample.timestamp_ms for sample in latest}
        if latest and (len(latest) != SERIES_OF_A_COMMIT or len(times) != 1):
            raise AssertionError(f"the newest of {len(latest)} series at {sorted(times)}")
        steps = store.at_steps([], start, newest, STEP_MS, 1)
        _count(
            [(labels, steps.timestamps, row) for labels, row in zip(steps.series, steps.values, strict=True)]
        )
        acknowledge.send(0)


def _count(rows: Sequence[tuple[Labels, IntArray, FloatArray]]) -> None:
    """Every commit has all of its series, with its values, or none."""
    found = []
    for labels, timestamps, values in rows:
        there = ~is_absent(values)
        numbers = commits_of(timestamps[there])
        if not np.array_equal(values[there], values_of(labels, numbers)):
            raise AssertionError(f"{labels}: values of other commits")
        found.append(numbers)
    numbers, counts = np.unique(np.concatenate(found or [np.empty(0)]), return_counts=True)
    if (counts != SERIES_OF_A_COMMIT).any():
        raise AssertionError(f"commits in part: {numbers[counts != SERIES_OF_A_COMMIT].tolist()}")
