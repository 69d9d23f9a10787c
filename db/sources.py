"""The last attempt on each target and collector, as the Sources page shows it."""

from collections.abc import Collection, Sequence

from sqlalchemy import Connection, delete, select, tuple_
from sqlalchemy.dialects.sqlite import insert

from db.index import decode_labels, encode_labels
from db.models import SourceRow
from db.records import SourceReport

SourceKey = tuple[str, str, str, str]  # kind, pool, instance, url

_UPSERT = insert(SourceRow)
_UPSERT = _UPSERT.on_conflict_do_update(
    index_elements=[SourceRow.kind, SourceRow.pool, SourceRow.instance, SourceRow.url],
    set_={
        column.name: getattr(_UPSERT.excluded, column.name)
        for column in SourceRow.__table__.columns
        if not column.primary_key
    },
)


def source_key(report: SourceReport) -> SourceKey:
    return (report.kind, report.pool, report.instance, report.url)


def write_reports(connection: Connection, reports: Sequence[SourceReport]) -> None:
    if reports:
        connection.execute(_UPSERT, [_row(report) for report in reports])


def _row(report: SourceReport) -> dict[str, object]:
    return {
        "kind": report.kind,
        "pool": report.pool,
        "instance": report.instance,
        "url": report.url,
        "state": report.state,
        "interval_seconds": report.interval_seconds,
        "last_attempt_ms": report.last_attempt_ms,
        "last_success_ms": report.last_success_ms,
        "duration_seconds": report.duration_seconds,
        "samples": report.samples,
        "error": report.error,
        "note": report.note,
        "labels": encode_labels(report.labels),
    }


def read_reports(connection: Connection) -> list[SourceReport]:
    """All sources, ordered by kind, pool, instance."""
    rows = connection.execute(
        select(SourceRow.__table__).order_by(SourceRow.kind, SourceRow.pool, SourceRow.instance)
    )
    return [
        SourceReport(**{**row._asdict(), "labels": decode_labels(row.labels)})  # the columns are its fields
        for row in rows
    ]


def retain_reports(connection: Connection, keys: Collection[SourceKey]) -> None:
    """Forget every source that is not among the keys: targets that the configuration lost."""
    columns = (SourceRow.kind, SourceRow.pool, SourceRow.instance, SourceRow.url)
    stored = {tuple(row) for row in connection.execute(select(*columns))}
    gone = sorted(stored - set(keys))
    for first in range(0, len(gone), 100):  # four parameters each, under SQLite's limit
        connection.execute(delete(SourceRow).where(tuple_(*columns).in_(gone[first : first + 100])))
