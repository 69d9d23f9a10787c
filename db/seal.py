"""Moves the head into level-0 blocks, a stretch of the order of writing at a time.

The blocks are written in several small transactions and count for nobody until the last one, which makes
them count and the head rows not count any more. A process that dies in between leaves blocks of an `ord` that
never came to count; the next one deletes them and begins again.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from sqlalchemy import Connection, Engine

from db.block_read import DAY_MS, HOUR_MS
from db.block_write import BlockWriter
from db.bundles import Placer
from db.engine import driver, reading, writing
from db.head import FLOAT, INT, row_matrix, sparse_pieces
from db.nan import FloatArray, IntArray, is_absent
from db.pieces import Assembled, Piece, assemble, layers
from db.store_state import StoreState, read_state

WINDOW_MS = 2 * HOUR_MS
SPANS_MS = (WINDOW_MS, WINDOW_MS, DAY_MS)
"""Width of the windows of each level of blocks."""
# So much stays in the head: the newest sample of a target that is scraped every minute is found there.
KEPT_MS = 90_000
# Rows ahead of the clock by more than any source may be are old rows from before the clock was set back.
_AHEAD_MS = 15 * 60_000
# What one stretch reads: some ten times as much is in use while it is encoded.
STRETCH_BYTES = 24 * 1024 * 1024
# No transaction of maintenance may be longer: a scrape's commit waits for it.
TRANSACTION_BYTES = 1024 * 1024
_DELETED_ROWS = 128

_FIRST_TO_KEEP = (
    "SELECT min("
    "coalesce((SELECT seq FROM head_dense WHERE seq > :sealed AND ts > :cut AND ts < :ahead "
    "ORDER BY seq LIMIT 1), 9223372036854775807), "
    "coalesce((SELECT seq FROM head_sparse WHERE seq > :sealed AND ts_min > :cut AND ts_min < :ahead "
    "ORDER BY seq LIMIT 1), 9223372036854775807))"
)
_NEXT_LOAD = "SELECT min(seq) FROM load WHERE seq > ?"
_DENSE = "SELECT seq, layout_id, ts, data FROM head_dense WHERE seq > ? AND seq <= ? ORDER BY seq"
_SPARSE = "SELECT seq, series_ids, timestamps, data FROM head_sparse WHERE seq > ? AND seq <= ? ORDER BY seq"
_UNFINISHED = "SELECT id, timeline_id FROM block WHERE ord = ? AND level = 0 LIMIT ?"
_DELETE_BLOCKS = "DELETE FROM block WHERE id IN (SELECT value FROM json_each(?))"
_DELETE_TIMELINES = (
    "DELETE FROM timeline WHERE id IN (SELECT value FROM json_each(?)) "
    "AND NOT EXISTS (SELECT 1 FROM block WHERE block.timeline_id = timeline.id)"
)
_SLOTS = "SELECT series_id, slot FROM layout_slot WHERE layout_id = ? ORDER BY slot"


@dataclass(frozen=True, slots=True)
class _Stretch:
    """Head rows (sealed, end] of the order of writing."""

    end: int
    pieces: list[Piece]


def seal(engine: Engine, placer: Placer, now_ms: int, kept_ms: int = KEPT_MS) -> bool:
    """Seal one stretch of what is older than kept_ms; True when more of it is left."""
    _forget_unfinished(engine)
    with reading(engine) as connection:
        stretch = _next_stretch(connection, now_ms - kept_ms, now_ms + _AHEAD_MS)
    if stretch is None:
        return False
    if stretch.pieces:
        with writing(engine) as connection:
            connection.exec_driver_sql("UPDATE store_state SET sealing_seq = ?", (stretch.end,))
        _write_blocks(engine, placer, stretch)
    with writing(engine) as connection:
        connection.exec_driver_sql(
            "UPDATE store_state SET sealed_seq = ?, sealing_seq = NULL", (stretch.end,)
        )
        connection.exec_driver_sql("DELETE FROM load WHERE seq <= ?", (stretch.end,))
    delete_sealed_rows(engine)
    return True


def _next_stretch(connection: Connection, cut_ms: int, ahead_ms: int) -> _Stretch | None:
    state = read_state(connection)
    load = connection.exec_driver_sql(_NEXT_LOAD, (state.sealed_seq,)).scalar_one()
    if load == state.sealed_seq + 1:
        return _Stretch(load, [])
    bounds = {"sealed": state.sealed_seq, "cut": cut_ms, "ahead": ahead_ms}
    end = int(connection.exec_driver_sql(_FIRST_TO_KEEP, bounds).scalar_one()) - 1
    if load is not None:
        end = min(end, load - 1)
    dense, sparse, last = _read_rows(connection, state, end)
    if not dense and not sparse:
        # Nothing was written before the load since the last sealing.
        return _Stretch(load, []) if load is not None and end == load - 1 else None
    return _Stretch(last, [*_dense_pieces(connection, dense), *sparse_pieces(sparse)])


_SparseRow = tuple[IntArray, IntArray, FloatArray, int]
_DenseRow = tuple[int, int, int, bytes]


def _read_rows(
    connection: Connection, state: StoreState, end: int
) -> tuple[list[_DenseRow], list[_SparseRow], int]:
    """Both kinds of rows up to `end` or STRETCH_BYTES, and the number of the last one."""
    dense: list[_DenseRow] = []
    sparse: list[_SparseRow] = []
    size = 0
    for row in driver(connection).execute(_DENSE, (state.sealed_seq, end)):
        dense.append((row[0], row[1], row[2], row[3]))
        size += len(row[3])
        if size > STRETCH_BYTES:
            end = row[0]
            break
    size = 0
    for row in driver(connection).execute(_SPARSE, (state.sealed_seq, end)):
        columns = (np.frombuffer(row[1], INT), np.frombuffer(row[2], INT), np.frombuffer(row[3], FLOAT))
        sparse.append((*columns, row[0]))
        size += 3 * len(row[3])
        if size > STRETCH_BYTES:
            end = row[0]
            break
    dense = [row for row in dense if row[0] <= end]
    return dense, sparse, max([row[0] for row in dense[-1:]] + [row[3] for row in sparse[-1:]] + [0])


def _dense_pieces(connection: Connection, rows: Sequence[_DenseRow]) -> list[Piece]:
    by_layout: dict[int, list[_DenseRow]] = {}
    for row in rows:
        by_layout.setdefault(row[1], []).append(row)
    pieces: list[Piece] = []
    for layout_id, mine in by_layout.items():
        slots = driver(connection).execute(_SLOTS, (layout_id,)).fetchall()
        ids, slot = np.array(slots, dtype=np.int64).reshape(-1, 2).T
        width = max(len(row[3]) for row in mine) // FLOAT.itemsize
        values = row_matrix([row[3] for row in mine], width).T
        there = np.flatnonzero(~is_absent(values).all(axis=1))
        order = np.array([row[0] for row in mine], dtype=np.int64)
        timestamps = np.array([row[2] for row in mine], dtype=np.int64)
        # Slots may be without a series, where an order names one twice, and rows shorter than the order.
        if len(there) < width or not np.array_equal(slot, there):
            chosen = np.isin(slot, there)
            ids, values = ids[chosen], values[slot[chosen]]
        if len(ids):
            pieces.extend(layers(ids, timestamps, values, order))
    return pieces


def _write_blocks(engine: Engine, placer: Placer, stretch: _Stretch) -> None:
    wholes = assemble(stretch.pieces)
    places = placer.place(engine, [(whole.ids, len(whole.timestamps)) for whole in wholes])
    writers: dict[tuple[int, int], BlockWriter] = {}
    at = 0
    for whole in wholes:
        mine = slice(at, at + len(whole.ids))
        at += len(whole.ids)
        for group_id in np.unique(places.group[mine]).tolist():
            rows = np.flatnonzero(places.group[mine] == group_id)
            for window_ms, part in windows(whole, WINDOW_MS, rows):
                writer = writers.setdefault((group_id, window_ms), BlockWriter(0, window_ms, stretch.end))
                some = mine.start + part.ids
                writer.add(places.bundle[some], places.place[some], part.timestamps, part.values)
    pending: list[BlockWriter] = []
    for writer in writers.values():
        writer.encode()
        pending.append(writer)
        if sum(item.bytes for item in pending) > TRANSACTION_BYTES // 2:
            insert_all(engine, pending)
            pending = []
    insert_all(engine, pending)


def windows(whole: Assembled, span_ms: int, rows: IntArray | None = None) -> list[tuple[int, Assembled]]:
    """Cut along the windows of span_ms: (begin of the window, the part); series without a sample in a window
    are not in its part. The parts' `ids` are row numbers of the whole."""
    values = whole.values if rows is None else whole.values[rows]
    rows = np.arange(len(whole.ids)) if rows is None else rows
    number = whole.timestamps // span_ms
    starts = np.flatnonzero(np.diff(number, prepend=number[0] - 1))
    found = []
    for first, end in zip(starts.tolist(), [*starts[1:].tolist(), len(number)], strict=True):
        part = values[:, first:end]
        there = ~is_absent(part).all(axis=1)
        if there.any():
            mine = slice(None) if there.all() else there
            cut = Assembled(rows[mine], whole.timestamps[first:end], part[mine])
            found.append((int(number[first]) * span_ms, cut))
    return found


def insert_all(engine: Engine, writers: Sequence[BlockWriter]) -> None:
    """Insert what the writers encoded, in transactions of at most TRANSACTION_BYTES."""
    left = [writer for writer in writers if writer.bytes]
    while left:
        room = TRANSACTION_BYTES
        with writing(engine) as connection:
            while left and room > 0:
                room -= left[0].insert(connection, at_most=room)
                if left[0].bytes:
                    break
                left.pop(0)


def _forget_unfinished(engine: Engine) -> None:
    """Delete the blocks of a sealing that its process did not live to finish."""
    with reading(engine) as connection:
        state = read_state(connection)
    if state.sealing_seq == -1:
        return
    more = True
    while more:
        with writing(engine) as connection:
            rows = connection.exec_driver_sql(_UNFINISHED, (state.sealing_seq, _DELETED_ROWS)).fetchall()
            connection.exec_driver_sql(_DELETE_BLOCKS, (json.dumps([row[0] for row in rows]),))
            connection.exec_driver_sql(_DELETE_TIMELINES, (json.dumps([row[1] for row in rows]),))
            more = len(rows) == _DELETED_ROWS
            if not more:
                connection.exec_driver_sql("UPDATE store_state SET sealing_seq = NULL")


def delete_sealed_rows(engine: Engine) -> None:
    """Delete the head rows that are in blocks, a few at a time."""
    for table in ("head_dense", "head_sparse"):
        more = True
        while more:
            with writing(engine) as connection:
                more = _delete_some(connection, table)


def _delete_some(connection: Connection, table: str) -> bool:
    sealed = read_state(connection).sealed_seq
    rows = connection.exec_driver_sql(
        f"SELECT seq, length(data) FROM {table} WHERE seq <= ? ORDER BY seq LIMIT ?",  # noqa: S608 - ours
        (sealed, _DELETED_ROWS),
    ).fetchall()
    if not rows:
        return False
    size, last = 0, rows[0][0]
    for seq, length in rows:
        size += length
        if size > TRANSACTION_BYTES:
            break
        last = seq
    connection.exec_driver_sql(f"DELETE FROM {table} WHERE seq <= ?", (last,))  # noqa: S608 - as above
    return last < sealed and (len(rows) == _DELETED_ROWS or last < rows[-1][0])
