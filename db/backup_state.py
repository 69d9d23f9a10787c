"""Copies the state in and out of backups, where it is always a SQLite file, whatever engine it lives on."""

from pathlib import Path

from sqlalchemy import Connection, Engine, Integer, Table, delete, func, insert, select, text

from db.backup_manifest import BackupError
from db.engine import open_state, place, reading, writing
from db.models import StateBase
from db.page_copy import copy_online

_BATCH_ROWS = 1000
# One snapshot of all tables, on a server or of a file of our own: it keeps no writer out.
_READ_SECONDS = 3600.0


def save_state(where: Path | str, target: Path) -> None:
    """Write the state at `where` (a file or a database URL) to the new SQLite file `target`.

    Raises StoreError, CopyFailed, sqlite3.Error or OSError.
    """
    if isinstance(where, Path):
        copy_online(where, target)
        return
    source = open_state(where)
    try:
        _save_server(source, target)
    finally:
        source.dispose()


def _save_server(source: Engine, target: Path) -> None:
    with reading(source, _READ_SECONDS) as snapshot:
        copy = open_state(target)
        try:
            with writing(copy) as into:
                _copy_tables(snapshot, into)
        finally:
            copy.dispose()
            target.with_name(target.name + ".migration-lock").unlink(missing_ok=True)


def load_state(backup: Path, where: str, *, replace: bool, aside: Path) -> bool:
    """Put the SQLite state `backup`, which is at this version's schema, into the server's database at the URL
    `where`, in one transaction. With `replace`, what is there is first saved to the file `aside`.

    Returns whether there was anything.

    Raises BackupError when there are rows and they are not to be replaced; StoreError.
    """
    target = open_state(where)
    try:
        occupied = _occupied(target)
        if occupied and not replace:
            raise BackupError(
                f"the state at {place(target)} already holds rows ({', '.join(occupied)}); "
                "--replace saves them to a file and puts the backup in their place"
            )
        if occupied:
            _save_server(target, aside)
        source = open_state(backup)
        try:
            with reading(source, _READ_SECONDS) as rows, writing(target) as into:
                for table in reversed(_tables()):
                    into.execute(delete(table))
                _copy_tables(rows, into)
                _continue_counting(into)
        finally:
            source.dispose()
        return bool(occupied)
    finally:
        target.dispose()


def _occupied(engine: Engine) -> list[str]:
    with reading(engine) as connection:
        return [
            table.name
            for table in _tables()
            if connection.execute(select(table).limit(1)).first() is not None
        ]


def _copy_tables(source: Connection, target: Connection) -> None:
    for table in _tables():
        rows = source.execute(select(table), execution_options={"yield_per": _BATCH_ROWS})
        for batch in rows.mappings().partitions():
            target.execute(insert(table), [dict(row) for row in batch])


def _continue_counting(connection: Connection) -> None:
    """Rows that were copied with their numbers do not move PostgreSQL's counters: the next number would be
    one that is taken."""
    for table in _tables():
        for column in table.primary_key.columns:
            if column is table.autoincrement_column and isinstance(column.type, Integer):
                highest = connection.execute(select(func.max(column))).scalar()
                if highest is not None:
                    connection.execute(
                        text("SELECT setval(pg_get_serial_sequence(:table, :column), :highest)"),
                        {"table": table.name, "column": column.name, "highest": highest},
                    )


def _tables() -> list[Table]:
    """Those that others refer to come first."""
    return list(StateBase.metadata.sorted_tables)
