"""A year of 15 s data for 100 series beside targets that are ten minutes old: what a month of one reads."""

import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from db.labels import Labels, labels_from
from db.maintenance import Maintainer
from db.nan import FloatArray
from db.records import DenseAppend, Slab
from db.store import SampleStore

DAY_MS = 86_400_000
BEGIN_MS = 20_000 * DAY_MS
STEP_MS = 15_000
SERIES = 100
KINDS = ("percent", "watts", "ratio", "energy", "bytes with resets", "constant", "noise")
QUERY_DAYS = 30
QUERY_LIMIT_BYTES = 2_000_000
_YOUNG_TARGETS, _YOUNG_SERIES, _YOUNG_SCRAPES = 20, 50, 40
_DAYS_AT_ONCE = 7

# In a process of its own: neither SQLite's pages nor our caches hold anything yet.
_QUERY = """
import sys
from pathlib import Path
from db.records import Matcher, named
from db.store import SampleStore

def read():
    lines = Path("/proc/self/io").read_text().splitlines()
    return int(lines[0].split()[1])

name, number, begin, end = sys.argv[2], sys.argv[3], int(sys.argv[4]), int(sys.argv[5])
store = SampleStore.open(Path(sys.argv[1]))
store.select([named("none")], begin, end)
before = read()
found = store.select([named(name), Matcher("number", "=", number)], begin, end)
print(read() - before, len(found), len(found[0].timestamps))
"""


def series() -> list[Labels]:
    """The kinds one after another, again and again."""
    return [
        labels_from(
            {"number": str(number), "instance": f"h:{number // 25}"},
            KINDS[number % len(KINDS)].replace(" ", "_"),
        )
        for number in range(SERIES)
    ]


def values_of(kind: str, random: np.random.Generator, count: int) -> FloatArray:
    """float64[count], as exporters print them; noise is what no exporter prints and nothing compresses."""
    match kind:
        case "percent":
            return random.integers(0, 101, count).astype(np.float64)
        case "watts":
            return np.round(np.clip(np.cumsum(random.normal(0, 3, count)) + 400, 60, 700), 3)
        case "ratio":
            return np.round(random.random(count), 6)
        case "energy":
            return np.cumsum(random.integers(1_000, 10_000, count)).astype(np.float64)
        case "bytes with resets":
            return np.cumsum(random.integers(0, 1 << 34, count)).astype(np.float64) % 2.0**45
        case "constant":
            return np.full(count, 81_559.0)
    return random.normal(size=count)


def fill(path: Path, days: int) -> None:
    """`days` of SERIES, then targets that began ten minutes before the end."""
    random = np.random.default_rng(1)
    store = SampleStore.open(path)
    maintainer = Maintainer.open(path)
    labels = series()
    for first in range(0, days, _DAYS_AT_ONCE):
        count = min(_DAYS_AT_ONCE, days - first) * DAY_MS // STEP_MS
        grid = BEGIN_MS + first * DAY_MS + np.arange(count) * STEP_MS
        slabs = []
        for instance in range(4):  # targets: each has a phase and a jitter of its own
            mine = range(instance * 25, (instance + 1) * 25)
            late = np.where(random.random(count) < 0.01, random.integers(20, 200, count), 0)
            times = grid + instance * 1_000 + random.integers(0, 5, count) + late
            rows = np.stack([values_of(KINDS[number % len(KINDS)], random, count) for number in mine])
            slabs.append(Slab([labels[number] for number in mine], times, rows))
        store.load(slabs)
    now = BEGIN_MS + days * DAY_MS
    for scrape in range(_YOUNG_SCRAPES):
        at = now - (_YOUNG_SCRAPES - scrape) * STEP_MS
        store.write([_young(target, scrape, at) for target in range(_YOUNG_TARGETS)])
    maintainer.seal(now)
    maintainer.compact(now)
    maintainer.checkpoint()
    maintainer.close()
    store.close()


def _young(target: int, scrape: int, at: int) -> DenseAppend:
    name = f"young:{target}"
    labels = [labels_from({"number": str(slot), "instance": name}, "young") for slot in range(_YOUNG_SERIES)]
    return DenseAppend(name, labels if scrape == 0 else [], at, np.arange(_YOUNG_SERIES) + float(scrape))


def bytes_read(path: Path, labels: Labels, begin_ms: int, end_ms: int) -> tuple[int, int]:
    """What a process that has read nothing yet reads from the file for one series, and its samples."""
    parts = dict(labels)
    arguments = [str(path), parts["__name__"], parts["number"], str(begin_ms), str(end_ms)]
    run = subprocess.run(
        [sys.executable, "-c", _QUERY, *arguments], check=True, capture_output=True, text=True
    )
    read, found, samples = map(int, run.stdout.split())
    if found != 1:
        raise ValueError(f"{found} series for {labels}")
    return read, samples


def month_of_each_kind(path: Path, days: int) -> dict[str, tuple[int, int]]:
    """Kind -> bytes read and samples found by a query of the last QUERY_DAYS of one of its series."""
    end = BEGIN_MS + days * DAY_MS
    found = {}
    for kind, labels in zip(KINDS, series(), strict=False):
        found[kind] = bytes_read(path, labels, end - QUERY_DAYS * DAY_MS, end - 1)
    return found


def table(days: int = 365) -> str:
    """As Markdown."""
    with tempfile.TemporaryDirectory(prefix="strata-year") as folder:
        path = Path(folder) / "samples.db"
        started = time.monotonic()
        fill(path, days)
        seconds = time.monotonic() - started
        samples = SERIES * days * DAY_MS // STEP_MS
        size = path.stat().st_size
        rows = [
            f"{days} days x {SERIES} series at 15 s ({samples / 1e6:.1f} M samples) and "
            f"{_YOUNG_TARGETS * _YOUNG_SERIES} series of ten minutes: {seconds:.0f} s to generate and load, "
            f"{size / samples:.2f} bytes a sample (a seventh of the series is noise).",
            "",
            f"| one series, {QUERY_DAYS} days, cold | samples | bytes read |",
            "|---|---|---|",
        ]
        for kind, (read, found) in month_of_each_kind(path, days).items():
            rows.append(f"| {kind} | {found:,} | {read:,} |")
    return "\n".join(rows)


if __name__ == "__main__":
    print(table(int(sys.argv[1]) if len(sys.argv) > 1 else 365))
