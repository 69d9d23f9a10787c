"""The idle alert process: alive, and nothing else yet."""

import sqlite3
from contextlib import closing

import pytest

from alerts.__main__ import rounds
from db.engine import open_state
from db.processes import BEAT_SECONDS, read_processes
from tests.fakes_supervision import FakeClock


@pytest.fixture
def state(tmp_path):
    engine = open_state(tmp_path / "state.db")
    yield engine
    engine.dispose()


class Stop:
    """Waits on the fake clock and says "stop" after so many rounds."""

    def __init__(self, clock: FakeClock, rounds: int) -> None:
        self.clock = clock
        self.left = rounds

    def __call__(self, seconds: float) -> bool:
        self.clock.wait(seconds)
        self.left -= 1
        return self.left == 0


def test_beats_until_it_is_told_to_stop(state):
    clock = FakeClock()
    rounds(state, once=False, wait=Stop(clock, 3), now_ms=lambda: int(clock.seconds * 1000))
    (process,) = read_processes(state)
    assert (process.name, process.started_ms) == ("alert", 1_000_000)
    assert process.beat_ms == 1_000_000 + 2 * BEAT_SECONDS * 1000


def test_once_does_not_wait(state):
    rounds(state, once=True, wait=pytest.fail, now_ms=lambda: 1)
    assert len(read_processes(state)) == 1


def test_a_state_that_cannot_be_written_does_not_end_it(state, tmp_path, caplog):
    with closing(sqlite3.connect(tmp_path / "state.db")) as database:
        database.execute("DROP TABLE process")
    rounds(state, once=False, wait=Stop(FakeClock(), 2), now_ms=lambda: 1)
    assert caplog.text.count("heartbeat could not be written") == 2
