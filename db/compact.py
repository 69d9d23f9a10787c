"""Merges small blocks into those of two hours, and these into a day, where the window is over.

Blocks are merged bundle by bundle, in transactions of at most 1 MB: first the new blocks are added, then the
old ones deleted. In between both are there and say the same, so that no reader sees anything change.

A block written after what is still in the head (a bulk load) is left alone until the head is sealed: merged
with older blocks it would make those count as newer than the head's samples.
"""

import json
import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from sqlalchemy import Connection, Engine

from db.block_cache import BlockCache
from db.block_format import BadBlock
from db.block_read import DAY_MS, Membership, decode, fetch
from db.block_write import BlockWriter
from db.engine import driver, place, reading, writing
from db.nan import IntArray
from db.pieces import Assembled, assemble
from db.seal import SPANS_MS, TRANSACTION_BYTES, WINDOW_MS, insert_all, windows
from db.store_state import read_state

log = logging.getLogger(__name__)

# A scrape may take this long to arrive; what comes later still is merged with the next day's work.
GRACE_MS = 10 * 60_000
_DELETED_BYTES = TRANSACTION_BYTES
# Looking through a large store for work pins the write-ahead log for longer than pages may.
_PATIENCE_SECONDS = 60.0
_FIRST_MS = -(1 << 62)

_HELD = (
    "SELECT DISTINCT bundle_id, window_ms FROM block "
    "WHERE level = ? AND window_ms BETWEEN ? AND ? AND ord <= ?"
)
# Days that several loads brought: each left blocks of its own.
_REPEATED = (
    "SELECT bundle_id, window_ms FROM block WHERE level = 2 AND window_ms <= ? AND ord <= ? "
    "GROUP BY window_ms, bundle_id HAVING count(DISTINCT ord) > 1"
)
_GROUPS = "SELECT id, group_id FROM bundle WHERE id IN (SELECT value FROM json_each(?))"
_INPUTS = (
    "SELECT id, ord, length(data), level FROM block "
    "WHERE bundle_id = ? AND window_ms >= ? AND window_ms < ? AND level <= ? AND ord <= ?"
)
_MEMBERS = "SELECT place, series_id FROM bundle_member WHERE bundle_id = ? ORDER BY place"


@dataclass(frozen=True, slots=True)
class Due:
    """Bundles of one group whose blocks of one window are to be merged into one level."""

    level: int
    window_ms: int
    bundles: list[int]


def due(engine: Engine, now_ms: int, *, late: bool) -> list[Due]:
    """What is to be merged. late: also what came for windows that were merged before: some source may send
    old samples all the time, and each merge writes a whole day."""
    over_ms = now_ms - GRACE_MS
    window_over = over_ms // WINDOW_MS * WINDOW_MS - WINDOW_MS  # the begin of the last window that is over
    day_over = over_ms // DAY_MS * DAY_MS - DAY_MS
    found: set[tuple[int, int, int]] = set()  # level, window, bundle
    with reading(engine, _PATIENCE_SECONDS) as connection:
        sealed = read_state(connection).sealed_seq
        small = _held(connection, 0, (_FIRST_MS, window_over), sealed)
        middle = _held(connection, 1, (_FIRST_MS, day_over + DAY_MS - 1), sealed)
        repeated = driver(connection).execute(_REPEATED, (day_over, sealed)).fetchall() if late else []
        found.update((2, day, bundle_id) for bundle_id, day in repeated)
        times = [window_ms for _, window_ms in small | middle]
        span = (min(times, default=0) // DAY_MS * DAY_MS, max(times, default=-1))
        days = _held(connection, 2, span, sealed)
        windows_held = set() if late else _held(connection, 1, span, sealed)
        for bundle_id, window_ms in small | middle:
            day = window_ms // DAY_MS * DAY_MS
            if (bundle_id, day) in days:
                # Merged into a smaller one, old samples would come to count after newer ones of the day's.
                if late:
                    found.add((2, day, bundle_id))
            elif day <= day_over:
                found.add((2, day, bundle_id))
            elif (bundle_id, window_ms) not in windows_held:
                found.add((1, window_ms, bundle_id))
        listed = json.dumps(sorted({bundle_id for _, _, bundle_id in found}))
        groups = dict(driver(connection).execute(_GROUPS, (listed,)).fetchall())
    together: dict[tuple[int, int, int], list[int]] = {}
    for level, window_ms, bundle_id in sorted(found):
        together.setdefault((level, window_ms, groups.get(bundle_id, 0)), []).append(bundle_id)
    return [Due(level, window_ms, bundles) for (level, window_ms, _), bundles in together.items()]


def _held(connection: Connection, level: int, span: tuple[int, int], sealed: int) -> set[tuple[int, int]]:
    """(bundle, window) of the blocks of one level whose windows begin in the span."""
    return set(driver(connection).execute(_HELD, (level, *span, sealed)).fetchall())


def compact(engine: Engine, work: Due) -> None:
    """Merge the bundles' blocks of one window."""
    writer: BlockWriter | None = None
    replaced: list[int] = []
    timelines: set[int] = set()
    sizes: list[int] = []
    for bundle_id in work.bundles:
        try:
            with reading(engine) as connection:
                inputs, wholes, order = _read(connection, bundle_id, work)
        except BadBlock as error:
            # Reading says it to the user; whatever else there is must go on being merged and deleted.
            log.error("%s: a block of bundle %d stays unmerged: %s", place(engine), bundle_id, error)
            continue
        if not inputs or not wholes:
            continue
        if writer is None:
            writer = BlockWriter(work.level, work.window_ms, order)
        writer.order = order
        for whole, places in wholes:
            bundle = np.full(len(places), bundle_id, dtype=np.int64)
            writer.add(bundle, places, whole.timestamps, whole.values)
        writer.encode()
        replaced += [item[0] for item in inputs]
        sizes += [item[1] for item in inputs]
        if writer.bytes > TRANSACTION_BYTES // 2:
            insert_all(engine, [writer])
            timelines |= delete_blocks(engine, replaced, sizes)
            replaced, sizes = [], []
    if writer is not None:
        insert_all(engine, [writer])
        timelines |= delete_blocks(engine, replaced, sizes)
        delete_unused_timelines(engine, timelines)


def _read(
    connection: Connection, bundle_id: int, work: Due
) -> tuple[list[tuple[int, int]], list[tuple[Assembled, IntArray]], int]:
    """The blocks to merge (id, bytes), what they hold as (rectangle, places), and its place in the order."""
    state = read_state(connection)
    end_ms = work.window_ms + SPANS_MS[work.level]
    bounds = (bundle_id, work.window_ms, end_ms, work.level, state.sealed_seq)
    inputs = connection.exec_driver_sql(_INPUTS, bounds).fetchall()
    if all(row[3] == work.level for row in inputs) and len({row[1] for row in inputs}) < 2:
        return [], [], 0
    members = connection.exec_driver_sql(_MEMBERS, (bundle_id,)).fetchall()
    places = np.array([row[0] for row in members], dtype=np.int64)
    # Numbered by place: that is what the new blocks need.
    fetched = fetch(
        connection,
        state,
        [Membership(bundle_id, places, places)],
        work.window_ms,
        end_ms - 1,
        BlockCache(0),  # each block is read once
        newest=state.sealed_seq,
    )
    wholes = []
    for whole in assemble(list(decode(fetched.rows()))):
        for _, part in windows(whole, SPANS_MS[work.level]):
            wholes.append((part, whole.ids[part.ids]))
    return [(row[0], row[2]) for row in inputs], wholes, max(row[1] for row in inputs)


def delete_blocks(engine: Engine, ids: Sequence[int], sizes: Sequence[int]) -> set[int]:
    """Delete blocks in transactions of at most 1 MB; returns the timelines they used."""
    timelines: set[int] = set()
    for batch in _batches(ids, sizes):
        marks = ",".join("?" * len(batch))
        with writing(engine) as connection:
            used = connection.exec_driver_sql(
                f"SELECT DISTINCT timeline_id FROM block WHERE id IN ({marks})",  # noqa: S608 - only marks
                tuple(batch),
            )
            timelines.update(row[0] for row in used)
            connection.exec_driver_sql(f"DELETE FROM block WHERE id IN ({marks})", tuple(batch))  # noqa: S608
    return timelines


def _batches(ids: Sequence[int], sizes: Sequence[int]) -> Iterator[list[int]]:
    batch: list[int] = []
    total = 0
    for block_id, size in zip(ids, sizes, strict=True):
        if batch and (total + size > _DELETED_BYTES or len(batch) == 512):
            yield batch
            batch, total = [], 0
        batch.append(block_id)
        total += size
    if batch:
        yield batch


def delete_unused_timelines(engine: Engine, ids: set[int]) -> None:
    """Delete those of the timelines that no block uses any more."""
    for first in range(0, len(ids), 64):
        some = sorted(ids)[first : first + 64]
        marks = ",".join("?" * len(some))
        with writing(engine) as connection:
            connection.exec_driver_sql(
                f"DELETE FROM timeline WHERE id IN ({marks}) "  # noqa: S608 - only marks
                "AND NOT EXISTS (SELECT 1 FROM block WHERE block.timeline_id = timeline.id)",
                tuple(some),
            )
