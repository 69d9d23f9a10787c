"""A query that was asked of the workers, as whoever asked it holds it."""

from collections.abc import Callable
from concurrent.futures import Future, wait
from threading import Lock

from db.promql.answer import Answer
from db.promql.errors import QueryCanceled, QueryError
from db.promql.question import Question


class Running:
    """Safe for threads. It ends once: with an answer, or with an error."""

    def __init__(
        self,
        question: Question,
        seconds: float,
        now: float,
        on_end: Callable[[], None],
        on_cancel: "Callable[[Running], None]",
    ) -> None:
        """on_end: called once, before anybody hears of the end. on_cancel: called behind it if there was no
        end before."""
        self.question = question
        self.seconds = seconds
        self.ends = now + seconds
        self.passed_over = 0  # the keeper counts
        self.future: Future[Answer] = Future()
        # From now on `Future.cancel` does nothing: it would not reach the process.
        self.future.set_running_or_notify_cancel()
        self._lock = Lock()
        self._ended = False
        self._on_end = on_end
        self._on_cancel = on_cancel

    def result(self) -> Answer:
        """Waits for the end. Raises QueryError. Whatever interrupts the waiting cancels the query."""
        try:
            return self.future.result()
        finally:
            self.cancel()

    def wait(self, seconds: float) -> bool:
        """Wait for the end, but no longer than so; has it ended?"""
        return bool(wait([self.future], seconds).done)

    def done(self) -> bool:
        return self.future.done()

    def cancel(self) -> None:
        """Its result is QueryCanceled from now on, and its process free for others soon; nothing happens when
        it has ended."""
        if self.end(QueryCanceled("the query was cancelled")):
            self._on_cancel(self)

    def end(self, outcome: Answer | QueryError) -> bool:
        """For the workers. False when it had ended before."""
        with self._lock:
            if self._ended:
                return False
            self._ended = True
        self._on_end()
        if isinstance(outcome, QueryError):
            self.future.set_exception(outcome)
        else:
            self.future.set_result(outcome)
        return True

    @property
    def ended(self) -> bool:
        return self._ended
