"""Engines for the tests of remote reading and writing: one that answers what a test tells it, and Debian's
Prometheus and VictoriaMetrics, which can be stopped and started again on the same port and data."""

import json
import ssl
import subprocess
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from db.labels import labels_from
from tests.free_port import free_port
from tests.needs import require_program

START_SECONDS = 60


@dataclass
class Asked:
    """One request as it came in."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def fields(self) -> dict[str, list[str]]:
        query = urllib.parse.parse_qs(urllib.parse.urlsplit(self.path).query, keep_blank_values=True)
        form = {} if b"\0" in self.body else urllib.parse.parse_qs(self.body.decode(errors="replace"))
        return {**query, **form}


Answer = tuple[int, dict[str, str], bytes]


@dataclass
class ScriptedEngine:
    """answer: what every request gets; asked: what came."""

    url: str
    answer: Callable[[Asked], Answer]
    asked: list[Asked] = field(default_factory=list)
    # Set at the end: what answers slowly waits for it.
    over: threading.Event = field(default_factory=threading.Event)


def success(data: Any, **more: Any) -> Answer:
    document = {"status": "success", "data": data, **more}
    return 200, {"Content-Type": "application/json"}, json.dumps(document).encode()


def failure(status: int, kind: str, text: str) -> Answer:
    document = {"status": "error", "errorType": kind, "error": text}
    return status, {"Content-Type": "application/json"}, json.dumps(document).encode()


@contextmanager
def scripted_engine(
    answer: Callable[[Asked], Answer], tls: ssl.SSLContext | None = None
) -> Iterator[ScriptedEngine]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _any(self) -> None:
            length = int(self.headers.get("Content-Length") or 0)
            asked = Asked(self.command, self.path, dict(self.headers), self.rfile.read(length))
            engine.asked.append(asked)
            try:
                status, headers, body = engine.answer(asked)
                self.send_response(status)
                for name, value in headers.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)
            except (BrokenPipeError, ConnectionResetError):
                self.close_connection = True

        do_GET = do_POST = _any

        def log_message(self, *_arguments: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    if tls is not None:
        server.socket = tls.wrap_socket(server.socket, server_side=True)
    scheme = "http" if tls is None else "https"
    engine = ScriptedEngine(f"{scheme}://127.0.0.1:{server.server_address[1]}", answer)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield engine
    finally:
        engine.over.set()
        server.shutdown()
        thread.join()
        server.server_close()


class GenuineEngine:
    """A Debian server on a port of its own; `stop` and `start` as often as a test wants."""

    def __init__(self, name: str, folder: Path, config: str = "") -> None:
        self.name = name
        self.folder = folder
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self._process: subprocess.Popen[bytes] | None = None
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "prometheus.yml").write_text(config)

    @property
    def write_url(self) -> str:
        return f"{self.url}/api/v1/write"

    def _command(self) -> list[str]:
        program = require_program(self.name)
        if self.name == "prometheus":
            return [
                program,
                f"--config.file={self.folder / 'prometheus.yml'}",
                f"--storage.tsdb.path={self.folder / 'data'}",
                "--storage.tsdb.retention.time=50y",
                f"--web.listen-address=127.0.0.1:{self.port}",
                "--web.enable-remote-write-receiver",
            ]
        return [
            program,
            f"-storageDataPath={self.folder / 'data'}",
            f"-httpListenAddr=127.0.0.1:{self.port}",
            "-retentionPeriod=100y",
            "-search.latencyOffset=0s",
            "-search.disableCache",
        ]

    def start(self) -> None:
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(self._command(), stdout=log, stderr=log)
        path = "/-/ready" if self.name == "prometheus" else "/health"
        self.eventually(lambda: self._answers(path), "its start")

    def stop(self) -> None:
        if self._process is not None:
            self._process.terminate()
            self._process.wait(timeout=30)
            self._process = None

    def eventually(self, read: Callable[[], Any], what: str, seconds: float = START_SECONDS) -> Any:
        """The first answer of `read` that is not empty."""
        deadline = time.monotonic() + seconds
        while not (answer := read()):
            assert time.monotonic() < deadline, f"{what}: {(self.folder / 'log').read_text()[-2000:]}"
            time.sleep(0.1)
        return answer

    def api(self, path: str, **parameters: str) -> Any:
        query = urllib.parse.urlencode({"nocache": "1", **parameters})
        with urllib.request.urlopen(f"{self.url}/api/v1/{path}?{query}", timeout=10) as answer:
            return json.load(answer)["data"]

    def samples(self, name: str, end_ms: int, span: str) -> dict[Any, list[tuple[int, float]]]:
        """All samples of a metric's series in the span before a time."""
        if self.name != "prometheus":
            self._flush()
        found = self.api("query", query=f"{name}[{span}]", time=f"{end_ms / 1000:.3f}")["result"]
        return {
            labels_from(one["metric"]): [(round(at * 1000), float(value)) for at, value in one["values"]]
            for one in found
        }

    def _flush(self) -> None:
        with urllib.request.urlopen(f"{self.url}/internal/force_flush", timeout=10):
            pass

    def _answers(self, path: str) -> bool:
        assert self._process is not None
        assert self._process.poll() is None, (self.folder / "log").read_text()[-2000:]
        try:
            with urllib.request.urlopen(self.url + path, timeout=5):
                return True
        except (urllib.error.URLError, ConnectionError):
            return False


@contextmanager
def genuine_engine(name: str, folder: Path, config: str = "") -> Iterator[GenuineEngine]:
    engine = GenuineEngine(name, folder, config)
    engine.start()
    try:
        yield engine
    finally:
        engine.stop()
