"""Stands between the collector and a target and keeps every page exactly as it went by."""

import threading
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType

from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse_text

Series = tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class RecordedPage:
    body: bytes
    content_type: str

    def samples(self) -> dict[Series, float]:
        """Series (sorted labels with the name) -> value, by prometheus_client's parser."""
        parse = parse_openmetrics if "openmetrics" in self.content_type else parse_text
        found: dict[Series, float] = {}
        for family in parse(self.body.decode()):
            for sample in family.samples:
                labels = {**sample.labels, "__name__": sample.name}
                series = tuple(sorted((name, value) for name, value in labels.items() if value))
                found.setdefault(series, sample.value)
        return found


Source = Callable[[str], RecordedPage]  # the Accept header -> a page


def upstream(url: str) -> Source:
    """Another server's page."""

    def read(accept: str) -> RecordedPage:
        request = urllib.request.Request(url, headers={"Accept": accept})
        with urllib.request.urlopen(request, timeout=10) as answer:
            return RecordedPage(answer.read(), answer.headers.get("Content-Type", ""))

    return read


class RecordingProxy:
    """Serves /metrics on a free loopback port; `pages` in the order in which they were handed out."""

    def __init__(self, source: Source) -> None:
        self.pages: list[RecordedPage] = []
        proxy = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                page = source(self.headers.get("Accept", ""))
                self.send_response(200)
                self.send_header("Content-Type", page.content_type)
                self.send_header("Content-Length", str(len(page.body)))
                self.end_headers()
                proxy.pages.append(page)
                self.wfile.write(page.body)

            def log_message(self, *_: object) -> None:
                """Quiet."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> "RecordingProxy":
        self._thread.start()
        return self

    def __exit__(
        self, _type: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
