"""A data folder with something of everything in it, and what reads it back."""

import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import numpy as np

from db.backup import create_backup
from db.backup_manifest import Manifest
from db.engine import open_state
from db.labels import Labels, labels_from
from db.maintenance import Maintainer
from db.nan import ABSENT, NORMAL, STALE
from db.processes import report
from db.records import DenseAppend, Matcher, MetricMetadata, Slab, SourceReport, SparseAppend
from db.store import SampleStore

NOW = datetime(2026, 3, 1, 12, 0, 0, tzinfo=UTC)
START_MS = 1_700_000_000_000
STEP_MS = 5_000
DAY_MS = 86_400_000
SCRAPES = 150
ODD_NAN = np.array([0x7FF800000000BEEF], dtype=np.uint64).view(np.float64)[0]

Bits = dict[Labels, dict[int, int]]


def series(count: int = 40) -> list[Labels]:
    return [labels_from({"i": str(i), "text": 'a "b"\n\\'}, f"metric_{i % 3}") for i in range(count)]


def fill(data: Path) -> None:
    """Dense and sparse rows with every kind of NaN, late and overwritten samples; state and sources."""
    data.mkdir(parents=True, exist_ok=True)
    store = SampleStore.open(data / "samples.db")
    labels = series()
    random = np.random.default_rng(5)
    for scrape in range(SCRAPES):
        values = random.normal(size=len(labels))
        values[3], values[4], values[5] = NORMAL, ODD_NAN, ABSENT if scrape % 2 else 1.0
        values[7] = ABSENT if scrape > 100 else STALE if scrape == 100 else 1.0
        store.write([DenseAppend("t", labels if scrape == 0 else [], START_MS + scrape * STEP_MS, values)])
    late = np.array([START_MS + 17, START_MS, START_MS + SCRAPES * STEP_MS])
    store.write(
        [SparseAppend([labels[0], labels[1]], late, np.array([7.0, 8.0, -0.0]), np.array([0, 0, 1]))],
        [SourceReport("scrape", "a", "h:1", "http://h:1/metrics", "up", 5.0)],
        [MetricMetadata("metric_0", "gauge", "how much", "")],
    )
    store.close()
    state = open_state(data / "state.db")
    for name in ("collect", "web"):
        report(state, name, status="running", pid=1, restarts=2, detail="was 'killed'", now_ms=START_MS)
    state.dispose()


def fill_blocks(data: Path) -> None:
    """Blocks of all three levels, loaded and sealed ones, under late and overwritten samples in the head."""
    store = SampleStore.open(data / "samples.db")
    labels = [labels_from({"i": str(i)}, f"old_{i % 2}") for i in range(90)]
    random = np.random.default_rng(6)
    first = START_MS - 3 * DAY_MS
    stamps = np.arange(first, START_MS - DAY_MS, 60_000, dtype=np.int64)
    values = np.round(random.normal(50, 3, (len(labels), len(stamps))).cumsum(axis=1), 2)
    values[2, ::7], values[3, 5], values[4, 100:] = ABSENT, ODD_NAN, STALE
    store.load([Slab(labels, stamps, values)])
    for step in range(60):
        row = np.full(len(labels), float(step))
        row[6] = NORMAL if step % 2 else ABSENT
        at = START_MS - 6 * 3_600_000 + step * STEP_MS
        store.write([DenseAppend("old", labels if step == 0 else [], at, row)])
    maintainer = Maintainer.open(data / "samples.db")
    maintainer.seal(START_MS)
    maintainer.compact(START_MS)
    maintainer.close()
    over = np.array([int(stamps[9]), int(stamps[9]), int(stamps[-1])], dtype=np.int64)
    store.write([SparseAppend(labels[:2], over, np.array([1.5, 2.5, 3.5]), np.array([0, 0, 1]))])
    store.write([DenseAppend("old", [], START_MS, np.arange(float(len(labels))))])
    store.close()


def back_up(data: Path, folder: Path, config: Path | None = None) -> Manifest:
    state = data / "state.db"
    return create_backup(folder, samples=data / "samples.db", state=state, config=config, created=NOW)


def bits(samples: Path) -> Bits:
    """Every sample of a file, bit for bit."""
    store = SampleStore.open(samples)
    try:
        return {
            item.labels: dict(
                zip(
                    item.timestamps.tolist(),
                    np.ascontiguousarray(item.values).view(np.uint64).tolist(),
                    strict=True,
                )
            )
            for item in store.select([Matcher("none", "=", "")], 0, 1 << 50)
        }
    finally:
        store.close()


def talking(code: str, *arguments: object) -> subprocess.Popen[str]:
    """A Python process of its own that talks through its pipes."""
    return subprocess.Popen(
        [sys.executable, "-c", code, *map(str, arguments)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
