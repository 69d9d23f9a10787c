"""Scrape targets that misbehave on the wire, each in its own way, on loopback ports of their own."""

import asyncio
import contextlib
import gzip
from collections.abc import Awaitable, Callable
from functools import cache

Answer = Callable[[asyncio.StreamWriter], Awaitable[None]]

GOOD_PAGE = "# TYPE good gauge\n" + "".join(f'good{{i="{index}"}} {index}\n' for index in range(50))


def _http(body: bytes, *headers: str, status: str = "200 OK", length: int | None = None) -> bytes:
    lines = [f"HTTP/1.1 {status}", "Content-Type: text/plain; version=0.0.4", *headers]
    if length != -1:
        lines.append(f"Content-Length: {len(body) if length is None else length}")
    return ("\r\n".join(lines) + "\r\n\r\n").encode() + body


def sends(data: bytes) -> Answer:
    async def answer(writer: asyncio.StreamWriter) -> None:
        writer.write(data)
        await writer.drain()

    return answer


async def _hangs(_writer: asyncio.StreamWriter) -> None:
    await asyncio.sleep(60)


async def _hangs_in_the_body(writer: asyncio.StreamWriter) -> None:
    writer.write(_http(b"good 1\n", length=1_000))
    await writer.drain()
    await asyncio.sleep(60)


async def _resets(writer: asyncio.StreamWriter) -> None:
    writer.transport.abort()


async def _sends_200_mb(writer: asyncio.StreamWriter) -> None:
    writer.write(_http(b"", length=200_000_000))
    line = b'm{x="' + b"y" * 990 + b'"} 1\n'
    for _ in range(200):
        writer.write(line * 1_000)
        await writer.drain()


def _malformed_at_4000() -> bytes:
    lines = [f'm{{i="{index}"}} 1' for index in range(1, 6_000)]
    lines[3_999] = 'm{i="4000" 1'
    return ("\n".join(lines) + "\n").encode()


@cache
def targets() -> dict[str, Answer]:
    """Name -> how it answers every request."""
    good = GOOD_PAGE.encode()
    return {
        "good": sends(_http(good)),
        "gzip": sends(_http(gzip.compress(good), "Content-Encoding: gzip")),
        "chunked": sends(
            _http(b"%x\r\n" % len(good) + good + b"\r\n0\r\n\r\n", "Transfer-Encoding: chunked", length=-1)
        ),
        "hangs": _hangs,
        "hangs in the body": _hangs_in_the_body,
        "resets": _resets,
        "500": sends(_http(b"<html>no</html>", status="500 Internal Server Error")),
        "200 MB": _sends_200_mb,
        "gzip bomb": sends(_http(gzip.compress(bytes(200_000_000), 9), "Content-Encoding: gzip")),
        "broken gzip": sends(_http(b"\x1f\x8b\x08nonsense", "Content-Encoding: gzip")),
        "cut gzip": sends(_http(gzip.compress(good)[:-12], "Content-Encoding: gzip")),
        "brotli": sends(_http(b"xx", "Content-Encoding: br")),
        "binary": sends(_http(bytes(range(256)) * 40)),
        "half line": sends(_http(good + b"good 12", "Connection: close", length=-1)),
        "half page": sends(_http(good, length=len(good) + 500)),
        "html": sends(_http(b"<!doctype html><title>hi</title>\n")),
        "malformed at 4000": sends(_http(_malformed_at_4000())),
        "not http": sends(b"SSH-2.0-OpenSSH_9.2\r\n"),
        "redirects in a circle": sends(
            _http(b"", "Location: /metrics", "Connection: close", status="302 Found")
        ),
        "endless header": sends(b"HTTP/1.1 200 OK\r\nX-A: " + b"a" * 1_000_000),
    }


class HostileTargets:
    """Async context: serves every target; `ports` by name, `requests` counted by name."""

    def __init__(self) -> None:
        self.ports: dict[str, int] = {}
        self.requests: dict[str, int] = {}
        self.headers: dict[str, str] = {}
        self._servers: list[asyncio.Server] = []

    async def __aenter__(self) -> "HostileTargets":
        for name, answer in targets().items():
            server = await asyncio.start_server(self._handler(name, answer), "127.0.0.1", 0)
            self._servers.append(server)
            self.ports[name] = server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        for server in self._servers:
            server.close()

    def url(self, name: str) -> str:
        return f"http://127.0.0.1:{self.ports[name]}/metrics"

    def _handler(self, name: str, answer: Answer):
        async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
                self.headers[name] = (await reader.readuntil(b"\r\n\r\n")).decode()
                self.requests[name] = self.requests.get(name, 0) + 1
                await answer(writer)
            writer.close()

        return handle
