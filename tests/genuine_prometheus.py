"""Debian's Prometheus on loopback, as the oracle for discovery, relabelling and scraping."""

import json
import subprocess
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.free_port import free_port
from tests.needs import require_program

START_SECONDS = 60


class Prometheus:
    """A running server."""

    def __init__(self, url: str) -> None:
        self.url = url

    def api(self, path: str, **parameters: str) -> Any:
        """The `data` of an API answer."""
        query = urllib.parse.urlencode(parameters)
        with urllib.request.urlopen(f"{self.url}/api/v1/{path}?{query}", timeout=10) as answer:
            return json.load(answer)["data"]

    def eventually(self, read: Callable[[], Any]) -> Any:
        """The first answer of `read` that is not empty."""
        deadline = time.monotonic() + START_SECONDS
        while not (answer := read()):
            assert time.monotonic() < deadline, "Prometheus showed nothing in time"
            time.sleep(0.1)
        return answer


@contextmanager
def prometheus(config: Path, folder: Path, *arguments: str) -> Iterator[Prometheus]:
    """Started with a configuration file; its data goes into `folder`."""
    program = require_program("prometheus")
    address = f"127.0.0.1:{free_port()}"
    log = folder / "prometheus.log"
    with log.open("w") as stderr:
        process = subprocess.Popen(
            [
                program,
                f"--config.file={config}",
                f"--storage.tsdb.path={folder / 'data'}",
                f"--web.listen-address={address}",
                *arguments,
            ],
            stdout=subprocess.DEVNULL,
            stderr=stderr,
        )
    try:
        _wait(process, f"http://{address}/-/ready", log)
        yield Prometheus(f"http://{address}")
    finally:
        process.terminate()
        process.wait(timeout=20)


def _wait(process: "subprocess.Popen[bytes]", url: str, log: Path) -> None:
    deadline = time.monotonic() + START_SECONDS
    while True:
        try:
            with urllib.request.urlopen(url, timeout=5):
                return
        except urllib.error.URLError:
            if process.poll() is not None or time.monotonic() > deadline:
                raise AssertionError(f"Prometheus did not start: {log.read_text()[-2000:]}") from None
            time.sleep(0.1)
