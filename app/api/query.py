"""`/api/v1/query`, `/query_range` and `/query_exemplars`."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import numpy as np
from starlette.requests import Request

from app.api.errors import ApiError, bad_parameter
from app.api.evaluator import MOST_POINTS, TIMEOUT_SECONDS, Evaluator
from app.api.parameters import Parameters
from app.api.replies import Reply
from app.api.times import FIRST_MS, LAST_MS
from db.promql.answer import Answer
from db.promql.errors import BadQuery
from db.promql.parse import parse

TRUNCATED = "results truncated due to limit"


class Queries:
    """The endpoints; each raises ApiError, QueryError or StoreError."""

    def __init__(self, evaluator: Evaluator, now_ms: Callable[[], int]) -> None:
        self._evaluator = evaluator
        self._now_ms = now_ms

    async def instant(self, request: Request, asked: Parameters) -> Reply:
        limit = asked.limit()
        at_ms = asked.time("time", self._now_ms())
        timeout_s = asked.timeout(TIMEOUT_SECONDS)
        query = self._evaluator.instant(asked.text("query"), at_ms, timeout_s, asked.lookback_ms())
        return await _reply(request, query, limit)

    async def ranged(self, request: Request, asked: Parameters) -> Reply:
        limit = asked.limit()
        start_ms, end_ms = asked.time("start"), asked.time("end")
        if end_ms < start_ms:
            raise bad_parameter("end", "end timestamp must not be before start time")
        step_ms = asked.milliseconds("step")
        if step_ms <= 0:
            raise bad_parameter(
                "step",
                "zero or negative query resolution step widths are not accepted. Try a positive integer",
            )
        if (end_ms - start_ms) // step_ms > MOST_POINTS:
            raise ApiError(
                "bad_data",
                f"exceeded maximum resolution of {MOST_POINTS:,} points per timeseries. "
                "Try decreasing the query resolution (?step=XX)",
            )
        timeout_s = asked.timeout(TIMEOUT_SECONDS)
        query = self._evaluator.ranged(
            asked.text("query"), start_ms, end_ms, step_ms, timeout_s, asked.lookback_ms()
        )
        return await _reply(request, query, limit)

    async def exemplars(self, _request: Request, asked: Parameters) -> Reply:
        """The query is checked, and nothing is found: exemplars are not stored."""
        if asked.time("end", LAST_MS) < asked.time("start", FIRST_MS):
            raise ApiError("bad_data", "end timestamp must not be before start timestamp")
        parse(asked.text("query"))
        return Reply([])


async def _reply(request: Request, query: Coroutine[Any, Any, Answer], limit: int) -> Reply:
    try:
        answer = await _while_connected(request, query)
    except BadQuery as error:
        raise bad_parameter("query", error) from error
    warnings = list(answer.warnings)
    if limit and answer.kind in ("vector", "matrix") and answer.table.count > limit:
        answer = _first(answer, limit)
        warnings.append(TRUNCATED)
    return Reply(answer, warnings, answer.infos)


def _first(answer: Answer, limit: int) -> Answer:
    there = None if answer.there is None else answer.there[:limit]
    table = answer.table.take(np.arange(limit))
    return Answer(answer.kind, table, answer.timestamps, answer.values[:limit], there, infos=answer.infos)


async def _while_connected(request: Request, query: Coroutine[Any, Any, Answer]) -> Answer:
    """The answer; when the client goes away before, the query is cancelled. Raises what the query raises."""
    asked = asyncio.ensure_future(query)
    gone = asyncio.ensure_future(_gone(request))
    try:
        await asyncio.wait((asked, gone), return_when=asyncio.FIRST_COMPLETED)
        if not asked.done():
            raise ApiError("canceled", "query was canceled: the client has gone")
        return asked.result()
    finally:
        asked.cancel()
        gone.cancel()


async def _gone(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass
