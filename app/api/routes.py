"""The Prometheus-compatible part of the web port: which path is which call, and what a failure says."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from app.api.errors import ApiError, api_error
from app.api.evaluator import Evaluator
from app.api.parameters import Parameters, parameters_of
from app.api.query import Queries
from app.api.remote_write import METHODS
from app.api.replies import Reply, failure, respond
from app.api.series import SeriesCalls
from app.api.status import StatusCalls
from app.api.targets import TargetCalls
from app.api.threads import Threads
from db.errors import StoreError
from db.promql.errors import QueryError
from db.settings import Settings
from db.store import SampleStore

if TYPE_CHECKING:
    from db.joined_source import JoinedSource

_log = logging.getLogger("api")

Call = Callable[[Request, Parameters], Awaitable[Reply]]

_PREFIX = "/api/v1"
# Look-ups and the writing of answers, apart from the evaluation of queries.
_TOGETHER = 4


def prometheus_routes(
    store: Callable[[], SampleStore],
    evaluator: Evaluator,
    settings: Settings,
    now_ms: Callable[[], int],
    samples: "Callable[[], SampleStore | JoinedSource] | None" = None,
) -> list[Route]:
    """store: gives the open store, or raises a StoreError. samples: what look-ups read, where that is more
    than the store. The last route takes every other path below /api/v1, so that no page answers there."""
    threads = Threads(_TOGETHER, "api")
    queries = Queries(evaluator, now_ms)
    series = SeriesCalls(samples or store, threads)
    targets = TargetCalls(samples or store, settings, now_ms, threads)
    status = StatusCalls(store, settings, now_ms, threads)
    get: dict[str, Call] = {
        "/label/{name}/values": series.values,
        "/metadata": targets.metadata,
        "/targets": targets.targets,
        "/targets/metadata": targets.target_metadata,
        "/scrape_pools": targets.pools,
        "/rules": targets.rules,
        "/alerts": targets.alerts,
        "/alertmanagers": targets.alertmanagers,
        "/status/buildinfo": status.build,
        "/status/config": status.config,
        "/status/flags": status.flags,
        "/status/runtimeinfo": status.runtime,
        "/status/tsdb": status.tsdb,
    }
    get_or_post: dict[str, Call] = {
        "/query": queries.instant,
        "/query_range": queries.ranged,
        "/query_exemplars": queries.exemplars,
        "/series": series.series,
        "/labels": series.names,
    }
    return [
        *(_route(path, call, ("GET",), threads) for path, call in get.items()),
        *(_route(path, call, ("GET", "POST"), threads) for path, call in get_or_post.items()),
        Route(_PREFIX + "/{path:path}", _unknown, methods=METHODS),
    ]


def _route(path: str, call: Call, methods: tuple[str, ...], threads: Threads) -> Route:
    async def endpoint(request: Request) -> Response:
        if request.method == "OPTIONS":
            return Response(status_code=204)  # and no word on other origins: they may not read
        if request.method not in methods:
            headers = {"allow": ", ".join(methods)}
            return PlainTextResponse("Method Not Allowed\n", status_code=405, headers=headers)
        try:
            reply = await call(request, await parameters_of(request))
            return await respond(request, reply, threads)
        except ApiError as error:
            return failure(error)
        except (QueryError, StoreError) as error:
            return failure(api_error(error))
        except asyncio.CancelledError:  # only by a server that ends: whoever still waits is told, and no log
            return failure(ApiError("unavailable", "the server is being stopped; ask again when it runs"))
        except Exception as error:  # noqa: BLE001 - the client gets an answer in JSON, the log the rest
            _log.exception("%s failed", path)
            return failure(ApiError("internal", f"unexpected error: {type(error).__name__}"))

    return Route(_PREFIX + path, endpoint, methods=METHODS)


async def _unknown(_request: Request) -> Response:
    return PlainTextResponse("404 page not found\n", status_code=404)
