"""Kills processes at random moments and looks whether the file still holds what they acknowledged."""

import random
import signal
import sqlite3
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from multiprocessing import get_context
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path

import numpy as np

from db.nan import IntArray
from db.store import SampleStore
from tests.chaos.workers import (
    FAR,
    LOADED,
    SAMPLES_OF_A_LOAD,
    SERIES_OF_A_COMMIT,
    commits_of,
    load,
    loads_of,
    maintain,
    values_of,
    write,
)

# A new file after so many kills: looking through an old one takes longer each time.
_KILLS_A_FILE = 10
_STARTED_SECONDS = 60.0
_NONE = np.empty(0, dtype=np.int64)

_context = get_context("forkserver")
_context.set_forkserver_preload(["tests.chaos.workers"])


@dataclass(slots=True)
class Worker:
    """A process and what it has acknowledged; rounds: how often it did."""

    process: BaseProcess
    pipe: Connection
    acknowledged: set[int] = field(default_factory=set)
    rounds: int = 0

    @classmethod
    def start(cls, work: Callable[[Path, int, Connection], None], path: Path, first: int) -> "Worker":
        ours, theirs = _context.Pipe(duplex=False)
        process = _context.Process(target=work, args=(path, first, theirs), daemon=True)
        process.start()
        theirs.close()
        return cls(process, ours)

    def wait_for_first(self) -> None:
        if not self.pipe.poll(_STARTED_SECONDS):
            raise AssertionError(f"{self.process.name} did nothing for {_STARTED_SECONDS:g} s")
        self.take()

    def has_ended(self) -> bool:
        return not self.process.is_alive()

    def take(self) -> None:
        """Take over what was acknowledged, to the last word of a process that is dead."""
        try:
            while self.pipe.poll(0):
                self.acknowledged.add(self.pipe.recv())
                self.rounds += 1
        except EOFError:
            return

    def kill(self) -> None:
        self.process.kill()
        self.process.join()
        # Nobody else ends it: another exit code is a crash of its own.
        assert self.process.exitcode == -signal.SIGKILL, f"it ended by itself: {self.process.exitcode}"
        self.take()
        self.pipe.close()


@dataclass(slots=True)
class Seen:
    """What a file holds: the numbers of commits and loads, and the first that are not used yet."""

    commits: set[int]
    loads: Counter[int]


def look(path: Path) -> Seen:
    """Read everything; raises AssertionError for anything that is not whole or not what was written."""
    store = SampleStore.open(path)
    found: dict[bool, list[IntArray]] = {True: [], False: []}
    for series in store.select([], 0, FAR):
        of_load = series.labels in LOADED
        numbers = (loads_of if of_load else commits_of)(series.timestamps)
        assert bool((np.diff(series.timestamps) > 0).all()), f"{series.labels}: a timestamp twice"
        same = np.array_equal(series.values, values_of(series.labels, numbers))
        assert same, f"{series.labels}: values of other samples"
        found[of_load].append(numbers)
    store.close()
    commits, loads = (
        Counter(np.concatenate([*parts, _NONE]).tolist()) for parts in (found[False], found[True])
    )
    torn = {number: count for number, count in commits.items() if count != SERIES_OF_A_COMMIT}
    assert not torn, f"commits in part (number: series of {SERIES_OF_A_COMMIT}): {torn}"
    connection = sqlite3.connect(path)
    try:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    finally:
        connection.close()
    return Seen(set(commits), loads)


def kill_again_and_again(folder: Path, kills: int, seed: int, say: Callable[[str], None] = print) -> None:
    """Raises AssertionError when an acknowledged sample is lost or altered, or anything is there in part."""
    chance = random.Random(seed)
    path = folder / "samples.db"
    commits: set[int] = set()
    loads: set[int] = set()
    for number in range(kills):
        if number % _KILLS_A_FILE == 0:
            path = folder / f"{number}" / "samples.db"
            commits, loads = set(), set()
            SampleStore.open(path).close()
            seen = look(path)
        writer = Worker.start(write, path, max(seen.commits, default=-1) + 1)
        keeper = Worker.start(maintain, path, number)
        loader = Worker.start(load, path, max(seen.loads, default=-1) + 1) if chance.random() < 0.3 else None
        workers = [worker for worker in (writer, keeper, loader) if worker]
        for worker in workers:
            worker.wait_for_first()
        time.sleep(chance.uniform(0.0, 0.5))
        victims = chance.choice([[writer], [keeper], workers, workers, [loader or writer]])
        for victim in victims:
            victim.kill()
        look(path)  # while the others go on
        for worker in workers:
            if worker not in victims:
                worker.kill()
        commits |= writer.acknowledged
        loads |= loader.acknowledged if loader else set()
        seen = look(path)
        assert commits <= seen.commits, f"lost: {sorted(commits - seen.commits)}"
        short = [item for item in loads if seen.loads[item] != len(LOADED) * SAMPLES_OF_A_LOAD]
        assert not short, f"loads that were acknowledged and are not whole: {short}"
        say(f"kill {number + 1}/{kills}: {len(seen.commits)} commits, {len(loads)} loads")
