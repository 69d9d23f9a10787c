"""A process that answers queries: `python -m db.promql.worker_process PARENT`, PARENT a process id.

Standard input is a socket (`db.promql.worker_wire`): it is told what to open, says whether it could, and
then answers one question after the other until the socket ends. It may be killed at any moment: it writes
nothing but what SQLite's readers write.
"""

import ctypes
import gc
import os
import resource
import signal
import sys
import traceback
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from socket import socket
from typing import cast

import numpy as np

from db.errors import StoreError
from db.promql.answer import Answer
from db.promql.errors import InternalError, LimitExceeded, QueryError, SourceUnavailable
from db.promql.question import Question
from db.promql.source import Source
from db.promql.worker_wire import Incoming, Opened, Opening, Reply, send

_PR_SET_PDEATHSIG = 1  # linux/prctl.h
# When memory is short the kernel shall end a query, not the process that collects (proc(5), oom_score_adj).
_OOM_SCORE = "500"
# So much more than after the last query, and the memory is given back to the system.
_TRIM_BYTES = 64 * 1024 * 1024
_RESIDENT, _DATA = 1, 5  # columns of /proc/self/statm, in pages
_LIBC = ctypes.CDLL(None, use_errno=True)


def main(argv: list[str]) -> int:
    """Returns the exit status."""
    (parent,) = argv
    # A parent that is killed takes this process along at once.
    _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != int(parent):  # it died before the line above
        return 1
    with suppress(OSError):  # not everywhere may a process change it
        Path("/proc/self/oom_score_adj").write_text(_OOM_SCORE)
    with socket(fileno=os.dup(sys.stdin.fileno())) as connection:
        try:
            _serve(connection, Incoming(connection))
        except (EOFError, BrokenPipeError, ConnectionResetError):
            return 0  # the parent needs it no more
    return 0


def _serve(connection: socket, incoming: Incoming) -> None:
    try:
        opening = cast(Opening, incoming.read())
        source = opening.open_source()
    except EOFError:
        raise
    except StoreError as error:
        return send(connection, Opened(SourceUnavailable(str(error))))
    except Exception as error:  # noqa: BLE001  also what cannot be imported here
        return send(connection, Opened(_fault(error), traceback.format_exc()))
    try:
        memory = Memory(opening.memory_bytes)
        send(connection, Opened())
        while True:
            question = cast(Question, incoming.read())
            reply = answered(source, opening.answer, question, memory)
            try:
                send(connection, reply)
            except MemoryError:
                reply = Reply(LimitExceeded(memory.sentence), retires=True)
                send(connection, reply)
            if reply.retires:
                return None
            del question, reply
            memory.give_back()
    finally:
        source.close()


def answered(
    source: Source, answer: Callable[[Source, Question], Answer], question: Question, memory: "Memory"
) -> Reply:
    """Every way in which a question can end while this process lives."""
    try:
        return Reply(_contiguous(answer(source, question)), retires=memory.crowded)
    except QueryError as error:
        if not _ran_out(error):
            return Reply(_sendable(error), retires=memory.crowded)
    except MemoryError:
        pass
    except StoreError as error:
        return Reply(SourceUnavailable(str(error)), retires=memory.crowded)
    except Exception as error:  # noqa: BLE001  the next question shall not hear of a fault of ours
        if not _ran_out(error):
            return Reply(_fault(error), traceback.format_exc(), retires=memory.crowded)
    # What an allocation that failed has left half done somewhere nobody knows.
    return Reply(LimitExceeded(memory.sentence), retires=True)


class Memory:
    """Holds this process to so many bytes beyond what it has now: more of them is a MemoryError.

    By RLIMIT_DATA, which counts private memory that can be written (Linux 4.7 and later). RLIMIT_AS would
    count mapped files and what allocators and threads only reserve.
    """

    def __init__(self, at_most_bytes: int) -> None:
        count = f"{at_most_bytes / 2**20:,.0f} MB"
        self.sentence = (
            f"the query needs more than {count} of memory; select fewer series, a shorter time or a larger "
            "step"
        )
        begin = _bytes(_DATA)
        self._crowded_bytes = begin + at_most_bytes // 2
        self._rested_bytes = _bytes(_RESIDENT)
        self.crowded = False
        _, hard = resource.getrlimit(resource.RLIMIT_DATA)
        limit = begin + at_most_bytes
        resource.setrlimit(resource.RLIMIT_DATA, (limit if hard < 0 else min(limit, hard), hard))

    def give_back(self) -> None:
        """After a query. What stays then is caches and fragments; with half of the memory gone to them, the
        next query is the last (`crowded`): a fresh process has more room."""
        if _bytes(_RESIDENT) - self._rested_bytes > _TRIM_BYTES:
            gc.collect()
            if hasattr(_LIBC, "malloc_trim"):  # glibc
                _LIBC.malloc_trim(0)
            self._rested_bytes = _bytes(_RESIDENT)
            self.crowded = _bytes(_DATA) > self._crowded_bytes


def _bytes(column: int) -> int:
    pages = int(Path("/proc/self/statm").read_bytes().split()[column])
    return pages * resource.getpagesize()


def _contiguous(answer: Answer) -> Answer:
    """Arrays that are parts of others would be copied twice on their way."""
    there = None if answer.there is None else np.ascontiguousarray(answer.there)
    return replace(answer, values=np.ascontiguousarray(answer.values), there=there)


def _sendable(error: QueryError) -> QueryError:
    """Without its traceback and causes, which hold the query's arrays."""
    error.__traceback__ = error.__cause__ = error.__context__ = None
    return error


def _fault(error: Exception) -> InternalError:
    return InternalError(f"unexpected {type(error).__name__}: {error}")


def _ran_out(error: BaseException | None) -> bool:
    """Is a MemoryError behind it?"""
    while error is not None:
        if isinstance(error, MemoryError):
            return True
        error = error.__cause__ or error.__context__
    return False


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
