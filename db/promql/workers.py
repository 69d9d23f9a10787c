"""Answers queries in processes of their own, so that a query can be ended whatever it is at.

A long computation in NumPy listens to nobody; only the end of its process ends it. One thread keeps the
processes: it starts them, hands out questions, and kills the process whose query was cancelled or took too
long. It starts another one at once and has a spare one warm, so that the next query need not wait for it.
"""

import asyncio
import os
import pickle
from collections.abc import Callable
from dataclasses import replace
from threading import Lock, Thread
from time import monotonic
from types import TracebackType

from db.promql.answer import Answer
from db.promql.engine import Options
from db.promql.errors import SourceUnavailable
from db.promql.limits import Limits
from db.promql.question import Question, answer
from db.promql.running import Running
from db.promql.source import Source
from db.promql.worker_keeper import Keeper
from db.promql.worker_wire import ClosableSource, Opening

WAITING = 64
SPARES = 1
MEMORY_BYTES = 2 * 1024 * 1024 * 1024
_MOST_BY_DEFAULT = 4
_STOPPED = "the query was not answered because its processes are being stopped; ask again when they run"


class QueryWorkers:
    """Safe for threads. Open it once a process, close it at the end.

    A process that forks (without starting another program) loses them: they answer the first one only.
    """

    def __init__(
        self,
        open_source: Callable[[], ClosableSource],
        count: int | None = None,
        limits: Limits | None = None,
        *,
        memory_bytes: int = MEMORY_BYTES,
        waiting: int = WAITING,
        spares: int = SPARES,
        answer: Callable[[Source, Question], Answer] = answer,
    ) -> None:
        """open_source: called once in each process, as `partial(SampleStore.open, path)`; it and `answer` are
        sent by name. count: queries at once; None for the machine's processors, 4 at most. limits: what any
        query may use at most; None for what each one says. memory_bytes: what one process may hold
        beyond what it has when it begins. waiting: queries that may wait for a process. spares: processes
        beyond `count`, in reserve."""
        self._count = count or min(_MOST_BY_DEFAULT, os.cpu_count() or 1)
        self._limits = limits
        self._places = self._count + waiting
        self._taken = 0
        self._lock = Lock()
        self._closed = False
        self._pid = os.getpid()
        opening = Opening(open_source, answer, memory_bytes)
        pickle.dumps(opening)  # a function without a name is a mistake of the caller's, and is said here
        self._keeper = Keeper(opening, self._count, spares)
        # The processes end with the thread that started them, which is therefore one of its own. As a daemon
        # it does not keep a program alive that forgot to close.
        self._thread = Thread(target=self._keep, name="query-workers", daemon=True)
        self._thread.start()

    def __enter__(self) -> "QueryWorkers":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End all processes and wait for it; what was asked and is not answered fails."""
        if os.getpid() != self._pid:
            return
        with self._lock:
            self._closed = True
        self._keeper.stop()
        self._thread.join()

    @property
    def closed(self) -> bool:
        """By `close`, or by a fault of the thread that keeps the processes."""
        return self._closed

    def submit(self, question: Question) -> Running:
        """Ask without waiting. Raises SourceUnavailable when too many wait already, or after `close`."""
        if os.getpid() != self._pid:
            raise SourceUnavailable("the queries' processes belong to the process that was forked")
        question, seconds = self._limited(question)
        running = Running(question, seconds, monotonic(), self._leave, self._keeper.cancel)
        with self._lock:
            if self._closed:
                raise SourceUnavailable(_STOPPED)
            if self._taken >= self._places:
                raise SourceUnavailable(
                    f"{self._taken:,} queries are running or waiting already; "
                    "ask again in a moment, or have fewer panels and rules ask at once"
                )
            self._taken += 1
            self._keeper.ask(running)
        return running

    def instant(self, text: str, at_ms: int, options: Options | None = None) -> Answer:
        """As db.promql.engine.instant. Raises QueryError."""
        return self.submit(Question(text, at_ms, at_ms, None, options or Options())).result()

    def ranged(
        self, text: str, start_ms: int, end_ms: int, step_ms: int, options: Options | None = None
    ) -> Answer:
        """As db.promql.engine.ranged. Raises QueryError."""
        return self.submit(Question(text, start_ms, end_ms, step_ms, options or Options())).result()

    async def ask(self, question: Question) -> Answer:
        """The same for coroutines: cancelling the task that waits cancels the query. Raises QueryError."""
        running = self.submit(question)
        try:
            return await asyncio.wrap_future(running.future)
        finally:
            running.cancel()

    def _limited(self, question: Question) -> tuple[Question, float]:
        """The question with the tighter one of each limit, and the seconds it may take altogether."""
        limits = question.options.limits
        ours = self._limits or limits
        seconds = min(limits.seconds, ours.seconds)
        if question.seconds is not None:
            seconds = min(seconds, question.seconds)
        limits = replace(
            limits,
            points=min(limits.points, ours.points),
            samples=min(limits.samples, ours.samples),
            seconds=seconds,
        )
        return replace(question, options=replace(question.options, limits=limits)), seconds

    def _leave(self) -> None:
        with self._lock:
            self._taken -= 1

    def _keep(self) -> None:
        try:
            self._keeper.run()
        finally:
            with self._lock:
                self._closed = True
            self._keeper.fail_all(SourceUnavailable(_STOPPED))
