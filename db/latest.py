"""The newest sample of many series: from the newest dense row of each target where that is the answer, else
from everything there is."""

from collections.abc import Sequence

import numpy as np
from sqlalchemy import Connection

from db.block_cache import BlockCache
from db.block_read import LONGEST_BLOCK_MS, decode, fetch, find_members
from db.engine import driver
from db.head import FLOAT, INT, ITEM_BYTES, SlotPlan, read_head, wanted_slots
from db.nan import ABSENT, BoolArray, FloatArray, IntArray, is_absent, is_stale
from db.pieces import assemble
from db.selection import Selection
from db.store_state import StoreState

# CROSS JOIN: one look into the index for each layout.
_NEWEST = (
    "SELECT j.key, h.ts, h.data, h.seq FROM json_each(?) AS j CROSS JOIN head_dense AS h "
    "WHERE h.seq = (SELECT n.seq FROM head_dense AS n WHERE n.layout_id = j.value "
    "AND n.ts <= ? AND n.ts >= ? "
    "AND n.seq > ? ORDER BY n.ts DESC, n.seq DESC LIMIT 1)"
)
# Bounded on both sides SQLite finds the few by their end, and does not walk all blocks bundle by bundle.
LATER_BLOCKS = "SELECT bundle_id, max(end_ms) FROM block WHERE end_ms BETWEEN ? AND ? GROUP BY bundle_id"
_LATER_SPARSE = "SELECT series_ids FROM head_sparse WHERE ts_max >= ? AND seq > ?"
_NEVER = np.iinfo(np.int64).min


def read_latest(
    connection: Connection,
    state: StoreState,
    selection: Selection,
    cache: BlockCache,
    start_ms: int,
    end_ms: int,
) -> tuple[IntArray, FloatArray]:
    """Newest timestamp and value of each series in [start_ms, end_ms], in the order of the selection's ids;
    ABSENT for series without a sample and for those that have ended."""
    plan = selection.slots(connection, state)
    rows = _newest_rows(connection, state, plan, start_ms, end_ms)
    whole = _whole_rows(plan, rows, len(selection.ids)) if len(rows) == len(plan.layouts) else None
    if whole is not None:
        times, values = whole
        unsure = np.zeros(len(times), dtype=np.bool_)
    else:
        times = np.full(len(selection.ids), _NEVER, dtype=np.int64)
        values = np.full(len(selection.ids), ABSENT, dtype=np.float64)
        unsure = _take_dense(plan, rows, times, values) if rows else np.ones(len(times), dtype=np.bool_)
    if rows:
        window = min([row[1] for row in rows]), end_ms
        unsure |= _later_elsewhere(connection, state, selection, window, times)
    open_series = np.flatnonzero(unsure)
    if len(open_series):
        _take_all(connection, state, selection, cache, open_series, (start_ms, end_ms), times, values)
    stale = is_stale(values)
    if stale.any():
        values[stale] = ABSENT
    return times, values


_Row = tuple[int, int, bytes, int]  # number among the slots, timestamp, values, place in the order of writing


def _newest_rows(
    connection: Connection, state: StoreState, plan: SlotPlan, start_ms: int, end_ms: int
) -> list[_Row]:
    """The newest row of each layout, in the order of the slots."""
    if not plan.layouts:
        return []
    bounds = (plan.layout_ids, end_ms, start_ms, state.sealed_seq)
    rows: list[_Row] = driver(connection).execute(_NEWEST, bounds).fetchall()
    rows.sort()
    return rows


def _whole_rows(plan: SlotPlan, rows: Sequence[_Row], count: int) -> tuple[IntArray, FloatArray] | None:
    """Timestamps and values of all series where there is nothing to decide: each is in one row."""
    if not rows:
        return None
    _, stamps, data, _ = zip(*rows, strict=True)
    gathering = plan.gathering(tuple(map(len, data)), count)
    if gathering is None:
        return None
    values = np.frombuffer(bytearray().join(data), FLOAT)
    if gathering.at is not None:
        values = values.take(gathering.at)
    if is_absent(values).any():
        return None
    return np.array(stamps, dtype=np.int64).take(gathering.number), values


def _later_elsewhere(
    connection: Connection,
    state: StoreState,
    selection: Selection,
    window: tuple[int, int],
    times: IntArray,
) -> BoolArray:
    """bool[ids]: of which series a block or a sparse row may hold a later sample than the dense rows, or one
    of that time that was written later. window: from the oldest of these rows to the end of the question."""
    oldest_ms, end_ms = window
    later = np.zeros(len(times), dtype=np.bool_)
    bounds = (oldest_ms, end_ms + LONGEST_BLOCK_MS)
    ends = dict(driver(connection).execute(LATER_BLOCKS, bounds).fetchall())
    if ends:
        for member in selection.members(connection, state):
            block_ends_ms = ends.get(member.bundle_id)
            if block_ends_ms is not None:
                at = selection.ids.searchsorted(member.ids)
                later[at] |= times[at] <= block_ends_ms
    for (series_ids,) in driver(connection).execute(_LATER_SPARSE, (oldest_ms, state.sealed_seq)):
        later |= np.isin(selection.ids, np.frombuffer(series_ids, INT))
    return later


def _take_dense(plan: SlotPlan, rows: Sequence[_Row], times: IntArray, values: FloatArray) -> BoolArray:
    """Fill in what the rows hold. Returns bool[ids]: for which series that need not be all, because a later
    row lacks them (they may have ended in a row between) or no row has them."""
    rows = sorted(rows, key=lambda row: (row[1], row[3]))  # oldest first
    numbers = [row[0] for row in rows]
    lengths = np.array([len(row[2]) for row in rows]) // ITEM_BYTES
    start, length, at_ms, rank = (np.zeros(len(plan.layouts), dtype=np.int64) for _ in range(4))
    start[numbers], length[numbers] = np.cumsum(lengths) - lengths, lengths
    at_ms[numbers], rank[numbers] = [row[1] for row in rows], np.arange(len(rows))
    number, slot, place = plan.number, plan.slot, plan.place
    if plan.repeated:  # of what is assigned to one place the last stays: the newest row
        order = np.argsort(rank[number], kind="stable")
        number, slot, place = number[order], slot[order], place[order]
    there = slot < length[number]  # not in a row that was written before the layout grew, or in no row at all
    held = np.frombuffer(b"".join([row[2] for row in rows]) + b"\0" * ITEM_BYTES, FLOAT)  # rows may be empty
    found = held[np.where(there, start[number] + slot, 0)]
    there &= ~is_absent(found)
    if there.all():
        times[place], values[place] = at_ms[number], found
        nothing: BoolArray = times == _NEVER
        return nothing
    missed = np.full(len(times), _NEVER, dtype=np.int64)
    missed[place[~there]] = at_ms[number[~there]]
    times[place[there]], values[place[there]] = at_ms[number[there]], found[there]
    unsure: BoolArray = (missed >= times) | (times == _NEVER)
    return unsure


def _take_all(
    connection: Connection,
    state: StoreState,
    selection: Selection,
    cache: BlockCache,
    rows: IntArray,
    window: tuple[int, int],
    times: IntArray,
    values: FloatArray,
) -> None:
    """Fill in the newest of everything there is, for these rows of the selection."""
    ids = selection.ids[rows]
    pieces = read_head(connection, state, ids, wanted_slots(connection, ids), *window)
    fetched = fetch(connection, state, find_members(connection, ids), *window, cache)
    pieces += decode(fetched.rows(), *window)
    for whole in assemble(pieces):
        there = ~is_absent(whole.values)
        some = there.any(axis=1)
        last = there.shape[1] - 1 - there[:, ::-1].argmax(axis=1)
        at = rows[np.searchsorted(ids, whole.ids[some])]
        times[at] = whole.timestamps[last[some]]
        values[at] = whole.values[some, last[some]]
