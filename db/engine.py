"""Opens the two databases: folder or server, transactions and migrations, so that nobody else needs to know.

Writers take `BEGIN IMMEDIATE` (`writing`), readers a plain snapshot (`reading`): with the driver's own
implicit transactions a reader that turns writer fails at once instead of waiting. On PostgreSQL, which
holds the state only, a snapshot is REPEATABLE READ.
"""

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sqlalchemy import Connection, Engine
from sqlalchemy.exc import (
    DatabaseError,
    DataError,
    IntegrityError,
    InterfaceError,
    ProgrammingError,
)
from sqlalchemy.exc import TimeoutError as PoolTimeout

from db.errors import StoreUnreachable, Unstorable, WriteRefused
from db.file_system import MOUNTS
from db.migrate import SAMPLES, STATE, Schema, bring_server_up_to_date, bring_up_to_date
from db.postgres_engine import ServerLimits, postgres_engine, postgres_sentence
from db.sqlite_engine import (
    BEGIN_OPTION,
    IMMEDIATE,
    FileOptions,
    driver,
    interrupt_after,
    interrupt_never,
    sqlite_engine,
    sqlite_sentence,
)
from db.state_location import parse_location, server_place

__all__ = [
    "OUTSIDE_TRANSACTIONS",
    "READ_SECONDS",
    "driver",
    "give_back",
    "open_samples",
    "open_state",
    "outside_transactions",
    "place",
    "reading",
    "writing",
]

# A reader holds its snapshot no longer: while it does, the write-ahead log cannot be emptied and grows.
READ_SECONDS = 5.0
OUTSIDE_TRANSACTIONS = {BEGIN_OPTION: ""}
_SNAPSHOT = {"isolation_level": "REPEATABLE READ", "postgresql_readonly": True}
# What the driver says of the data themselves; the rest is about the file or server and may pass.
_UNSTORABLE = (
    *(IntegrityError, DataError, ProgrammingError, InterfaceError),
    *(sqlite3.IntegrityError, sqlite3.DataError, sqlite3.ProgrammingError, sqlite3.InterfaceError),
)
_FAILED = (DatabaseError, sqlite3.Error, PoolTimeout)

# FULL: an acknowledged scrape survives power loss. 64 MiB: the maintaining process empties the log long
# before; this is for when it does not run.
SAMPLES_FILE = FileOptions("FULL", checkpoint_pages=16_384, shrinks=True)
_SERVER_LIMITS = ServerLimits()
_STATE_FILE = FileOptions("NORMAL", checkpoint_pages=1_000, shrinks=False)


def open_samples(path: Path, options: FileOptions = SAMPLES_FILE, *, mounts: Path = MOUNTS) -> Engine:
    """The samples file, created and migrated. Raises StoreUnreachable or NewerDatabase."""
    return _open_file(path, options, SAMPLES, mounts)


def open_state(
    where: Path | str,
    *,
    reachable: bool = True,
    mounts: Path = MOUNTS,
    limits: ServerLimits = _SERVER_LIMITS,
) -> Engine:
    """The state, created and migrated: a file's path, or a URL `sqlite:////PATH` or
    `postgresql+psycopg://USER:PASSWORD@HOST/DATABASE`. Raises StoreUnreachable or NewerDatabase.

    reachable: False takes a server that does not answer, too: what is asked of it fails until it does, and
    another process has to migrate it.
    """
    location = parse_location(where)
    if isinstance(location, Path):
        return _open_file(location, _STATE_FILE, STATE, mounts)
    engine = postgres_engine(location, limits)
    try:
        with _opening(engine):
            bring_server_up_to_date(engine, server_place(location), STATE)
    except StoreUnreachable:
        if reachable:
            raise
    return engine


@contextmanager
def writing(engine: Engine) -> Iterator[Connection]:
    """One write transaction. Raises WriteRefused or Unstorable; then nothing of it was stored."""
    try:
        with engine.connect().execution_options(**IMMEDIATE) as connection, connection.begin():
            yield connection
    except _UNSTORABLE as error:
        reason = " ".join(str(getattr(error, "orig", None) or error).split())
        raise Unstorable(f"{place(engine)}: cannot hold this: {reason}") from error
    except _FAILED as error:
        raise WriteRefused(f"{place(engine)}: {_sentence(engine, error)}") from error


@contextmanager
def reading(engine: Engine, seconds: float = READ_SECONDS) -> Iterator[Connection]:
    """One read snapshot: everything read inside belongs together. Raises StoreUnreachable.

    seconds: no statement runs past so long after the snapshot began (a server has limits of its own).
    """
    try:
        if engine.dialect.name != "sqlite":
            with engine.connect().execution_options(**_SNAPSHOT) as connection, connection.begin():
                yield connection
            return
        with engine.connect() as connection, connection.begin():
            file = driver(connection)
            interrupt_after(file, seconds)
            try:
                yield connection
            finally:
                interrupt_never(file)
    except _FAILED as error:
        raise StoreUnreachable(f"{place(engine)}: {_sentence(engine, error, seconds)}") from error


@contextmanager
def outside_transactions(engine: Engine) -> Iterator[sqlite3.Connection]:
    """The driver's connection for what may not run inside a transaction: checkpoints, vacuum (SQLite).
    Raises WriteRefused."""
    try:
        with engine.connect() as connection:
            yield driver(connection)
    except _FAILED as error:
        raise WriteRefused(f"{place(engine)}: {_sentence(engine, error)}") from error


def give_back(engine: Engine, pages: int) -> None:
    """Return up to `pages` free pages of the file to the disk. Raises WriteRefused."""
    with outside_transactions(engine) as connection:
        # As a script: `execute` ends this pragma after its first step, which is one page.
        connection.executescript(f"PRAGMA incremental_vacuum({int(pages)})")


def place(engine: Engine) -> str:
    """The file, or the server and its database, for messages; never a password."""
    return str(engine.url.database) if engine.dialect.name == "sqlite" else server_place(engine.url)


def _open_file(path: Path, options: FileOptions, schema: Schema, mounts: Path) -> Engine:
    engine = sqlite_engine(path, options, mounts)
    with _opening(engine):
        bring_up_to_date(engine, path, schema)
    return engine


@contextmanager
def _opening(engine: Engine) -> Iterator[None]:
    try:
        yield
    except BaseException as error:
        engine.dispose()
        if isinstance(error, _FAILED):
            raise StoreUnreachable(f"{place(engine)}: {_sentence(engine, error)}") from error
        if isinstance(error, OSError):
            raise StoreUnreachable(f"{place(engine)}: {error.strerror}") from error
        raise


def _sentence(engine: Engine, error: BaseException, seconds: float = READ_SECONDS) -> str:
    if isinstance(error, PoolTimeout):
        return "every connection is in use; try again in a moment"
    cause = getattr(error, "orig", None) or error
    if engine.dialect.name != "sqlite":
        return postgres_sentence(engine.url, cause)
    if getattr(cause, "sqlite_errorname", "") == "SQLITE_INTERRUPT":
        return f"reading took longer than {seconds:g} s; narrow the selection"
    return sqlite_sentence(Path(str(engine.url.database)), cause)
