"""A real `strata up` on a free port over a folder of its own, as tests start, watch and stop it."""

import json
import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from db.engine import open_state
from db.processes import Process, read_processes
from db.store import SampleStore
from tests.free_port import free_port
from tests.stopping import seconds_to_end


class RunningStrata:
    """The supervisor's process and the files behind it."""

    def __init__(self, folder: Path, *options: str) -> None:
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.data = folder / "data"
        self.log = folder / "strata.log"
        environ = {key: value for key, value in os.environ.items() if not key.startswith("STRATA_")}
        command = [sys.executable, "-m", "app", "up", "--data", str(self.data), "--port", str(self.port)]
        with self.log.open("w") as output:
            self.process = subprocess.Popen(
                [*command, *options], stdout=output, stderr=subprocess.STDOUT, cwd=folder, env=environ
            )

    def wait_for(self, condition: Callable[[], bool], what: str, seconds: float = 60.0) -> None:
        deadline = time.monotonic() + seconds
        while not condition():
            assert time.monotonic() < deadline, f"{what} took too long:\n{self.log.read_text()}"
            assert self.process.poll() is None, self.log.read_text()
            time.sleep(0.1)

    def is_ready(self) -> bool:
        try:
            with urllib.request.urlopen(f"{self.url}/-/ready", timeout=5) as answer:
                return bool(answer.status == 200)
        except (urllib.error.URLError, ConnectionError, TimeoutError):
            return False

    def processes(self) -> dict[str, Process]:
        state = open_state(self.data / "state.db")
        try:
            return {process.name: process for process in read_processes(state)}
        finally:
            state.dispose()

    @contextmanager
    def store(self) -> Iterator[SampleStore]:
        store = SampleStore.open(self.data / "samples.db")
        try:
            yield store
        finally:
            store.close()

    def stop(self) -> float:
        """Seconds that a SIGTERM took to end everything."""
        return seconds_to_end(self.process, signal.SIGTERM)


@contextmanager
def running_strata(folder: Path, *options: str) -> Iterator[RunningStrata]:
    """From the command until the end of the block; the page answers when it begins."""
    folder.mkdir(parents=True, exist_ok=True)
    strata = RunningStrata(folder, *options)
    try:
        strata.wait_for(strata.is_ready, "the page")
        yield strata
    finally:
        if strata.process.poll() is None:
            strata.process.terminate()
            try:
                strata.process.wait(timeout=10)
            except subprocess.TimeoutExpired:
                strata.process.kill()
                strata.process.wait()


def prometheus_config(folder: Path, jobs: Mapping[str, Sequence[str]], interval: str) -> Path:
    """A prometheus.yml that names these targets."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "prometheus.yml"
    document = {
        "global": {"scrape_interval": interval, "scrape_timeout": interval},
        "scrape_configs": [
            {"job_name": job, "static_configs": [{"targets": list(targets)}]} for job, targets in jobs.items()
        ],
    }
    path.write_text(json.dumps(document))
    return path
