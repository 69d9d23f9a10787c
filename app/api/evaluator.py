"""How the HTTP API has a query evaluated: an interface, which tests fill with answers of their own."""

from collections.abc import Callable
from typing import Protocol

from db.promql.answer import Answer
from db.promql.engine import Options
from db.promql.limits import Limits
from db.promql.question import Question
from db.promql.worker_wire import ClosableSource
from db.promql.workers import QueryWorkers

LOOKBACK_MS = 300_000
TIMEOUT_SECONDS = 120.0
# prometheus/prometheus, web/api/v1/api.go: the steps after the first; its query may have one point more.
MOST_POINTS = 11_000


class Evaluator(Protocol):
    """Both methods raise a `db.promql.errors.QueryError`. When the caller is cancelled, so is the query.

    timeout_s: of wall time. lookback_ms: None for the usual one.
    """

    async def instant(
        self, text: str, at_ms: int, timeout_s: float = TIMEOUT_SECONDS, lookback_ms: int | None = None
    ) -> Answer: ...

    async def ranged(
        self,
        text: str,
        start_ms: int,
        end_ms: int,
        step_ms: int,
        timeout_s: float = TIMEOUT_SECONDS,
        lookback_ms: int | None = None,
    ) -> Answer: ...


def options(timeout_s: float, lookback_ms: int | None) -> Options:
    """Of one query."""
    limits = Limits(points=MOST_POINTS + 1, seconds=timeout_s)
    return Options(lookback_ms=LOOKBACK_MS if lookback_ms is None else lookback_ms, limits=limits)


class ProcessEvaluator:
    """Evaluates in processes of its own, which end with a query that is cancelled or takes too long. They are
    started with the first query: who only looks at pages does not pay for them."""

    def __init__(self, open_source: Callable[[], ClosableSource]) -> None:
        """open_source: called once in each process; sent there, so that it must be picklable."""
        self._open_source = open_source
        self._workers: QueryWorkers | None = None

    def close(self) -> None:
        if self._workers is not None:
            self._workers.close()

    async def instant(
        self, text: str, at_ms: int, timeout_s: float = TIMEOUT_SECONDS, lookback_ms: int | None = None
    ) -> Answer:
        return await self._ask(Question(text, at_ms, at_ms, None, options(timeout_s, lookback_ms)))

    async def ranged(
        self,
        text: str,
        start_ms: int,
        end_ms: int,
        step_ms: int,
        timeout_s: float = TIMEOUT_SECONDS,
        lookback_ms: int | None = None,
    ) -> Answer:
        return await self._ask(Question(text, start_ms, end_ms, step_ms, options(timeout_s, lookback_ms)))

    async def _ask(self, question: Question) -> Answer:
        if self._workers is None or self._workers.closed:  # a fault must not end all queries to come
            self._workers = QueryWorkers(self._open_source, spares=0)
        return await self._workers.ask(question)
