"""Finds the blocks that hold given series in a window, and reads no more of them than is asked for."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from sqlalchemy import Connection

from db.block_cache import BlockCache
from db.block_decode import decode_integers, decode_values
from db.block_format import LANES, BadBlock, Block
from db.engine import driver
from db.nan import IntArray
from db.pieces import Piece
from db.store_state import StoreState

HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS
# No block reaches over the end of its day: one that begins more than a day before cannot matter.
LONGEST_BLOCK_MS = DAY_MS
_ANY_ORDER = (1 << 63) - 1
ANY_TIME = (-(1 << 62), 1 << 62)
# So many float64 are decoded at a time: more would not fit the processor's caches.
_VALUES_AT_ONCE = 1 << 20

_MEMBERS = (
    "SELECT bundle_id, place, series_id FROM bundle_member "
    "WHERE series_id IN (SELECT value FROM json_each(?)) ORDER BY bundle_id, place"
)
_BLOCKS = (
    "SELECT b.id, b.bundle_id, b.ord, b.timeline_id, b.lanes "
    "FROM json_each(?) AS j CROSS JOIN block AS b "
    "WHERE b.bundle_id = json_extract(j.value, '$[0]') AND b.window_ms BETWEEN ? AND ? "
    "AND b.end_ms >= ? AND b.start_ms <= ? AND b.ord <> ? AND b.ord <= ? "
    "AND (b.members & json_extract(j.value, '$[1]')) <> 0 "
    "ORDER BY b.start_ms, b.ord"
)
_TIMELINES = (
    "SELECT t.id, t.data FROM json_each(?) AS j CROSS JOIN timeline AS t "
    "WHERE t.id = json_extract(j.value, '$[0]') AND (t.lanes & json_extract(j.value, '$[1]')) <> 0"
)


@dataclass(frozen=True, slots=True)
class FoundRows:
    """The rows of one block that are asked for.

    rows: int64[wanted], ascending. ids: int64[wanted]. timestamps: of each lane that these rows use.
    """

    block: Block
    rows: IntArray
    ids: IntArray
    order: int
    timeline_id: int
    timestamps: dict[int, IntArray]


def bits_of(places: IntArray) -> int:
    """The set of places or lanes (each 0..63) as a signed 64-bit integer, which is what SQLite has."""
    bits = int(np.bitwise_or.reduce(np.left_shift(np.uint64(1), places.astype(np.uint64))))
    return bits - (1 << 64) if bits >= 1 << 63 else bits


@dataclass(frozen=True, slots=True)
class Membership:
    """Series of one bundle: places int64[n] ascending, ids int64[n]."""

    bundle_id: int
    places: IntArray
    ids: IntArray


def find_members(connection: Connection, ids: IntArray) -> list[Membership]:
    """The bundles that the series are in."""
    rows = driver(connection).execute(_MEMBERS, (json.dumps(ids.tolist()),)).fetchall()
    if not rows:
        return []
    table = np.array(rows, dtype=np.int64)
    starts = np.flatnonzero(np.diff(table[:, 0], prepend=table[0, 0] - 1))
    return [Membership(int(part[0, 0]), part[:, 1], part[:, 2]) for part in np.split(table, starts[1:])]


@dataclass(frozen=True, slots=True)
class _Rows:
    """The rows of a block that are a member's, as in FoundRows. lengths: how many values the rows of each
    lane have, -1 where they do not agree."""

    member: Membership
    rows: IntArray
    ids: IntArray
    lengths: dict[int, int]


def _rows_of(block: Block, member: Membership) -> _Rows:
    """Remembered with the block: a page asks for the same series at every tick, and for hundreds of small
    blocks this takes as long as their values do."""
    held = block.remembered
    if isinstance(held, _Rows) and held.member is member:
        return held
    at = member.places.searchsorted(block.places)
    at[at == len(member.places)] = 0
    rows = np.flatnonzero(member.places[at] == block.places)
    lengths: dict[int, int] = {}
    for lane, length in zip(block.lanes[rows].tolist(), block.lengths[rows].tolist(), strict=True):
        lengths[lane] = length if lengths.get(lane, length) == length else -1
    found = block.remembered = _Rows(member, rows, member.ids[at[rows]], lengths)
    return found


@dataclass(frozen=True, slots=True)
class Fetched:
    """What a snapshot gave of some blocks; `rows` looks into it, when the snapshot is over.

    found: (block id, bundle id, place in the order of writing, timeline id), by time. timelines: what was not
    remembered of the timelines, as (id, bytes); lanes: timeline id -> lanes that the blocks use, as bits.
    """

    members: dict[int, Membership]
    found: Sequence[tuple[int, int, int, int]]
    blocks: dict[int, Block | bytes]
    timelines: Sequence[tuple[int, bytes]]
    vectors: dict[tuple[int, int], IntArray]
    lanes: dict[int, int]
    cache: BlockCache

    def rows(self) -> list[FoundRows]:
        """The rows of the members, not decoded yet. Raises BadBlock."""
        vectors = {**self.vectors, **self._read_timelines()}
        result = []
        for block_id, bundle_id, order, timeline_id in self.found:
            held = self.blocks[block_id]
            if isinstance(held, bytes):
                held = self.blocks[block_id] = self.cache.keep_block(block_id, held)
            mine = _rows_of(held, self.members[bundle_id])
            if not mine.lengths:
                continue
            timestamps = {lane: vectors.get((timeline_id, lane), _NO_TIMES) for lane in mine.lengths}
            if any(len(timestamps[lane]) != length for lane, length in mine.lengths.items()):
                raise BadBlock("its timestamps are missing, or not as many as its values")
            result.append(FoundRows(held, mine.rows, mine.ids, order, timeline_id, timestamps))
        return result

    def _read_timelines(self) -> dict[tuple[int, int], IntArray]:
        alike: dict[int, list[tuple[int, Block, IntArray]]] = {}
        for timeline_id, data in self.timelines:
            block = Block(data)
            mine = np.flatnonzero([self.lanes[timeline_id] >> int(place) & 1 for place in block.places])
            alike.setdefault(block.columns, []).append((timeline_id, block, mine))
        vectors = {}
        for columns, parts in alike.items():
            read, _ = decode_integers([part[1] for part in parts], [part[2] for part in parts], 0, columns)
            at = 0
            for timeline_id, block, mine in parts:
                for row in mine.tolist():
                    key = (timeline_id, int(block.places[row]))
                    vectors[key] = read[at, : block.lengths[row]].copy()  # not to hold all the others
                    self.cache.keep_timeline(key, vectors[key])
                    at += 1
        return vectors


_NO_TIMES: IntArray = np.empty(0, dtype=np.int64)


def fetch(
    connection: Connection,
    state: StoreState,
    members: Sequence[Membership],
    start_ms: int,
    end_ms: int,
    cache: BlockCache,
    newest: int = _ANY_ORDER,
) -> Fetched:
    """What blocks hold of the members with samples in [start_ms, end_ms].

    newest: blocks beyond that place in the order of writing are left out.
    """
    masks = json.dumps([(member.bundle_id, bits_of(member.places)) for member in members])
    bounds = (masks, start_ms - LONGEST_BLOCK_MS, end_ms, start_ms, end_ms, state.sealing_seq, newest)
    rows = driver(connection).execute(_BLOCKS, bounds).fetchall() if members else []
    lanes: dict[int, int] = {}
    for row in rows:
        lanes[row[3]] = lanes.get(row[3], 0) | row[4]
    blocks = cache.fetch_blocks(connection, [row[0] for row in rows])
    keys = [(key, lane) for key, bits in lanes.items() for lane in range(LANES) if bits >> lane & 1]
    vectors = cache.find_timelines(keys)
    missing = sorted({key for key, lane in keys if (key, lane) not in vectors})
    timelines: Sequence[tuple[int, bytes]] = []
    if missing:
        asked = json.dumps([(key, lanes[key]) for key in missing])
        timelines = driver(connection).execute(_TIMELINES, (asked,)).fetchall()
    by_bundle = {member.bundle_id: member for member in members}
    return Fetched(by_bundle, [row[:4] for row in rows], blocks, timelines, vectors, lanes, cache)


def decode(
    found: Sequence[FoundRows], start_ms: int = ANY_TIME[0], end_ms: int = ANY_TIME[1]
) -> Iterator[Piece]:
    """The rows as pieces, as far as they lie in [start_ms, end_ms]; one for each lane of a set of blocks."""
    alike: dict[tuple[int, int, int], list[FoundRows]] = {}
    for item in found:
        alike.setdefault((item.timeline_id, item.block.columns, item.order), []).append(item)
    for items in alike.values():
        timestamps = {lane: times for item in items for lane, times in item.timestamps.items()}
        spans = {
            lane: np.searchsorted(times, (start_ms, end_ms + 1)).tolist()
            for lane, times in timestamps.items()
        }
        spans = {lane: span for lane, span in spans.items() if span[0] < span[1]}
        if not spans:
            continue
        first, end = min(span[0] for span in spans.values()), max(span[1] for span in spans.values())
        rows_at_once = max(1, _VALUES_AT_ONCE // (end - first))
        for some in _batches(items, rows_at_once):
            values = decode_values([item.block for item in some], [item.rows for item in some], first, end)
            ids = np.concatenate([item.ids for item in some])
            lanes = np.concatenate([item.block.lanes[item.rows] for item in some])
            if (lanes[1:] < lanes[:-1]).any():  # lane by lane: then every piece is a slice
                by_lane = np.argsort(lanes, kind="stable")
                lanes, values, ids = lanes[by_lane], values[by_lane], ids[by_lane]
            starts = np.flatnonzero(lanes[1:] != lanes[:-1]) + 1
            edges = [0, *starts.tolist(), len(lanes)]
            for at, to in pairwise(edges):
                lane = int(lanes[at])
                if lane not in spans:
                    continue
                low, high = spans[lane]
                order = np.full(high - low, some[0].order, dtype=np.int64)
                chosen = values[at:to, low - first : high - first]
                yield Piece(ids[at:to], timestamps[lane][low:high], chosen, order)


def _batches(items: Sequence[FoundRows], rows: int) -> Iterator[list[FoundRows]]:
    batch: list[FoundRows] = []
    count = 0
    for item in items:
        if batch and count + len(item.rows) > rows:
            yield batch
            batch, count = [], 0
        batch.append(item)
        count += len(item.rows)
    yield batch
