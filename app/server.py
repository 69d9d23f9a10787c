"""The web process: Streamlit's pages and our own HTTP routes on one port, as one ASGI application.

Not `streamlit run`: that drops the repository's root from `sys.path`, takes another port when ours is
taken, and cannot guard every route.
"""

import asyncio
import importlib
import logging
import os
import signal
import socket
import threading
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from types import FrameType

import streamlit as st
import uvicorn
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route
from streamlit.web import bootstrap

from app.api.evaluator import ProcessEvaluator
from app.api.remote_write import METHODS, RemoteWrite
from app.api.routes import prometheus_routes
from app.context import PageContext, ProcessBook, install, kept_samples, kept_source, wall_clock_ms
from app.demo_folder import is_demo
from app.host_check import HostCheck
from app.own_metrics import CONTENT_TYPE, RequestCount, exposition
from db.catalog.load import load_catalog
from db.errors import StoreError
from db.held_samples import read_held
from db.processes import BEAT_SECONDS
from db.queued_store import KeptQueue
from db.samples_source import source_of
from db.settings import Settings

_log = logging.getLogger("web")
_MAIN = Path(__file__).parent / "main.py"
_BACKLOG = 512
# An open tab holds its connection for ever; after this it is cut, so that a stop stays under two seconds.
_GRACE_SECONDS = 1


def serve(settings: Settings, allowed_hosts: Iterable[str] = ()) -> int:
    """Serve the pages until SIGINT or SIGTERM; the exit code (1: the address is not ours to take). Raises
    CatalogError for a signal file that cannot be used.

    allowed_hosts: names under which others reach us (a proxy's, the machine's), besides the loopback ones.
    """
    host, port = settings.web.host, settings.web.port
    catalog = load_catalog(settings.signal_files)
    try:
        sockets = listen(host, port)
    except OSError as error:
        _log.error(
            "cannot listen on %s port %s: %s; choose another with --host or --port",
            host,
            port,
            error.strerror,
        )
        return 1
    samples, processes = kept_samples(settings.samples_path), ProcessBook(settings.state_location)
    reading = kept_source(settings)
    context = PageContext(
        reading,
        processes.read,
        zone=settings.zone,
        held=lambda: read_held(settings.data, wall_clock_ms()),
        demo=is_demo(settings.data),
        catalog=lambda: catalog,
    )
    install(context)
    written = KeptQueue(samples, settings.data, "web", settings.store.prometheus, context.now_ms)
    remote_write = RemoteWrite(written, context.now_ms, host)
    evaluator = ProcessEvaluator(source_of(settings))
    queries = prometheus_routes(samples, evaluator, settings, context.now_ms, reading)
    site = Site(context, processes, remote_write, queries)
    guarded = HostCheck(site.requests, host, allowed_hosts)
    site.refused = lambda: guarded.refused
    _join_our_log()
    server = uvicorn.Server(
        uvicorn.Config(
            guarded,
            ws="websockets-sansio",
            access_log=False,
            log_config=None,
            server_header=False,
            timeout_graceful_shutdown=_GRACE_SECONDS,
        )
    )
    # uvicorn stops gracefully on a signal and then raises it again; by then it must not kill us.
    for signum in (signal.SIGINT, signal.SIGTERM):
        signal.signal(signum, _already_handled)
    try:
        server.run(sockets=sockets)
    finally:
        remote_write.close()
        evaluator.close()
        reading.close()
        samples.close()
        processes.close()
    return 0 if server.started else 1


class Site:
    """The pages, /-/healthy, /-/ready, /metrics and /api; `requests` is the ASGI application to serve."""

    def __init__(
        self,
        context: PageContext,
        processes: ProcessBook,
        remote_write: RemoteWrite,
        queries: Sequence[Route],
    ) -> None:
        self._context = context
        self._processes = processes
        self._started_ms = wall_clock_ms()
        self.refused: Callable[[], int] = lambda: 0
        pages = st.App(
            _MAIN,
            lifespan=self._alive,
            routes=[
                Route("/-/healthy", self._healthy),
                Route("/-/ready", self._ready),
                Route("/metrics", self._metrics),
                Route("/api/v1/write", remote_write.receive, methods=METHODS),
                *queries,
            ],
        )
        # The App has named its script by now, so that the configuration beside it is found.
        bootstrap.load_config_options({})
        self.requests = RequestCount(pages)

    def _healthy(self, _request: Request) -> Response:
        return PlainTextResponse("Strata is healthy.\n")

    def _ready(self, _request: Request) -> Response:
        try:
            self._context.store().sources()
        except StoreError as error:
            return PlainTextResponse(f"Not ready: {error}\n", status_code=503)
        return PlainTextResponse("Strata is ready.\n")

    def _metrics(self, _request: Request) -> Response:
        try:
            self._context.store().generation()
            readable = True
        except StoreError:
            readable = False
        text = exposition(
            self.requests, refused=self.refused(), started_seconds=self._started_ms / 1000, readable=readable
        )
        return Response(text, headers={"content-type": CONTENT_TYPE})

    @asynccontextmanager
    async def _alive(self, _app: st.App) -> AsyncIterator[None]:
        # What the first page needs takes a second to import; the first viewer should not wait for it.
        threading.Thread(target=_import_ahead, name="import-ahead", daemon=True).start()
        beating = asyncio.create_task(self._beat())
        try:
            yield
        finally:
            beating.cancel()
            with suppress(asyncio.CancelledError):
                await beating

    async def _beat(self) -> None:
        complained = False
        while True:
            try:
                await asyncio.to_thread(self._beat_once)
                complained = False
            except StoreError as error:
                if not complained:
                    _log.warning("cannot report that this process is alive: %s", error)
                complained = True
            await asyncio.sleep(BEAT_SECONDS)

    def _beat_once(self) -> None:
        self._processes.beat(pid=os.getpid(), started_ms=self._started_ms, now_ms=self._context.now_ms())


def listen(host: str, port: int) -> list[socket.socket]:
    """A listening socket for each address that the name stands for. Raises OSError when none can be had."""
    sockets: list[socket.socket] = []
    failure: OSError | None = None
    for family, kind, protocol, _, address in socket.getaddrinfo(
        host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    ):
        listener = socket.socket(family, kind, protocol)
        try:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            listener.bind(address)
            listener.listen(_BACKLOG)
        except OSError as error:  # "localhost" also names an IPv6 address where IPv6 is off
            listener.close()
            failure = error
        else:
            listener.setblocking(False)
            sockets.append(listener)
    if not sockets and failure is not None:
        raise failure
    return sockets


def _import_ahead() -> None:
    for module in ("app.widgets.host_band", "app.widgets.history_band", "app.widgets.source_table"):
        importlib.import_module(module)


def _join_our_log() -> None:
    """Streamlit gives every logger a handler of its own; one line a record goes where ours go instead."""
    for name, logger in logging.Logger.manager.loggerDict.items():
        if name.startswith(("streamlit", "uvicorn", "websockets")) and isinstance(logger, logging.Logger):
            logger.handlers.clear()
            logger.propagate = True
            logger.setLevel(logging.WARNING)


def _already_handled(_signum: int, _frame: FrameType | None) -> None:
    """uvicorn has stopped on this signal; nothing is left to do."""
