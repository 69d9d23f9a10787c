"""Signals as something to wait for, so that the supervisor's loop stays one readable sequence.

A handler may run between any two lines; here it does nothing, and the loop reads the numbers when it is
ready for them.
"""

import os
import select
import signal
import socket
from collections.abc import Sequence
from types import FrameType, TracebackType
from typing import Any, Self

_WATCHED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGCHLD)


class SignalInbox:
    """Collects SIGINT, SIGTERM, SIGHUP and SIGCHLD while entered; main thread only."""

    def __init__(self) -> None:
        self._reader, self._writer = socket.socketpair()
        self._former: dict[signal.Signals, Any] = {}
        # nohup asked that a hang-up shall not end us: then it never does.
        self._hangups_ignored = signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
        self._had_terminal = _has_terminal()

    def __enter__(self) -> Self:
        self._reader.setblocking(False)
        self._writer.setblocking(False)
        self._former_fd = signal.set_wakeup_fd(self._writer.fileno(), warn_on_full_buffer=False)
        for signum in _WATCHED:
            self._former[signum] = signal.signal(signum, _do_nothing)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for signum, handler in self._former.items():
            signal.signal(signum, handler)
        signal.set_wakeup_fd(self._former_fd)
        self._reader.close()
        self._writer.close()

    def wait(self, seconds: float) -> Sequence[int]:
        """The signals that came, after the first of them or when the seconds are over."""
        ready, _, _ = select.select([self._reader], [], [], max(0.0, seconds))
        return list(self._reader.recv(4096)) if ready else []

    def terminal_lost(self) -> bool:
        """Was there a terminal at the start that is gone now (its window was closed)?"""
        return self._had_terminal and not self._hangups_ignored and not _has_terminal()


def _do_nothing(signum: int, frame: FrameType | None) -> None:
    """Its being set is the point: the number then reaches the wake-up socket."""


def _has_terminal() -> bool:
    try:
        os.close(os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY))
    except OSError:
        return False
    return True
