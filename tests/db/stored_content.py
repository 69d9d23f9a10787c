"""Looks into a samples file past the store's own reading, and fills it with plain content."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from db.labels import Labels, labels_from
from db.maintenance import Maintainer
from db.records import DenseAppend
from db.store import SampleStore

HOUR = 3_600_000
DAY = 24 * HOUR
BEGIN = 19_700 * DAY
FAR = 1 << 50


def gauges(count: int, name: str = "m", job: str = "a") -> list[Labels]:
    return [labels_from({"job": job, "i": f"{number:04}"}, name) for number in range(count)]


def scrape(
    store: SampleStore, key: str, series: Sequence[Labels], times: Sequence[int], *, ends: bool = False
) -> None:
    """A row at each time; the value says time and slot."""
    for number, at in enumerate(times):
        values = np.arange(len(series)) + (at - BEGIN) / 1000
        last = ends and number == len(times) - 1
        store.write([DenseAppend(key, series if number == 0 else [], at, values, last)])


def column(opened: SampleStore | Maintainer, statement: str, *bounds: object) -> list:
    """The first column of a query's rows."""
    engine = opened.engine if isinstance(opened, SampleStore) else opened._engine
    with engine.connect() as connection:
        return [row[0] for row in connection.exec_driver_sql(statement, bounds)]


def count(opened: SampleStore | Maintainer, table: str) -> int:
    return int(column(opened, f"SELECT count(*) FROM {table}")[0])  # noqa: S608 - tables of ours


def content(store: SampleStore) -> dict[Labels, list[tuple[int, float]]]:
    return {
        item.labels: list(zip(item.timestamps.tolist(), item.values.tolist(), strict=True))
        for item in store.select([], 0, FAR)
    }


def wal_bytes(path: Path) -> int:
    log = path.with_name(path.name + "-wal")
    return log.stat().st_size if log.exists() else 0
