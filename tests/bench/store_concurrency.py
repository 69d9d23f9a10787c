"""One writer, a maintainer and four readers, each a process, on one file: what a commit then takes.

The writer commits 30,000 samples a second as scrapes. Rounds without and with maintenance alternate; before
each of the latter a backlog of two-hour blocks is loaded, which the maintainer makes days of while it seals
what the writer writes.
"""

import argparse
import contextlib
import multiprocessing
import queue
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from multiprocessing.synchronize import Barrier, Event
from pathlib import Path

import numpy as np

from db.errors import StoreError
from db.labels import labels_from, metric_name
from db.maintenance import Maintainer
from db.store import SampleStore
from tests.bench import store_queries
from tests.bench.store_apart import SPAWN
from tests.bench.store_clients import questions
from tests.bench.store_data import STEP_MS, Dataset, generate
from tests.bench.store_ingest import WINDOW_STEPS, Scrapes
from tests.bench.store_large import slabs

READERS = 4
ROUNDS = 2
SECONDS = 60.0
# A reader is a page that asks all its questions this often.
PAGE_SECONDS = 0.5
MAINTENANCE_SECONDS = 0.5
RETENTION_MS = 365 * 86_400_000
# Days of the whole dataset that wait for each round with maintenance.
BACKLOG_DAYS = 2
# Maintenance may add this much to a commit's 99th percentile.
ALLOWED_MS = 50.0


@dataclass
class Watched:
    """Seconds of each action of one process, and what went wrong."""

    seconds: dict[str, list[float]] = field(default_factory=dict)
    errors: list[str] = field(default_factory=list)

    def run(self, name: str, action: Callable[[], object]) -> None:
        started = time.perf_counter()
        try:
            action()
        except StoreError as error:
            self.errors.append(f"{name}: {error}")
        self.seconds.setdefault(name, []).append(time.perf_counter() - started)

    def add(self, other: "Watched") -> None:
        for name, taken in other.seconds.items():
            self.seconds.setdefault(name, []).extend(taken)
        self.errors += other.errors


@dataclass(frozen=True)
class Place:
    """What every process of a round is given. first: how many commits the rounds before may have made."""

    data: Dataset
    path: Path
    number: int
    first: int
    begin: Barrier
    stop: Event
    told: "multiprocessing.Queue[Watched]"

    @contextlib.contextmanager
    def opened(self) -> Iterator[tuple[SampleStore, Watched]]:
        """The store, from the moment that all processes are ready."""
        store, watched = SampleStore.open(self.path), Watched()
        self.begin.wait()
        try:
            yield store, watched
        finally:
            store.close()
            self.told.put(watched)


def write(place: Place) -> None:
    scrapes = Scrapes(place.data, name=f"round-{place.number}", first=place.first)
    with place.opened() as (store, watched):
        store.write(scrapes.next()[1])  # every series is new to this order: not what a commit is
        due = time.perf_counter()
        while not place.stop.is_set():
            due += 1.0
            time.sleep(max(0.0, due - time.perf_counter()))
            _, appends, _ = scrapes.next()
            watched.run("commit", lambda appends=appends: store.write(appends))


def read(place: Place, number: int) -> None:
    asked = {question.name: question for question in questions(place.data)}
    names = ["q1", "q4"] if number % 2 else ["q1", "q2", "q4"]
    with place.opened() as (store, watched):
        runs = {name: store_queries.reader(store, asked[name]) for name in names}
        now = place.data.end_ms + place.first * STEP_MS
        runs["latest"] = lambda: store_queries.latest(store, "live_metric_0", now)
        while not place.stop.is_set():
            for name, run in runs.items():
                watched.run(name, run)
            place.stop.wait(PAGE_SECONDS)


def maintain(place: Place) -> None:
    with contextlib.closing(Maintainer.open(place.path)) as maintainer, place.opened() as (_, watched):
        started = time.perf_counter()
        while not place.stop.is_set():
            # The writer's clock: 15 s of data every second.
            made = place.first + int(time.perf_counter() - started)
            now = place.data.end_ms + made * STEP_MS
            watched.run(
                "maintenance", lambda now=now: maintainer.run(now, RETENTION_MS, stopping=place.stop.is_set)
            )
            place.stop.wait(MAINTENANCE_SECONDS)


def round_of(data: Dataset, path: Path, number: int, seconds: float, *, maintained: bool) -> Watched:
    """All processes for some seconds."""
    works: list[tuple[Callable[..., None], tuple[int, ...]]] = [(write, ())]
    works += [(read, (reader,)) for reader in range(READERS)]
    works += [(maintain, ())] * maintained
    begin, stop, told = SPAWN.Barrier(len(works) + 1), SPAWN.Event(), SPAWN.Queue()
    place = Place(data, path, number, int(number * (seconds + 60)), begin, stop, told)
    processes = [SPAWN.Process(target=work, args=(place, *more), daemon=True) for work, more in works]
    for process in processes:
        process.start()
    begin.wait(120)
    time.sleep(seconds)
    stop.set()
    all_of_it = Watched()
    for _ in processes:
        try:
            all_of_it.add(told.get(timeout=120))
        except queue.Empty as error:
            raise SystemExit("a process of the round did not come to its end") from error
    for process in processes:
        process.join()
        if process.exitcode:
            all_of_it.errors.append(f"a process ended with {process.exitcode}")
    return all_of_it


def backlog(data: Dataset, path: Path, copies: range) -> None:
    """Days in two-hour blocks, not compacted. Copy 0 is the dataset; the others' metrics have other names, so
    that the readers' questions stay the same."""
    store = SampleStore.open(path)
    for copy in copies:
        series = [
            labels_from(labels, f"{metric_name(labels)}_{copy}") if copy else labels for labels in data.series
        ]
        for first in range(0, data.steps, WINDOW_STEPS):
            store.load(slabs(data, series, copy, first, WINDOW_STEPS))
    store.close()


def table(hours: int = 24, factor: float = 1.0, seconds: float = SECONDS, rounds: int = ROUNDS) -> str:
    """The commit's percentiles without and with maintenance, the readers', and all errors."""
    arms = {False: Watched(), True: Watched()}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        data = generate(folder, hours, factor)
        path = folder / "samples.db"
        backlog(data, path, range(1))
        for number in range(2 * rounds):
            maintained = number % 2 == 1
            if maintained:
                first = 1 + number // 2 * BACKLOG_DAYS
                backlog(data, path, range(first, first + BACKLOG_DAYS))
            arms[maintained].add(round_of(data, path, number, seconds, maintained=maintained))
    commits = [np.array(arms[maintained].seconds["commit"]) * 1000 for maintained in (False, True)]
    added = float(np.quantile(commits[1], 0.99) - np.quantile(commits[0], 0.99))
    busy = sum(arms[True].seconds["maintenance"]) / (rounds * seconds)
    errors = arms[False].errors + arms[True].errors
    lines = [
        f"A commit of {len(Scrapes(data).series):,} samples a second; {READERS} reader processes ask q1, q4, "
        f"the latest values and every other one q2, twice a second; {rounds} x {seconds:.0f} s each way. "
        f"Maintenance was at work {100 * busy:.0f} % of the time.",
        "",
        "| | without maintenance p50 / p99 | with maintenance p50 / p99 | limit |",
        "|---|---:|---:|---|",
    ]
    for action in ("commit", "q1", "q2", "q4", "latest"):
        cells = [_percentiles(arms[maintained].seconds[action]) for maintained in (False, True)]
        lines.append(f"| {action} | {cells[0]} | {cells[1]} | |")
    verdict = "" if added <= ALLOWED_MS else " **MISS**"
    lines.append(f"| added to a commit's p99 | | {added:.1f} ms | {ALLOWED_MS:.0f} ms{verdict} |")
    lines.append(
        f"| errors | {len(arms[False].errors)} | {len(arms[True].errors)} | 0{' **MISS**' * bool(errors)} |"
    )
    return "\n".join(lines + [""] * bool(errors) + [f"- {error}" for error in sorted(set(errors))[:10]])


def _percentiles(seconds: list[float]) -> str:
    low, high = np.quantile(np.array(seconds) * 1000, [0.5, 0.99])
    return f"{low:.1f} / {high:.1f} ms ({len(seconds)})"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--small", action="store_true", help="500 series, 6 hours, short rounds")
    print(table(6, 0.1, 8.0, 1) if parser.parse_args().small else table())
