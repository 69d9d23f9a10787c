"""The series index at 1,000,000 series: adding them, and finding some by each kind of label condition.

`python -m tests.bench.series_index --series 100000` is a quick look. Each condition is asked in a process of
its own, so that the memory it took can be seen.
"""

import argparse
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from statistics import median
from uuid import UUID

from sqlalchemy import Engine

from db.engine import open_samples, reading, writing
from db.index import intern_series, match_series
from db.labels import Labels, labels_from
from db.records import Matcher, MatchOperator

SERIES = 1_000_000
SERIES_OF_INSTANCE = 1_000
METRICS_OF_INSTANCE = 100
# What the recorder hands over in one write: a scrape of some dozen targets.
BATCH = 30_000
ROUNDS = 9
# A busy machine shall give a slow number, not none.
_PATIENCE_SECONDS = 60.0
# Any odd number: it only has to scatter the ids.
_SCATTER = 0x9E3779B97F4A7C15F39CC0605CEDC835

CONDITIONS: tuple[tuple[str, str, MatchOperator, str], ...] = (
    ("`=` of one instance", "instance", "=", "10.0.0.7:9400"),
    ("`=` of one metric", "__name__", "=", "metric_42"),
    ("`=` of one of 1 M values", "id", "=", str(UUID(int=7 * _SCATTER % (1 << 128)))),
    ("`=` that all match", "cluster", "=", "main"),
    ("`!=` of one instance", "instance", "!=", "10.0.0.7:9400"),
    ("`=~` alternation", "instance", "=~", "10.0.0.7:9400|10.0.0.9:9400|10.0.1.3:9400"),
    ("`=~` prefix, 1 k values", "instance", "=~", "10.0.0.1.*"),
    ("`=~` general, 1 k values", "instance", "=~", ".*[37]:9400"),
    ("`!~` general, 1 k values", "instance", "!~", ".*[37]:9400"),
    ("`=~` prefix, 1 M values", "id", "=~", "00[ab].*"),
    ("`=~` general, 1 M values, few match", "id", "=~", ".*ab.?cd.*9"),
    ("`=~` general, 1 M values, 1 in 16 matches", "id", "=~", ".*7"),
    ("`=~` general, 1 M values, half match", "id", "=~", ".*[0-7]"),
    ("`!~` general, 1 M values, few match", "id", "!~", ".*ab.?cd.*9"),
    ("`=~` that all 1 M values match", "id", "=~", "[0-9a-f-]+"),
)


def series_of(count: int) -> Iterator[Labels]:
    for number in range(count):
        target, place = divmod(number, SERIES_OF_INSTANCE)
        gpu, metric = divmod(place, METRICS_OF_INSTANCE)
        yield labels_from(
            {
                "cluster": "main",
                "job": "dcgm",
                "instance": f"10.0.{target >> 8}.{target & 255}:9400",
                "Hostname": f"node-{target:04}",
                "gpu": str(gpu),
                "device": f"nvidia{gpu}",
                "modelName": "NVIDIA H200",
                "rack": f"r{target // 16}",
                "id": str(UUID(int=number * _SCATTER % (1 << 128))),
            },
            f"metric_{metric}",
        )


def table(count: int = SERIES) -> str:
    """Markdown: what adding cost, and each condition's p50 over fresh readings and its memory."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "samples.db"
        wall, cpu = _add(path, count)
        lines = [
            f"{count:,} series of 10 labels, one of them with a value of its own, in writes of {BATCH:,}: "
            f"{wall:.1f} s, {cpu:.1f} s of CPU; {path.stat().st_size / count:.0f} bytes a series.",
            "",
            "| condition | series | p50 ms | slowest ms | memory MB |",
            "|---|---:|---:|---:|---:|",
        ]
        for title, name, operator, value in CONDITIONS:
            with ProcessPoolExecutor(1, get_context("spawn")) as alone:
                asked = alone.submit(_ask, path, Matcher(name, operator, value))
                found, times, grown = asked.result()
            p50, slowest = median(times) * 1e3, max(times) * 1e3
            lines.append(f"| {title} | {found:,} | {p50:.1f} | {slowest:.1f} | {grown / 1e6:.0f} |")
    return "\n".join(lines)


def _add(path: Path, count: int) -> tuple[float, float]:
    engine = open_samples(path)
    wall = cpu = 0.0
    batch: list[Labels] = []
    for labels in series_of(count):
        batch.append(labels)
        if len(batch) == BATCH:
            spent = _write(engine, batch)
            wall, cpu = wall + spent[0], cpu + spent[1]
            batch = []
    spent = _write(engine, batch)
    engine.dispose()
    return wall + spent[0], cpu + spent[1]


def _write(engine: Engine, batch: list[Labels]) -> tuple[float, float]:
    wall, cpu = time.perf_counter(), time.process_time()
    with writing(engine) as connection:
        intern_series(connection, batch)
    return time.perf_counter() - wall, time.process_time() - cpu


def _ask(path: Path, matcher: Matcher) -> tuple[int, list[float], int]:
    """Series found, seconds of each round, bytes by which the process grew at most."""
    engine = open_samples(path)
    with reading(engine) as connection:
        match_series(connection, [Matcher("job", "=", "nothing")])
    Path("/proc/self/clear_refs").write_text("5")  # the peak counts from here
    before = _memory("VmRSS")
    times = []
    found = 0
    for _ in range(ROUNDS):
        begun = time.perf_counter()
        with reading(engine, seconds=_PATIENCE_SECONDS) as connection:
            found = len(match_series(connection, [matcher]))
        times.append(time.perf_counter() - begun)
    engine.dispose()
    return found, times, _memory("VmHWM") - before


def _memory(field: str) -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(field + ":"))


if __name__ == "__main__":
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--series", type=int, default=SERIES)
    print(table(arguments.parse_args().series))
