"""Real processes: what dies comes back, what is stopped is gone, and nothing outlives its supervisor."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import psutil
import pytest

from app.supervise import BAD_CONFIGURATION
from tests.stopping import runs, seconds_to_end

_WRITES_PID = "import os, pathlib, signal, sys, time; pathlib.Path(sys.argv[1], str(os.getpid())).touch(); "
SLEEPER = _WRITES_PID + "time.sleep(60)"
DEAF = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); " + SLEEPER
WITH_DEAF_CHILD = (
    "import subprocess, sys; subprocess.Popen([sys.executable, '-c', sys.argv[2], sys.argv[1]]); "
)
RELOADS = (
    _WRITES_PID
    + "signal.signal(signal.SIGHUP, lambda *_: pathlib.Path(sys.argv[1], 'reloaded').touch());"
    + "pathlib.Path(sys.argv[1], 'listening').touch(); [time.sleep(0.05) for _ in range(1000)]"
)
# Makes its standard input its controlling terminal, as a terminal window does for its shell.
# SIGHUP as a terminal's shell has it: nohup, under which the tests may run, has it ignored.
TAKES_TERMINAL = (
    "import fcntl, os, signal, sys, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0); "
    "signal.signal(signal.SIGHUP, signal.SIG_DFL); "
    "os.execv(sys.argv[1], sys.argv[1:])"
)


class Supervised:
    """A supervisor process and the folders in which its programs leave their process ids."""

    def __init__(self, root: Path, **sources: str) -> None:
        self.folders = {name: root / name for name in sources}
        programs = {}
        for name, source in sources.items():
            self.folders[name].mkdir()
            programs[name] = [sys.executable, "-c", source, str(self.folders[name]), DEAF]
        self.argv = [sys.executable, "-m", "tests.supervisor_under_test", json.dumps(programs)]
        self.process: subprocess.Popen[str] | None = None

    def start(self, prefix: Sequence[str] = (), stdin: int = subprocess.DEVNULL) -> "Supervised":
        self.process = subprocess.Popen(
            [*prefix, *self.argv],
            stdin=stdin,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        return self

    def pids(self, name: str) -> list[int]:
        return [int(file.name) for file in self.folders[name].iterdir() if file.name.isdigit()]

    def running(self) -> set[int]:
        return {pid for name in self.folders for pid in self.pids(name) if runs(pid)}

    def wait_for(self, condition: Callable[[], bool], seconds: float = 30.0) -> float:
        """Seconds it took; fails when they are over."""
        started = time.monotonic()
        while not condition():
            if time.monotonic() - started > seconds:
                pytest.fail(f"not within {seconds} s")
            time.sleep(0.02)
        return time.monotonic() - started

    def end(self) -> None:
        if self.process is not None and self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        if self.process is not None and self.process.stdout is not None:
            self.process.stdout.close()
        for pid in self.running():
            os.kill(pid, signal.SIGKILL)


@pytest.fixture
def supervised(tmp_path: Path) -> Iterator[Callable[..., Supervised]]:
    made: list[Supervised] = []

    def make(**sources: str) -> Supervised:
        made.append(Supervised(tmp_path, **sources))
        return made[-1]

    yield make
    for one in made:
        one.end()


def test_a_killed_program_comes_back_and_the_other_does_not_notice(supervised):
    both = supervised(a=SLEEPER, b=SLEEPER).start()
    both.wait_for(lambda: len(both.pids("a")) == 1 and len(both.pids("b")) == 1)
    os.kill(both.pids("a")[0], signal.SIGKILL)
    both.wait_for(lambda: len(both.pids("a")) == 2)
    assert len(both.pids("b")) == 1
    assert both.running() >= set(both.pids("b"))


@pytest.mark.parametrize("signum", [signal.SIGTERM, signal.SIGINT])
def test_a_stop_ends_everything_at_once(supervised, signum):
    both = supervised(a=SLEEPER, b=SLEEPER).start()
    both.wait_for(lambda: len(both.running()) == 2)
    assert seconds_to_end(both.process, signum) < 2
    assert both.process.returncode == 0
    assert both.running() == set()


@pytest.mark.slow
def test_within_five_seconds_also_what_ignores_the_signal_is_gone(supervised):
    stubborn = supervised(deaf=DEAF, parent=WITH_DEAF_CHILD + SLEEPER).start()
    stubborn.wait_for(lambda: len(stubborn.pids("deaf")) == 1 and len(stubborn.pids("parent")) == 2)
    seconds = seconds_to_end(stubborn.process, signal.SIGTERM)
    assert stubborn.process.returncode == 0
    assert seconds < 5
    stubborn.wait_for(lambda: not stubborn.running(), seconds=1)


def test_what_a_dead_program_leaves_behind_is_ended_before_it_is_started_again(supervised):
    one = supervised(parent=WITH_DEAF_CHILD + SLEEPER).start()
    one.wait_for(lambda: len(one.running()) == 2)
    first = set(one.pids("parent"))
    parent = next(pid for pid in first if psutil.Process(pid).ppid() == one.process.pid)
    os.kill(parent, signal.SIGKILL)
    one.wait_for(lambda: len(one.pids("parent")) == 4)
    assert first & one.running() == set()


def test_no_orphan_when_the_supervisor_is_killed(supervised):
    both = supervised(a=SLEEPER, deaf=DEAF).start()
    both.wait_for(lambda: len(both.running()) == 2)
    both.process.kill()
    assert both.wait_for(lambda: not both.running(), seconds=2) < 2


def test_a_hang_up_reaches_the_programs(supervised):
    one = supervised(a=RELOADS).start()
    one.wait_for((one.folders["a"] / "listening").exists)
    os.kill(one.process.pid, signal.SIGHUP)
    one.wait_for((one.folders["a"] / "reloaded").exists)
    assert one.process.poll() is None


def test_a_hang_up_does_not_end_a_program_that_does_not_listen_for_it(supervised):
    one = supervised(a=SLEEPER).start()
    one.wait_for(lambda: len(one.running()) == 1)
    (pid,) = one.running()
    os.kill(one.process.pid, signal.SIGHUP)
    os.kill(pid, signal.SIGHUP)
    time.sleep(0.3)
    assert one.running() == {pid}


def test_closing_the_terminal_stops_everything(supervised):
    one = supervised(a=SLEEPER)
    terminal, inside = os.openpty()
    one.start(prefix=[sys.executable, "-c", TAKES_TERMINAL], stdin=inside)
    os.close(inside)
    one.wait_for(lambda: len(one.running()) == 1)
    os.close(terminal)
    assert one.process.wait(timeout=5) == 0
    assert "the terminal was closed" in one.process.stdout.read()
    assert one.running() == set()


def test_ctrl_c_in_the_terminal_reaches_the_supervisor_alone(supervised):
    """Each program is the leader of a session of its own."""
    one = supervised(a=SLEEPER).start()
    one.wait_for(lambda: len(one.running()) == 1)
    (pid,) = one.running()
    assert os.getsid(pid) == pid


def test_a_program_that_refuses_its_configuration_ends_the_supervisor(supervised):
    two = supervised(bad="raise SystemExit(2)", good=SLEEPER).start()
    assert two.process.wait(timeout=5) == BAD_CONFIGURATION
    assert "bad refused its configuration" in two.process.stdout.read()
    assert two.running() == set()
