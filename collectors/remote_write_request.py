"""One remote-write request: POST it, and say what its answer means for what was sent."""

import asyncio
import os
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC
from email.utils import parsedate_to_datetime
from typing import Literal

import aiohttp
from yarl import URL

from collectors.fetch import USER_AGENT, FetchError, FetchOptions
from collectors.http_options import document_options
from db.logs import printable
from db.remote_settings import PrometheusSettings

_HEADERS = {
    "Content-Encoding": "snappy",
    "Content-Type": "application/x-protobuf",
    "X-Prometheus-Remote-Write-Version": "0.1.0",
    "User-Agent": USER_AGENT,
}
_SAID_BYTES = 4096
_SENTENCE = 300
# A server may ask for patience, but not for so much that nobody remembers why nothing is sent.
_RETRY_AFTER_SECONDS = 300.0
# The fault is in the settings, not in the samples: they wait until it is mended.
_SETTINGS = {
    401: "check store.prometheus.auth",
    403: "check store.prometheus.auth and headers",
    404: "check remote_write_url; Prometheus needs --web.enable-remote-write-receiver",
    405: "check remote_write_url",
    407: "check remote_write_url",
}
_LATER = (408, 425, 429)
# prometheus/prometheus, storage/interface.go (ErrTooOldSample): with an out_of_order_time_window its receiver
# answers 500 for what no repeating can change (seen with 2.42); everything behind it would wait for ever.
_NEVER = b"too old sample"


@dataclass(frozen=True, slots=True)
class Outcome:
    """taken: acknowledged. refused: these samples will never be taken. later: send the same again.
    reason: one sentence, "" when taken. after_seconds: as long as the engine asks for."""

    kind: Literal["taken", "refused", "later"]
    reason: str = ""
    after_seconds: float = 0.0


class WriteEndpoint:
    """Where samples go to."""

    def __init__(self, settings: PrometheusSettings, session: aiohttp.ClientSession) -> None:
        self.name = settings.remote_write_url
        self._settings = settings
        self._session = session
        self._options: FetchOptions | None = None

    async def send(self, body: bytes, now_ms: int) -> Outcome:
        """body: a WriteRequest, compressed. Never raises for what the network or the engine does."""
        seconds = self._settings.timeout
        try:
            if self._options is None:
                self._options = document_options(self._settings.http(), 0)
            async with (
                asyncio.timeout(seconds),
                self._session.post(
                    URL(self.name, encoded=True),
                    data=body,
                    headers=self._headers(self._options),
                    allow_redirects=False,
                    ssl=self._options.tls if self._options.tls is not None else True,
                    server_hostname=self._options.tls_server_name or None,
                ) as response,
            ):
                said = await response.content.read(_SAID_BYTES)
                return self._outcome(response.status, response.headers, said, now_ms)
        except TimeoutError:
            return Outcome("later", f"{self.name} did not answer within {seconds:g} s")
        except FetchError as error:
            return Outcome("later", f"{self.name}: {error}")
        except aiohttp.ClientConnectorError as error:
            system = error.os_error
            reason = os.strerror(system.errno) if system.errno and system.errno > 0 else str(system)
            return Outcome("later", f"{self.name} cannot be reached: {_short(reason.lower())}")
        except aiohttp.ServerDisconnectedError:
            return Outcome("later", f"{self.name} closed the connection without an answer")
        except (aiohttp.ClientError, OSError, ValueError) as error:
            return Outcome("later", f"{self.name} cannot be reached: {_short(str(error))}")

    def _headers(self, options: FetchOptions) -> dict[str, str]:
        """Raises FetchError for a secret that cannot be read."""
        headers = {**self._settings.headers, **_HEADERS}
        if options.credentials is not None:
            headers["Authorization"] = options.credentials.header()
        return headers

    def _outcome(self, status: int, headers: Mapping[str, str], said: bytes, now_ms: int) -> Outcome:
        if status // 100 == 2:
            return Outcome("taken")
        text = "" if b"<html" in said.lower() else _short(said.decode(errors="replace"))
        reason = f"{self.name} answered HTTP {status}" + (f": {text}" if text else "")
        if status in _SETTINGS:
            return Outcome("later", f"{reason}; {_SETTINGS[status]}")
        if status // 100 == 3:
            return Outcome("later", f"{reason}: it redirects; give the address that it redirects to")
        if (status // 100 == 5 or status in _LATER) and _NEVER not in said:
            return Outcome("later", reason, _retry_after(headers.get("Retry-After", ""), now_ms))
        return Outcome("refused", reason)


def _retry_after(value: str, now_ms: int) -> float:
    """Seconds of `Retry-After: 30` or of a date; 0 for anything else."""
    if value.strip().isascii() and value.strip().isdigit():
        return min(float(value), _RETRY_AFTER_SECONDS)
    try:
        at = parsedate_to_datetime(value)
    except ValueError:
        return 0.0
    at = at.replace(tzinfo=UTC) if at.tzinfo is None else at
    return min(max(0.0, at.timestamp() - now_ms / 1000), _RETRY_AFTER_SECONDS)


def _short(text: str) -> str:
    line = printable(" ".join(text.split()))
    return line if len(line) <= _SENTENCE else line[: _SENTENCE - 3] + "..."
