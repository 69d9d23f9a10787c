"""Ends and interrupts the store's work between two of its transactions, as death and other processes do."""

import atexit
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

from sqlalchemy import Connection, Engine, event

from db.store import SampleStore


class Crash(Exception):
    """Stands for the death of the process."""


@contextmanager
def crash_at(engine: Engine, number: int) -> Iterator[None]:
    """Let the commit of that number fail, and with it its transaction."""
    left = number

    def commit(connection: Connection) -> None:
        nonlocal left
        left -= 1
        if left == 0:
            raise Crash

    event.listen(engine, "commit", commit)
    try:
        yield
    finally:
        event.remove(engine, "commit", commit)


@contextmanager
def meanwhile(engine: Engine, number: int, work: Callable[[], None]) -> Iterator[None]:
    """Do the work of another process before the transaction of that number begins."""
    left = number

    def connected(connection: Connection) -> None:
        nonlocal left
        left -= 1
        if left == 0:
            work()

    event.listen(engine, "engine_connect", connected)
    try:
        yield
    finally:
        event.remove(engine, "engine_connect", connected)


@cache
def empty_file() -> Path:
    """A samples file of the current version: making one takes as long as ten steps."""
    path = Path(tempfile.mkdtemp(prefix="store_model")) / "samples.db"
    SampleStore.open(path).close()
    atexit.register(shutil.rmtree, path.parent)
    return path
