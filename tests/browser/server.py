"""The real web process on a free port over a data folder, started and stopped by tests."""

import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.free_port import free_port
from tests.stopping import seconds_to_end

READY_SECONDS = 60.0


@dataclass(frozen=True)
class WebServer:
    url: str
    port: int
    process: subprocess.Popen[bytes]
    log: Path

    def get(self, path: str, *, host: str | None = None) -> tuple[int, str]:
        """Status and body of one request, with another Host header where given."""
        request = urllib.request.Request(self.url + path, headers={"Host": host} if host else {})
        try:
            with urllib.request.urlopen(request, timeout=10) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read().decode()

    def stop(self, signum: int = signal.SIGTERM) -> tuple[int, float]:
        """Exit code and the seconds that stopping took."""
        seconds = seconds_to_end(self.process, signum)
        return self.process.wait(), seconds


@contextmanager
def web_server(data: Path, *, cwd: Path | None = None) -> Iterator[WebServer]:
    """`strata web` over the folder, from the moment that it says it is ready until the end of the block."""
    port = free_port()
    log = data.parent / f"web-{port}.log"
    environment = {**os.environ, "HOME": str(data.parent), "PYTHONUNBUFFERED": "1"}
    command = [sys.executable, "-m", "app", "web", "--data", str(data), "--port", str(port)]
    with log.open("wb") as output:
        process = subprocess.Popen(
            command, stdout=output, stderr=subprocess.STDOUT, cwd=cwd or data.parent, env=environment
        )
    server = WebServer(f"http://127.0.0.1:{port}", port, process, log)
    try:
        _wait_ready(server)
        yield server
    finally:
        if process.poll() is None:
            process.terminate()
            try:
                process.wait(timeout=5)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _wait_ready(server: WebServer) -> None:
    deadline = time.monotonic() + READY_SECONDS
    while time.monotonic() < deadline:
        if server.process.poll() is not None:
            break
        try:
            if server.get("/-/ready")[0] == 200:
                return
        except OSError:
            time.sleep(0.1)
    raise AssertionError(f"the web process is not ready:\n{server.log.read_text()}")
