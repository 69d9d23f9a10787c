"""What goes back to the client: Prometheus's envelope, gzip, and large answers in chunks.

All that takes time is done in threads, so that pages stay alive while a hundred megabytes are written.
"""

import zlib
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from dataclasses import dataclass

import orjson
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from app.api.answer_json import encode
from app.api.errors import STATUS, ApiError
from app.api.threads import Threads
from db.promql.answer import Answer

_CHUNK_BYTES = 256 << 10
# Shorter bodies are not worth compressing.
_LEAST_COMPRESSED = 1_000
_COMPRESSION_LEVEL = 1  # JSON of samples: nearly as small as with 6, five times as fast
_GZIP_WINDOW = 31  # zlib's code for "with gzip's header"
_JSON = "application/json"


@dataclass(frozen=True, slots=True)
class Reply:
    """data: an Answer, or what orjson writes."""

    data: object
    warnings: Sequence[str] = ()
    infos: Sequence[str] = ()


def failure(error: ApiError) -> Response:
    body = {"status": "error", "errorType": error.kind, "error": str(error)}
    return Response(orjson.dumps(body), status_code=STATUS[error.kind], media_type=_JSON)


async def respond(request: Request, reply: Reply, threads: Threads) -> Response:
    """The reply as far as it fits one chunk; a longer one is streamed."""
    zipped = _accepts_gzip(request)
    headers = {"vary": "Accept-Encoding"}

    def begin() -> tuple[list[bytes], Iterator[bytes], bool]:
        raw = _chunks(_envelope(reply))
        first = next(raw)
        if not zipped or len(first) < _LEAST_COMPRESSED:
            return [first, next(raw, b"")], raw, False
        chunks = _compressed(first, raw)
        return [next(chunks), next(chunks, b"")], chunks, True

    started, rest, compressed = await threads.run(begin)
    if compressed:
        headers["content-encoding"] = "gzip"
    if not started[1]:
        return Response(started[0], headers=headers, media_type=_JSON)

    async def stream() -> AsyncIterator[bytes]:
        for chunk in started:
            yield chunk
        while chunk := await threads.run(lambda: next(rest, b"")):
            yield chunk

    return StreamingResponse(stream(), headers=headers, media_type=_JSON)


def _envelope(reply: Reply) -> Iterator[bytes]:
    yield b'{"status":"success","data":'
    if isinstance(reply.data, Answer):
        yield from encode(reply.data)
    else:
        yield orjson.dumps(reply.data)
    if reply.warnings:
        yield b',"warnings":' + orjson.dumps(list(reply.warnings))
    if reply.infos:
        yield b',"infos":' + orjson.dumps(list(reply.infos))
    yield b"}"


def _chunks(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """The same bytes in pieces of some size; none is empty."""
    held: list[bytes] = []
    size = 0
    for piece in pieces:
        held.append(piece)
        size += len(piece)
        if size >= _CHUNK_BYTES:
            yield b"".join(held)
            held.clear()
            size = 0
    if held:
        yield b"".join(held)


def _compressed(first: bytes, rest: Iterable[bytes]) -> Iterator[bytes]:
    packer = zlib.compressobj(_COMPRESSION_LEVEL, zlib.DEFLATED, _GZIP_WINDOW)

    def packed() -> Iterator[bytes]:
        yield packer.compress(first)
        for chunk in rest:
            yield packer.compress(chunk)
        yield packer.flush()

    return _chunks(packed())


def _accepts_gzip(request: Request) -> bool:
    for part in request.headers.get("accept-encoding", "").lower().split(","):
        coding, _, quality = part.partition(";")
        if coding.strip() == "gzip":
            return quality.replace(" ", "") not in ("q=0", "q=0.0", "q=0.00", "q=0.000")
    return False
