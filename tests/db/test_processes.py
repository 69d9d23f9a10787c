"""Two writers, one row: neither overwrites what the other knows."""

import pytest

from db.engine import open_state
from db.processes import SILENT_SECONDS, Process, beat, read_processes, report


@pytest.fixture
def state(state_location):
    engine = open_state(state_location)
    yield engine
    engine.dispose()


def test_a_process_without_supervisor_reports_itself(state):
    beat(state, "collect", pid=7, started_ms=1_000, now_ms=2_000)
    beat(state, "collect", pid=7, started_ms=1_000, now_ms=7_000)
    assert read_processes(state) == [Process("collect", "running", 7, 1_000, 7_000, 0, "")]


def test_the_beat_keeps_the_supervisors_count_and_reason(state):
    report(state, "web", status="running", pid=9, restarts=2, detail="killed by SIGKILL", now_ms=500)
    beat(state, "web", pid=9, started_ms=600, now_ms=1_000)
    assert read_processes(state) == [Process("web", "running", 9, 600, 1_000, 2, "killed by SIGKILL")]


def test_a_restart_begins_when_the_supervisor_says_so(state):
    beat(state, "web", pid=9, started_ms=600, now_ms=1_000)
    report(state, "web", status="running", pid=10, restarts=1, detail="exited", now_ms=2_000)
    assert read_processes(state) == [Process("web", "running", 10, 2_000, 1_000, 1, "exited")]


def test_the_supervisor_keeps_the_last_beat(state):
    beat(state, "web", pid=9, started_ms=600, now_ms=1_000)
    report(state, "web", status="restarting", pid=None, restarts=0, detail="exited", now_ms=1_500)
    assert read_processes(state) == [Process("web", "restarting", None, 600, 1_000, 0, "exited")]


def test_processes_come_by_name(state):
    for name in ("web", "alert", "collect"):
        beat(state, name, pid=1, started_ms=0, now_ms=0)
    assert [process.name for process in read_processes(state)] == ["alert", "collect", "web"]


@pytest.mark.parametrize(
    ("process", "silent"),
    [
        (Process("a", "running", 1, 0, 100_000, 0, ""), False),
        (Process("a", "running", 1, 0, 0, 0, ""), True),
        (Process("a", "running", 1, 100_000, 0, 0, ""), False),  # just started again, not beaten yet
        (Process("a", "running", 1, 0, None, 0, ""), True),
        (Process("a", "stopped", None, 0, 0, 0, ""), False),
    ],
)
def test_silence_is_of_a_process_that_should_be_heard(process, silent):
    assert process.silent(now_ms=int(SILENT_SECONDS * 1000) + 1) is silent
