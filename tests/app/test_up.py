"""`strata up` whole: the page answers, what is killed comes back, and a stop leaves nothing."""

import os
import signal
import subprocess
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from app.commands.programs import command_line
from db.engine import open_state
from db.processes import Process, read_processes
from tests.free_port import free_port
from tests.stopping import runs, seconds_to_end

NAMES = {"alert", "collect", "maintain", "web"}


class Up:
    """A running `strata up` on a free port and a folder of its own."""

    def __init__(self, folder: Path) -> None:
        self.port = free_port()
        self.data = folder / "data"
        self.log = folder / "stderr"
        self.argv = command_line("up", data=self.data, port=self.port, no_discover=True)
        environ = {key: value for key, value in os.environ.items() if not key.startswith("STRATA_")}
        with self.log.open("w") as stderr:
            self.process = subprocess.Popen(
                self.argv, stdout=subprocess.PIPE, stderr=stderr, text=True, env=environ, cwd=folder
            )
        self._state = None
        self.seen: set[int] = set()

    def wait_until_ready(self) -> str:
        """What it says when the page answers."""
        return self.process.stdout.readline()

    def rows(self) -> dict[str, Process]:
        if self._state is None:
            self._state = open_state(self.data / "state.db")
        rows = {row.name: row for row in read_processes(self._state)}
        self.seen |= {row.pid for row in rows.values() if row.pid is not None}
        return rows

    def page(self, path: str = "/-/ready") -> int:
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}{path}", timeout=5) as reply:
            return reply.status

    def wait_for(self, condition: Callable[[], bool], seconds: float = 60.0) -> None:
        deadline = time.monotonic() + seconds
        while not condition():
            assert time.monotonic() < deadline, self.log.read_text()
            time.sleep(0.1)

    def end(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.communicate()
        if self._state is not None:
            self._state.dispose()


@pytest.fixture
def up(tmp_path) -> Iterator[Up]:
    running = Up(tmp_path)
    yield running
    running.end()


@pytest.mark.slow
def test_from_the_command_to_a_clean_stop(up):
    assert up.wait_until_ready() == f"Strata is ready: http://127.0.0.1:{up.port}\n", up.log.read_text()
    assert (up.page(), up.page("/")) == (200, 200)
    up.wait_for(lambda: set(up.rows()) == NAMES and all(row.beat_ms for row in up.rows().values()))
    assert {(row.name, row.state, row.restarts) for row in up.rows().values()} == {
        (name, "running", 0) for name in NAMES
    }

    second = subprocess.run(up.argv, capture_output=True, text=True)
    assert second.returncode == 1
    assert f"pid {up.process.pid}" in second.stderr

    for name in sorted(NAMES):
        # With the collector went its own child, maintain, and comes back a little later.
        up.wait_for(lambda name=name: runs(up.rows()[name].pid))
        before = up.rows()[name]
        os.kill(before.pid, signal.SIGKILL)
        up.wait_for(lambda name=name: up.rows()[name].restarts == 1)
        up.wait_for(lambda name=name, pid=before.pid: _beats_again(up.rows()[name], pid))
        assert up.rows()[name].detail == "killed by SIGKILL"
    assert up.page() == 200

    seconds = seconds_to_end(up.process, signal.SIGTERM)
    assert up.process.returncode == 0, up.log.read_text()
    assert seconds < 5
    assert {row.state for row in up.rows().values()} == {"stopped"}
    assert [pid for pid in up.seen if runs(pid)] == []
    log = up.log.read_text()
    assert "Traceback" not in log
    assert "did not stop in time" not in log


def _beats_again(row: Process, former_pid: int) -> bool:
    """Has the new process itself reported, not only its supervisor?"""
    started = row.started_ms or 0
    return row.state == "running" and row.pid != former_pid and (row.beat_ms or 0) >= started > 0


@pytest.mark.slow
def test_no_orphan_when_it_is_killed_and_the_next_one_starts(up, tmp_path):
    up.wait_until_ready()
    pids = [row.pid for row in up.rows().values()]
    up.process.kill()
    up.process.wait()
    up.wait_for(lambda: not any(runs(pid) for pid in pids), seconds=2)
    again = subprocess.Popen(up.argv, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    with again:
        assert again.stdout.readline().startswith("Strata is ready")
        again.send_signal(signal.SIGINT)
    assert again.returncode == 0
