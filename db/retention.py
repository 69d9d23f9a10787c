"""Deletes what is older than the retention, in batches so small that no scrape's commit waits long."""

from collections.abc import Collection

from sqlalchemy import Connection, text

_BATCH_ROWS = 256

_OLD_DENSE = text(
    "DELETE FROM head_dense WHERE seq IN "
    "(SELECT seq FROM head_dense WHERE ts < :cutoff ORDER BY ts LIMIT :batch)"
)
_OLD_SPARSE = text(
    "DELETE FROM head_sparse WHERE seq IN "
    "(SELECT seq FROM head_sparse WHERE ts_max < :cutoff ORDER BY ts_max LIMIT :batch)"
)
_EMPTY_LAYOUTS = text(
    "SELECT id FROM layout WHERE NOT EXISTS "
    "(SELECT 1 FROM head_dense WHERE head_dense.layout_id = layout.id) LIMIT :batch"
)
_DROP_SLOTS = text("DELETE FROM layout_slot WHERE layout_id = :id")
_DROP_LAYOUT = text("DELETE FROM layout WHERE id = :id")


def drop_older(connection: Connection, cutoff_ms: int, keep: Collection[tuple[int, int]]) -> bool:
    """Delete one batch of rows older than the cutoff inside the caller's transaction.

    keep: (layout id, slots) that the writer still appends to; other layouts without rows go with them.
    Returns whether another batch may be due.
    """
    bounds = {"cutoff": cutoff_ms, "batch": _BATCH_ROWS}
    dense = connection.execute(_OLD_DENSE, bounds).rowcount
    sparse = connection.execute(_OLD_SPARSE, bounds).rowcount
    if dense:
        in_use = {layout_id for layout_id, _ in keep}
        for row in connection.execute(_EMPTY_LAYOUTS, {"batch": _BATCH_ROWS}).all():
            if row.id not in in_use:
                connection.execute(_DROP_SLOTS, {"id": row.id})
                connection.execute(_DROP_LAYOUT, {"id": row.id})
    return max(dense, sparse) == _BATCH_ROWS
