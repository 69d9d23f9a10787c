"""The head: recent samples, one row per scrape (dense) or per batch with own timestamps (sparse).

Reading assembles, per series, what several layouts and sparse rows hold; where two rows give the same
series and timestamp, the one written last wins. Sealed blocks (to come) are a third kind of piece.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
from sqlalchemy import Connection, insert, text

from db.index import intern_series
from db.labels import Labels
from db.models import HeadDenseRow, HeadSparseRow, LayoutRow
from db.nan import ABSENT, BoolArray, FloatArray, IntArray, is_absent
from db.records import DenseAppend, SparseAppend

_ITEM_BYTES = 8
# Order of writing = row's sequence * this + position in the row: a sparse row is split to fit.
_POSITIONS_PER_ROW = 1 << 16
_FLOAT = np.dtype("<f8")
_INT = np.dtype("<i8")

_ADD_SLOT = "INSERT OR REPLACE INTO layout_slot (series_id, layout_id, slot) VALUES (?, ?, ?)"
_SLOTS = text(
    "SELECT layout_id, slot, series_id FROM layout_slot "
    "WHERE series_id IN (SELECT value FROM json_each(:ids)) ORDER BY layout_id, slot"
)
_DENSE = text(
    "SELECT seq, ts, coalesce(substr(data, :first, :length), x'') FROM head_dense "
    "WHERE layout_id = :layout AND ts BETWEEN :start AND :end ORDER BY ts, seq"
)
_DENSE_NEWEST = text(
    "SELECT seq, ts, coalesce(substr(data, :first, :length), x'') FROM head_dense "
    "WHERE layout_id = :layout AND ts BETWEEN :start AND :end ORDER BY ts DESC, seq DESC LIMIT 1"
)
_NEWEST_SEQUENCE = text(
    "SELECT max((SELECT coalesce(max(seq), 0) FROM head_dense), "
    "(SELECT coalesce(max(seq), 0) FROM head_sparse))"
)
_SPARSE = text(
    "SELECT seq, series_ids, timestamps, data FROM head_sparse WHERE ts_max >= :start AND ts_min <= :end"
)


@dataclass(slots=True)
class LayoutLengths:
    """What this process knows of the layouts it writes: key -> (id, number of slots)."""

    known: dict[str, tuple[int, int]] = field(default_factory=dict)


def write_dense(
    connection: Connection, appends: Sequence[DenseAppend], lengths: LayoutLengths
) -> dict[str, tuple[int, int]]:
    """Write one row for each append inside the caller's transaction.

    Returns the layouts as they will be known once the transaction has committed.
    Raises ValueError when an append's values do not fit its series order.
    """
    layouts: dict[str, tuple[int, int]] = {}
    rows: list[dict[str, object]] = []
    sequence = _next_sequence(connection)
    for append in appends:
        layout_id, length = layouts.get(append.layout_key) or lengths.known.get(append.layout_key) or (0, 0)
        if layout_id == 0:
            result = connection.execute(insert(LayoutRow), {"key": append.layout_key})
            layout_id = int(result.inserted_primary_key[0])  # type: ignore[index]  # an insert has one
        if append.new_series:
            ids = intern_series(connection, append.new_series)
            connection.exec_driver_sql(
                _ADD_SLOT,
                [(series_id, layout_id, length + offset) for offset, series_id in enumerate(ids.tolist())],
            )
            length += len(append.new_series)
        if len(append.values) != length:
            raise ValueError(f"{append.layout_key}: {len(append.values)} values for {length} series")
        layouts[append.layout_key] = (layout_id, length)
        data = np.ascontiguousarray(append.values, dtype=_FLOAT).tobytes()
        rows.append(
            {"seq": sequence + len(rows), "layout_id": layout_id, "ts": append.timestamp_ms, "data": data}
        )
    if rows:
        connection.execute(insert(HeadDenseRow), rows)
    return layouts


def write_sparse(connection: Connection, append: SparseAppend) -> None:
    """Write samples with timestamps of their own inside the caller's transaction."""
    if len(append.series) == 0:
        return
    distinct: dict[Labels, int] = {}
    positions = [distinct.setdefault(labels, len(distinct)) for labels in append.series]
    ids = intern_series(connection, list(distinct))[positions].astype(_INT)
    timestamps = np.ascontiguousarray(append.timestamps, dtype=_INT)
    values = np.ascontiguousarray(append.values, dtype=_FLOAT)
    sequence = _next_sequence(connection)
    rows: list[dict[str, object]] = []
    for first in range(0, len(ids), _POSITIONS_PER_ROW):
        part = slice(first, first + _POSITIONS_PER_ROW)
        rows.append(
            {
                "seq": sequence + len(rows),
                "ts_min": int(timestamps[part].min()),
                "ts_max": int(timestamps[part].max()),
                "series_ids": ids[part].tobytes(),
                "timestamps": timestamps[part].tobytes(),
                "data": values[part].tobytes(),
            }
        )
    connection.execute(insert(HeadSparseRow), rows)


def _next_sequence(connection: Connection) -> int:
    """One counter for both kinds of row, so that "written last" has a meaning across them."""
    return int(connection.execute(_NEWEST_SEQUENCE).scalar_one()) + 1


@dataclass(frozen=True, slots=True)
class Piece:
    """Samples of one series from one place, in any order; `sequence` is the order of writing."""

    timestamps: IntArray
    values: FloatArray
    sequence: IntArray


def read_pieces(connection: Connection, ids: IntArray, start_ms: int, end_ms: int) -> dict[int, list[Piece]]:
    """Every stored piece of the series in [start_ms, end_ms], both ends included."""
    found: dict[int, list[Piece]] = {}
    for layout in _layouts_of(connection, ids):
        rows = connection.execute(_DENSE, layout.bounds(start_ms, end_ms)).all()
        if not rows:
            continue
        timestamps = np.array([row[1] for row in rows], dtype=np.int64)
        sequence = np.array([row[0] for row in rows], dtype=np.int64) * _POSITIONS_PER_ROW
        matrix = _matrix([row[2] for row in rows], layout.width)
        for offset, series_id in zip(layout.offsets, layout.series_ids, strict=True):
            column = matrix[:, offset]
            present = ~is_absent(column)
            if present.all():
                found.setdefault(series_id, []).append(Piece(timestamps, column, sequence))
            elif present.any():
                piece = Piece(timestamps[present], column[present], sequence[present])
                found.setdefault(series_id, []).append(piece)
    for series_id, piece in _sparse_pieces(connection, ids, start_ms, end_ms):
        found.setdefault(series_id, []).append(piece)
    return found


def read_newest(
    connection: Connection, ids: IntArray, start_ms: int, end_ms: int
) -> dict[int, tuple[int, float]]:
    """Newest (timestamp, value) of each series in [start_ms, end_ms], staleness markers included.

    A dense row decides for all its series: a slot without sample in the newest row got its staleness
    marker in an earlier one, so older rows need to be read only for series that the newest lacks.
    """
    newest: dict[int, tuple[int, int, float]] = {}

    def offer(series_id: int, timestamp: int, sequence: int, value: float) -> None:
        held = newest.get(series_id)
        if held is None or (timestamp, sequence) > held[:2]:
            newest[series_id] = (timestamp, sequence, value)

    for layout in _layouts_of(connection, ids):
        row = connection.execute(_DENSE_NEWEST, layout.bounds(start_ms, end_ms)).first()
        if row is None:
            continue
        values = _matrix([row[2]], layout.width)[0, layout.offsets]
        absent = is_absent(values)
        for series_id, value, missing in zip(layout.series_ids, values, absent, strict=True):
            if not missing:
                offer(series_id, row[1], row[0] * _POSITIONS_PER_ROW, value)
        if absent.any():
            older = connection.execute(_DENSE, layout.bounds(start_ms, end_ms)).all()
            matrix = _matrix([item[2] for item in older], layout.width)[:, layout.offsets]
            present = ~is_absent(matrix)
            for column in np.flatnonzero(absent & present.any(axis=0)):
                at = int(np.flatnonzero(present[:, column])[-1])
                written = older[at][0] * _POSITIONS_PER_ROW
                offer(layout.series_ids[column], older[at][1], written, matrix[at, column])
    for series_id, piece in _sparse_pieces(connection, ids, start_ms, end_ms):
        at = int(np.lexsort((piece.sequence, piece.timestamps))[-1])
        offer(series_id, int(piece.timestamps[at]), int(piece.sequence[at]), piece.values[at])
    return {series_id: (timestamp, value) for series_id, (timestamp, _, value) in newest.items()}


def merge(pieces: Sequence[Piece]) -> tuple[IntArray, FloatArray]:
    """One series' pieces in time order; of equal timestamps the one written last."""
    if len(pieces) == 1:
        timestamps, values, sequence = pieces[0].timestamps, pieces[0].values, pieces[0].sequence
        if len(timestamps) < 2 or bool(np.all(timestamps[1:] > timestamps[:-1])):
            return timestamps, values
    else:
        timestamps = np.concatenate([piece.timestamps for piece in pieces])
        values = np.concatenate([piece.values for piece in pieces])
        sequence = np.concatenate([piece.sequence for piece in pieces])
    order = np.lexsort((sequence, timestamps))
    timestamps, values = timestamps[order], values[order]
    last: BoolArray = np.append(timestamps[1:] != timestamps[:-1], True)
    return timestamps[last], values[last]


@dataclass(frozen=True, slots=True)
class _WantedSlots:
    """The slots of one layout that a read needs: only their span of each row is fetched."""

    layout_id: int
    first_slot: int
    width: int
    offsets: IntArray
    series_ids: list[int]

    def bounds(self, start_ms: int, end_ms: int) -> dict[str, int]:
        first = self.first_slot * _ITEM_BYTES + 1  # SQL counts from 1
        return {
            "layout": self.layout_id,
            "first": first,
            "length": self.width * _ITEM_BYTES,
            "start": start_ms,
            "end": end_ms,
        }


def _layouts_of(connection: Connection, ids: IntArray) -> Iterator[_WantedSlots]:
    by_layout: dict[int, list[tuple[int, int]]] = {}
    for row in connection.execute(_SLOTS, {"ids": json.dumps(ids.tolist())}):
        by_layout.setdefault(row[0], []).append((row[1], row[2]))
    for layout_id, slots in by_layout.items():
        first, last = slots[0][0], slots[-1][0]
        offsets = np.array([slot - first for slot, _ in slots], dtype=np.int64)
        yield _WantedSlots(layout_id, first, last - first + 1, offsets, [item[1] for item in slots])


def _matrix(blobs: Sequence[bytes], width: int) -> FloatArray:
    """float64[rows, width]; rows written before the layout grew are shorter: their tail is absent."""
    full = width * _ITEM_BYTES
    if all(len(blob) == full for blob in blobs):
        return np.frombuffer(b"".join(blobs), dtype=_FLOAT).reshape(len(blobs), width)
    matrix = np.full((len(blobs), width), ABSENT, dtype=np.float64)
    for row, blob in enumerate(blobs):
        values = np.frombuffer(blob, dtype=_FLOAT)
        matrix[row, : len(values)] = values
    return matrix


def _sparse_pieces(
    connection: Connection, ids: IntArray, start_ms: int, end_ms: int
) -> Iterator[tuple[int, Piece]]:
    for sequence, series_blob, ts_blob, data in connection.execute(
        _SPARSE, {"start": start_ms, "end": end_ms}
    ):
        series_ids = np.frombuffer(series_blob, dtype=_INT)
        timestamps = np.frombuffer(ts_blob, dtype=_INT)
        wanted = np.isin(series_ids, ids) & (timestamps >= start_ms) & (timestamps <= end_ms)
        if not wanted.any():
            continue
        at = np.flatnonzero(wanted)
        values = np.frombuffer(data, dtype=_FLOAT)
        order = sequence * _POSITIONS_PER_ROW + at
        for series_id in np.unique(series_ids[at]).tolist():
            mine = series_ids[at] == series_id
            yield series_id, Piece(timestamps[at][mine], values[at][mine], order[mine])
