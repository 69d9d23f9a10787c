"""Gets one page over HTTP within its limits; every way in which that can fail is one sentence.

The one module that speaks HTTP to scrape targets. Nothing a target sends may cost more than its own
scrape: the size is checked while reading and again while unpacking.
"""

import asyncio
import os
import ssl
import zlib
from base64 import b64encode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import aiohttp
from yarl import URL

USER_AGENT = "Strata/0.1"
# Prometheus has no limit of its own; a target that sends 200 MB should cost its own scrape only.
BODY_SIZE_LIMIT_BYTES = 64 * 1024 * 1024
_FRAMING = {"content-length", "transfer-encoding", "content-encoding"}
_CHUNK_BYTES = 64 * 1024
_GZIP = 31  # zlib's number for "a gzip member with any window"
_KEEPALIVE_SECONDS = 120.0  # above the usual scrape intervals, so that connections are used again

# prometheus/prometheus, config/config.go (ScrapeProtocolsHeaders)
MEDIA_TYPES = {
    "OpenMetricsText1.0.0": "application/openmetrics-text;version=1.0.0",
    "OpenMetricsText0.0.1": "application/openmetrics-text;version=0.0.1",
    "PrometheusText1.0.0": "text/plain;version=1.0.0",
    "PrometheusText0.0.4": "text/plain;version=0.0.4",
}


class FetchError(Exception):
    """The page could not be had; the message says why in one sentence."""


@dataclass(frozen=True, slots=True)
class FetchedPage:
    """A page as it was sent, unpacked.

    framed: HTTP (or gzip) says where it ends; otherwise a lost connection looks like its end.
    """

    body: bytes
    content_type: str
    framed: bool


@dataclass(frozen=True, slots=True)
class Credentials:
    """What a job presents: a basic user with password, or a scheme with a token. Files are read at every
    scrape, so that a rotated secret needs no reload."""

    username: str = ""
    username_file: Path | None = None
    password: str = field(default="", repr=False)
    password_file: Path | None = None
    scheme: str = ""
    token: str = field(default="", repr=False)
    token_file: Path | None = None

    def header(self) -> str:
        """The Authorization header. Raises FetchError for a file that cannot be read."""
        if self.scheme:
            return f"{self.scheme} {_secret(self.token, self.token_file)}"
        username = _secret(self.username, self.username_file)
        password = _secret(self.password, self.password_file)
        return "Basic " + b64encode(f"{username}:{password}".encode()).decode()


def _secret(text: str, file: Path | None) -> str:
    if file is None:
        return text
    try:
        return file.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise FetchError(f"the secret file {file} cannot be read: {error}") from error


@dataclass(frozen=True, slots=True)
class FetchOptions:
    """How a job's targets are asked; the same for all of them. body_size_limit: bytes, 0 for our own."""

    protocols: Sequence[str]
    compression: bool = True
    follow_redirects: bool = True
    body_size_limit: int = 0
    credentials: Credentials | None = None
    tls: ssl.SSLContext | None = None
    tls_server_name: str = ""

    def headers(self, timeout_seconds: float) -> dict[str, str]:
        """Request headers as Prometheus sends them. Raises FetchError for a secret that cannot be read."""
        count = len(self.protocols)
        offered = [
            f"{MEDIA_TYPES[name]};q=0.{count - index + 1}" for index, name in enumerate(self.protocols)
        ]
        headers = {
            "Accept": ",".join([*offered, "*/*;q=0.1"]),
            "Accept-Encoding": "gzip" if self.compression else "identity",
            "User-Agent": USER_AGENT,
            "X-Prometheus-Scrape-Timeout-Seconds": f"{timeout_seconds:g}",
        }
        if self.credentials is not None:
            headers["Authorization"] = self.credentials.header()
        return headers


def new_session() -> aiohttp.ClientSession:
    """A session for any number of targets; to be closed by the caller."""
    return aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=_KEEPALIVE_SECONDS),
        cookie_jar=aiohttp.DummyCookieJar(),
        auto_decompress=False,
        trust_env=False,
    )


async def fetch(
    session: aiohttp.ClientSession, url: str, options: FetchOptions, timeout_seconds: float
) -> FetchedPage:
    """GET a metrics page. Raises FetchError."""
    limit = options.body_size_limit or BODY_SIZE_LIMIT_BYTES
    try:
        async with (
            asyncio.timeout(timeout_seconds),
            session.get(
                URL(url, encoded=True),
                headers=options.headers(timeout_seconds),
                allow_redirects=options.follow_redirects,
                ssl=options.tls if options.tls is not None else True,
                server_hostname=options.tls_server_name or None,
            ) as response,
        ):
            if response.status != 200:
                raise FetchError(f"answered HTTP {response.status} {_short(response.reason or '')}".rstrip())
            body = await _read(response.content, response.headers, limit)
            framed = not _FRAMING.isdisjoint(name.lower() for name in response.headers)
            return FetchedPage(body, response.headers.get("Content-Type", ""), framed)
    except TimeoutError as error:
        raise FetchError(f"did not answer within {timeout_seconds:g} s") from error
    except aiohttp.ClientConnectorError as error:
        raise FetchError(f"no connection: {_short(_system_reason(error.os_error))}") from error
    except aiohttp.ServerDisconnectedError as error:
        raise FetchError("closed the connection without an answer") from error
    except aiohttp.TooManyRedirects as error:
        raise FetchError("redirects in a circle") from error
    except aiohttp.InvalidURL as error:
        raise FetchError("the address is not a URL; check __address__ and metrics_path") from error
    except (aiohttp.ClientPayloadError, ConnectionError) as error:
        raise FetchError("the connection broke before the page was complete") from error
    except aiohttp.ClientError as error:
        raise FetchError(f"did not speak HTTP: {_short(str(error))}") from error
    except (ValueError, OSError) as error:
        raise FetchError(f"cannot be asked: {_short(str(error))}") from error


async def _read(content: aiohttp.StreamReader, headers: Mapping[str, str], limit: int) -> bytes:
    encoding = headers.get("Content-Encoding", "identity").lower()
    if encoding not in ("", "identity", "gzip"):
        raise FetchError(f"sent the page with Content-Encoding {_short(encoding)!r}; only gzip was offered")
    unpack = zlib.decompressobj(_GZIP) if encoding == "gzip" else None
    parts: list[bytes] = []
    size = received = 0
    while chunk := await content.read(_CHUNK_BYTES):
        received += len(chunk)
        if unpack is not None:
            try:
                chunk, unpack = _unpack(unpack, chunk, limit - size + 1)
            except zlib.error as error:
                raise FetchError("sent gzip that cannot be unpacked") from error
        size += len(chunk)
        if max(size, received) > limit:  # packed, too: gzip that unpacks to nothing may go on for ever
            raise FetchError(
                f"the page is larger than {limit // 1024} KiB; raise body_size_limit if that is meant"
            )
        parts.append(chunk)
    if unpack is not None and not unpack.eof:
        raise FetchError("sent gzip that ends too early")
    return b"".join(parts)


def _unpack(unpack: "zlib._Decompress", packed: bytes, limit: int) -> tuple[bytes, "zlib._Decompress"]:
    """The next bytes unpacked, up to `limit` of them, and what unpacks those after.

    A gzip body may be several members, one after the other; anything else behind one is an error.
    Raises zlib.error.
    """
    parts: list[bytes] = []
    while packed and limit > 0:
        if unpack.eof:
            unpack = zlib.decompressobj(_GZIP)
        parts.append(unpack.decompress(packed, limit))
        limit -= len(parts[-1])
        packed = unpack.unused_data
    return b"".join(parts), unpack


def _system_reason(error: OSError) -> str:
    """The system's own words; asyncio puts the address into them, which the row already shows."""
    return os.strerror(error.errno) if error.errno and error.errno > 0 else str(error)


def _short(text: str) -> str:
    """Hostile text, made fit for one line."""
    line = "".join(character if character.isprintable() else " " for character in text)
    return line if len(line) <= 160 else line[:157] + "..."
