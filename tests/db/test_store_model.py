"""Whatever is written, sealed, merged, deleted, broken off, opened again: the store reads like a dictionary.

`STRATA_MODEL_EXAMPLES` sets the number of sequences (`make chaos` tries many more).
"""

import os
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from db.labels import Labels
from db.maintenance import Maintainer
from db.nan import ABSENT, STALE
from db.records import DenseAppend, Slab, SparseAppend
from db.store import SampleStore
from tests.db.interruptions import Crash, crash_at, empty_file, meanwhile
from tests.db.model_series import MANY, SHARED, TARGETS, WANTED, own_series
from tests.db.store_model import (
    EVERYTHING,
    KINDS,
    StoreModel,
    Wanted,
    in_one_row,
    in_rectangles,
    in_slabs,
    newest,
    selected,
    some_values,
    stepped,
)

EXAMPLES = int(os.environ.get("STRATA_MODEL_EXAMPLES", "40"))
SHRINK = os.environ.get("STRATA_MODEL_SHRINK") == "1"
MINUTE, HOUR, DAY = 60_000, 3_600_000, 86_400_000
FAR = 1 << 50
LOOKBACKS = (1, 15_000, 5 * MINUTE, DAY, FAR)
# Beginnings that lie on the edges of windows and days, zero and one of today's size among them.
EPOCHS = (0, 7_199_000, DAY - 30_000, 19_700 * DAY, 19_700 * DAY + 2 * HOUR - 15_000)


# Blocks wait for the head to be sealed, and while an older one of their bundle stays.
_DELETABLE = (
    "SELECT count(*) FROM block AS b WHERE end_ms < ? AND ord <= (SELECT sealed_seq FROM store_state) "
    "AND NOT EXISTS (SELECT 1 FROM block AS o WHERE o.bundle_id = b.bundle_id AND o.end_ms >= ?)"
)


seeds = st.integers(0, 1 << 16)
kinds = st.sampled_from(KINDS)
crashes = st.sampled_from((0, 0, 0, 1, 2, 3, 5, 8))
distances = st.sampled_from(
    (
        *(0, 0, 0, 1, -1, 15_000, -15_000, 30_000, -MINUTE, -90_000, -5 * MINUTE, -HOUR, -2 * HOUR, 2 * HOUR),
        *(-5 * HOUR, -DAY, -DAY - 1, -3 * DAY, DAY, -10 * DAY),
    )
)


class StoreMachine(RuleBasedStateMachine):
    @initialize(epoch=st.sampled_from(EPOCHS), seed=seeds)
    def begin(self, epoch: int, seed: int) -> None:
        self.random = np.random.default_rng(seed)
        self.folder = Path(tempfile.mkdtemp(prefix="store_model"))
        self.path = self.folder / "samples.db"
        shutil.copy(empty_file(), self.path)
        self.model = StoreModel()
        self.now = epoch
        self.orders: dict[str, list[Labels]] = {}
        self.keys: dict[str, str] = {}
        self.lives = dict.fromkeys(TARGETS, 0)
        self.ended = 0
        self.changed = False
        self.stores = [SampleStore.open(self.path), SampleStore.open(self.path)]
        # Never opened again: what it remembers of the series is as old as its last read.
        self.reader = SampleStore.open(self.path)
        # Short stretches of many targets come in another form; here a few are many, or none ever is.
        self.few = pytest.MonkeyPatch()
        self.few.setattr("db.ragged._MANY_PIECES", (1, 1, 3, 64)[seed % 4])
        self.few.setattr("db.ragged._SHORT", FAR)
        self.maintainer = Maintainer.open(self.path)

    def teardown(self) -> None:
        if hasattr(self, "folder"):
            self.few.undo()
            for opened in (*self.stores, self.reader, self.maintainer):
                opened.close()
            shutil.rmtree(self.folder)

    # ---- writing

    @rule(advance=st.sampled_from((0, 0, 1, 15_000, 15_000, 15_000, MINUTE, HOUR, 2 * HOUR, DAY)))
    def pass_time(self, advance: int) -> None:
        self.now += advance

    @rule(to=st.sampled_from((2 * HOUR, DAY)), off=st.sampled_from((-15_000, -1, 0, 1)))
    def come_to_an_edge(self, to: int, off: int) -> None:
        self.now = (self.now // to + 1) * to + off

    @rule(
        scraped=st.lists(st.sampled_from(TARGETS), min_size=1, max_size=3),
        seed=seeds,
        kind=kinds,
        repeat=st.sampled_from((1, 1, 3, 12)),
        ends=st.booleans(),
        off=st.sampled_from((0, 0, 0, 0, -15_000, -MINUTE, -2 * HOUR)),
    )
    def scrape(self, scraped: list[str], seed: int, kind: str, repeat: int, ends: bool, off: int) -> None:
        random = np.random.default_rng(seed)
        for number in range(repeat):
            last = ends and number == repeat - 1
            at = max(0, self.now + off)
            self._write([self._one_scrape(target, at, kind, random, last) for target in scraped], 0)
            self.now += 15_000

    def _one_scrape(
        self, target: str, at: int, kind: str, random: np.random.Generator, ends: bool
    ) -> DenseAppend:
        key = self.keys.get(target)
        if key is None:
            self.ended += 1
            key = self.keys[target] = f"{target} {self.ended}"
            self.orders[key] = []
        order = self.orders[key]
        own = own_series(target, self.lives[target])
        exposed = [labels for labels in own if random.random() < 0.8]
        exposed += [labels for labels in SHARED if random.random() < 0.2]
        if target == "c" and random.random() < 0.2:
            exposed += MANY
        fresh = [labels for labels in exposed if labels not in order]
        order += fresh
        gone = STALE if random.random() < 0.5 else ABSENT
        shown = some_values(kind, random, (len(exposed),)).tolist()
        there = dict(zip(exposed, shown, strict=True))
        values = np.array([there.get(labels, gone) for labels in order], dtype=np.float64)
        if ends:
            del self.keys[target]
        return DenseAppend(key, fresh, at, values, ends)

    @rule(renamed=st.sampled_from(TARGETS))
    def rename(self, renamed: str) -> None:
        self.lives[renamed] += 1

    @rule(
        seed=seeds,
        kind=kinds,
        off=distances,
        spread=st.sampled_from((0, 1, 30_000, 2 * HOUR, 2 * DAY)),
        count=st.integers(0, 30),
        store=st.integers(0, 1),
        crash=crashes,
    )
    def sparse(self, seed: int, kind: str, off: int, spread: int, count: int, store: int, crash: int) -> None:
        random = np.random.default_rng(seed)
        pool = [*SHARED, *own_series("a"), *own_series("d"), *MANY[:10]]
        chosen = [pool[place] for place in random.permutation(len(pool))[: int(random.integers(1, 8))]]
        index = random.integers(0, len(chosen), count)
        steps = random.integers(0, 4, count) * max(spread // 3, spread % 2)
        times = np.maximum(0, self.now + off + steps)
        self._write([SparseAppend(chosen, times, some_values(kind, random, (count,)), index)], store, crash)

    @rule(seed=seeds, off=distances)
    def mixed(self, seed: int, off: int) -> None:
        random = np.random.default_rng(seed)
        at = max(0, self.now + off)
        appends: list[DenseAppend | SparseAppend] = []
        for _ in range(3):
            appends.append(self._one_scrape("a", at, "small", random, False))
            values = some_values("small", random, (4,))
            appends.append(SparseAppend(SHARED, np.full(4, at), values))
        self._write(appends, 0)

    def _write(self, appends: Sequence[DenseAppend | SparseAppend], number: int, crash: int = 0) -> None:
        store = self.stores[number]
        try:
            with crash_at(store.engine, crash):
                store.write(appends)
        except Crash:
            store.write(appends)
        self.model.write(appends, self.orders)
        self.changed = True

    @rule(
        seed=seeds,
        kind=kinds,
        off=distances,
        step=st.sampled_from((1, 15_000, MINUTE, HOUR)),
        length=st.sampled_from((1, 2, 5, 40, 130, 420)),
        slabs=st.integers(1, 3),
        crash=crashes,
        between=st.sampled_from((0, 0, 2, 4, 5, 6, 9)),
        retain=st.booleans(),
    )
    def load(
        self,
        seed: int,
        kind: str,
        off: int,
        step: int,
        length: int,
        slabs: int,
        crash: int,
        between: int,
        retain: bool,
    ) -> None:
        store = self.stores[seed % 2]
        random = np.random.default_rng(seed)
        pool = [*SHARED, *own_series("a"), *own_series("e"), *(MANY if random.random() < 0.2 else ())]
        content = []
        for _ in range(slabs):
            some = random.integers(0, len(pool), random.integers(1, len(pool) + 1))
            if random.random() < 0.8:
                some = np.unique(some)
            start = max(0, self.now + off - int(random.integers(0, 3)) * step)
            times = start + np.flatnonzero(random.random(length) < random.choice((1.0, 0.7))) * step
            values = some_values(kind, random, (len(some), len(times)))
            if random.random() < 0.5:
                values = np.where(random.random(values.shape) < 0.3, ABSENT, values)
            content.append(Slab([pool[place] for place in some.tolist()], times.astype(np.int64), values))
        old = {labels: dict(points) for labels, points in self.model.samples.items()}
        self.model.load(content)
        cutoff = self.now - DAY

        def maintain() -> None:
            self.maintainer.seal(self.now + DAY, 0)
            self.maintainer.compact(self.now + 5 * DAY)
            if retain:
                self.maintainer.retain(cutoff)

        try:
            with crash_at(store.engine, crash), meanwhile(store.engine, between, maintain):
                store.load(content)
        except Crash:
            found = selected(self.stores[0], EVERYTHING, 0, FAR)
            for labels, points in found.items():
                for at, bits in points.items():
                    assert bits in (old.get(labels, {}).get(at), self.model.samples[labels][at])
            if not (between and retain):
                assert all(points.keys() <= found[labels].keys() for labels, points in old.items())
            store.load(content)
        if between and retain:
            self._allow_gone_before(cutoff)
        self.changed = True

    # ---- what happens beside it

    @rule(number=st.integers(0, 1))
    def reopen(self, number: int) -> None:
        self.stores[number].close()
        self.stores[number] = SampleStore.open(self.path)
        if number == 0:
            self.keys.clear()

    @rule(
        kept=st.sampled_from((0, 0, 30_000, 90_000, HOUR)),
        off=st.sampled_from((0, 0, 0, 1, HOUR, DAY, -MINUTE, -20 * MINUTE, -HOUR, -3 * DAY)),
        crash=crashes,
    )
    def seal(self, kept: int, off: int, crash: int) -> None:
        self._maintain(lambda: self.maintainer.seal(self.now + off, kept), crash)

    @rule(
        off=st.sampled_from((0, 0, 3 * HOUR, 2 * DAY, 20 * DAY, -HOUR, -2 * DAY)),
        late=st.booleans(),
        crash=crashes,
    )
    def compact(self, off: int, late: bool, crash: int) -> None:
        self._maintain(lambda: self.maintainer.compact(self.now + off, late=late), crash)

    @rule(crash=crashes)
    def seal_and_compact_all(self, crash: int) -> None:
        self._maintain(lambda: self.maintainer.seal(self.now + DAY, 0), 0)
        self._maintain(lambda: self.maintainer.compact(self.now + 5 * DAY), crash)

    def _maintain(self, work, crash: int) -> None:
        try:
            with crash_at(self.maintainer._engine, crash):
                work()
        except Crash:
            self.maintainer.close()
            self.maintainer = Maintainer.open(self.path)
        self.changed = True

    @rule(age=st.sampled_from((-DAY, 0, MINUTE, HOUR, 2 * HOUR, DAY, 5 * DAY)), crash=crashes)
    def retain_by_age(self, age: int, crash: int) -> None:
        cutoff = self.now - age
        self._maintain(lambda: self.maintainer.retain(cutoff), crash)
        if not crash:
            assert self._one(_DELETABLE, cutoff, cutoff) == 0
        self._allow_gone_before(cutoff)

    @rule(crash=crashes)
    @precondition(lambda self: self._one("SELECT count(*) FROM block") > 3)
    def retain_by_size(self, crash: int) -> None:
        newest_ms = self._one("SELECT max(end_ms) FROM block")
        self._maintain(lambda: self.maintainer.retain(0, 1), crash)
        self._allow_gone_before(newest_ms // DAY * DAY)

    def _allow_gone_before(self, cutoff: int) -> None:
        """What retention deleted leaves the model too, and nothing that it may not delete."""
        found = selected(self.stores[0], EVERYTHING, 0, FAR)
        kept = {
            labels: {at: bits for at, bits in points.items() if at >= cutoff or at in found.get(labels, {})}
            for labels, points in self.model.samples.items()
        }
        self.model.samples = {labels: points for labels, points in kept.items() if points}

    def _one(self, statement: str, *bounds: int) -> int:
        with self.stores[1].engine.connect() as connection:
            return int(connection.exec_driver_sql(statement, bounds).scalar_one() or 0)

    # ---- reading

    @invariant()
    def everything_is_there_and_nothing_else(self) -> None:
        if getattr(self, "changed", False):
            self.changed = False
            for store in self.stores:
                assert selected(store, EVERYTHING, 0, FAR) == self.model.samples
            for store in self.stores:
                self._read_a_window(store)
                self._read_latest(store)
                self._read_at_steps(store)

    @rule()
    def read_after_a_while(self) -> None:
        """By one that was not asked after every change; each selection twice, the second from memory."""
        for _ in range(2):
            for wanted in WANTED:
                self._read_a_window(self.reader, wanted)
            self._read_latest(self.reader)
            self._read_at_steps(self.reader)

    def _near(self) -> int:
        """Somewhere near a sample, or near now."""
        times = [at for points in self.model.samples.values() for at in (min(points), max(points))]
        at = self._one_of((self.now, *times)) + self._one_of((0, 0, 1, -1, 15_000, MINUTE, -HOUR, DAY))
        return max(0, at)

    def _one_of(self, choices):
        return choices[int(self.random.integers(0, len(choices)))]

    def _read_a_window(self, store: SampleStore, wanted: Wanted | None = None) -> None:
        wanted = wanted or self._one_of(WANTED)
        start = self._near()
        end = start + self._one_of((0, 1, 30_000, 5 * MINUTE, 2 * HOUR - 1, DAY, 3 * DAY))
        expected = self.model.select(wanted, start, end)
        assert selected(store, wanted, start, end) == expected
        assert in_slabs(store, wanted, start, end) == expected
        assert in_rectangles(store, wanted, start, end) == expected
        assert in_one_row(store, wanted, start, end) == expected

    def _read_latest(self, store: SampleStore) -> None:
        wanted, at, lookback = self._one_of(WANTED), self._near(), self._one_of(LOOKBACKS)
        assert newest(store, wanted, at, lookback) == self.model.latest(wanted, at, lookback)

    def _read_at_steps(self, store: SampleStore) -> None:
        wanted, end, lookback = self._one_of(WANTED), self._near(), self._one_of(LOOKBACKS)
        step = self._one_of((1, 7_000, 15_000, MINUTE, HOUR, 5 * HOUR))
        window = (end - step * int(self.random.integers(0, 40)), end, step, lookback)
        assert stepped(store, wanted, *window) == self.model.at_steps(wanted, *window)


StoreMachine.TestCase.settings = settings(
    max_examples=EXAMPLES,
    stateful_step_count=30,
    deadline=None,
    print_blob=True,
    # Shrinking takes minutes: for who looks into a failure, not for every run.
    phases=[phase for phase in Phase if SHRINK or phase is not Phase.shrink],
    suppress_health_check=list(HealthCheck),
)


@pytest.mark.slow
@pytest.mark.timeout(60 * EXAMPLES)
class TestStoreModel(StoreMachine.TestCase):
    pass
