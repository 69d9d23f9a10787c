"""The samples of the store's benchmark: a GPU fleet's metrics, the same on every run.

At full size 5,000 series x 24 h at 15 s = 28.8 M samples of 125 nodes with 8 GPUs. The mix, per 5,000
series: utilisation 1,000 (whole percents), power 700 (milliwatts), temperature 500, memory used 500, a ratio
500 (6 decimals), clock 300, energy counter 200, PCIe byte counter with resets 300, constants 800, histogram
buckets 200 (10 histograms of 20). Real dcgm-exporter pages hold about a third of constants; here it is 16 %.
A node's series share its timestamps: a phase of its own, jitter of 4 ms, one scrape in a hundred late by
20-200 ms.

The values lie in one file, a row of float64 for each step, so that a window of time is one contiguous read.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from db.labels import Labels, labels_from
from db.nan import FloatArray, IntArray
from db.records import Slab

START_MS = 1_763_596_800_000  # 2025-11-20T00:00Z: whole days and two hours begin here
STEP_MS = 15_000
STEPS_PER_HOUR = 240
SERIES = 5_000
NODES = 125
GPUS_PER_NODE = 8
MIX = (
    ("util", 1000),
    ("power", 700),
    ("temp", 500),
    ("fb_used", 500),
    ("ratio", 500),
    ("sm_clock", 300),
    ("energy", 200),
    ("pcie", 300),
    ("const", 800),
    ("bucket", 200),
)
BOUNDS = (
    *("0.005", "0.01", "0.025", "0.05", "0.075", "0.1", "0.25", "0.5", "0.75", "1.0"),
    *("2.5", "5.0", "7.5", "10.0", "15.0", "20.0", "30.0", "45.0", "60.0", "+Inf"),
)
BUCKET_METRIC = "ttft_seconds_bucket"
CONSTANTS = (0.0, 0.0, 0.0, 0.0, 1593.0, 81559.0, 1.0, 2.0)
# Columns that are gathered before they are scattered into the rows of the file.
_COLUMNS_AT_ONCE = 250


@dataclass(frozen=True)
class Dataset:
    """series[i] belongs to target nodes[i]; timestamps: int64[targets, steps]; the file holds
    float64[steps, series]."""

    values_file: Path
    series: list[Labels]
    kinds: list[str]
    nodes: IntArray
    timestamps: IntArray

    @property
    def steps(self) -> int:
        return int(self.timestamps.shape[1])

    @property
    def samples(self) -> int:
        return len(self.series) * self.steps

    @property
    def end_ms(self) -> int:
        return START_MS + self.steps * STEP_MS

    def window(self, first: int, count: int) -> FloatArray:
        """float64[count, series], read anew so that it is not in memory afterwards."""
        with self.values_file.open("rb") as file:
            file.seek(first * len(self.series) * 8)
            read = np.fromfile(file, dtype=np.float64, count=count * len(self.series))
        return read.reshape(count, len(self.series))

    def of_kind(self, kind: str) -> list[int]:
        return [index for index, name in enumerate(self.kinds) if name == kind]

    def slabs(self, first: int, count: int) -> list[Slab]:
        """The samples of some steps, one slab for each target."""
        window = self.window(first, count)
        return [
            Slab(
                [self.series[index] for index in members],
                self.timestamps[node, first : first + count],
                np.ascontiguousarray(window[:, members].T),
            )
            for node, members in self.targets()
        ]

    def targets(self) -> Iterator[tuple[int, IntArray]]:
        """Each target that has series, with their places."""
        for node in np.unique(self.nodes):
            yield int(node), np.flatnonzero(self.nodes == node)


def generate(folder: Path, hours: int = 24, factor: float = 1.0, *, jitter: bool = True) -> Dataset:
    """Write the values and say what they are. factor: of the 5,000 series; 17 s at full size.

    jitter=False: a scrape exactly every 15 s, as Prometheus's own scraper would store it.
    """
    random = np.random.default_rng(7)
    steps = hours * STEPS_PER_HOUR
    nodes = math.ceil(NODES * factor)
    timestamps = _timestamps(random, nodes, steps, jitter=jitter)
    busy, level = _jobs(random, nodes, steps)
    series: list[Labels] = []
    kinds: list[str] = []
    nodes_of: list[int] = []
    waiting: list[FloatArray] = []
    counts = [(kind, max(len(BOUNDS) if kind == "bucket" else 1, round(many * factor))) for kind, many in MIX]
    total = sum(many for _, many in counts)
    path = folder / f"values-{hours}h-{total}.f8"
    file = np.memmap(path, dtype=np.float64, mode="w+", shape=(steps, total))
    for kind, many in counts:
        for number in range(many):
            gpu = number % (nodes * GPUS_PER_NODE)
            if kind == "bucket":
                histogram, bound = divmod(number, len(BOUNDS))
                if bound == 0:
                    buckets = _histogram(random, histogram, steps)
                labels, node, column = _bucket_labels(histogram, bound, nodes), histogram * 3, buckets[bound]
            else:
                labels, node = _gpu_labels(kind, number, gpu), gpu // GPUS_PER_NODE
                column = _gauge(kind, random, busy[gpu], level[gpu], number)
            series.append(labels)
            kinds.append(kind)
            nodes_of.append(node % nodes)
            waiting.append(column)
            if len(waiting) == _COLUMNS_AT_ONCE or len(series) == total:
                file[:, len(series) - len(waiting) : len(series)] = np.array(waiting).T
                waiting.clear()
    file.flush()
    return Dataset(path, series, kinds, np.array(nodes_of), timestamps)


def _gpu_labels(kind: str, number: int, gpu: int) -> Labels:
    pairs = {"node": f"node{gpu // GPUS_PER_NODE:03d}", "gpu": str(gpu % GPUS_PER_NODE)}
    pairs |= {"UUID": f"GPU-{gpu:08x}", "job": "dcgm"}
    if kind == "const":
        pairs["m"] = str(number % len(CONSTANTS))
    return labels_from(pairs, kind)


def _bucket_labels(histogram: int, bound: int, nodes: int) -> Labels:
    pairs = {"node": f"node{histogram * 3 % nodes:03d}", "instance": f"vllm-{histogram}", "job": "vllm"}
    return labels_from(pairs | {"le": BOUNDS[bound]}, BUCKET_METRIC)


def _timestamps(random: np.random.Generator, nodes: int, steps: int, *, jitter: bool) -> IntArray:
    offsets = random.integers(0, STEP_MS, nodes)
    late_by = np.clip(np.rint(random.normal(0, 4, (nodes, steps))), -20, 20).astype(np.int64)
    late = random.random((nodes, steps)) < 0.01
    late_by = np.where(late, random.integers(20, 200, (nodes, steps)), late_by)
    ticks = START_MS + np.arange(steps, dtype=np.int64) * STEP_MS
    if not jitter:
        return ticks + (offsets - offsets % 1000)[:, None]
    times = np.maximum(ticks + offsets[:, None] + late_by, START_MS)
    # None on a whole second, where windows begin: Prometheus 2 takes a sample there in, 3 does not.
    return times + (times % 1000 == 0)


def _jobs(random: np.random.Generator, nodes: int, steps: int) -> tuple[FloatArray, FloatArray]:
    """Whether each GPU works and how hard, per step; the GPUs of a node work together."""
    tick = np.arange(steps)
    gpus = nodes * GPUS_PER_NODE
    busy = np.empty((gpus, steps), dtype=np.float32)
    level = np.empty((gpus, steps), dtype=np.float32)
    for node in range(nodes):
        edges = np.sort(random.integers(0, steps, random.integers(2, 9)))
        part = np.searchsorted(edges, tick, side="right")
        mine = slice(node * GPUS_PER_NODE, (node + 1) * GPUS_PER_NODE)
        busy[mine] = (part + node) % 2
        level[mine] = random.uniform(55, 99, 12)[part]
    return busy, level


def _gauge(
    kind: str, random: np.random.Generator, busy: FloatArray, level: FloatArray, number: int
) -> FloatArray:
    steps = len(busy)
    noise = random.normal
    if kind == "util":
        idle = (random.random(steps) < 0.02) * 3
        return np.clip(np.rint(busy * (level + noise(0, 4, steps)) + (1 - busy) * idle), 0, 100)
    if kind == "power":
        return np.round(70 + busy * level * 5.8 + noise(0, 6, steps) * (0.15 + busy), 3)
    if kind == "temp":
        target = 32 + busy * level * 0.42
        decay = 1 - 1 / 12  # a first-order lag of about three minutes
        lagged = np.convolve(target, (1 - decay) * decay ** np.arange(120))[:steps]
        lagged[:120] += target[0] * decay ** np.arange(1, 121)
        return np.rint(lagged + noise(0, 0.4, steps))
    if kind == "fb_used":
        models = (random.random(steps) < 0.01).cumsum() % 7
        churn = (random.random(steps) < 0.05) * random.integers(0, 64, steps) * 2
        return np.rint(600 + busy * (60000 + models * 2048 + churn))
    if kind == "ratio":
        return np.round(np.clip(busy * level / 110 + noise(0, 0.02, steps) * busy, 0, 1), 6)
    if kind == "sm_clock":
        throttled = np.clip(np.rint(np.abs(noise(0, 1.2, steps))), 0, 12)
        return np.where(busy > 0, 1980 - 15 * throttled, 345.0)
    if kind == "energy":
        watts = np.maximum(70 + busy * level * 5.8 + noise(0, 6, steps), 40)
        return np.rint(random.integers(10**9, 9 * 10**12) + np.cumsum(watts * 15 * 1000))
    if kind == "pcie":
        sent = np.rint(busy * np.abs(noise(9e9, 2e9, steps)) + random.integers(0, 200000, steps))
        counter = np.cumsum(sent)
        for reset in np.flatnonzero(random.random(steps) < 2 / steps):
            counter[reset:] -= counter[reset]
        return np.maximum(counter, 0)
    return np.full(steps, CONSTANTS[number % len(CONSTANTS)])


def _histogram(random: np.random.Generator, number: int, steps: int) -> FloatArray:
    """float64[bounds, steps]: cumulative counters of a log-logistic latency; every third is reset once."""
    requests = random.poisson(40 * (1 + 0.5 * np.sin(np.arange(steps) / 900 + number)), steps)
    logarithms = np.log([float(bound) for bound in BOUNDS[:-1]])
    below = 1 / (1 + np.exp(-(logarithms - np.log(0.6 + 0.05 * number)) / 0.7))
    share = np.diff(np.concatenate([[0.0], below, [1.0]]))
    increase = np.stack([random.poisson(requests * part) for part in share])
    counters: FloatArray = np.cumsum(np.cumsum(increase, axis=0), axis=1).astype(np.float64)
    reset = int(random.integers(steps // 12, steps - steps // 12))
    if number % 3 == 0:
        counters[:, reset:] -= counters[:, reset : reset + 1]
    return counters
