"""Work in processes of their own, what memory they had, and what they left on the disk."""

import contextlib
import multiprocessing
import sqlite3
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, TypeVar

Result = TypeVar("Result")
# spawn: a forked child would begin with its parent's memory.
SPAWN = multiprocessing.get_context("spawn")


def memory_mb(kind: str) -> float:
    """VmRSS: what this process has; VmHWM: the most it ever had. (ru_maxrss would count its parent's.)"""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(kind + ":"):
            return int(line.split()[1]) / 1024
    raise SystemExit(f"/proc/self/status has no {kind}")


def stored_bytes(samples: Path) -> int:
    """The samples file with its write-ahead log once a checkpoint has emptied that; nobody may be reading."""
    with contextlib.closing(sqlite3.connect(samples)) as database:
        busy, _, _ = database.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        if busy:
            raise SystemExit("the write-ahead log could not be emptied: somebody reads it")
        log = samples.with_name(samples.name + "-wal")
        return samples.stat().st_size + (log.stat().st_size if log.exists() else 0)


def in_a_process(work: Callable[..., Result], *arguments: Any) -> Result:
    """What `work` returns in a new process; ends the program where it fails."""
    receive, send = SPAWN.Pipe(duplex=False)
    process = SPAWN.Process(target=_answer, args=(send, work, arguments), daemon=True)
    process.start()
    send.close()
    try:
        result: Result = receive.recv()
    except EOFError as error:
        raise SystemExit(f"{work.__name__} failed in a process of its own") from error
    process.join()
    return result


def _answer(send: Connection, work: Callable[..., object], arguments: tuple[object, ...]) -> None:
    send.send(work(*arguments))
