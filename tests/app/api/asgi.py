"""The API's routes without a server: requests by hand, with an evaluator that a test made."""

import asyncio
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import numpy as np
from starlette.applications import Starlette

from app.api.routes import prometheus_routes
from db.promql.answer import Answer
from db.promql.table import SeriesTable
from db.settings import load_settings
from db.store import SampleStore

NOW_MS = 1_700_000_000_000


@dataclass
class FakeEvaluator:
    """Gives the answer, or raises it, after `wait`; `asked` holds the arguments of each query."""

    answer: Answer | Exception
    wait: Callable[[], Any] | None = None
    asked: list[tuple[Any, ...]] = field(default_factory=list)
    cancelled: int = 0

    async def instant(
        self, text: str, at_ms: int, timeout_s: float = 1.0, lookback_ms: int | None = None
    ) -> Answer:
        return await self._answer(text, at_ms, timeout_s, lookback_ms)

    async def ranged(
        self,
        text: str,
        start_ms: int,
        end_ms: int,
        step_ms: int,
        timeout_s: float = 1.0,
        lookback_ms: int | None = None,
    ) -> Answer:
        return await self._answer(text, start_ms, end_ms, step_ms, timeout_s, lookback_ms)

    async def _answer(self, *asked: Any) -> Answer:
        self.asked.append(asked)
        try:
            if self.wait is not None:
                await self.wait()
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


def vector(*values: float, warnings: Sequence[str] = (), infos: Sequence[str] = ()) -> Answer:
    table = SeriesTable.of([(("n", str(number)),) for number in range(len(values))])
    return Answer(
        "vector",
        table,
        np.array([NOW_MS]),
        np.array(values, dtype=np.float64).reshape(-1, 1),
        warnings=warnings,
        infos=infos,
    )


def application(folder: Path, store: Callable[[], SampleStore], evaluator: Any) -> Starlette:
    settings = load_settings(None, {"data": folder}, {"HOME": str(folder)})
    return Starlette(routes=prometheus_routes(store, evaluator, settings, lambda: NOW_MS))


@dataclass
class Got:
    status: int
    headers: dict[str, str]
    chunks: list[bytes]

    @property
    def json(self) -> Any:
        return json.loads(b"".join(self.chunks))


async def call(
    app: Starlette,
    path: str,
    parameters: Sequence[tuple[str, str]] = (),
    *,
    headers: Sequence[tuple[str, str]] = (),
    gone: "asyncio.Event | None" = None,
) -> Got:
    """A GET. gone: set when the client leaves; without it the client stays."""
    sent: list[dict[str, Any]] = []
    begun = False

    async def receive() -> dict[str, Any]:
        nonlocal begun
        if not begun:
            begun = True
            return {"type": "http.request", "body": b"", "more_body": False}
        await (gone or asyncio.Event()).wait()
        return {"type": "http.disconnect"}

    async def send(message: Any) -> None:
        sent.append(message)

    scope = {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.4"},
        "http_version": "1.1",
        "method": "GET",
        "scheme": "http",
        "path": f"/api/v1/{path}",
        "raw_path": f"/api/v1/{path}".encode(),
        "root_path": "",
        "query_string": urlencode(parameters).encode(),
        "headers": [(b"host", b"localhost"), *((name.encode(), value.encode()) for name, value in headers)],
        "client": ("127.0.0.1", 1),
        "server": ("127.0.0.1", 2),
    }
    await app(scope, receive, send)
    start, *rest = sent
    said = {name.decode(): value.decode() for name, value in start["headers"]}
    return Got(start["status"], said, [message["body"] for message in rest if message.get("body")])
