"""Values that one series alone carries: which series that is, beside the pages of a label's values.

A label such as a process's id has a value for every series, and a pattern that half a million of them match
would look up half a million postings. A row of `posting` under the pair ("", label name), chunk -2^41 - p is
for the pairs with the ids p * 4096 and up: n little-endian uint16 (id less p * 4096), ascending, then n
int64, the series. It is written with the pair, and taken away when a second series gets the pair: what is not
here is in the postings, and these hold everything.
"""

from collections.abc import Iterable
from itertools import groupby

import numpy as np
from sqlalchemy import Connection, text

from db.nan import IntArray
from db.series_text import to_json

_PAGE_BITS = 12
PAGE_PAIRS = 1 << _PAGE_BITS
_LOW = PAGE_PAIRS - 1
# All chunks of this table that go up to it are ours.
SOLE = -(1 << 41)
_WORD, _ID = np.dtype("<u2"), np.dtype("<i8")

_ROWS = text("SELECT chunk, ids FROM posting WHERE pair_id = :label AND chunk <= :sole")
_HELD = text(
    "SELECT p.pair_id, p.chunk, p.ids FROM json_each(:keys) AS j CROSS JOIN posting AS p "
    "ON p.pair_id = json_extract(j.value, '$[0]') AND p.chunk = json_extract(j.value, '$[1]')"
)
_PUT = "INSERT OR REPLACE INTO posting (pair_id, chunk, ids) VALUES (?, ?, ?)"
_DROP = "DELETE FROM posting WHERE pair_id = ? AND chunk = ?"


def add_sole(
    connection: Connection, pairs: Iterable[tuple[int, str]], series: IntArray, label_ids: dict[str, int]
) -> None:
    """Note new pairs (id, name), those of a label together and ascending, and the only series of each,
    int64[n]. label_ids: name -> the pair ("", name)."""
    places = groupby(enumerate(pairs), key=lambda item: (label_ids[item[1][1]], item[1][0] >> _PAGE_BITS))
    added: dict[tuple[int, int], tuple[IntArray, IntArray]] = {}
    for (label_id, page), members in places:
        rows = [(place, pair[0]) for place, pair in members]
        which, ids = np.array(rows, dtype=np.int64).T
        added[label_id, SOLE - page] = ids & _LOW, series[which]
    held = {(label, chunk): blob for label, chunk, blob in _held(connection, added)}
    put = []
    for key, (low, owners) in added.items():
        if key in held:  # new pairs come after all others
            before, before_owners = _unpacked(held[key])
            low, owners = np.append(before, low), np.append(before_owners, owners)
        put.append((*key, _packed(low, owners)))
    if put:
        connection.exec_driver_sql(_PUT, put)


def drop_sole(connection: Connection, pairs: Iterable[tuple[int, str]], label_ids: dict[str, int]) -> None:
    """Take pairs (id, name) away, in any order, whether they are here or not."""
    gone: dict[tuple[int, int], list[int]] = {}
    for pair_id, name in pairs:
        gone.setdefault((label_ids[name], SOLE - (pair_id >> _PAGE_BITS)), []).append(pair_id & _LOW)
    put, dropped = [], []
    for label_id, chunk, blob in _held(connection, gone):
        low, owners = _unpacked(blob)
        kept = ~np.isin(low, gone[label_id, chunk])
        if not kept.any():
            dropped.append((label_id, chunk))
        elif not kept.all():
            put.append((label_id, chunk, _packed(low[kept], owners[kept])))
    if put:
        connection.exec_driver_sql(_PUT, put)
    if dropped:
        connection.exec_driver_sql(_DROP, dropped)


def sole_series(connection: Connection, label_id: int, pair_ids: IntArray) -> tuple[IntArray, IntArray]:
    """The series of those of the label's pairs, int64[n], that one series alone carries, and the other
    pairs: int64[k] and int64[n - k], in any order."""
    pair_ids = np.sort(pair_ids)
    owners = np.full(len(pair_ids), -1, dtype=np.int64)
    for chunk, blob in connection.execute(_ROWS, {"label": label_id, "sole": SOLE}):
        base = SOLE - chunk << _PAGE_BITS
        first, end = np.searchsorted(pair_ids, [base, base + PAGE_PAIRS]).tolist()
        if first < end:
            of_page = np.full(PAGE_PAIRS, -1, dtype=np.int64)
            low, series = _unpacked(blob)
            of_page[low] = series
            owners[first:end] = of_page[pair_ids[first:end] - base]
    alone = owners >= 0
    return owners[alone], pair_ids[~alone]


def _held(connection: Connection, keys: Iterable[tuple[int, int]]) -> list[tuple[int, int, bytes]]:
    wanted = list(keys)
    if not wanted:
        return []
    return [(row[0], row[1], row[2]) for row in connection.execute(_HELD, {"keys": to_json(wanted)})]


def _packed(low: IntArray, owners: IntArray) -> bytes:
    return low.astype(_WORD).tobytes() + owners.astype(_ID).tobytes()


def _unpacked(blob: bytes) -> tuple[IntArray, IntArray]:
    count = len(blob) // (_WORD.itemsize + _ID.itemsize)
    low = np.frombuffer(blob, dtype=_WORD, count=count).astype(np.int64)
    return low, np.frombuffer(blob, dtype=_ID, offset=count * _WORD.itemsize).astype(np.int64)
