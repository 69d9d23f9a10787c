"""Lists series, label names and label values, as the HTTP API's calls of these names do.

A window is looked at as closely as the store's own parts allow: in the head a series counts when it has a
sample in the window, in blocks when a block overlaps the window that holds samples of it (a block covers
five minutes, two hours, or at most a day). Without matchers the window is not looked at: names and values are
those of all series that are kept, which is a lookup instead of a walk over all series.
"""

from collections.abc import Sequence

import numpy as np
from sqlalchemy import Connection, Engine, text

from db.block_read import LONGEST_BLOCK_MS, find_members
from db.damage import naming_damage
from db.engine import driver, reading
from db.head import FLOAT, INT, ITEM_BYTES, wanted_slots
from db.index import load_labels, match_series
from db.labels import Labels
from db.nan import BoolArray, IntArray, is_absent
from db.postings import CHUNK_BITS, unpack
from db.records import FIRST_MS, LAST_MS, Matcher
from db.series_text import to_json
from db.store_state import StoreState, read_state

Selector = Sequence[Matcher]

# Of so few series the labels are read; of more the postings of the label that is asked for.
_FEW_SERIES = 4_000
_POSTINGS_TOGETHER = 20_000  # bounds the memory
_ID_BITS = 44
_ID_MASK = (1 << _ID_BITS) - 1

_ROWS = (
    "SELECT coalesce(substr(data, ?, ?), x'') FROM head_dense "
    "WHERE layout_id = ? AND ts BETWEEN ? AND ? AND seq > ? ORDER BY ts DESC"
)
_SPARSE = "SELECT series_ids, timestamps FROM head_sparse WHERE ts_max >= ? AND ts_min <= ? AND seq > ?"
_BLOCKS = (
    "SELECT b.bundle_id, b.members FROM json_each(?) AS j CROSS JOIN block AS b "
    "WHERE b.bundle_id = j.value AND b.window_ms BETWEEN ? AND ? "
    "AND b.end_ms >= ? AND b.start_ms <= ? AND b.ord <> ?"
)
_POSTINGS = (
    "SELECT l.value, p.chunk, p.ids FROM label_pair AS l CROSS JOIN posting AS p "
    "ON p.pair_id = l.id AND p.chunk >= 0 WHERE l.name = ?"
)
_NAMES = text("SELECT value FROM label_pair WHERE name = '' AND value <> ''")
_VALUES = text("SELECT value FROM label_pair WHERE name = :name")


def find_series(engine: Engine, selectors: Sequence[Selector], start_ms: int, end_ms: int) -> list[Labels]:
    """The series that meet at least one selector, ordered by labels. Raises StoreError."""
    with naming_damage(engine), reading(engine) as connection:
        ids = _ids(connection, selectors, start_ms, end_ms)
        return sorted(load_labels(connection, ids).values())


def label_names(engine: Engine, selectors: Sequence[Selector], start_ms: int, end_ms: int) -> list[str]:
    """The label names of such series; without a selector, of all. Ordered. Raises StoreError."""
    with naming_damage(engine), reading(engine) as connection:
        if not selectors:
            return sorted(row[0] for row in connection.execute(_NAMES))
        ids = _ids(connection, selectors, start_ms, end_ms)
        if len(ids) > _FEW_SERIES:
            return sorted(_values_among(connection, "", ids) - {""})
        found = load_labels(connection, ids).values()
        return sorted({name for labels in found for name, _ in labels})


def label_values(
    engine: Engine, name: str, selectors: Sequence[Selector], start_ms: int, end_ms: int
) -> list[str]:
    """The label's values in such series; without a selector, in all. Ordered. Raises StoreError."""
    if name == "":  # the index keeps something else under it
        return []
    with naming_damage(engine), reading(engine) as connection:
        if not selectors:
            return sorted(row[0] for row in connection.execute(_VALUES, {"name": name}))
        ids = _ids(connection, selectors, start_ms, end_ms)
        if len(ids) > _FEW_SERIES:
            return sorted(_values_among(connection, name, ids))
        found = load_labels(connection, ids).values()
        return sorted({value for labels in found for key, value in labels if key == name})


def _ids(connection: Connection, selectors: Sequence[Selector], start_ms: int, end_ms: int) -> IntArray:
    """Sorted ids of the series that meet a selector and count in the window."""
    parts = [match_series(connection, selector) for selector in selectors]
    ids = np.unique(np.concatenate([np.empty(0, dtype=np.int64), *parts]))
    if start_ms > FIRST_MS or end_ms < LAST_MS:
        ids = ids[_living(connection, ids, start_ms, end_ms)]
    return ids


def _values_among(connection: Connection, name: str, ids: IntArray) -> set[str]:
    """The values of the label that some of the series have, out of its postings."""
    found: set[str] = set()
    cursor = driver(connection).execute(_POSTINGS, (name,))
    while rows := cursor.fetchmany(_POSTINGS_TOGETHER):
        chunks = np.array([row[1] for row in rows], dtype=np.int64)
        # The bits above an id say whose it is.
        first, last = unpack(
            [row[2] for row in rows], (np.arange(len(rows)) << _ID_BITS) + (chunks << CHUNK_BITS)
        )
        whose = first >> _ID_BITS
        first, last = first & _ID_MASK, last & _ID_MASK
        some = ids.searchsorted(last, side="right") > ids.searchsorted(first, side="left")
        found.update(rows[place][0] for place in np.unique(whose[some]).tolist())
    return found


def _living(connection: Connection, ids: IntArray, start_ms: int, end_ms: int) -> BoolArray:
    """Which of the series (sorted ids) count in the window: bool[ids]."""
    start_ms, end_ms = max(start_ms, FIRST_MS), min(end_ms, LAST_MS)
    state = read_state(connection)
    living = np.zeros(len(ids), dtype=np.bool_)
    _mark_blocks(connection, state, ids, start_ms, end_ms, living)
    _mark_dense(connection, state, ids, start_ms, end_ms, living)
    rows = driver(connection).execute(_SPARSE, (start_ms, end_ms, state.sealed_seq))
    for series_ids, timestamps in rows:
        times = np.frombuffer(timestamps, INT)
        within = np.frombuffer(series_ids, INT)[(times >= start_ms) & (times <= end_ms)]
        living |= np.isin(ids, within)
    return living


def _mark_blocks(
    connection: Connection, state: StoreState, ids: IntArray, start_ms: int, end_ms: int, living: BoolArray
) -> None:
    members = {member.bundle_id: member for member in find_members(connection, ids)}
    window = (start_ms - LONGEST_BLOCK_MS, end_ms, start_ms, end_ms, state.sealing_seq)
    held: dict[int, int] = {}
    for bundle_id, places in driver(connection).execute(_BLOCKS, (to_json(list(members)), *window)):
        held[bundle_id] = held.get(bundle_id, 0) | places
    for bundle_id, bits in held.items():
        member = members[bundle_id]
        there = np.right_shift(np.uint64(bits & 0xFFFF_FFFF_FFFF_FFFF), member.places.astype(np.uint64)) & 1
        living[np.searchsorted(ids, member.ids[there.astype(np.bool_)])] = True


def _mark_dense(
    connection: Connection, state: StoreState, ids: IntArray, start_ms: int, end_ms: int, living: BoolArray
) -> None:
    for slots in wanted_slots(connection, ids):
        open_slots = ~living[slots.places]
        part = (slots.first_slot * ITEM_BYTES + 1, slots.width * ITEM_BYTES)  # SQL counts from 1
        rows = driver(connection).execute(_ROWS, (*part, slots.layout_id, start_ms, end_ms, state.sealed_seq))
        for (data,) in rows:
            if not open_slots.any():
                rows.close()
                break  # most often the newest row has them all
            values = np.frombuffer(data, FLOAT)
            held = slots.offsets < len(values)  # older rows are shorter
            held[held] = ~is_absent(values[slots.offsets[held]])
            open_slots &= ~held
        living[slots.places[~open_slots]] = True
