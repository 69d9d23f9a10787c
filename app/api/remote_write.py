"""`POST /api/v1/write`: the receiver of Prometheus's remote-write 1.0.

Answered 204 means: on disk. Requests that arrive while a commit runs share the next one. There is no
sign-in yet, so only programs of this machine may write: no other address, and no page in a browser.
"""

import asyncio
import ipaddress
import logging
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from starlette.requests import ClientDisconnect, Request
from starlette.responses import PlainTextResponse, Response

from app.api.protobuf import BadMessage, varint
from app.api.write_request import BadRequest, RequestReader, WriteRequest
from db.errors import StoreError, Unstorable
from db.records import DenseAppend, MetricMetadata, SourceReport, SparseAppend
from db.snappy import NotSnappy, decompressed

_log = logging.getLogger("remote_write")

# What the route has to take so that nothing else answers for it.
METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")
# The senders' own limit is some hundred kilobytes; 32 MB is what Prometheus's receiver decodes at most.
MAX_BYTES = 32 << 20
# prometheus/prometheus, scrape/scrape.go (maxAheadTime), as for scraped samples.
_AHEAD_MS = 600_000
# Requests that are read at the same time: each may hold MAX_BYTES twice. More wait in their sockets.
_TOGETHER = 8
_BODY_SECONDS = 30.0
_RETRY_SECONDS = 5
# A family's HELP may change with every request; forgetting costs a few known rows.
_METADATA_KNOWN = 50_000
_COMPLAINT_MS = 60_000


class SampleWriter(Protocol):
    """The part of the store that is written to; see `db.store.SampleStore`."""

    def write(
        self,
        appends: Sequence[DenseAppend | SparseAppend],
        reports: Sequence[SourceReport],
        metadata: Sequence[MetricMetadata],
    ) -> None: ...


class _Refused(Exception):
    """Ends a request with a status and one sentence."""

    def __init__(self, status: int, sentence: str) -> None:
        super().__init__(sentence)
        self.status = status


@dataclass(frozen=True, slots=True)
class _Waiting:
    request: WriteRequest
    done: "asyncio.Future[None]"


class RemoteWrite:
    """The receiver; `receive` is the route's endpoint.

    store: gives the open store, or raises a StoreError. host: what the server listens on.
    """

    def __init__(self, store: Callable[[], SampleWriter], now_ms: Callable[[], int], host: str) -> None:
        self._store = store
        self._now_ms = now_ms
        self._is_local = _is_loopback(host)
        self._reader = RequestReader()
        self._turns = asyncio.Semaphore(_TOGETHER)
        self._waiting: list[_Waiting] = []
        self._writing: asyncio.Task[None] | None = None
        self._known_metadata: set[MetricMetadata] = set()
        self._outside = self._histograms = self._complained_ms = 0
        # Reading is Python's work and holds the GIL; the commit of one request waits for the disk meanwhile.
        self._read_thread = ThreadPoolExecutor(1, thread_name_prefix="remote-write-read")
        self._write_thread = ThreadPoolExecutor(1, thread_name_prefix="remote-write-commit")

    def close(self) -> None:
        """Take no more; what is being committed is."""
        self._read_thread.shutdown(wait=False, cancel_futures=True)
        self._write_thread.shutdown(wait=False, cancel_futures=True)

    async def receive(self, request: Request) -> Response:
        """Store one request. 204; 400, 403, 413, 415: it will never be taken; 503: send it again."""
        try:
            self._check(request)
            async with self._turns:
                body = await _body(request)
                loop = asyncio.get_running_loop()
                await self._commit(await loop.run_in_executor(self._read_thread, self._read, body))
        except _Refused as refused:
            return PlainTextResponse(f"{refused}\n", status_code=refused.status)
        except (BadRequest, Unstorable) as error:
            return PlainTextResponse(f"This request cannot be stored: {error}.\n", status_code=400)
        except StoreError as error:
            return PlainTextResponse(
                f"Not stored: {error}\n", status_code=503, headers={"retry-after": str(_RETRY_SECONDS)}
            )
        return Response(status_code=204)

    def _check(self, request: Request) -> None:
        """May this sender write, and does it speak the protocol? Raises _Refused."""
        if request.method != "POST":
            raise _Refused(405, "Samples are sent with POST.")
        client = request.client.host if request.client else ""
        if not self._is_local or not _is_loopback(client):
            raise _Refused(
                403,
                "Samples are taken from this machine only, while web.host is a loopback address: "
                "there is no sign-in yet.",
            )
        if "origin" in request.headers:
            raise _Refused(403, "Samples are not taken from pages in a browser.")
        media_type, _, parameters = request.headers.get("content-type", "").lower().partition(";")
        message = parameters.replace(" ", "").partition("proto=")[2].strip('"')
        if media_type.strip() != "application/x-protobuf" or message not in ("", "prometheus.writerequest"):
            raise _Refused(415, "The body has to be remote-write 1.0: Content-Type: application/x-protobuf.")
        if request.headers.get("content-encoding", "").strip().lower() != "snappy":
            raise _Refused(415, "The body has to be compressed: Content-Encoding: snappy.")

    def _read(self, body: bytes) -> WriteRequest:
        return self._reader.read(_decompressed(body))

    async def _commit(self, request: WriteRequest) -> None:
        """Return when the request is on disk, or raise what kept it from there."""
        waiting = _Waiting(request, asyncio.get_running_loop().create_future())
        self._waiting.append(waiting)
        if self._writing is None:
            self._writing = asyncio.create_task(self._write_waiting())
        await waiting.done

    async def _write_waiting(self) -> None:
        loop = asyncio.get_running_loop()
        while self._waiting:
            together, self._waiting = self._waiting, []
            write = [item.request for item in together]
            errors = await loop.run_in_executor(self._write_thread, self._write_all, write)
            for item, error in zip(together, errors, strict=True):
                if item.done.cancelled():
                    continue
                if error is None:
                    item.done.set_result(None)
                else:
                    item.done.set_exception(error)
        self._writing = None

    def _write_all(self, requests: Sequence[WriteRequest]) -> list[Exception | None]:
        """What kept each from the disk; in one commit, or each in its own where one spoils it for all."""
        try:
            self._write(requests)
        except Unstorable as error:
            if len(requests) == 1:
                return [error]
            return [self._write_all([request])[0] for request in requests]
        except Exception as error:  # noqa: BLE001 - every sender has to get an answer
            return [error] * len(requests)
        return [None] * len(requests)

    def _write(self, requests: Sequence[WriteRequest]) -> None:
        latest_ms = self._now_ms() + _AHEAD_MS
        appends: list[SparseAppend] = []
        outside = 0
        for request in requests:
            index, timestamps, values = request.index, request.timestamps, request.values
            fits = (timestamps >= 0) & (timestamps <= latest_ms)
            if not fits.all():
                outside += int(np.count_nonzero(~fits))
                index, timestamps, values = index[fits], timestamps[fits], values[fits]
            if len(index):
                appends.append(SparseAppend(request.series, timestamps, values, index))
        said = {item for request in requests for item in request.metadata if item.metric}
        metadata = sorted(said - self._known_metadata, key=repr)
        if appends or metadata:
            self._store().write(appends, (), metadata)
        if len(self._known_metadata) > _METADATA_KNOWN:
            self._known_metadata.clear()
        self._known_metadata.update(metadata)
        self._complain(outside, sum(request.histograms for request in requests))

    def _complain(self, outside: int, histograms: int) -> None:
        """Say now and then what was left out; the sender is not told, since it would drop the rest, too."""
        self._outside += outside
        self._histograms += histograms
        now_ms = self._now_ms()
        if (self._outside or self._histograms) and now_ms - self._complained_ms >= _COMPLAINT_MS:
            _log.warning(
                "left out %d samples with timestamps before 1970 or more than 10 minutes ahead, "
                "and %d native histograms, which are not supported",
                self._outside,
                self._histograms,
            )
            self._outside = self._histograms = 0
            self._complained_ms = now_ms


async def _body(request: Request) -> bytes:
    """The whole body. Raises _Refused when it is too large, too slow or cut short."""
    too_large = _Refused(413, f"The body has more than {MAX_BYTES} bytes; send fewer samples at a time.")
    length = request.headers.get("content-length", "")
    if length.isascii() and length.isdigit() and int(length[:20]) > MAX_BYTES:
        raise too_large
    parts: list[bytes] = []
    size = 0
    try:
        async with asyncio.timeout(_BODY_SECONDS):
            async for part in request.stream():
                size += len(part)
                if size > MAX_BYTES:
                    raise too_large
                parts.append(part)
    except TimeoutError:
        raise _Refused(408, "The body took too long to arrive.") from None
    except ClientDisconnect:
        raise _Refused(400, "The body was cut short.") from None
    return b"".join(parts)


def _decompressed(body: bytes) -> bytes:
    """A snappy block. Raises _Refused or BadRequest."""
    try:
        size, _ = varint(body, 0, len(body))  # a block begins with the size of what is in it
        if size > MAX_BYTES:
            raise _Refused(413, f"The body holds more than {MAX_BYTES} bytes; send fewer samples at a time.")
        return decompressed(body)
    except (BadMessage, NotSnappy):
        raise BadRequest("it is not compressed with snappy's block format") from None


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host.lower() == "localhost"
