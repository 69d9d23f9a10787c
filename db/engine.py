"""Opens the two databases: folder, pragmas, transactions and migrations, so that nobody else needs to know.

Writers take `BEGIN IMMEDIATE` (`writing`), readers a plain snapshot (`reading`): with the driver's own
implicit transactions a reader that turns writer fails at once instead of waiting.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sqlalchemy import URL, Connection, Engine, create_engine, event
from sqlalchemy.exc import (
    DatabaseError,
    DataError,
    IntegrityError,
    InterfaceError,
    OperationalError,
    ProgrammingError,
)

from db.errors import StoreError, StoreUnreachable, Unstorable, WriteRefused
from db.migrate import SAMPLES, STATE, Schema, bring_up_to_date

BUSY_TIMEOUT_MS = 5_000
# Execution option that says how a transaction begins. The driver's own AUTOCOMMIT level is not used:
# on its way back to the pool it would give the connection the driver's implicit transactions again.
BEGIN_OPTION = "strata_begin"
OUTSIDE_TRANSACTIONS = {BEGIN_OPTION: ""}
_IMMEDIATE = {BEGIN_OPTION: "BEGIN IMMEDIATE"}
# What the driver says of the data themselves; the rest is about the file and may pass.
_UNSTORABLE = (IntegrityError, DataError, ProgrammingError, InterfaceError)


def open_samples(path: Path) -> Engine:
    """The samples file, created and migrated. Raises StoreUnreachable or NewerDatabase."""
    # FULL: an acknowledged scrape survives power loss, not only a crash of the process.
    return _open_sqlite(path, synchronous="FULL", schema=SAMPLES)


def open_state(path: Path) -> Engine:
    """The state file, created and migrated. Raises StoreUnreachable or NewerDatabase."""
    return _open_sqlite(path, synchronous="NORMAL", schema=STATE)


@contextmanager
def writing(engine: Engine) -> Iterator[Connection]:
    """One write transaction. Raises WriteRefused or Unstorable; then nothing of it was stored."""
    try:
        with engine.connect().execution_options(**_IMMEDIATE) as connection, connection.begin():
            yield connection
    except _UNSTORABLE as error:
        raise Unstorable(f"{engine.url.database}: cannot hold this: {error.orig}") from error
    except DatabaseError as error:
        raise WriteRefused(f"{engine.url.database}: {_sentence(error)}") from error


@contextmanager
def reading(engine: Engine) -> Iterator[Connection]:
    """One read snapshot: everything read inside belongs together. Raises StoreUnreachable."""
    try:
        with engine.connect() as connection, connection.begin():
            yield connection
    except DatabaseError as error:
        raise StoreUnreachable(f"{engine.url.database}: {_sentence(error)}") from error


def _open_sqlite(path: Path, synchronous: str, schema: Schema) -> Engine:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StoreUnreachable(f"{path.parent}: cannot be created: {error.strerror}") from error
    engine = create_engine(URL.create("sqlite", database=str(path)))  # as text, "?" would end the path

    @event.listens_for(engine, "connect")
    def _configure(connection: Any, _record: Any) -> None:
        connection.isolation_level = None  # transactions are begun by the listener below
        cursor = connection.cursor()
        cursor.execute(f"PRAGMA busy_timeout={BUSY_TIMEOUT_MS}")
        cursor.execute("PRAGMA journal_mode=WAL")
        cursor.execute(f"PRAGMA synchronous={synchronous}")
        cursor.close()

    @event.listens_for(engine, "begin")
    def _begin(connection: Connection) -> None:
        statement = connection.get_execution_options().get(BEGIN_OPTION, "BEGIN")
        if statement:
            connection.exec_driver_sql(statement)

    try:
        bring_up_to_date(engine, path, schema)
    except DatabaseError as error:
        engine.dispose()
        raise StoreUnreachable(f"{path}: {_sentence(error)}") from error
    except OSError as error:
        engine.dispose()
        raise StoreUnreachable(f"{path}: {error.strerror}") from error
    except StoreError:
        engine.dispose()
        raise
    return engine


_MENDS = {
    "unable to open database file": "cannot be opened; check that the folder exists and is yours",
    "attempt to write a readonly database": "is read-only; check its owner and the mount",
    "file is not a database": "is not a database; move it away and start again, or restore a backup",
    "database or disk is full": "the disk is full; free space on it",
    "database disk image is malformed": "is damaged; restore a backup",
    "database is locked": "is locked by another program for longer than 5 s; stop that program",
}


def _sentence(error: DatabaseError) -> str:
    reason = str(error.orig) if error.orig is not None else str(error)
    for known, mend in _MENDS.items():
        if known in reason:
            return mend
    return reason if isinstance(error, OperationalError) else f"failed: {reason}"
