"""Looks into a database file that nobody has open: what is in it, at which schema, and whether it is whole.

It opens nothing through the store: a backup is counted as it is, without being migrated.
"""

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from urllib.parse import quote

import numpy as np

from db.backup_manifest import BackupError, SampleCounts

_DAY_MS = 86_400_000


@contextmanager
def frozen(path: Path) -> Iterator[sqlite3.Connection]:
    """The file as it lies there: no log, no lock, no file beside it. Raises BackupError."""
    try:
        with closing(sqlite3.connect(f"file:{quote(str(path))}?immutable=1", uri=True)) as database:
            yield database
    except sqlite3.DatabaseError as error:
        raise BackupError(f"{path}: is damaged ({error}); an older backup may be whole") from error


def check_whole(database: sqlite3.Connection, path: Path, *, quick: bool) -> None:
    """SQLite's own check of every page; quick: without comparing indexes with tables. Raises BackupError."""
    pragma = "quick_check" if quick else "integrity_check"
    first = database.execute(f"PRAGMA {pragma}(1)").fetchone()[0]
    if first != "ok":
        raise BackupError(
            f"{path}: is damaged ({' '.join(str(first).split())}); an older backup may be whole"
        )


def schema_revision(database: sqlite3.Connection) -> str | None:
    if "alembic_version" not in tables(database):
        return None
    row = database.execute("SELECT version_num FROM alembic_version").fetchone()
    return None if row is None else str(row[0])


def count_rows(database: sqlite3.Connection) -> dict[str, int]:
    """Rows of every table that holds data."""
    return {
        name: int(database.execute(f'SELECT count(*) FROM "{name}"').fetchone()[0])  # noqa: S608 - the file's own names
        for name in sorted(tables(database) - {"alembic_version"})
    }


def count_samples(database: sqlite3.Connection) -> SampleCounts:
    present = tables(database)

    def count(table: str) -> int:
        if table not in present:
            return 0
        return int(database.execute(f"SELECT count(*) FROM {table}").fetchone()[0])  # noqa: S608 - named below

    bounds = list(_bounds(database, present))
    return SampleCounts(
        series=count("series"),
        blocks=count("block"),
        head_rows=count("head_dense") + count("head_sparse"),
        first_ms=min((first for first, _ in bounds), default=None),
        last_ms=max((last for _, last in bounds), default=None),
    )


def _bounds(database: sqlite3.Connection, present: set[str]) -> Iterator[tuple[int, int]]:
    """First and last timestamp of every kind of place that has any."""
    queries = []
    if "head_dense" in present:
        queries.append("SELECT min(ts), max(ts) FROM head_dense")
    if "head_sparse" in present:
        queries.append("SELECT min(ts_min), max(ts_max) FROM head_sparse")
    if "block" in present:
        # The index finds the outermost windows; only their blocks are read.
        levels = "(SELECT level, min(window_ms) AS lo, max(window_ms) AS hi FROM block GROUP BY level) AS w"
        for edge in ("lo", "hi"):
            queries.append(
                f"SELECT min(b.start_ms), max(b.end_ms) FROM {levels} "  # noqa: S608 - constants
                f"JOIN block AS b ON b.level = w.level AND b.window_ms = w.{edge}"
            )
    for query in queries:
        first, last = database.execute(query).fetchone()
        if first is not None:
            yield int(first), int(last)


def days_with_samples(database: sqlite3.Connection) -> list[tuple[int, int]]:
    """Runs of days (UTC) in which there may be samples, as (first, last) millisecond. One sample may
    claim to be of 1970: whoever reads everything must not walk through the years between."""
    present = tables(database)
    days: set[int] = set()
    for table, column in (("head_dense", "ts"), ("block", "window_ms")):  # no block reaches over its day
        if table in present:
            floor = f"({column} - ({column} % {_DAY_MS} + {_DAY_MS}) % {_DAY_MS}) / {_DAY_MS}"
            days |= {row[0] for row in database.execute(f"SELECT DISTINCT {floor} FROM {table}")}  # noqa: S608
    if "head_sparse" in present:
        for first, last, data in database.execute("SELECT ts_min, ts_max, timestamps FROM head_sparse"):
            if first // _DAY_MS == last // _DAY_MS:
                days.add(first // _DAY_MS)
            else:
                days |= set((np.frombuffer(data, "<i8") // _DAY_MS).tolist())
    runs: list[tuple[int, int]] = []
    for day in sorted(days):
        first, end = day * _DAY_MS, (day + 1) * _DAY_MS - 1
        if runs and runs[-1][1] + 1 == first:
            runs[-1] = runs[-1][0], end
        else:
            runs.append((first, end))
    return runs


def tables(database: sqlite3.Connection) -> set[str]:
    rows = database.execute(
        "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%'"
    )
    return {str(row[0]) for row in rows}
