"""How a SQLite file is opened, and what its errors mean.

One connection of the pool is one thread's for a transaction. Memory-mapped reading and larger page caches
were measured and left out: mapping makes a raw scan a quarter faster, which decoding hides, but a damaged
disk then kills the process instead of failing one read; larger caches were slower, since the system already
keeps the pages.
"""

import os
import sqlite3
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from time import monotonic, sleep
from typing import Any, Literal, cast

from sqlalchemy import URL, Connection, Engine, create_engine, event

from db.errors import StoreUnreachable
from db.file_system import MOUNTS, refuse_unsafe

# Page scripts and API calls that read at the same moment; further ones wait.
POOL_KEPT, POOL_BEYOND = 5, 27
# Execution option that says how a transaction begins. The driver's own AUTOCOMMIT level is not used:
# on its way back to the pool it would give the connection the driver's implicit transactions again.
BEGIN_OPTION = "strata_begin"
IMMEDIATE = {BEGIN_OPTION: "BEGIN IMMEDIATE"}
# What the write-ahead log may keep on disk once its content is in the file.
_JOURNAL_BYTES = 64 * 1024 * 1024
# Steps of SQLite's machine between two looks at the clock: 25 us to 3 ms, under 0.5 % of a read's time.
_STEPS_PER_LOOK = 4_000
# Below this a disk counts as full when SQLite only says "I/O error": some of its writes do not say why.
_FULL_BYTES = 64 * 1024

RESTORE = "strata backup restore DIR"


_RETRY_SECONDS = 0.01


@dataclass(frozen=True, slots=True)
class FileOptions:
    """synchronous: FULL survives power loss, NORMAL a crash of the process. checkpoint_pages: when a writer
    moves the write-ahead log into the file itself. shrinks: deleted pages can be given back to the disk.
    busy_ms, pool_seconds: how long to wait for another writer, and for a connection of the pool."""

    synchronous: Literal["FULL", "NORMAL"]
    checkpoint_pages: int
    shrinks: bool
    busy_ms: int = 5_000
    pool_seconds: float = 10.0


def sqlite_engine(path: Path, options: FileOptions, mounts: Path = MOUNTS) -> Engine:
    """Connections to the file, whose folder is created. Raises StoreUnreachable."""
    refuse_unsafe(path, mounts)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StoreUnreachable(f"{path.parent}: cannot be created: {error.strerror}") from error
    engine = create_engine(
        URL.create("sqlite", database=str(path)),  # as text, "?" would end the path
        pool_size=POOL_KEPT,
        max_overflow=POOL_BEYOND,
        pool_timeout=options.pool_seconds,
        pool_use_lifo=True,  # the one used last has the warmest page cache
    )
    pragmas = [
        "journal_mode=WAL",
        f"synchronous={options.synchronous}",
        f"wal_autocheckpoint={options.checkpoint_pages}",
        f"journal_size_limit={_JOURNAL_BYTES}",
    ]

    @event.listens_for(engine, "connect")
    def _configure(connection: Any, _record: Any) -> None:
        connection.isolation_level = None  # transactions are begun by the listener below
        connection.execute(f"PRAGMA busy_timeout={options.busy_ms}").close()
        _patiently(lambda: _set_up(connection), options.busy_ms / 1000)

    def _set_up(connection: sqlite3.Connection) -> None:
        # Before the first table, and before WAL: both write the header that says it. Later it would be a
        # write transaction of every new connection, which waits for the others and tells all caches to go.
        if options.shrinks and connection.execute("PRAGMA page_count").fetchone()[0] == 0:
            connection.execute("PRAGMA auto_vacuum=INCREMENTAL").close()
        for pragma in pragmas:
            connection.execute(f"PRAGMA {pragma}").close()

    @event.listens_for(engine, "begin")
    def _begin(connection: Connection) -> None:
        statement = connection.get_execution_options().get(BEGIN_OPTION, "BEGIN")
        if statement:  # by the driver itself: through SQLAlchemy it costs 50 us instead of 2
            driver(connection).execute(statement)

    return engine


def _patiently(work: Callable[[], None], seconds: float) -> None:
    """Do it again while the file is locked. Of several connections that make a new file a WAL at once SQLite
    refuses all but one without the busy timeout: waiting for each other they would wait forever."""
    ends = monotonic() + seconds
    while True:
        try:
            return work()
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or monotonic() > ends:
                raise
        sleep(_RETRY_SECONDS)


def driver(connection: Connection) -> sqlite3.Connection:
    """The driver's own connection, for statements that are run thousands of times. SQLite only."""
    return cast(sqlite3.Connection, connection.connection.dbapi_connection)


def interrupt_after(connection: sqlite3.Connection, seconds: float) -> None:
    """Let no statement run past `seconds` from now; `interrupt_never` takes the limit away."""
    ends = monotonic() + seconds
    connection.set_progress_handler(lambda: monotonic() > ends, _STEPS_PER_LOOK)


def interrupt_never(connection: sqlite3.Connection) -> None:
    connection.set_progress_handler(None, 0)


def sqlite_sentence(path: Path, error: BaseException) -> str:
    """What went wrong with the file and how to mend it, in one clause."""
    name = str(getattr(error, "sqlite_errorname", None) or "")
    reason = str(error)
    for code, clause in _MENDS.items():
        if name.startswith(code):
            return clause
    if name.startswith(("SQLITE_IOERR", "SQLITE_CANTOPEN")):
        return _of_the_disk(path, name)
    return f"failed: {reason}"


_MENDS = {
    "SQLITE_FULL": "the disk is full; free space on it",
    "SQLITE_CORRUPT": f"is damaged; restore a backup: {RESTORE}",
    "SQLITE_NOTADB": f"is not a database; move it away and start again, or restore a backup: {RESTORE}",
    "SQLITE_READONLY": "is read-only; check its owner and the mount",
    "SQLITE_PERM": "may not be used; check its owner",
    "SQLITE_BUSY": "is locked by another program; stop it, unless it is Strata and goes on by itself",
    "SQLITE_PROTOCOL": "is locked by other programs again and again; stop those that are not Strata",
}


def _of_the_disk(path: Path, name: str) -> str:
    """SQLite does not say why a file cannot be opened or written; the file system does."""
    try:
        space = os.statvfs(path.parent)
    except OSError:
        return "cannot be opened: its folder is gone; create it, or choose another with --data"
    if space.f_bavail * space.f_frsize < _FULL_BYTES or (space.f_files and not space.f_favail):
        return _MENDS["SQLITE_FULL"]
    if space.f_flag & os.ST_RDONLY or not os.access(path.parent, os.W_OK):
        return "its folder is read-only; check its owner and the mount"
    if name.startswith("SQLITE_CANTOPEN"):
        return "cannot be opened; check that the folder exists and is yours"
    return f"the disk reports an error ({name}); look into the kernel's log, and have a backup"
