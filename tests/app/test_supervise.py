"""The supervisor's decisions, with a clock that is moved by hand."""

import signal

import pytest

from app.supervise import (
    BAD_CONFIGURATION,
    LONGEST_BACKOFF_SECONDS,
    STABLE_SECONDS,
    STOP_SECONDS,
    ConfigurationRefused,
    Program,
    Supervisor,
    run,
)
from tests.fakes_supervision import FakeClock, FakeSpawner, Statuses


class Bench:
    """A supervisor of two programs and everything it is given."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.spawner = FakeSpawner()
        self.statuses = Statuses()
        self.supervisor = Supervisor(
            [Program("web", ("web",)), Program("collect", ("collect",))],
            spawn=self.spawner,
            now=self.clock.now,
            changed=self.statuses.append,
        )

    def kill_and_time_the_restart(self, name: str, *, after: float = 0.1) -> float:
        """Seconds between the death of a program and its next start."""
        self.clock.seconds += after
        starts = self.spawner.starts(name)
        self.spawner.newest(name).end(-signal.SIGKILL)
        died = self.clock.seconds
        while self.spawner.starts(name) == starts:
            self.supervisor.check()
            self.clock.seconds += self.supervisor.seconds_until_due() or 0.0
        return self.clock.seconds - died

    def run(self) -> int:
        return run(self.supervisor, wait=self.clock.wait, each_turn=lambda: None, terminal_lost=lambda: False)


@pytest.fixture
def bench() -> Bench:
    return Bench()


def test_starts_every_program_and_reports_its_pid(bench):
    bench.supervisor.start()
    assert [(status.name, status.state, status.pid) for status in bench.statuses] == [
        ("web", "running", 100),
        ("collect", "running", 101),
    ]


def test_back_off_doubles_from_one_second_to_thirty(bench):
    bench.supervisor.start()
    waits = [bench.kill_and_time_the_restart("collect") for _ in range(7)]
    assert waits == pytest.approx([1, 2, 4, 8, 16, 30, 30])


def test_a_stable_run_resets_the_back_off(bench):
    bench.supervisor.start()
    for _ in range(5):
        bench.kill_and_time_the_restart("collect")
    assert bench.kill_and_time_the_restart("collect", after=STABLE_SECONDS) == pytest.approx(1)


def test_one_death_leaves_the_others_alone(bench):
    bench.supervisor.start()
    bench.kill_and_time_the_restart("collect")
    assert (bench.spawner.starts("web"), bench.spawner.starts("collect")) == (1, 2)
    assert bench.spawner.newest("web").received == []


def test_says_which_is_down_and_why_and_that_it_is_back(bench, caplog):
    bench.supervisor.start()
    bench.spawner.newest("collect").end(-signal.SIGSEGV)
    bench.supervisor.check()
    down = bench.statuses.of("collect")
    assert (down.state, down.pid, down.detail) == ("restarting", None, "killed by SIGSEGV")
    assert "collect is down: killed by SIGSEGV; restart in 1 s" in caplog.text
    bench.clock.seconds += 1
    bench.supervisor.check()
    back = bench.statuses.of("collect")
    assert (back.state, back.restarts, back.detail) == ("running", 1, "killed by SIGSEGV")


def test_an_orderly_end_that_nobody_asked_for_is_a_death_too(bench):
    bench.supervisor.start()
    bench.spawner.newest("web").end(0)
    bench.supervisor.check()
    assert bench.statuses.of("web").detail == "exited with status 0"


def test_a_program_that_cannot_be_started_is_tried_again(bench):
    bench.spawner.missing.add("web")
    bench.supervisor.start()
    assert bench.statuses.of("web").detail == "cannot be started: No such file or directory"
    bench.spawner.missing.clear()
    bench.clock.seconds += LONGEST_BACKOFF_SECONDS
    bench.supervisor.check()
    assert bench.statuses.of("web").state == "running"


def test_bad_configuration_at_the_first_start_ends_everything(bench):
    bench.clock.signals = [[]]
    original = bench.clock.wait

    def refuse_then_wait(seconds):
        child = bench.spawner.newest("collect")
        if child.status is None:
            child.end(BAD_CONFIGURATION)
        return original(seconds)

    status = run(bench.supervisor, wait=refuse_then_wait, each_turn=lambda: None, terminal_lost=lambda: False)
    assert status == BAD_CONFIGURATION
    assert bench.spawner.newest("web").received == [signal.SIGTERM]


def test_bad_configuration_later_is_a_death_like_any_other(bench):
    bench.supervisor.start()
    bench.kill_and_time_the_restart("collect")
    bench.spawner.newest("collect").end(BAD_CONFIGURATION)
    bench.supervisor.check()
    assert bench.statuses.of("collect").state == "restarting"


def test_refusal_names_the_program(bench):
    bench.supervisor.start()
    bench.spawner.newest("collect").end(BAD_CONFIGURATION)
    with pytest.raises(ConfigurationRefused, match="collect"):
        bench.supervisor.check()


@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGTERM])
def test_a_stop_signal_ends_all_with_term_and_status_zero(bench, signum):
    bench.clock.signals = [[signum]]
    assert bench.run() == 0
    for name in ("web", "collect"):
        assert bench.spawner.newest(name).received == [signal.SIGTERM]
        assert bench.statuses.of(name).state == "stopped"


def test_what_ignores_term_is_killed_after_the_limit(bench):
    bench.spawner.deaf.add("web")
    bench.clock.signals = [[signal.SIGTERM]]
    before = bench.clock.seconds
    bench.run()
    assert bench.spawner.newest("web").received == [signal.SIGTERM, signal.SIGKILL]
    assert bench.spawner.newest("collect").received == [signal.SIGTERM]
    assert bench.clock.seconds - before == pytest.approx(STOP_SECONDS)


def test_a_second_ctrl_c_does_not_wait(bench):
    bench.spawner.deaf.add("web")
    bench.clock.signals = [[signal.SIGINT], [signal.SIGINT]]
    before = bench.clock.seconds
    bench.run()
    assert bench.spawner.newest("web").received == [signal.SIGTERM, signal.SIGKILL]
    assert bench.clock.seconds == before


def test_hang_up_is_passed_on_as_reload(bench):
    bench.clock.signals = [[signal.SIGHUP], [signal.SIGTERM]]
    bench.run()
    assert bench.spawner.newest("web").received == [signal.SIGHUP, signal.SIGTERM]


def test_hang_up_of_a_closed_terminal_stops_everything(bench):
    bench.clock.signals = [[signal.SIGHUP]]
    status = run(bench.supervisor, wait=bench.clock.wait, each_turn=lambda: None, terminal_lost=lambda: True)
    assert status == 0
    assert bench.spawner.newest("web").received == [signal.SIGTERM]


def test_an_error_of_the_supervisor_itself_leaves_no_child(bench):
    def broken() -> float | None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        run(bench.supervisor, wait=bench.clock.wait, each_turn=broken, terminal_lost=lambda: False)
    assert bench.spawner.newest("web").received == [signal.SIGTERM]
    assert bench.spawner.newest("collect").received == [signal.SIGTERM]
