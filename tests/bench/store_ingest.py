"""Writing into the three stores: in bulk, scrape by scrape, and how many bytes all of it then takes."""

import gc
import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from db.labels import Labels, labels_from
from db.maintenance import Maintainer
from db.records import DenseAppend
from db.store import SampleStore
from tests.bench.store_data import GPUS_PER_NODE, STEP_MS, STEPS_PER_HOUR, Dataset
from tests.bench.store_peers import Connection, Peer
from tests.bench.store_report import Row, timed
from tests.bench.store_wire import WriteRequest

# What a bulk round writes: bulk loads bring long stretches.
WINDOW_STEPS = 8 * STEPS_PER_HOUR
SAMPLES_A_REQUEST = 6
# The last five minutes come as scrapes, so that the newest samples are where a live store has them.
LIVE_STEPS = 20
# One live commit at full size: 125 targets of 240 series.
TARGETS, SERIES_A_TARGET = 125, 240
COMMITS_A_ROUND = 10
DAY_MS = 86_400_000


@dataclass
class Rivals:
    """The three stores over one dataset, all empty at first."""

    data: Dataset
    path: Path
    store: SampleStore
    maintainer: Maintainer
    peers: Sequence[Peer]
    connections: list[Connection] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.connections = [peer.connect() for peer in self.peers]

    def settle(self) -> None:
        for peer in self.peers:
            peer.settle()


def load(rivals: Rivals) -> Row:
    """Everything but the last five minutes; a round is eight hours of data, median of the rounds."""
    data = rivals.data
    message = WriteRequest(data.series, SAMPLES_A_REQUEST)
    speeds: list[list[float]] = [[], [], []]
    stop = data.steps - LIVE_STEPS
    for first in range(0, stop, WINDOW_STEPS):
        count = min(WINDOW_STEPS, stop - first)
        slabs = data.slabs(first, count)
        bodies = _bodies(data, message, first, count)
        rivals.settle()
        gc.collect()
        samples = count * len(data.series)
        speeds[0].append(samples / timed(lambda slabs=slabs: rivals.store.load(slabs)))
        for place, connection in enumerate(rivals.connections, start=1):
            speeds[place].append(samples / timed(lambda c=connection, b=bodies: _send(c, b)))
            rivals.settle()
    write_last_minutes(rivals, message)
    ours, *theirs = (statistics.median(of_one) for of_one in speeds)
    what = "bulk ingest, arrays"
    return Row(what, "samples/s", ours, (theirs[0], theirs[1]), least=(20, 8), aim=(30, 12))


def write_last_minutes(rivals: Rivals, message: WriteRequest) -> None:
    """The last LIVE_STEPS steps, target by target and scrape by scrape."""
    data = rivals.data
    first = data.steps - LIVE_STEPS
    window = data.window(first, LIVE_STEPS)
    targets = list(data.targets())
    for step in range(LIVE_STEPS):
        rivals.store.write(
            [
                DenseAppend(
                    f"target-{node}",
                    [data.series[place] for place in members] if step == 0 else [],
                    int(data.timestamps[node, first + step]),
                    window[step, members],
                )
                for node, members in targets
            ]
        )
    single = WriteRequest(data.series, 1)
    for step in range(LIVE_STEPS):
        at = data.timestamps[data.nodes, first + step : first + step + 1]
        body = single.encoded(at, window[step : step + 1].T)
        for connection in rivals.connections:
            connection.write(body)


def _bodies(data: Dataset, message: WriteRequest, first: int, count: int) -> list[bytes]:
    """The requests of a stretch of steps, encoded."""
    bodies = []
    for at in range(first, first + count, SAMPLES_A_REQUEST):
        many = min(SAMPLES_A_REQUEST, first + count - at)
        using = message if many == SAMPLES_A_REQUEST else WriteRequest(data.series, many)
        bodies.append(using.encoded(data.timestamps[data.nodes, at : at + many], data.window(at, many).T))
    return bodies


def _send(connection: Connection, bodies: Sequence[bytes]) -> None:
    for body in bodies:
        connection.write(body)


def compact(rivals: Rivals) -> float:
    """Bring everything that was loaded into its final blocks, as a day later; the last minutes stay in the
    head. Seconds."""
    end = rivals.data.end_ms

    def work() -> None:
        rivals.maintainer.seal(end, kept_ms=(LIVE_STEPS + 1) * STEP_MS)
        rivals.maintainer.compact(end + DAY_MS)

    return timed(work)


class Scrapes:
    """A live commit after another: every target's series, 15 s further on each time."""

    def __init__(self, data: Dataset, name: str = "live", first: int = 0) -> None:
        """name: of the orders of series; first: how many commits of other names came before."""
        self._data = data
        self._name = name
        self.targets = max(1, TARGETS * len(data.series) // 5_000)
        self.series = [_live_labels(number) for number in range(self.targets * SERIES_A_TARGET)]
        self._message = WriteRequest(self.series, 1)
        self._first = self._made = first

    def next(self) -> tuple[int, list[DenseAppend], bytes]:
        """The commit's time, ours and the peers' form of it."""
        at = self._data.end_ms + 4 * STEP_MS + self._made * STEP_MS
        row = self._data.window(self._made % (self._data.steps - 1), 1)[0]
        values = np.resize(row, len(self.series))
        appends = [
            DenseAppend(
                f"{self._name}-{target}",
                self.series[part] if self._made == self._first else [],
                at,
                values[part],
            )
            for target in range(self.targets)
            for part in [slice(target * SERIES_A_TARGET, (target + 1) * SERIES_A_TARGET)]
        ]
        self._made += 1
        body = self._message.encoded(np.full((len(values), 1), at), values[:, None])
        return at, appends, body


def _live_labels(number: int) -> Labels:
    target, slot = divmod(number, SERIES_A_TARGET)
    metric, gpu = divmod(slot, GPUS_PER_NODE)
    pairs = {"node": f"live{target:03d}", "gpu": str(gpu), "UUID": f"GPU-{target:06x}{gpu:02x}"}
    return labels_from(pairs | {"job": "live"}, f"live_metric_{metric}")


@dataclass
class LiveResult:
    """Seconds of each commit, ours first, and of the sustained run."""

    commits: tuple[list[float], list[float], list[float]]
    sustained: tuple[float, float, float]
    sustained_commits: int
    samples: int

    def rows(self) -> list[Row]:
        medians = [self.samples / statistics.median(of_one) for of_one in self.commits]
        late = [float(np.quantile(of_one, 0.95)) * 1000 for of_one in self.commits]
        whole = [self.samples * self.sustained_commits / seconds for seconds in self.sustained]
        name = f"live ingest, {self.samples:,} samples a commit"
        return [
            Row(name, "samples/s", medians[0], (medians[1], medians[2]), least=(12, 4), aim=(20, 5)),
            Row("live: a commit, p95", "ms", late[0], (late[1], late[2])),
            Row(
                f"live: sustained, {self.sustained_commits} commits and sealing",
                "samples/s",
                whole[0],
                (whole[1], whole[2]),
            ),
        ]


def live(rivals: Rivals, rounds: int) -> LiveResult:
    """Rounds of COMMITS_A_ROUND commits to each store in turn, then as many commits in one go."""
    scrapes = Scrapes(rivals.data)
    _, appends, body = scrapes.next()  # every series is new: not what a live commit is
    rivals.store.write(appends)
    for connection in rivals.connections:
        connection.write(body)
    commits: tuple[list[float], list[float], list[float]] = ([], [], [])
    for _ in range(rounds):
        made = [scrapes.next() for _ in range(COMMITS_A_ROUND)]
        rivals.settle()
        commits[0].extend(timed(lambda a=a: rivals.store.write(a)) for _, a, _ in made)
        for place, connection in enumerate(rivals.connections, start=1):
            commits[place].extend(timed(lambda c=connection, b=b: c.write(b)) for _, _, b in made)
            rivals.settle()
        rivals.maintainer.seal(made[-1][0])
    many = rounds * COMMITS_A_ROUND
    made = [scrapes.next() for _ in range(many)]
    sustained = [_sustain(rivals, made)]
    for connection in rivals.connections:
        rivals.settle()
        sustained.append(timed(lambda c=connection: _send(c, [body for _, _, body in made])))
    return LiveResult(commits, (sustained[0], sustained[1], sustained[2]), many, len(scrapes.series))


def _sustain(rivals: Rivals, made: Sequence[tuple[int, list[DenseAppend], bytes]]) -> float:
    """Ours, with every five minutes of data sealed by the writer itself, and the last of it as well."""
    started = time.perf_counter()
    for number, (at, appends, _) in enumerate(made, start=1):
        rivals.store.write(appends)
        if number % LIVE_STEPS == 0 or number == len(made):
            rivals.maintainer.seal(at)
    return time.perf_counter() - started
