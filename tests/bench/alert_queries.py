"""60 queries as alert rules ask them, at one time, over 400,000 live series.

`python -m tests.bench --only alerts` prints the table. First in this process, one after the other; then by
two query processes, as the program has them. The series are 500 targets' with 50 metrics of 16 series each;
their last six minutes are there, scraped every 15 s, sealed every five minutes. Answers are counted against
what the data must give.
"""

import argparse
import tempfile
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import numpy as np

from db.labels import Labels, labels_from
from db.maintenance import SEAL_EVERY_MS, Maintainer
from db.promql.engine import instant
from db.promql.question import Question
from db.promql.workers import QueryWorkers
from db.records import DenseAppend
from db.store import SampleStore
from tests.bench.store_report import median_ms, timed

NOW_MS = 1_800_000_000_000
STEP_MS = 15_000
SCRAPES = 24
TARGETS = 500
GAUGES, COUNTERS, HISTOGRAMS = 30, 15, 5
SERIES_A_METRIC = 16
BOUNDS = ("0.1", "0.2", "0.5", "1", "2", "5", "10", "+Inf")
ROUNDS = 5
LIMIT_SECONDS = 2.0


def series_of(target: int) -> list[Labels]:
    """A node's 800 series: eight GPUs twice a gauge or counter, two histograms of eight buckets."""
    shared = {
        "instance": f"10.0.{target // 250}.{target % 250}:9400",
        "job": "dcgm",
        "node": f"node{target:03d}",
        "model": f"model{target % 10}",
    }
    found = []
    for metric in range(GAUGES + COUNTERS):
        name = f"gauge_{metric}" if metric < GAUGES else f"counter_{metric - GAUGES}_total"
        for gpu in range(SERIES_A_METRIC):
            own = {
                "gpu": str(gpu),
                "UUID": f"GPU-{target:04x}{gpu:02x}",
                "modelName": "NVIDIA H100",
            }
            found.append(labels_from(shared | own, name))
    for metric in range(HISTOGRAMS):
        for number in range(SERIES_A_METRIC):
            own = {"le": BOUNDS[number % 8], "engine": str(number // 8)}
            found.append(labels_from(shared | own, f"latency_{metric}_seconds_bucket"))
    return found


def write(path: Path, targets: int) -> int:
    """Scrape by scrape, sealing when the maintainer would. Returns the number of series."""
    random = np.random.default_rng(7)
    series = [series_of(target) for target in range(targets)]
    gauges = GAUGES * SERIES_A_METRIC
    totals = np.zeros((targets, len(series[0]) - gauges))
    store = SampleStore.open(path)
    maintainer = Maintainer.open(path)
    for scrape in range(SCRAPES):
        at = NOW_MS - (SCRAPES - 1 - scrape) * STEP_MS - 1_000
        totals += np.cumsum(random.integers(0, 5, totals.shape), axis=1) / 16
        values = np.concatenate([random.integers(0, 100, (targets, gauges)), totals], axis=1)
        for first in range(0, targets, 50):
            store.write(
                [
                    DenseAppend(f"t{n}", series[n] if scrape == 0 else [], at + n, values[n])
                    for n in range(first, min(first + 50, targets))
                ]
            )
        if (scrape + 1) * STEP_MS % SEAL_EVERY_MS == 0:
            maintainer.seal(at)
    maintainer.close()
    store.close()
    return sum(map(len, series))


def queries(targets: int) -> list[tuple[str, int | None]]:
    """Text, and how many series the answer has; None where that is chance."""
    every = targets * SERIES_A_METRIC
    models = min(10, targets)
    found: list[tuple[str, int | None]] = []
    found += [(f"gauge_{n} > 95", None) for n in range(18)]
    found += [(f"avg by (node) (gauge_{n}) < 101", targets) for n in range(18, 26)]
    found += [(f"max_over_time(gauge_{n}[5m]) >= 0", every) for n in range(26, 30)]
    found += [(f'absent(gauge_{n}{{node="node000"}})', 0) for n in range(4)]
    found += [(f'count by (model) (gauge_{n}{{gpu=~"[0-3]"}})', models) for n in range(4)]
    found += [(f"rate(counter_{n}_total[5m]) < 0", 0) for n in range(8)]
    found += [(f"sum by (model) (rate(counter_{n}_total[5m])) >= 0", models) for n in range(8, 13)]
    ratio = "sum by (node) (increase(counter_{}_total[5m])) / on (node) sum by (node) (gauge_{})"
    found += [(ratio.format(n, n), targets) for n in range(13, 15)]
    quantile = "histogram_quantile(0.99, sum by (model, le) (rate(latency_{}_seconds_bucket[5m])))"
    found += [(quantile.format(n), models) for n in range(HISTOGRAMS)]
    found += [(f"gauge_{n} - on (node, gpu) gauge_{n + 1} > 101", 0) for n in range(2)]
    return found


def check(asked: Sequence[tuple[str, int | None]], counts: Sequence[int]) -> None:
    for (text, wanted), count in zip(asked, counts, strict=True):
        if wanted is not None and count != wanted:
            raise SystemExit(f"{text}: {count} series, {wanted} expected")


def table(targets: int = TARGETS) -> str:
    """The measurements in markdown."""
    asked = queries(targets)
    with tempfile.TemporaryDirectory() as name:
        path = Path(name) / "samples.db"
        count = write(path, targets)
        store = SampleStore.open(path)
        first, alone = _measured(
            lambda: [len(instant(store, text, NOW_MS).table) for text, _ in asked], asked
        )
        store.close()
        with QueryWorkers(partial(SampleStore.open, path), 2) as workers:
            questions = [Question(text, NOW_MS, NOW_MS) for text, _ in asked]

            def together() -> list[int]:
                running = [workers.submit(question) for question in questions]
                return [len(one.result().table) for one in running]

            cold, both = _measured(together, asked)
    verdict = "" if both <= LIMIT_SECONDS else " **MISS**"
    rows = [
        ("first round, one process (no labels in memory yet)", first, ""),
        ("a round, one process", alone, ""),
        ("first round, two query processes", cold, ""),
        ("a round, two query processes", both, f"{LIMIT_SECONDS:g} s{verdict}"),
    ]
    return "\n".join(
        [
            f"{len(asked)} instant queries over {count:,} live series of {targets} targets.",
            "",
            "| | s | limit |",
            "|---|---:|---|",
            *(f"| {what} | {seconds:.2f} | {limit} |" for what, seconds, limit in rows),
        ]
    )


def _measured(run: Callable[[], list[int]], asked: Sequence[tuple[str, int | None]]) -> tuple[float, float]:
    """Seconds of the first round, and the median of the later ones."""
    counts: list[int] = []
    first = timed(lambda: counts.extend(run()))
    check(asked, counts)
    return first, median_ms([timed(run) for _ in range(ROUNDS)]) / 1000


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--targets", type=int, default=TARGETS)
    print(table(parser.parse_args().targets))
