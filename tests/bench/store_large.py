"""30,000 series x 24 h = 172.8 M samples into one store and out of it: speed, size and memory.

The writer and the reader are processes of their own; what is told of each is the most memory that it ever had
and what it had once everything was imported. The samples are the benchmark's, six times, each time from
another moment of the day on; the writer reads two hours of one sixth at a time (19 MB, and as slabs again),
so that the making of the data hardly counts.
"""

import argparse
import contextlib
import tempfile
from pathlib import Path

import numpy as np
import pandas as pd

from db.labels import Labels, labels_from
from db.maintenance import Maintainer
from db.nan import FloatArray, IntArray
from db.records import DenseAppend, Slab
from db.store import SampleStore
from tests.bench import store_queries
from tests.bench.store_apart import in_a_process, memory_mb, stored_bytes
from tests.bench.store_clients import RESOLUTION_MS
from tests.bench.store_data import START_MS, STEP_MS, Dataset, generate
from tests.bench.store_ingest import DAY_MS, LIVE_STEPS, WINDOW_STEPS
from tests.bench.store_queries import by_labels
from tests.bench.store_report import median_ms, timed

COPIES = 6
ROUNDS = 5
WRITER_LIMIT_MB = 500
READER_LIMIT_MB = 300


def renamed(data: Dataset, copy: int) -> list[Labels]:
    """The series of one copy: GPUs, nodes and servers of its own."""
    changed = {"UUID", "node", "instance"}
    return [
        labels_from((name, f"{value}-{copy}" if name in changed else value) for name, value in labels)
        for labels in data.series
    ]


def shifted(data: Dataset, copy: int, first: int, count: int) -> FloatArray:
    """float64[count, series]: a copy's values, which begin at another step of the day."""
    at = (first + copy * data.steps // COPIES) % data.steps
    window = data.window(at, min(count, data.steps - at))
    if len(window) == count:
        return window
    return np.concatenate([window, data.window(0, count - len(window))])


def slabs(data: Dataset, series: list[Labels], copy: int, first: int, count: int) -> list[Slab]:
    window = shifted(data, copy, first, count)
    return [
        Slab(
            [series[place] for place in members],
            data.timestamps[node, first : first + count],
            np.ascontiguousarray(window[:, members].T),
        )
        for node, members in data.targets()
    ]


def write(data: Dataset, path: Path, copies: int) -> dict[str, float]:
    """Load all but five minutes, write those scrape by scrape, compact; what it took."""
    imported = memory_mb("VmRSS")
    store = SampleStore.open(path)
    series = [renamed(data, copy) for copy in range(copies)]
    stop = data.steps - LIVE_STEPS
    loading = 0.0
    for first in range(0, stop, WINDOW_STEPS):
        for copy in range(copies):
            made = slabs(data, series[copy], copy, first, min(WINDOW_STEPS, stop - first))
            loading += timed(lambda made=made: store.load(made))
            del made
    loaded = memory_mb("VmHWM")
    targets = list(data.targets())
    for step in range(stop, data.steps):
        for copy in range(copies):
            row = shifted(data, copy, step, 1)[0]
            store.write(
                [
                    DenseAppend(
                        f"copy-{copy}-{node}",
                        [series[copy][place] for place in members] if step == stop else [],
                        int(data.timestamps[node, step]),
                        row[members],
                    )
                    for node, members in targets
                ]
            )
    with contextlib.closing(Maintainer.open(path)) as maintainer:
        compacting = timed(lambda: maintainer.seal(data.end_ms, kept_ms=(LIVE_STEPS + 1) * STEP_MS))
        compacting += timed(lambda: maintainer.compact(data.end_ms + DAY_MS))
        maintainer.retain(0)
    store.close()
    return {
        "samples": data.samples * copies,
        "loading": loading,
        "compacting": compacting,
        "bytes": stored_bytes(path),
        "imported": imported,
        "loaded": loaded,
        "peak": memory_mb("VmHWM"),
    }


def read(data: Dataset, path: Path, copies: int) -> dict[str, float]:
    """Three questions; their answers are compared with the data when memory has been measured."""
    imported = memory_mb("VmRSS")
    store = SampleStore.open(path)
    grid = np.arange(START_MS + RESOLUTION_MS, data.end_ms + 1, RESOLUTION_MS)
    uuid = dict(renamed(data, copies - 1)[0])["UUID"]
    hours = (data.end_ms - START_MS) // 3_600_000
    one = f'util{{UUID="{uuid}"}}[{hours}h]'
    runs = {
        "raw": lambda: store_queries.raw(store, one, data.end_ms),
        "mean": lambda: store_queries.steps(store, "avg by (node) (util)", int(grid[0]), int(grid[-1])),
        "latest": lambda: store_queries.latest(store, '{job=~"dcgm|vllm"}', data.end_ms),
    }
    told = {name: median_ms([timed(run) for _ in range(ROUNDS)]) for name, run in runs.items()}
    told |= {"imported": imported, "peak": memory_mb("VmHWM")}
    compare(data, copies, runs["raw"](), runs["mean"](), runs["latest"](), grid)
    return told


def compare(
    data: Dataset, copies: int, raw: pd.DataFrame, mean: pd.DataFrame, latest: pd.DataFrame, grid: IntArray
) -> None:
    """Ends the program where an answer is not what was written."""
    copy = copies - 1
    whole = shifted(data, copy, 0, data.steps)
    if not np.array_equal(raw.to_numpy()[:, 0], whole[:, 0]):
        raise SystemExit("one series: other samples than were written")
    node = int(data.nodes[0])
    members = [place for place in data.of_kind("util") if data.nodes[place] == node]
    held = np.searchsorted(data.timestamps[node], grid, side="right") - 1
    name = dict(renamed(data, copy)[0])["node"]
    wanted = np.where(held >= 0, whole[held][:, members].mean(axis=1), np.nan)
    if not np.allclose(mean[(("node", name),)].to_numpy(), wanted, equal_nan=True):
        raise SystemExit("avg by (node): other means than those of the samples that were written")
    if len(latest) != copies * len(data.series):
        raise SystemExit(f"latest: {len(latest)} series of {copies * len(data.series)}")
    ours = by_labels(latest)["value"].reindex(pd.Index(renamed(data, copy), tupleize_cols=False)).to_numpy()
    if not np.array_equal(ours, whole[-1]):
        raise SystemExit("latest: other values than were written last")


def table(copies: int = COPIES, factor: float = 1.0, hours: int = 24) -> str:
    """The measurements in markdown, each with its limit."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        data = generate(folder, hours, factor)
        wrote = in_a_process(write, data, folder / "samples.db", copies)
        answered = in_a_process(read, data, folder / "samples.db", copies)
    samples = wrote["samples"]
    series = copies * len(data.series)
    gpus = copies * len(data.of_kind("util"))
    above = answered["peak"] - answered["imported"]
    memory = f"{wrote['peak']:.0f} MB ({wrote['imported']:.0f} after imports, {wrote['loaded']:.0f} loading)"
    rows = [
        ("load", f"{samples / wrote['loading'] / 1e6:.1f} M samples/s", ""),
        (
            "compact",
            f"{wrote['compacting']:.1f} s, {samples / wrote['compacting'] / 1e6:.1f} M samples/s",
            "",
        ),
        ("bytes per sample", f"{wrote['bytes'] / samples:.3f} B", ""),
        ("one series, raw", f"{answered['raw']:.2f} ms", ""),
        (f"avg by (node), {gpus:,} series", f"{answered['mean']:.0f} ms", ""),
        (f"latest value of {series:,} series", f"{answered['latest']:.1f} ms", ""),
        ("writer's memory, peak", memory, _limit(wrote["peak"], WRITER_LIMIT_MB)),
        ("reader's memory above imports, peak", f"{above:.0f} MB", _limit(above, READER_LIMIT_MB)),
    ]
    return "\n".join(
        [
            f"{series:,} series x {hours} h: {samples / 1e6:.1f} M samples. Writer and reader "
            "are processes of their own; answers were compared with the data.",
            "",
            "| | Strata | limit |",
            "|---|---:|---|",
            *(f"| {what} | {value} | {limit} |" for what, value, limit in rows),
        ]
    )


def _limit(got: float, limit: float) -> str:
    return f"{limit} MB" + ("" if got <= limit else " **MISS**")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--copies", type=int, default=COPIES)
    parser.add_argument("--small", action="store_true", help="of 500 series, 6 hours")
    given = parser.parse_args()
    print(table(given.copies, *((0.1, 6) if given.small else (1.0, 24))))
