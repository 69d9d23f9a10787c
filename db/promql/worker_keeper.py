"""The thread that keeps the processes which answer queries; what is known of them is changed here only."""

import logging
import os
import selectors
import signal
from collections import deque
from dataclasses import replace
from threading import Lock
from time import monotonic

from db.promql.errors import ExecutionError, QueryError, QueryTimeout, SourceUnavailable
from db.promql.running import Running
from db.promql.worker_child import Phase, WorkerChild
from db.promql.worker_wire import BadFrame, Opened, Opening, Reply

# Importing and opening take a second; a machine that swaps may take many.
START_SECONDS = 60.0
# Starting takes a processor for a second, which running queries need, too.
_STARTING_AT_ONCE = 2
FIRST_BACKOFF_SECONDS = 0.5
LONGEST_BACKOFF_SECONDS = 10.0
# A query shall stop by itself so much before its end: then its process lives on, with all that it has read.
_EARLIER_SECONDS, _EARLIER_RATIO = 0.25, 0.05
# Of those that were killed and wait for a disk.
_LOOK_SECONDS = 0.5
_LOGGED_CHARACTERS = 200
# How often a question may see others go first.
_PASSED_OVER = 16
_NARROW = "select fewer series, a shorter time or a larger step"
# What a terminal or a service manager sends to all processes of a group: the parent decides when these end.
_PARENTS_SIGNALS = {signal.SIGINT, signal.SIGHUP, signal.SIGTERM}

log = logging.getLogger(__name__)


class Keeper:
    """`ask`, `cancel` and `stop` are safe for threads; everything else belongs to the thread of `run`."""

    def __init__(self, opening: Opening, count: int, spares: int) -> None:
        self._opening = opening
        self._count = count
        self._wanted = count + spares
        self._children: list[WorkerChild] = []  # the one used last is last
        self._unreaped: list[WorkerChild] = []
        self._waiting: deque[Running] = deque()
        self._trouble: QueryError | None = None  # why the last start failed
        self._backoff = FIRST_BACKOFF_SECONDS
        self._start_at = 0.0
        self._asked: deque[Running] = deque()
        self._cancelled: deque[Running] = deque()
        self._stopping = False
        self._selector = selectors.DefaultSelector()
        self._wake_lock = Lock()
        self._waker: int | None = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._selector.register(self._waker, selectors.EVENT_READ)

    def ask(self, running: Running) -> None:
        self._asked.append(running)
        self._wake()

    def cancel(self, running: Running) -> None:
        """Free its process, or its place among those that wait; it has ended."""
        self._cancelled.append(running)
        self._wake()

    def stop(self) -> None:
        self._stopping = True
        self._wake()

    def _wake(self) -> None:
        with self._wake_lock:
            if self._waker is not None:
                os.eventfd_write(self._waker, 1)

    def run(self) -> None:
        """Until `stop`."""
        # New processes inherit it, from their first instruction on.
        signal.pthread_sigmask(signal.SIG_BLOCK, _PARENTS_SIGNALS)
        try:
            while not self._stopping:
                self._start_missing()
                self._hand_out()
                self._hear(self._selector.select(self._patience()))
                self._end_late(monotonic())
        except Exception:
            log.exception("the queries' processes are stopped by a fault")
        finally:
            self._end_all()

    def fail_all(self, error: QueryError) -> None:
        """Once `run` has ended and nothing more is asked."""
        for running in (*self._asked, *self._waiting):
            running.end(error)
        for child in self._children:
            if child.running is not None:
                child.running.end(error)

    def _in(self, *phases: Phase) -> list[WorkerChild]:
        return [child for child in self._children if child.phase in phases]

    def _start_missing(self) -> None:
        at_once = 1 if self._trouble else _STARTING_AT_ONCE
        while (
            len(self._in(Phase.STARTING, Phase.IDLE, Phase.BUSY)) < self._wanted
            and len(self._in(Phase.STARTING)) < at_once
            and monotonic() >= self._start_at
        ):
            try:
                child = WorkerChild(self._opening, monotonic() + START_SECONDS)
            except OSError as error:
                self._failed_to_start(f"the query's process could not be started: {error.strerror}")
                return
            self._children.append(child)
            self._selector.register(child.socket, selectors.EVENT_READ, child)

    def _failed_to_start(self, trouble: str | QueryError, trace: str = "") -> None:
        if str(trouble) != str(self._trouble):  # once, and not at every try
            log.error("a query process did not start: %s", trouble, extra={"trace": trace})
        self._trouble = SourceUnavailable(trouble) if isinstance(trouble, str) else trouble
        self._start_at = monotonic() + self._backoff
        self._backoff = min(LONGEST_BACKOFF_SECONDS, self._backoff * 2)

    def _hand_out(self) -> None:
        while self._asked:
            self._waiting.append(self._asked.popleft())
        while self._waiting and len(self._in(Phase.BUSY)) < self._count:
            if self._waiting[0].ended:
                self._waiting.popleft()
                continue
            idle = self._in(Phase.IDLE)
            if not idle:
                break
            self._give(*self._matched(idle))
        if self._waiting and self._trouble and not self._in(Phase.STARTING, Phase.IDLE, Phase.BUSY):
            for running in self._waiting:
                running.end(type(self._trouble)(*self._trouble.args))
            self._waiting.clear()

    def _matched(self, idle: list[WorkerChild]) -> tuple[WorkerChild, Running]:
        """A process, the one used last if possible, and a question that it has answered before: it has the
        labels in its caches, which are most of a query's work. Else the oldest question; nor is that passed
        over again and again."""
        oldest = self._waiting[0]
        looked_at = [oldest] if oldest.passed_over >= _PASSED_OVER else self._waiting
        for child in reversed(idle):
            for running in looked_at:
                if child.knows(running.question.text) and not running.ended:
                    oldest.passed_over += running is not oldest
                    return child, running
        return idle[-1], oldest

    def _give(self, child: WorkerChild, running: Running) -> None:
        left = max(0.0, running.ends - monotonic())
        left -= min(_EARLIER_SECONDS, left * _EARLIER_RATIO)
        options = running.question.options
        options = replace(options, limits=replace(options.limits, seconds=left))
        try:
            child.send(replace(running.question, options=options))
        except OSError:  # it died while it had nothing to do; another one is asked
            child.leave()
            return
        self._waiting.remove(running)
        self._children.remove(child)
        self._children.append(child)
        child.phase = Phase.BUSY
        child.running = running
        child.learn(running.question.text)

    def _hear(self, ready: list[tuple[selectors.SelectorKey, int]]) -> None:
        for key, _ in ready:
            if key.data is None:
                os.eventfd_read(key.fd)
                continue
            child: WorkerChild = key.data
            try:
                message = child.read()
            except (EOFError, ConnectionResetError):  # reset: it was killed before it had read everything
                self._bury(child)
            except (OSError, BadFrame) as error:
                log.error("a query process is not understood and is ended: %s", error)
                child.leave()
            else:
                if message is not None:
                    self._take(child, message)
        while self._cancelled:
            running = self._cancelled.popleft()
            for child in self._in(Phase.BUSY):
                if child.running is running:
                    child.leave()

    def _take(self, child: WorkerChild, message: object) -> None:
        if child.phase is Phase.LEAVING:
            return
        if isinstance(message, Opened) and child.phase is Phase.STARTING:
            if message.error is not None:
                self._failed_to_start(message.error, message.trace)
                child.leave()
                return
            self._trouble = None
            self._backoff = FIRST_BACKOFF_SECONDS
            child.phase = Phase.IDLE
        elif isinstance(message, Reply) and child.running is not None:
            if message.trace:
                text = child.running.question.text[:_LOGGED_CHARACTERS]
                log.error("the query %r has met a fault", text, extra={"trace": message.trace})
            result = message.result
            if isinstance(result, QueryTimeout):
                result = _took_too_long(child.running)
            child.running.end(result)
            child.running = None
            child.phase = Phase.IDLE
            if message.retires:
                child.leave()

    def _bury(self, child: WorkerChild) -> None:
        self._selector.unregister(child.socket)
        self._children.remove(child)
        how = child.reap()
        if how is None:
            self._unreaped.append(child)
            how = "killed"
        if child.phase is Phase.STARTING:
            self._failed_to_start(f"the query's process ended before it could answer: {how}")
        elif child.phase is not Phase.LEAVING:
            log.error("a query process ended by itself: %s", how)
        if child.running is not None:
            if how.endswith("SIGKILL"):
                how += ": perhaps the machine has no memory left"
            child.running.end(ExecutionError(f"the query's process ended ({how}); {_NARROW}"))

    def _patience(self) -> float | None:
        """How long nothing will have to be done by itself; None for ever."""
        times = [running.ends for running in self._waiting]
        for child in self._children:
            if child.phase is Phase.STARTING:
                times.append(child.give_up_at)
            elif child.phase is Phase.BUSY and child.running is not None:
                times.append(child.running.ends)
        now = monotonic()
        if self._start_at > now:
            times.append(self._start_at)
        if self._unreaped:
            times.append(now + _LOOK_SECONDS)
        return max(0.0, min(times) - now) if times else None

    def _end_late(self, now: float) -> None:
        for running in [running for running in self._waiting if running.ended or running.ends <= now]:
            self._waiting.remove(running)
            running.end(
                QueryTimeout(
                    f"the query waited {running.seconds:g} s for others to end; ask again in a moment, or "
                    "have fewer panels and rules ask at once"
                )
            )
        for child in self._in(Phase.BUSY):
            if child.running is not None and child.running.ends <= now:
                child.running.end(_took_too_long(child.running))
                child.leave()
        for child in self._in(Phase.STARTING):
            if child.give_up_at <= now:
                self._failed_to_start(f"the query's process was not ready after {START_SECONDS:g} s")
                child.leave()
        self._unreaped = [child for child in self._unreaped if not child.gone()]

    def _end_all(self) -> None:
        for child in self._children:
            child.leave()
        for child in self._children:
            child.reap()
        self._selector.close()
        with self._wake_lock:
            if self._waker is not None:
                os.close(self._waker)
            self._waker = None


def _took_too_long(running: Running) -> QueryTimeout:
    return QueryTimeout(f"the query took longer than {running.seconds:g} s; {_NARROW}")
