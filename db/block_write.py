"""Encodes rectangles of samples into the rows of `block` and `timeline`, and inserts them.

Series of one group share timestamp vectors (lanes), which are stored once for all their metrics.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from sqlalchemy import Connection

from db.block_format import PackRows, pack
from db.block_read import bits_of
from db.bundles import BUNDLE_SERIES
from db.codec import NOTHING_SPECIAL, Special, encode_integers, encode_values
from db.nan import FloatArray, IntArray, is_absent

_LANES = 64  # as many as a set of lanes has bits
# A query for one series reads one row of `block` and one of `timeline` for every day: 30 days of it have to
# stay under 2 MB. Larger rows would compress no better: their frames hold some 100,000 values already.
_BLOCK_BYTES = 40_000
_TIMELINE_BYTES = 14_000
# Level of zstd by level of block: sealed head is soon written again, a day stays.
_ZSTD_LEVELS = (1, 1, 3)

_NEXT_TIMELINE = "SELECT next_timeline_id FROM store_state"
_TAKE_TIMELINE = "UPDATE store_state SET next_timeline_id = next_timeline_id + 1"
_FIND_TIMELINE = "SELECT 1 FROM timeline WHERE id = ? LIMIT 1"
_ADD_TIMELINE = "INSERT INTO timeline (id, part, lanes, data) VALUES (?, ?, ?, ?)"
_ADD_BLOCK = (
    "INSERT INTO block "
    "(bundle_id, level, window_ms, start_ms, end_ms, ord, members, timeline_id, lanes, data) "
    "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
)


@dataclass(slots=True)
class _LaneSet:
    """One id in `timeline`: vectors by their bytes, and those that are not stored yet."""

    timeline_id: int | None = None
    lanes: dict[bytes, int] = field(default_factory=dict)
    fresh: list[tuple[int, IntArray]] = field(default_factory=list)
    parts: int = 0


@dataclass(frozen=True, slots=True)
class NewBlock:
    """A block that is encoded and not inserted yet."""

    lanes: _LaneSet
    bundle_id: int
    order: int
    members: int
    lanes_used: int
    start_ms: int
    end_ms: int
    data: bytes


@dataclass(frozen=True, slots=True)
class _Rectangle:
    bundle: IntArray
    place: IntArray
    lanes: _LaneSet
    lane: int
    timestamps: IntArray
    values: FloatArray


@dataclass(frozen=True, slots=True)
class Batch:
    """Rectangles to be encoded together."""

    level: int
    order: int
    rectangles: list[_Rectangle]


class BlockWriter:
    """Takes rectangles of one group and one window; give it all series of a bundle before `encode`."""

    def __init__(self, level: int, window_ms: int, order: int) -> None:
        self._level = level
        self._window_ms = window_ms
        self.order = order
        self._sets: list[_LaneSet] = []
        self._rectangles: list[_Rectangle] = []
        self._blocks: list[NewBlock] = []
        self.bytes = 0

    def add(self, bundle: IntArray, place: IntArray, timestamps: IntArray, values: FloatArray) -> None:
        """bundle, place: int64[series]; timestamps: int64[n], ascending; values: float64[series, n]."""
        key = timestamps.tobytes()
        for lanes in self._sets:
            if key in lanes.lanes:
                break
        else:
            lanes = self._sets[-1] if self._sets else _LaneSet()
            if not self._sets or len(lanes.lanes) == _LANES:
                lanes = _LaneSet()
                self._sets.append(lanes)
            lanes.fresh.append((len(lanes.lanes), timestamps))
            lanes.lanes[key] = len(lanes.lanes)
        self._rectangles.append(_Rectangle(bundle, place, lanes, lanes.lanes[key], timestamps, values))

    def encode(self) -> None:
        """Turn what was added into blocks; `bytes` is then what `insert` will write."""
        self.accept(encode(self.pending()))

    def pending(self) -> "Batch":
        """What was added, for `encode` in another thread."""
        batch = Batch(self._level, self.order, self._rectangles)
        self._rectangles = []
        return batch

    def accept(self, blocks: Sequence[NewBlock]) -> None:
        """Take what `encode` made."""
        self._blocks.extend(blocks)
        self.bytes += sum(len(block.data) for block in blocks)

    def insert(self, connection: Connection, order: int | None = None, at_most: int | None = None) -> int:
        """Write what was encoded inside the caller's transaction, at_most so many bytes and one block;
        returns how many. order: the place in the order of writing, where it was not known before."""
        chosen: list[NewBlock] = []
        size = 0
        for block in self._blocks:
            if at_most is not None and chosen and size + len(block.data) > at_most:
                break
            chosen.append(block)
            size += len(block.data)
        for lanes in self._sets:
            if lanes.timeline_id is not None and self._is_gone(connection, lanes.timeline_id):
                lanes.fresh = [(lane, np.frombuffer(key, np.int64)) for key, lane in lanes.lanes.items()]
                lanes.timeline_id, lanes.parts = None, 0
            if lanes.timeline_id is None:
                lanes.timeline_id = int(connection.exec_driver_sql(_NEXT_TIMELINE).scalar_one())
                connection.exec_driver_sql(_TAKE_TIMELINE)
                self._insert_lanes(connection, lanes)
            elif lanes.fresh:
                self._insert_lanes(connection, lanes)
        rows = [
            (
                block.bundle_id,
                self._level,
                self._window_ms,
                block.start_ms,
                block.end_ms,
                block.order if order is None else order,
                block.members,
                block.lanes.timeline_id,
                block.lanes_used,
                block.data,
            )
            for block in chosen
        ]
        if rows:
            connection.exec_driver_sql(_ADD_BLOCK, rows)
        self._blocks = self._blocks[len(chosen) :]
        self.bytes -= size
        return size

    def _is_gone(self, connection: Connection, timeline_id: int) -> bool:
        """Retention and merging delete timelines whose blocks are gone, also while a load still writes."""
        return connection.exec_driver_sql(_FIND_TIMELINE, (timeline_id,)).first() is None

    def _insert_lanes(self, connection: Connection, lanes: _LaneSet) -> None:
        by_length: dict[int, list[tuple[int, IntArray]]] = {}
        for lane, timestamps in lanes.fresh:
            by_length.setdefault(len(timestamps), []).append((lane, timestamps))
        lanes.fresh = []
        parts = []
        for alike in by_length.values():
            coded = encode_integers(np.stack([timestamps for _, timestamps in alike]))
            numbers = np.array([lane for lane, _ in alike])
            parts.append(PackRows(numbers, np.zeros_like(numbers), coded, NOTHING_SPECIAL))
        rows = []
        for data, numbers in _packed(parts, _ZSTD_LEVELS[self._level], _TIMELINE_BYTES):
            rows.append((lanes.timeline_id, lanes.parts, bits_of(numbers), data))
            lanes.parts += 1
        connection.exec_driver_sql(_ADD_TIMELINE, rows)


def encode(batch: Batch) -> list[NewBlock]:
    """The batch as blocks. Several may be encoded at the same time, also of one writer."""
    parts: dict[tuple[int, int], list[PackRows]] = {}
    ends: dict[tuple[int, int], list[tuple[int, int]]] = {}
    sets = {id(item.lanes): item.lanes for item in batch.rectangles}
    by_length: dict[int, list[_Rectangle]] = {}
    for rectangle in batch.rectangles:
        by_length.setdefault(len(rectangle.timestamps), []).append(rectangle)
    for alike in by_length.values():
        values = np.concatenate([item.values for item in alike]) if len(alike) > 1 else alike[0].values
        values = np.ascontiguousarray(values)
        absent = is_absent(values)
        coded, special = encode_values(values, absent if absent.any() else None)
        number = np.repeat(np.arange(len(alike)), [len(item.bundle) for item in alike])
        bundle = np.concatenate([item.bundle for item in alike])
        place = np.concatenate([item.place for item in alike])
        lane = np.array([item.lane for item in alike])
        lanes = np.array([id(item.lanes) for item in alike])[number]
        order = np.lexsort((place, bundle, lanes))
        edges = np.flatnonzero(
            (np.diff(bundle[order], prepend=-1) != 0) | (np.diff(lanes[order], prepend=-1) != 0)
        )
        for rows in np.split(order, edges[1:]):
            key = (int(lanes[rows[0]]), int(bundle[rows[0]]))
            chosen = PackRows(place[rows], lane[number[rows]], coded.take(rows), _some(special, rows))
            parts.setdefault(key, []).append(chosen)
            times = [alike[index].timestamps for index in np.unique(number[rows]).tolist()]
            ends.setdefault(key, []).extend((int(item[0]), int(item[-1])) for item in times)
    blocks = []
    for (set_id, bundle_id), chosen_parts in parts.items():
        start_ms = min(first for first, _ in ends[set_id, bundle_id])
        end_ms = max(last for _, last in ends[set_id, bundle_id])
        lane_of = np.zeros(BUNDLE_SERIES, dtype=np.int64)
        for part in chosen_parts:
            lane_of[part.places] = part.lanes
        for data, places in _packed(chosen_parts, _ZSTD_LEVELS[batch.level], _BLOCK_BYTES):
            lanes_used = bits_of(np.unique(lane_of[places]))
            blocks.append(
                NewBlock(
                    sets[set_id],
                    bundle_id,
                    batch.order,
                    bits_of(places),
                    lanes_used,
                    start_ms,
                    end_ms,
                    data,
                )
            )
    return blocks


def _some(special: Special, rows: IntArray) -> Special:
    """What is special among these rows, numbered anew; rows in any order."""
    if special is NOTHING_SPECIAL:
        return special
    holes = None if special.holes is None else special.holes[rows]
    if holes is not None and not holes.any():
        holes = None
    if not len(special.rows):
        return Special(holes, special.rows, special.columns, special.bits)
    sorting = np.argsort(rows)
    at = np.searchsorted(rows, special.rows, sorter=sorting)
    at[at == len(rows)] = 0
    mine = rows[sorting[at]] == special.rows
    return Special(holes, sorting[at[mine]], special.columns[mine], special.bits[mine])


def _packed(parts: Sequence[PackRows], level: int, limit: int) -> list[tuple[bytes, IntArray]]:
    """Blocks of at most about `limit` bytes, each with its places: rows of one class stay together."""
    data = pack(parts, level)
    places = np.concatenate([part.places for part in parts])
    if len(data) <= limit or len(places) == 1:
        return [(data, places)]
    number = np.repeat(np.arange(len(parts)), [len(part.places) for part in parts])
    row = np.concatenate([np.arange(len(part.places)) for part in parts])
    width = np.concatenate([part.coded.width for part in parts]).astype(np.int64)
    delta = np.concatenate([part.coded.delta for part in parts])
    lengths = np.array([part.coded.length for part in parts])[number]
    order = np.lexsort((places, width, delta))
    # What a row will take is not known before it is compressed: its width tells enough.
    sizes = (width * lengths + 1)[order]
    sizes = sizes * (len(data) / sizes.sum())
    bounds, held = [], 0.0
    for row_number, size in enumerate(sizes.tolist()):
        if held and held + size > limit:
            bounds.append(row_number)
            held = 0.0
        held += size
    found = []
    for some in np.split(order, bounds):
        chosen = []
        for index in np.unique(number[some]).tolist():
            rows = row[some[number[some] == index]]
            part = parts[index]
            chosen.append(
                PackRows(
                    part.places[rows], part.lanes[rows], part.coded.take(rows), _some(part.special, rows)
                )
            )
        found.append((pack(chosen, level), places[some]))
    return found
