"""Writes what the supervisor sees into the state, where the Sources page reads it."""

import logging
from collections.abc import Callable

from app.supervise import Status
from db.errors import StoreError
from db.processes import State, report

_log = logging.getLogger("supervise")


class Recorder:
    """Called with each change. A state that cannot be written costs the page a line, never the processes."""

    def __init__(self, state: State, now_ms: Callable[[], int]) -> None:
        self._state = state
        self._now_ms = now_ms

    def __call__(self, status: Status) -> None:
        try:
            report(
                self._state,
                status.name,
                status=status.state,
                pid=status.pid,
                restarts=status.restarts,
                detail=status.detail,
                now_ms=self._now_ms(),
            )
        except StoreError as error:
            _log.warning("the state of %s could not be recorded: %s", status.name, error)
