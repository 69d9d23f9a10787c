"""The process ends when it is told to, whatever hangs in it."""

import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path

import pytest

from tests.stopping import seconds_to_end

SUPERVISORS_PATIENCE_SECONDS = 4.0  # app.supervise: SIGKILL after that
COLLECT = """
import sys, time
from collectors import __main__ as collecting
from collectors.enabled import BuiltIn
from collectors.types import Family, Sample
from db.settings import CollectorSettings, load_settings

class Own:
    name = job = "own"
    def collect(self):
        print("collecting", flush=True)
        time.sleep(float(sys.argv[2]))
        return [Family("m", "gauge", "h", (Sample("m", (), 1.0),))]

own = CollectorSettings(interval="200ms")
collecting.BUILT_IN = (BuiltIn("own", lambda _hostname, _exposed: Own(), lambda _settings: own),)
sys.exit(collecting.run(load_settings(None, {"data": sys.argv[1]}, {}), only=["own"]))
"""


@contextmanager
def started(*command: str) -> Iterator[subprocess.Popen[str]]:
    environ = {key: value for key, value in os.environ.items() if not key.startswith("STRATA_")}
    with subprocess.Popen(
        [sys.executable, *command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environ
    ) as process:
        try:
            yield process
        finally:
            process.kill()


@pytest.mark.slow
def test_a_driver_call_that_hangs_does_not_hold_the_exit(tmp_path: Path) -> None:
    with started("-c", COLLECT, str(tmp_path), "60") as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "collecting\n"
        assert seconds_to_end(process, signal.SIGTERM) < SUPERVISORS_PATIENCE_SECONDS
        assert process.returncode == 0  # 1: it left something behind


@pytest.mark.slow
def test_files_that_another_program_holds_do_not_hold_the_exit(tmp_path: Path) -> None:
    with started("-c", COLLECT, str(tmp_path), "0") as process, ExitStack() as others:
        assert process.stdout is not None
        for _ in range(5):
            assert process.stdout.readline() == "collecting\n"
        for name in ("samples.db", "state.db"):
            other = others.enter_context(closing(sqlite3.connect(tmp_path / name, isolation_level=None)))
            other.execute("BEGIN IMMEDIATE")
        time.sleep(0.6)  # by now a commit waits for the file
        assert seconds_to_end(process, signal.SIGTERM) < SUPERVISORS_PATIENCE_SECONDS
