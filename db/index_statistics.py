"""What the index says of its own size: which metrics and labels the series are made of."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from heapq import nlargest

import numpy as np
from sqlalchemy import Connection, Engine, text

from db.damage import naming_damage
from db.engine import driver, reading
from db.labels import METRIC_NAME
from db.postings import unpack

# More than the bits of an id within a chunk.
_APART_BITS = 20
# Postings that are unpacked together: it bounds memory.
_TOGETHER = 20_000

_COUNTS = text(
    "SELECT (SELECT count(hash) FROM series), (SELECT count(*) FROM label_pair WHERE name <> ''), "
    "(SELECT count(window_ms) FROM block)"
)
_TIMES = text(
    "SELECT min(first), max(last) FROM ("
    "SELECT min(ts) AS first, max(ts) AS last FROM head_dense UNION ALL "
    "SELECT min(ts_min), max(ts_max) FROM head_sparse UNION ALL "
    "SELECT (SELECT min(start_ms) FROM block), (SELECT max(end_ms) FROM block))"
)
_BY_NAME = text(
    "SELECT name, count(*), sum(length(CAST(value AS BLOB))) FROM label_pair WHERE name <> '' GROUP BY name"
)
_POSTINGS = (
    "SELECT l.name, l.value, p.ids FROM label_pair AS l CROSS JOIN posting AS p "
    "ON p.pair_id = l.id AND p.chunk >= 0 WHERE l.name <> ''"
)


@dataclass(frozen=True, slots=True)
class IndexStatistics:
    """first_ms, last_ms: of all samples, None when there are none. The lists hold (name, count), largest
    first; series_by_pair counts under `name=value`, bytes_by_label the UTF-8 bytes of a label's values."""

    series: int
    label_pairs: int
    blocks: int
    first_ms: int | None
    last_ms: int | None
    series_by_metric: Sequence[tuple[str, int]]
    values_by_label: Sequence[tuple[str, int]]
    bytes_by_label: Sequence[tuple[str, int]]
    series_by_pair: Sequence[tuple[str, int]]


def read_statistics(engine: Engine, limit: int) -> IndexStatistics:
    """limit: how long the lists get at most. Raises StoreError."""
    with naming_damage(engine), reading(engine) as connection:
        series, label_pairs, blocks = connection.execute(_COUNTS).one()
        first_ms, last_ms = connection.execute(_TIMES).one()
        labels = [tuple(row) for row in connection.execute(_BY_NAME)]
        pairs = _series_of_pairs(connection)
    return IndexStatistics(
        series,
        label_pairs,
        blocks,
        first_ms,
        last_ms,
        series_by_metric=_largest(
            ((value, count) for (name, value), count in pairs.items() if name == METRIC_NAME), limit
        ),
        values_by_label=_largest(((name, count) for name, count, _ in labels), limit),
        bytes_by_label=_largest(((name, size) for name, _, size in labels), limit),
        series_by_pair=_largest(
            ((f"{name}={value}", count) for (name, value), count in pairs.items()), limit
        ),
    )


def _series_of_pairs(connection: Connection) -> dict[tuple[str, str], int]:
    found: dict[tuple[str, str], int] = {}
    cursor = driver(connection).execute(_POSTINGS)
    while rows := cursor.fetchmany(_TOGETHER):
        # Each blob's runs are set apart by its number, so that they are counted together.
        first, last = unpack([row[2] for row in rows], np.arange(len(rows)) << _APART_BITS)
        sizes = np.bincount(first >> _APART_BITS, weights=last - first + 1, minlength=len(rows))
        for row, size in zip(rows, sizes.astype(np.int64).tolist(), strict=True):
            found[row[0], row[1]] = found.get((row[0], row[1]), 0) + size
    return found


def _largest(counts: Iterable[tuple[str, int]], limit: int) -> list[tuple[str, int]]:
    """Equal counts by name, so that the answer does not change from one call to the next."""
    return nlargest(limit, sorted(counts), key=lambda item: item[1])
