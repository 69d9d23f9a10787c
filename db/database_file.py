"""A SQLite database as files on the disk: who has it open, and what belongs to it."""

import fcntl
import os
import sqlite3
import struct
from contextlib import closing
from pathlib import Path

_LOG_ENDS = ("-wal", "-shm", "-journal")
_MAGIC = b"SQLite format 3\0"
# Where SQLite keeps its locks in a database file (os_unix.c, PENDING_BYTE and the 512 bytes after it).
_LOCK_BYTES = (0x40000000, 512)
# struct flock of Linux on 64-bit machines: type, whence, start, length, process.
_FLOCK = struct.Struct("@hhqqi")


def logs_of(path: Path) -> list[Path]:
    """The files that SQLite may keep beside a database."""
    return [path.with_name(path.name + end) for end in _LOG_ENDS]


def lock_holder(path: Path) -> int | None:
    """The process that has the SQLite database `path` open and read from it, if it is not this one."""
    with path.open("rb") as file:
        asked = _FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, *_LOCK_BYTES, 0)
        kind, _, _, _, process = _FLOCK.unpack(fcntl.fcntl(file, fcntl.F_GETLK, asked))
    return None if kind == fcntl.F_UNLCK else int(process)


def fold_log(place: Path) -> None:
    """Bring a database's log into its file, so that it is one file. A damaged one keeps its log beside it."""
    with place.open("rb") as file:
        if file.read(len(_MAGIC)) != _MAGIC:
            return  # SQLite would delete the log
    try:
        with closing(sqlite3.connect(place, timeout=0)) as database:
            database.execute("PRAGMA journal_mode=DELETE")
    except sqlite3.Error:
        return
