"""The alert process. It evaluates nothing yet: it starts, says that it is alive, and stops when told to."""

import logging
import os
import signal
import time
from collections.abc import Callable
from threading import Event
from types import FrameType

from db.engine import open_state
from db.errors import StoreError
from db.processes import BEAT_SECONDS, State, beat
from db.settings import Settings

NAME = "alert"

_log = logging.getLogger("alerts")


def run(settings: Settings, *, once: bool) -> int:
    """Run until SIGTERM or SIGINT, or for one round; returns the exit status. Raises StoreError."""
    state = open_state(settings.state_location)
    stop = Event()

    def on_stop(_signum: int, _frame: FrameType | None) -> None:
        stop.set()

    def on_reload(_signum: int, _frame: FrameType | None) -> None:
        """There is nothing to reload yet; without a handler the signal would end the process."""

    signal.signal(signal.SIGTERM, on_stop)
    signal.signal(signal.SIGINT, on_stop)
    signal.signal(signal.SIGHUP, on_reload)
    _log.info("alerts are idle: this version evaluates no rules")
    try:
        rounds(state, once=once, wait=stop.wait, now_ms=lambda: time.time_ns() // 1_000_000)
    finally:
        state.dispose()
    return 0


def rounds(state: State, *, once: bool, wait: Callable[[float], bool], now_ms: Callable[[], int]) -> None:
    """One round, or rounds until `wait(seconds)` says that it is time to stop."""
    started_ms = now_ms()
    while True:
        try:
            beat(state, NAME, pid=os.getpid(), started_ms=started_ms, now_ms=now_ms())
        except StoreError as error:  # a full disk must not end the process that has to tell of it
            _log.warning("the heartbeat could not be written: %s", error)
        if once or wait(BEAT_SECONDS):
            return
