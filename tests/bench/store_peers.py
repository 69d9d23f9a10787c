"""Debian's Prometheus and VictoriaMetrics on free loopback ports over folders of their own."""

import contextlib
import http.client
import json
import shutil
import subprocess
import time
import urllib.parse
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from tests.bench.store_wire import HEADERS
from tests.free_port import free_port

READY_SECONDS = 60.0
# A server that used less of a core than this over the time below has nothing left to do in the background.
_QUIET_SHARE = 0.05
_QUIET_SECONDS = 0.5
_QUIET_AT_MOST_SECONDS = 120.0
# Servers close a connection that nobody used for a minute.
_IDLE_SECONDS = 20.0
# A size that stays the same for this long is final: both servers delete merged files a little later.
_STABLE_SECONDS = 5.0


class Connection:
    """One keep-alive HTTP/1.1 connection, without compression of the answers."""

    def __init__(self, port: int) -> None:
        self._http = http.client.HTTPConnection("127.0.0.1", port, timeout=600)
        self._used = time.monotonic()

    def get(self, path: str, **parameters: object) -> bytes:
        """The whole body, read and not looked at."""
        query = urllib.parse.urlencode(parameters, doseq=True)
        return self._send("GET", f"{path}?{query}" if query else path)

    def post(self, path: str, body: bytes = b"", headers: dict[str, str] | None = None) -> bytes:
        return self._send("POST", path, body, headers or {})

    def write(self, body: bytes) -> None:
        """One remote-write request; it returns when the server has acknowledged it."""
        self._send("POST", "/api/v1/write", body, HEADERS)

    def close(self) -> None:
        self._http.close()

    def _send(
        self, method: str, path: str, body: bytes | None = None, headers: dict[str, str] | None = None
    ) -> bytes:
        if time.monotonic() - self._used > _IDLE_SECONDS:
            self._http.close()  # the request opens it again
        self._http.request(method, path, body, {"Accept-Encoding": "identity", **(headers or {})})
        answer = self._http.getresponse()
        content = answer.read()
        self._used = time.monotonic()
        if answer.status // 100 != 2:
            raise SystemExit(f"{method} {path}: {answer.status} {content[:300]!r}")
        return content


@dataclass
class Peer:
    """A running server. extra: parameters of every query (VictoriaMetrics: no cached answers)."""

    name: str
    version: str
    port: int
    process: subprocess.Popen[bytes]
    folder: Path
    extra: dict[str, str] = field(default_factory=dict)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def connect(self) -> Connection:
        return Connection(self.port)

    def settle(self) -> None:
        """Wait until the work that the server left for later is done, so that it disturbs nobody."""
        usage = psutil.Process(self.process.pid)
        deadline = time.monotonic() + _QUIET_AT_MOST_SECONDS
        while usage.cpu_percent(_QUIET_SECONDS) > 100 * _QUIET_SHARE and time.monotonic() < deadline:
            pass

    def metric(self, name: str) -> float:
        """The sum of the samples of one metric on the server's own page."""
        total = 0.0
        connection = self.connect()
        for line in connection.get("/metrics").decode().splitlines():
            if line.startswith((name + " ", name + "{")):
                total += float(line.rpartition(" ")[2])
        connection.close()
        return total

    def stored_bytes(self) -> int:
        """Bytes on disk after everything that the server can compact is compacted."""
        raise NotImplementedError


class Prometheus(Peer):
    def stored_bytes(self) -> int:
        """A snapshot: all blocks as compacted by then and the head as one more block, with index and
        tombstones, without WAL."""
        time.sleep(2)  # a block that became complete is written within a second of the last sample
        self.settle()
        connection = self.connect()
        made = json.loads(connection.post("/api/v1/admin/tsdb/snapshot"))["data"]["name"]
        connection.close()
        snapshot = self.folder / "snapshots" / made
        size = _folder_bytes(snapshot)
        shutil.rmtree(snapshot)
        return size


class VictoriaMetrics(Peer):
    def stored_bytes(self) -> int:
        """data and indexdb after a flush to disk and a forced merge."""
        connection = self.connect()
        connection.get("/internal/force_flush")
        connection.get("/internal/force_merge")
        connection.close()
        time.sleep(1)
        _until(lambda: self.metric("vm_active_force_merges") == 0, "the forced merge", _QUIET_AT_MOST_SECONDS)
        self.settle()
        last, since = -1, time.monotonic()
        while time.monotonic() - since < _STABLE_SECONDS:
            size = sum(_folder_bytes(self.folder / part) for part in ("data", "indexdb"))
            if size != last:
                last, since = size, time.monotonic()
            time.sleep(0.5)
        return last


def _folder_bytes(folder: Path) -> int:
    total = 0
    for path in folder.rglob("*"):
        with contextlib.suppress(FileNotFoundError):  # a part that was merged away meanwhile
            if path.is_file():
                total += path.stat().st_size
    return total


def _until(condition: Callable[[], bool], what: str, seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise SystemExit(f"{what} took more than {seconds:.0f} s")
        time.sleep(0.1)


def program(name: str) -> str:
    found = shutil.which(name)
    if found is None:
        raise SystemExit(f"this benchmark compares with {name}: apt-get install {name}")
    return found


def debian_version(package: str) -> str:
    asked = ["dpkg-query", "-W", "-f=${Version}", package]
    told = subprocess.run(asked, capture_output=True, text=True, check=False)
    return told.stdout.partition("+")[0] or "?"


@contextlib.contextmanager
def prometheus(folder: Path) -> Iterator[Prometheus]:
    folder.mkdir(parents=True)
    config = folder / "prometheus.yml"
    config.write_text("global: {}\n")
    port = free_port()
    data = folder / "tsdb"
    options = [
        f"--config.file={config}",
        f"--storage.tsdb.path={data}",
        "--storage.tsdb.retention.time=50y",
        f"--web.listen-address=127.0.0.1:{port}",
        "--web.enable-remote-write-receiver",
        "--web.enable-admin-api",
        "--log.level=error",
    ]
    with _running([program("prometheus"), *options], folder) as process:
        peer = Prometheus("Prometheus", debian_version("prometheus"), port, process, data)
        _await(peer, "/-/ready")
        yield peer


@contextlib.contextmanager
def victoria_metrics(folder: Path) -> Iterator[VictoriaMetrics]:
    folder.mkdir(parents=True)
    port = free_port()
    data = folder / "data"
    options = [
        f"-storageDataPath={data}",
        f"-httpListenAddr=127.0.0.1:{port}",
        "-retentionPeriod=50y",
        "-loggerLevel=ERROR",
    ]
    with _running([program("victoria-metrics"), *options], folder) as process:
        version = debian_version("victoria-metrics")
        peer = VictoriaMetrics("VictoriaMetrics", version, port, process, data, {"nocache": "1"})
        _await(peer, "/health")
        yield peer


@contextlib.contextmanager
def _running(command: list[str], folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT, cwd=folder)
    try:
        yield process
    finally:
        process.terminate()
        try:
            process.wait(60)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(10)


def _await(peer: Peer, path: str) -> None:
    def answers() -> bool:
        if peer.process.poll() is not None:
            raise SystemExit(f"{peer.name} did not start: {(peer.folder.parent / 'log').read_text()[-2000:]}")
        connection = peer.connect()
        try:
            connection.get(path)
        except (OSError, SystemExit):
            return False
        finally:
            connection.close()
        return True

    _until(answers, f"the start of {peer.name}", READY_SECONDS)
