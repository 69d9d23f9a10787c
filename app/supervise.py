"""Starts Strata's processes, brings back the one that dies, and stops them all within five seconds.

`Supervisor` decides and is driven by a clock and a way to start things, both arguments; `run` feeds it the
real time and the process's signals.
"""

import logging
import signal
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

FIRST_BACKOFF_SECONDS = 1.0
LONGEST_BACKOFF_SECONDS = 30.0
STABLE_SECONDS = 60.0  # ran this long: the next death is a new trouble, not the same one again
STOP_SECONDS = 4.0  # then SIGKILL; leaves a second of the five that a stop may take
BAD_CONFIGURATION = 2  # exit status of every command on bad input

_log = logging.getLogger("supervise")


@dataclass(frozen=True, slots=True)
class Program:
    """What to keep running. `name` is what people see: "collect"."""

    name: str
    argv: tuple[str, ...]


class Child(Protocol):
    """A program that was started."""

    pid: int

    def poll(self) -> int | None:
        """None while it runs; else its exit status, or minus the signal that ended it."""
        ...

    def send(self, signum: int) -> None:
        """Signal it; no error when it is gone."""
        ...

    def kill(self) -> None:
        """End it and all it started, at once."""
        ...


Spawn = Callable[[Sequence[str]], Child]


@dataclass(frozen=True, slots=True)
class Status:
    """One program's state after a change. detail: why it last ended, "" when it never has."""

    name: str
    state: Literal["running", "restarting", "stopped"]
    pid: int | None
    restarts: int
    detail: str


class Wait(Protocol):
    """Sleeps until a signal arrives or the seconds are over; returns the signals that came."""

    def __call__(self, seconds: float) -> Sequence[int]: ...


class ConfigurationRefused(Exception):
    """A program ended with BAD_CONFIGURATION at its very first start; it has said why on stderr.

    Later the same status is a death like any other: a file edited badly must not end what runs.
    """


@dataclass(slots=True)
class _Slot:
    program: Program
    child: Child | None = None
    started: float = 0.0
    due: float = 0.0
    failures: int = 0  # in a row, without a stable run between
    restarts: int = 0
    detail: str = ""


class Supervisor:
    """Which programs run, which are due, and when.

    spawn: starts a program, raises OSError. now: monotonic seconds. changed: told of every change.
    """

    def __init__(
        self,
        programs: Sequence[Program],
        *,
        spawn: Spawn,
        now: Callable[[], float],
        changed: Callable[[Status], None],
    ) -> None:
        self._slots = [_Slot(program) for program in programs]
        self._spawn = spawn
        self._now = now
        self._changed = changed

    def start(self) -> None:
        """Start every program."""
        for slot in self._slots:
            self._start(slot)

    def check(self) -> None:
        """Take note of what ended and start what is due. Raises ConfigurationRefused."""
        for slot in self._slots:
            if slot.child is not None and (status := slot.child.poll()) is not None:
                first_start = slot.restarts == 0
                self._ended(slot, _reason(status))
                if first_start and status == BAD_CONFIGURATION:
                    raise ConfigurationRefused(slot.program.name)
            if slot.child is None and self._now() >= slot.due:
                slot.restarts += 1
                self._start(slot)

    def seconds_until_due(self) -> float | None:
        """How long `check` may be left alone when no child ends; None: until one does."""
        dues = [slot.due for slot in self._slots if slot.child is None]
        return max(0.0, min(dues) - self._now()) if dues else None

    def send(self, signum: int) -> None:
        """Pass a signal on to every program that runs."""
        for slot in self._slots:
            if slot.child is not None:
                slot.child.send(signum)

    def stop(self, wait: Wait) -> None:
        """SIGTERM to all, SIGKILL to what is left after STOP_SECONDS or at a second SIGINT or SIGTERM."""
        self.send(signal.SIGTERM)
        deadline = self._now() + STOP_SECONDS
        while self._living() and (left := deadline - self._now()) > 0:
            if any(signum in (signal.SIGINT, signal.SIGTERM) for signum in wait(left)):
                break
        for slot in self._living():
            assert slot.child is not None  # noqa: S101 - _living says so; mypy cannot see it
            _log.warning("%s did not stop in time; killed", slot.program.name, extra={"pid": slot.child.pid})
            slot.child.kill()
        patience = self._now() + 1.0  # a killed process is gone at once unless the disk hangs under it
        while self._living() and (left := patience - self._now()) > 0:
            wait(min(left, 0.05))
        for slot in self._slots:
            self._say(slot, "stopped")

    def _living(self) -> list[_Slot]:
        return [slot for slot in self._slots if slot.child is not None and slot.child.poll() is None]

    def _start(self, slot: _Slot) -> None:
        slot.started = self._now()
        try:
            slot.child = self._spawn(slot.program.argv)
        except OSError as error:
            self._ended(slot, f"cannot be started: {error.strerror or error}")
            return
        _log.info("%s started", slot.program.name, extra={"pid": slot.child.pid})
        self._say(slot, "running")

    def _ended(self, slot: _Slot, reason: str) -> None:
        stable = self._now() - slot.started >= STABLE_SECONDS
        slot.failures = 1 if stable else slot.failures + 1
        delay = min(FIRST_BACKOFF_SECONDS * 2 ** (slot.failures - 1), LONGEST_BACKOFF_SECONDS)
        slot.child = None
        slot.due = self._now() + delay
        slot.detail = reason
        _log.warning("%s is down: %s; restart in %.0f s", slot.program.name, reason, delay)
        self._say(slot, "restarting")

    def _say(self, slot: _Slot, state: Literal["running", "restarting", "stopped"]) -> None:
        pid = slot.child.pid if slot.child is not None and state == "running" else None
        self._changed(Status(slot.program.name, state, pid, slot.restarts, slot.detail))


def run(
    supervisor: Supervisor,
    *,
    wait: Wait,
    each_turn: Callable[[], float | None],
    terminal_lost: Callable[[], bool],
) -> int:
    """Supervise until SIGINT, SIGTERM or a hang-up of the terminal; returns the exit status.

    each_turn: called between waits (the readiness check); returns the seconds after which it wants to be
    called again, None for no wish. terminal_lost: does a SIGHUP now mean that the terminal was closed?
    Another SIGHUP is "reload" and passed on.
    """
    try:
        supervisor.start()
        while True:
            supervisor.check()
            wishes = [
                seconds for seconds in (supervisor.seconds_until_due(), each_turn()) if seconds is not None
            ]
            for signum in wait(min(wishes, default=60.0)):
                if signum in (signal.SIGINT, signal.SIGTERM):
                    _log.info("stopping")
                    return 0
                if signum == signal.SIGHUP:
                    if terminal_lost():
                        _log.info("the terminal was closed; stopping")
                        return 0
                    supervisor.send(signal.SIGHUP)
    except ConfigurationRefused as refused:
        _log.error("%s refused its configuration; stopping", refused)
        return BAD_CONFIGURATION
    finally:
        supervisor.stop(wait)


def _reason(status: int) -> str:
    if status >= 0:
        return f"exited with status {status}"
    try:
        return f"killed by {signal.Signals(-status).name}"
    except ValueError:  # a real-time signal has no name
        return f"killed by signal {-status}"
