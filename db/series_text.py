"""The stored form of a series' labels, which every reader and writer of the index shares."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager

import orjson
from sqlalchemy import Connection, text

from db.labels import Labels
from db.nan import IntArray
from db.series_set import SeriesSet

# Ids that go into one statement: it bounds the memory of its one long parameter.
_BATCH = 1 << 16
# CROSS JOIN keeps SQLite from walking all series instead of the ids that are asked for.
_LABELS_OF_IDS = text(
    "SELECT s.id, s.labels FROM json_each(:ids) AS j CROSS JOIN series AS s ON s.id = j.value"
)


def encode_labels(labels: Labels) -> str:
    """Canonical text of a series' identity."""
    return orjson.dumps(labels).decode()


def decode_labels(encoded: str) -> Labels:
    return tuple((name, value) for name, value in orjson.loads(encoded))


def load_labels(connection: Connection, ids: IntArray) -> dict[int, Labels]:
    """Labels of the given series, int64[n]; ids that nobody has are left out."""
    return {
        row[0]: decode_labels(row[1])
        for part in in_batches(ids)
        for row in connection.execute(_LABELS_OF_IDS, {"ids": to_json(part.tolist())})
    }


def load_series(connection: Connection, ids: IntArray) -> SeriesSet:
    """Labels of the given series, int64[n], which all exist, in this order."""
    encoded = [
        row[1]
        for part in in_batches(ids)
        for row in connection.execute(_LABELS_OF_IDS, {"ids": to_json(part.tolist())})
    ]
    with _without_collecting():
        return SeriesSet(orjson.loads(f"[{','.join(encoded)}]"))


@contextmanager
def _without_collecting() -> Iterator[None]:
    """Hundreds of thousands of lists make the garbage collector run again and again, which takes longer than
    the work itself; they are in no cycle and gone right after."""
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            gc.enable()


def in_batches(ids: IntArray) -> Iterator[IntArray]:
    for first in range(0, len(ids), _BATCH):
        yield ids[first : first + _BATCH]


def to_json(value: object) -> str:
    """One bound parameter for any number of values: SQLite caps the number of parameters."""
    return orjson.dumps(value).decode()
