"""What the web process says about itself on /metrics, in Prometheus's text format 0.0.4."""

import os
import time
from collections import Counter
from collections.abc import Awaitable, Callable, MutableMapping
from pathlib import Path
from typing import Any

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

_Message = MutableMapping[str, Any]
_Send = Callable[[_Message], Awaitable[None]]
_Receive = Callable[[], Awaitable[_Message]]
_Application = Callable[[_Message, _Receive, _Send], Awaitable[None]]


class RequestCount:
    """ASGI middleware: counts answers by status code, and how many WebSockets are open."""

    def __init__(self, application: _Application) -> None:
        self._application = application
        self.by_code: Counter[int] = Counter()
        self.open_websockets = 0

    async def __call__(self, scope: _Message, receive: _Receive, send: _Send) -> None:
        if scope["type"] == "websocket":
            self.open_websockets += 1
            try:
                await self._application(scope, receive, send)
            finally:
                self.open_websockets -= 1
            return

        async def counted(message: _Message) -> None:
            if message["type"] == "http.response.start":
                self.by_code[int(message["status"])] += 1
            await send(message)

        await self._application(scope, receive, counted)


def exposition(requests: RequestCount, *, refused: int, started_seconds: float, readable: bool) -> str:
    """refused: requests for a foreign host name. readable: could the store be read just now?"""
    lines = [
        "# HELP process_cpu_seconds_total Processor time used, in seconds.",
        "# TYPE process_cpu_seconds_total counter",
        f"process_cpu_seconds_total {time.process_time():.6f}",
        "# HELP process_resident_memory_bytes Resident memory, in bytes.",
        "# TYPE process_resident_memory_bytes gauge",
        f"process_resident_memory_bytes {_resident_bytes()}",
        "# HELP process_start_time_seconds When the process started, in seconds since 1970.",
        "# TYPE process_start_time_seconds gauge",
        f"process_start_time_seconds {started_seconds:.3f}",
        "# HELP strata_web_requests_total HTTP answers given.",
        "# TYPE strata_web_requests_total counter",
        *(
            f'strata_web_requests_total{{code="{code}"}} {count}'
            for code, count in sorted(requests.by_code.items())
        ),
        "# HELP strata_web_refused_hosts_total Requests refused because their Host is not ours.",
        "# TYPE strata_web_refused_hosts_total counter",
        f"strata_web_refused_hosts_total {refused}",
        "# HELP strata_web_open_pages Browser tabs connected now.",
        "# TYPE strata_web_open_pages gauge",
        f"strata_web_open_pages {requests.open_websockets}",
        "# HELP strata_web_store_readable Could the samples file be read just now (1) or not (0).",
        "# TYPE strata_web_store_readable gauge",
        f"strata_web_store_readable {int(readable)}",
    ]
    return "\n".join(lines) + "\n"


def _resident_bytes(statm: Path = Path("/proc/self/statm")) -> int:
    return int(statm.read_text(encoding="ascii").split()[1]) * os.sysconf("SC_PAGE_SIZE")
