"""Series and their labels: giving new series an id, finding series by label conditions, forgetting them.

Postings stay in the file, packed (`db.postings`); a reader holds runs of the ids that match (`db.id_runs`).
"""

from collections.abc import Sequence
from hashlib import blake2b

import numpy as np
from sqlalchemy import Connection, text

from db.id_runs import runs_of
from db.labels import Labels
from db.nan import IntArray
from db.postings import post_series, unpost_series
from db.series_match import match_series
from db.series_text import decode_labels, encode_labels, in_batches, load_labels, to_json

__all__ = ["decode_labels", "encode_labels", "forget_series", "intern_series", "load_labels", "match_series"]

# Series that are worked on together; it bounds memory (some 4 kB each) and is a chunk of postings.
_BATCH = 1 << 16
_HASH_BYTES = 8

# CROSS JOIN keeps SQLite from walking all series instead of the hashes that are asked for.
_ROWS_BY_HASH = text(
    "SELECT s.id, s.labels FROM json_each(:hashes) AS j CROSS JOIN series AS s ON s.hash = j.value"
)
_NEXT_ID = text("SELECT next_series_id FROM store_state WHERE id = 1")
_SET_NEXT_ID = text("UPDATE store_state SET next_series_id = :next WHERE id = 1")
_RAISE_EPOCH = text("UPDATE store_state SET series_epoch = series_epoch + 1 WHERE id = 1")
_FORGET = text("DELETE FROM series WHERE id IN (SELECT value FROM json_each(:ids))")
# Straight to the driver: a first scrape of a large cluster adds hundreds of thousands of series, and Core's
# per-row parameter handling would be most of its cost.
_ADD_SERIES = "INSERT INTO series (id, hash, labels) VALUES (?, ?, ?)"


def intern_series(connection: Connection, series: Sequence[Labels]) -> IntArray:
    """Ids of the series, int64[len(series)]; those never seen are added with their postings.

    Runs inside the caller's write transaction, which is what makes the ids safe to hand out. One call for
    many series costs much less than a call for each target.
    """
    ids = np.empty(len(series), dtype=np.int64)
    for first in range(0, len(series), _BATCH):
        ids[first : first + _BATCH] = _intern(connection, series[first : first + _BATCH])
    return ids


def _intern(connection: Connection, series: Sequence[Labels]) -> IntArray:
    encoded = list(map(encode_labels, series))
    digests = b"".join([blake2b(item.encode(), digest_size=_HASH_BYTES).digest() for item in encoded])
    hashes = np.frombuffer(digests, dtype=">i8").astype(np.int64)
    next_id = int(connection.execute(_NEXT_ID).scalar_one())
    known: dict[str, int] = {}
    if next_id > 1:
        # Ascending hashes walk the index from one end to the other.
        rows = connection.execute(_ROWS_BY_HASH, {"hashes": to_json(np.unique(hashes).tolist())})
        known = {labels: series_id for series_id, labels in rows}
    fresh: list[int] = []
    first_id = next_id
    for place, item in enumerate(encoded):
        if item not in known:
            known[item] = next_id
            next_id += 1
            fresh.append(place)
    if fresh:
        numbers = range(first_id, next_id)
        rows_to_add = zip(numbers, hashes[fresh].tolist(), [encoded[place] for place in fresh], strict=True)
        connection.exec_driver_sql(_ADD_SERIES, list(rows_to_add))
        connection.execute(_SET_NEXT_ID, {"next": next_id})
        post_series(connection, np.array(numbers, dtype=np.int64), [series[place] for place in fresh])
    return np.fromiter(map(known.__getitem__, encoded), dtype=np.int64, count=len(encoded))


def forget_series(connection: Connection, ids: IntArray) -> None:
    """Delete series (int64[n], any order) with their postings, and the label pairs that nobody has any more.

    Runs inside the caller's write transaction. The ids are never given again; `series_epoch` rises, so that
    other processes drop what they remember of them.
    """
    distinct = runs_of(ids).ids()
    if len(distinct) == 0:
        return
    for part in in_batches(distinct):
        labels = load_labels(connection, part)
        held = np.array(sorted(labels), dtype=np.int64)
        unpost_series(connection, held, [labels[series_id] for series_id in held.tolist()])
        connection.execute(_FORGET, {"ids": to_json(part.tolist())})
    connection.execute(_RAISE_EPOCH)
