"""The head: samples that are not in blocks yet, one row per scrape (dense) or per batch with own timestamps
(sparse).

Rows up to `store_state.sealed_seq` are in blocks already and only wait for being deleted.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from sqlalchemy import Connection

from db.engine import driver
from db.index import intern_series
from db.nan import ABSENT, FloatArray, IntArray, is_absent
from db.pieces import Piece, columns_of, layers
from db.records import FIRST_MS, LAST_MS, DenseAppend, SparseAppend
from db.series_ids import SeriesIds
from db.store_state import StoreState, newest_seq, places_changed

ITEM_BYTES = 8
FLOAT = np.dtype("<f8")
INT = np.dtype("<i8")
# A sparse row is split to fit: it stays under the 1 MB that a transaction of the maintainer may have.
_SPARSE_ROW_SAMPLES = 1 << 15

_ADD_LAYOUT = "INSERT INTO layout (key, ended) VALUES (?, 0)"
_END_LAYOUT = "UPDATE layout SET ended = 1 WHERE id = ?"
_ADD_SLOT = "INSERT OR REPLACE INTO layout_slot (series_id, layout_id, slot) VALUES (?, ?, ?)"
_ADD_DENSE = "INSERT INTO head_dense (seq, layout_id, ts, data) VALUES (?, ?, ?, ?)"
_ADD_SPARSE = (
    "INSERT INTO head_sparse (seq, ts_min, ts_max, series_ids, timestamps, data) VALUES (?, ?, ?, ?, ?, ?)"
)
_SLOTS = (
    "SELECT layout_id, slot, series_id FROM layout_slot "
    "WHERE series_id IN (SELECT value FROM json_each(?)) ORDER BY layout_id, slot"
)
# CROSS JOIN keeps SQLite from reading all rows first. The rows come layout by layout and by time, as the
# index has them; to ask for it would make SQLite sort them, and nothing breaks if they did not.
_DENSE = (
    "SELECT h.layout_id, h.seq, h.ts, coalesce(substr(h.data, ?, ?), x'') "
    "FROM json_each(?) AS j CROSS JOIN head_dense AS h "
    "WHERE h.layout_id = j.value AND h.ts BETWEEN ? AND ? AND h.seq > ?"
)
_SPARSE = (
    "SELECT seq, series_ids, timestamps, data FROM head_sparse WHERE ts_max >= ? AND ts_min <= ? AND seq > ?"
)


@dataclass(slots=True)
class LayoutLengths:
    """What this process knows of the layouts it writes: key -> (id, number of slots)."""

    known: dict[str, tuple[int, int]] = field(default_factory=dict)


def write_appends(
    connection: Connection,
    appends: Sequence[DenseAppend | SparseAppend],
    lengths: LayoutLengths,
    series_ids: SeriesIds,
) -> dict[str, tuple[int, int]]:
    """Write the appends in their order inside the caller's transaction.

    Returns the layouts as they will be known once the transaction has committed.
    Raises ValueError when an append's values do not fit its series.
    """
    if not appends:
        return {}
    seq = newest_seq(connection) + 1
    layouts: dict[str, tuple[int, int]] = {}
    dense: list[tuple[int, int, int, bytes]] = []
    # All at once: a first scrape of many targets costs half as much as one by one.
    new_series = [
        labels for append in appends if isinstance(append, DenseAppend) for labels in append.new_series
    ]
    new_ids = intern_series(connection, new_series).tolist()
    used = 0
    for append in appends:
        if isinstance(append, SparseAppend):
            seq += _write_sparse(connection, append, seq, series_ids)
            continue
        layout_id, length = layouts.get(append.layout_key) or lengths.known.get(append.layout_key) or (0, 0)
        if layout_id == 0:
            layout_id = int(connection.exec_driver_sql(_ADD_LAYOUT, (append.layout_key,)).lastrowid)
        if append.new_series:
            ids = new_ids[used : used + len(append.new_series)]
            used += len(ids)
            slots = [(series_id, layout_id, length + offset) for offset, series_id in enumerate(ids)]
            connection.exec_driver_sql(_ADD_SLOT, slots)
            length += len(ids)
        if not FIRST_MS <= append.timestamp_ms <= LAST_MS:
            raise ValueError("a timestamp is farther from 1970 than any clock")
        if len(append.values) != length:
            raise ValueError(f"{append.layout_key}: {len(append.values)} values for {length} series")
        if append.ends:
            connection.exec_driver_sql(_END_LAYOUT, (layout_id,))
        layouts[append.layout_key] = (layout_id, length)
        data = np.ascontiguousarray(append.values, dtype=FLOAT).tobytes()
        dense.append((seq, layout_id, append.timestamp_ms, data))
        seq += 1
    if dense:
        connection.exec_driver_sql(_ADD_DENSE, dense)
    if new_series:
        places_changed(connection)
    return layouts


def end_layouts(connection: Connection, keep: Sequence[int]) -> None:
    """Mark all layouts but those of `keep` as ended."""
    connection.exec_driver_sql(
        "UPDATE layout SET ended = 1 WHERE NOT ended AND id NOT IN (SELECT value FROM json_each(?))",
        (json.dumps(list(keep)),),
    )


def _write_sparse(connection: Connection, append: SparseAppend, seq: int, series_ids: SeriesIds) -> int:
    """Returns the number of rows."""
    count = len(append.timestamps)
    index = np.arange(len(append.series)) if append.index is None else append.index
    if not len(index) == count == len(append.values):
        raise ValueError(f"{len(index)} series, {count} timestamps, {len(append.values)} values")
    if count == 0:
        return 0
    if append.timestamps.min() < FIRST_MS or append.timestamps.max() > LAST_MS:
        raise ValueError("a timestamp is farther from 1970 than any clock")
    if index.min() < 0 or index.max() >= len(append.series):
        raise ValueError("a sample names a series that the append does not have")
    ids = series_ids.of(connection, append.series)[index].astype(INT)
    timestamps = np.ascontiguousarray(append.timestamps, dtype=INT)
    values = np.ascontiguousarray(append.values, dtype=FLOAT)
    rows: list[tuple[int, int, int, bytes, bytes, bytes]] = []
    for first in range(0, count, _SPARSE_ROW_SAMPLES):
        part = slice(first, first + _SPARSE_ROW_SAMPLES)
        ts = timestamps[part]
        columns = (ids[part].tobytes(), ts.tobytes(), values[part].tobytes())
        rows.append((seq + len(rows), int(ts.min()), int(ts.max()), *columns))
    connection.exec_driver_sql(_ADD_SPARSE, rows)
    return len(rows)


def read_head(
    connection: Connection,
    state: StoreState,
    ids: IntArray,
    slots: Sequence["WantedSlots"],
    start_ms: int,
    end_ms: int,
) -> list[Piece]:
    """What the head holds of the series (sorted ids, and where they are in dense rows) in [start_ms, end_ms],
    both ends included."""
    return [
        *_dense_pieces(connection, state, slots, start_ms, end_ms),
        *_sparse_pieces(connection, state, ids, start_ms, end_ms),
    ]


@dataclass(frozen=True, slots=True)
class WantedSlots:
    """The slots of one layout that a read needs: only their span of each row is fetched.

    offsets: int64[series], slot - first_slot, ascending. series_ids: int64[series]; places: int64[series],
    where these are among the ids that were asked for.
    """

    layout_id: int
    first_slot: int
    width: int
    offsets: IntArray
    series_ids: IntArray
    places: IntArray


@dataclass(frozen=True, slots=True)
class Gathering:
    """number: int64[series], the layout of each series. at: int64[series], where its value is among those of
    all rows; None where that is its own place."""

    number: IntArray
    at: IntArray | None


@dataclass(eq=False)
class SlotPlan:
    """Where the series of a selection are in dense rows, layout by layout and as columns: for each of all
    slots the number of its layout in `layouts`, the slot, and the series' place in the selection."""

    layouts: Sequence[WantedSlots]
    number: IntArray
    slot: IntArray
    place: IntArray
    repeated: bool  # is some series in several layouts?
    _gathering: "tuple[tuple[int, ...], Gathering | None] | None" = field(default=None, repr=False)

    @cached_property
    def layout_ids(self) -> str:
        """As a JSON array, which is how they are asked for."""
        return json.dumps([item.layout_id for item in self.layouts])

    def gathering(self, row_bytes: tuple[int, ...], count: int) -> "Gathering | None":
        """How to take the values of a selection of so many series from a row of each layout, joined, when
        these have so many bytes; None where some series is in none of them or in several. Remembered, since
        rows seldom change their length."""
        held = self._gathering
        if held is None or held[0] != row_bytes:
            held = self._gathering = (
                row_bytes,
                self._gathered([size // ITEM_BYTES for size in row_bytes], count),
            )
        return held[1]

    def _gathered(self, lengths: Sequence[int], count: int) -> "Gathering | None":
        all_there = not self.repeated and len(self.place) == count and len(lengths) == len(self.layouts)
        size = np.array(lengths, dtype=np.int64)
        if not all_there or not bool((self.slot < size[self.number]).all()):
            return None
        by_place = np.argsort(self.place)
        at: IntArray = (np.cumsum(size)[self.number] - size[self.number] + self.slot)[by_place]
        in_order = count == sum(lengths) and bool((at == np.arange(count)).all())
        return Gathering(self.number[by_place], None if in_order else at)

    @classmethod
    def of(cls, layouts: Sequence[WantedSlots]) -> "SlotPlan":
        none = np.empty(0, dtype=np.int64)
        place = np.concatenate([none, *[item.places for item in layouts]])
        return cls(
            layouts,
            np.repeat(np.arange(len(layouts)), [len(item.offsets) for item in layouts]),
            np.concatenate([none, *[item.offsets + item.first_slot for item in layouts]]),
            place,
            len(np.unique(place)) < len(place),
        )


def wanted_slots(connection: Connection, ids: IntArray) -> list[WantedSlots]:
    """Where the series (sorted ids) are in dense rows."""
    rows = driver(connection).execute(_SLOTS, (json.dumps(ids.tolist()),)).fetchall()
    if not rows:
        return []
    table = np.array(rows, dtype=np.int64)
    starts = np.flatnonzero(np.diff(table[:, 0], prepend=table[0, 0] - 1))
    found = []
    for part in np.split(table, starts[1:]):
        first, last = int(part[0, 1]), int(part[-1, 1])
        places = np.searchsorted(ids, part[:, 2])
        offsets = part[:, 1] - first
        found.append(WantedSlots(int(part[0, 0]), first, last - first + 1, offsets, part[:, 2], places))
    return found


def _dense_pieces(
    connection: Connection, state: StoreState, wanted: Sequence["WantedSlots"], start_ms: int, end_ms: int
) -> Iterator[Piece]:
    if not wanted:
        return
    layouts = {slots.layout_id: slots for slots in wanted}
    by_span: dict[tuple[int, int], list[int]] = {}
    for slots in wanted:
        by_span.setdefault((slots.first_slot, slots.width), []).append(slots.layout_id)
    rows = []
    for (first, width), layout_ids in by_span.items():
        # SQL counts from 1.
        part = (first * ITEM_BYTES + 1, width * ITEM_BYTES, json.dumps(layout_ids))
        rows += driver(connection).execute(_DENSE, (*part, start_ms, end_ms, state.sealed_seq)).fetchall()
    if not rows:
        return
    layout_of, order, timestamps = np.array([row[:3] for row in rows], dtype=np.int64).T.copy()
    starts = np.flatnonzero(np.diff(layout_of, prepend=layout_of[0] - 1))
    counts = np.diff(np.append(starts, len(rows)))
    parts = [layouts[layout_id] for layout_id in layout_of[starts].tolist()]
    if (counts == counts[0]).all() and _alike(parts, rows):
        # Targets of one kind scraped at one pace: all at once.
        shape = (len(parts), int(counts[0]))
        times, orders = timestamps.reshape(shape), order.reshape(shape)
        held = np.frombuffer(b"".join([row[3] for row in rows]), dtype=FLOAT).reshape(*shape, parts[0].width)
        values = held[:, :, parts[0].offsets].transpose(0, 2, 1)
        if (times[:, 1:] > times[:, :-1]).all() and not is_absent(values).any():
            for number, slots in enumerate(parts):
                yield Piece(slots.series_ids, times[number], values[number], orders[number])
            return
    for first, count, slots in zip(starts.tolist(), counts.tolist(), parts, strict=True):
        end = first + count
        matrix = row_matrix([row[3] for row in rows[first:end]], slots.width)[:, slots.offsets].T
        ids, absent = slots.series_ids, is_absent(matrix)
        if absent.any():
            there = ~absent.all(axis=1)
            ids, matrix = ids[there], matrix[there]
        if len(ids):
            yield from layers(ids, timestamps[first:end], matrix, order[first:end])


def _alike(parts: Sequence["WantedSlots"], rows: Sequence[tuple[int, int, int, bytes]]) -> bool:
    """Are the same slots wanted of all layouts, and does no row end before them?"""
    first = parts[0]
    full = first.width * ITEM_BYTES
    return all(
        slots.width == first.width and np.array_equal(slots.offsets, first.offsets) for slots in parts
    ) and all(len(row[3]) == full for row in rows)


def row_matrix(blobs: Sequence[bytes], width: int) -> FloatArray:
    """float64[rows, width]; rows written before the layout grew are shorter: their tail is absent."""
    full = width * ITEM_BYTES
    if all(len(blob) == full for blob in blobs):
        return np.frombuffer(b"".join(blobs), dtype=FLOAT).reshape(len(blobs), width)
    matrix = np.full((len(blobs), width), ABSENT, dtype=np.float64)
    for row, blob in enumerate(blobs):
        values = np.frombuffer(blob, dtype=FLOAT)
        matrix[row, : len(values)] = values
    return matrix


def _sparse_pieces(
    connection: Connection, state: StoreState, ids: IntArray, start_ms: int, end_ms: int
) -> list[Piece]:
    rows = driver(connection).execute(_SPARSE, (start_ms, end_ms, state.sealed_seq)).fetchall()
    parts = []
    for seq, series_blob, ts_blob, data in rows:
        series_ids = np.frombuffer(series_blob, dtype=INT)
        timestamps = np.frombuffer(ts_blob, dtype=INT)
        wanted = np.isin(series_ids, ids) & (timestamps >= start_ms) & (timestamps <= end_ms)
        if wanted.any():
            parts.append((series_ids[wanted], timestamps[wanted], np.frombuffer(data, FLOAT)[wanted], seq))
    return sparse_pieces(parts)


def sparse_pieces(parts: Sequence[tuple[IntArray, IntArray, FloatArray, int]]) -> list[Piece]:
    """Pieces of sparse rows: (series ids, timestamps, values, seq) each; within a row the last one wins."""
    if not parts:
        return []
    # A row's samples are ordered by their position, which the sorts in columns_of keep.
    order = np.concatenate([np.full(len(part[0]), part[3], dtype=np.int64) for part in parts])
    return columns_of(
        np.concatenate([part[0] for part in parts]),
        np.concatenate([part[1] for part in parts]),
        np.concatenate([part[2] for part in parts]),
        order,
    )
