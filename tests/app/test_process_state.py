"""What the supervisor sees reaches the page; what cannot be written costs no process."""

import sqlite3
from contextlib import closing

import pytest

from app.process_state import Recorder
from app.supervise import Status
from db.engine import open_state
from db.processes import Process, read_processes

DOWN = Status("web", "restarting", None, 2, "killed by SIGKILL")


@pytest.fixture
def state(tmp_path):
    engine = open_state(tmp_path / "state.db")
    yield engine
    engine.dispose()


def test_a_change_is_recorded(state):
    Recorder(state, now_ms=lambda: 5)(DOWN)
    assert read_processes(state) == [Process("web", "restarting", None, None, None, 2, "killed by SIGKILL")]


def test_a_state_that_cannot_be_written_is_logged(state, tmp_path, caplog):
    with closing(sqlite3.connect(tmp_path / "state.db")) as database:
        database.execute("DROP TABLE process")
    Recorder(state, now_ms=lambda: 5)(DOWN)
    assert "the state of web could not be recorded" in caplog.text
