"""Deletes what is older than the retention or beyond the size limit, and then what nothing refers to any
more; in batches so small that no scrape's commit waits long."""

import json
from collections.abc import Sequence

import numpy as np
from sqlalchemy import Connection, Engine

from db.block_read import DAY_MS
from db.compact import delete_blocks, delete_unused_timelines
from db.engine import driver, give_back, reading, writing
from db.head import INT
from db.index import forget_series
from db.nan import IntArray
from db.store_state import read_state

_BATCH_BLOCKS = 256
_BATCH_SERIES = 512
_BATCH_LAYOUTS = 16
_SWEEP_SECONDS = 60.0
# Sealing and merging use free pages again all the time; more than this share of the file is given back.
_FREE_PAGES_KEPT = 64
_FREE_SHARE_KEPT = 1 / 64
# Half a megabyte in one transaction.
_GIVEN_BACK_PAGES = 128

# A block stays while something older stays whose samples it replaced: those would come to light again.
_OLD_BLOCKS = (
    "SELECT id, length(data) FROM block AS b WHERE end_ms < :cutoff AND ord <= :sealed "
    "AND NOT EXISTS (SELECT 1 FROM block AS o WHERE o.bundle_id = b.bundle_id "
    "AND o.window_ms BETWEEN b.window_ms - 86400000 AND b.end_ms AND o.end_ms >= :cutoff "
    "AND o.start_ms <= b.end_ms AND o.ord < b.ord) ORDER BY end_ms LIMIT :batch"
)
_OLDEST_WINDOW = "SELECT min(window_ms) FROM block"
_NEWEST = "SELECT max(end_ms) FROM block"
_WINDOW_BLOCKS = (
    "SELECT id, length(data) FROM block WHERE level IN (0, 1, 2) AND window_ms < :end "
    "AND ord <= :sealed ORDER BY ord LIMIT :batch"
)
_ENDED_LAYOUTS = (
    "SELECT id FROM layout WHERE ended AND NOT EXISTS "
    "(SELECT 1 FROM head_dense WHERE head_dense.layout_id = layout.id) LIMIT ?"
)
_EMPTY_BUNDLES = "SELECT id FROM bundle WHERE NOT EXISTS (SELECT 1 FROM block WHERE bundle_id = bundle.id)"
_UNUSED_TIMELINES = (
    "SELECT DISTINCT id FROM timeline WHERE NOT EXISTS "
    "(SELECT 1 FROM block WHERE block.timeline_id = timeline.id)"
)
_STILL_EMPTY = (
    "SELECT j.value FROM json_each(?) AS j "
    "WHERE NOT EXISTS (SELECT 1 FROM block WHERE block.bundle_id = j.value)"
)
# Series that no block, no dense row and no other bundle can hold.
_FORSAKEN = (
    "SELECT m.series_id FROM bundle_member AS m WHERE m.bundle_id IN (SELECT value FROM json_each(?1)) "
    "AND NOT EXISTS (SELECT 1 FROM layout_slot AS s WHERE s.series_id = m.series_id) "
    "AND NOT EXISTS (SELECT 1 FROM bundle_member AS o WHERE o.series_id = m.series_id "
    "AND o.bundle_id NOT IN (SELECT value FROM json_each(?1))) LIMIT ?2"
)


def retain(engine: Engine, cutoff_ms: int, size_bytes: int | None) -> None:
    """Delete whole blocks that end before cutoff_ms, then the oldest ones until the file's content is at most
    size_bytes; then layouts, bundles and series that nothing is left of.

    The space goes back to the disk by `shrink_file`. Samples in the head are never deleted here.
    """
    while _delete(engine, _OLD_BLOCKS, {"cutoff": cutoff_ms}):
        pass
    if size_bytes is not None:
        _shrink(engine, size_bytes)
    _drop_ended_layouts(engine)
    # Not only those that lost a block just now: the process may have died after deleting it.
    with reading(engine) as connection:
        empty = [row[0] for row in connection.exec_driver_sql(_EMPTY_BUNDLES)]
    if empty:
        _forget(engine, empty)


def _delete(engine: Engine, statement: str, bounds: dict[str, int]) -> bool:
    with reading(engine) as connection:
        # Blocks of a load may have replaced samples that are still in the head: these go first.
        sealed = read_state(connection).sealed_seq
        every = {**bounds, "sealed": sealed, "batch": _BATCH_BLOCKS}
        rows = connection.exec_driver_sql(statement, every).fetchall()
    timelines = delete_blocks(engine, [row[0] for row in rows], [row[1] for row in rows])
    delete_unused_timelines(engine, timelines)
    return len(rows) > 0


def _shrink(engine: Engine, size_bytes: int) -> None:
    """Delete the oldest days while the content is too large; the newest day always stays."""
    while used_bytes(engine) > size_bytes:
        with reading(engine) as connection:
            oldest = connection.exec_driver_sql(_OLDEST_WINDOW).scalar_one()
        newest = newest_ms(engine)
        if oldest is None or newest is None or oldest // DAY_MS >= newest // DAY_MS:
            return
        end_of_day = (oldest // DAY_MS + 1) * DAY_MS
        if not _delete(engine, _WINDOW_BLOCKS, {"end": end_of_day}):
            return


def newest_ms(engine: Engine) -> int | None:
    """The newest sample in any block; None without blocks."""
    with reading(engine) as connection:
        newest = connection.exec_driver_sql(_NEWEST).scalar_one()
    return None if newest is None else int(newest)


def used_bytes(engine: Engine) -> int:
    """What the file holds, without pages that are free."""
    with reading(engine) as connection:
        pages = connection.exec_driver_sql("PRAGMA page_count").scalar_one()
        free = connection.exec_driver_sql("PRAGMA freelist_count").scalar_one()
        size = connection.exec_driver_sql("PRAGMA page_size").scalar_one()
    return int((pages - free) * size)


def shrink_file(engine: Engine) -> None:
    """Return free pages to the disk, a few at a time, while they are many."""
    while True:
        with reading(engine) as connection:
            count = int(connection.exec_driver_sql("PRAGMA page_count").scalar_one())
            free = int(connection.exec_driver_sql("PRAGMA freelist_count").scalar_one())
        if free < _FREE_PAGES_KEPT or free < count * _FREE_SHARE_KEPT:
            return
        give_back(engine, _GIVEN_BACK_PAGES)
        with reading(engine) as connection:
            if int(connection.exec_driver_sql("PRAGMA freelist_count").scalar_one()) >= free:
                return  # a file that was made without the possibility


def _drop_ended_layouts(engine: Engine) -> None:
    more = True
    while more:
        with writing(engine) as connection:
            ids = [row[0] for row in connection.exec_driver_sql(_ENDED_LAYOUTS, (_BATCH_LAYOUTS,))]
            for layout_id in ids:
                connection.exec_driver_sql("DELETE FROM layout_slot WHERE layout_id = ?", (layout_id,))
                connection.exec_driver_sql("DELETE FROM layout WHERE id = ?", (layout_id,))
            if ids:
                connection.exec_driver_sql(
                    "UPDATE store_state SET places_version = places_version + 1 WHERE id = 1"
                )
        more = len(ids) == _BATCH_LAYOUTS


def sweep(engine: Engine) -> None:
    """Delete the timelines that a process left without blocks because it was broken off."""
    with reading(engine, _SWEEP_SECONDS) as connection:
        unused = {row[0] for row in driver(connection).execute(_UNUSED_TIMELINES)}
    delete_unused_timelines(engine, unused)


def _forget(engine: Engine, bundles: Sequence[int]) -> None:
    """Of these bundles, forget the series that nothing is left of, and those without series."""
    more = True
    while more:
        with writing(engine) as connection:
            listed = json.dumps(bundles)
            empty = json.dumps([row[0] for row in connection.exec_driver_sql(_STILL_EMPTY, (listed,))])
            rows = connection.exec_driver_sql(_FORSAKEN, (empty, _BATCH_SERIES)).fetchall()
            ids = np.unique(np.array([row[0] for row in rows], dtype=np.int64))
            more = len(rows) == _BATCH_SERIES
            gone = np.setdiff1d(ids, _in_head(connection, ids))
            more = more and len(gone) > 0
            if len(gone):
                connection.exec_driver_sql(
                    "DELETE FROM bundle_member WHERE series_id IN (SELECT value FROM json_each(?))",
                    (json.dumps(gone.tolist()),),
                )
                forget_series(connection, gone)
            connection.exec_driver_sql(
                "DELETE FROM bundle WHERE id IN (SELECT value FROM json_each(?)) "
                "AND NOT EXISTS (SELECT 1 FROM bundle_member WHERE bundle_member.bundle_id = bundle.id)",
                (empty,),
            )


def _in_head(connection: Connection, ids: IntArray) -> IntArray:
    """Which of the series have samples in sparse rows that are not sealed yet: they came back."""
    sealed = read_state(connection).sealed_seq
    rows = connection.exec_driver_sql("SELECT series_ids FROM head_sparse WHERE seq > ?", (sealed,))
    held = [np.intersect1d(ids, np.frombuffer(row[0], INT)) for row in rows]
    return np.unique(np.concatenate(held)) if held else np.empty(0, dtype=np.int64)
