"""A supervised process on Linux: its own session, no longer alive than its supervisor, nothing left behind.

Its own session keeps the terminal's Ctrl-C away from it: the supervisor alone decides the order of a stop.
"""

import ctypes
import os
import signal
import subprocess
from collections.abc import Sequence

_PR_SET_PDEATHSIG = 1  # linux/prctl.h
_LIBC = ctypes.CDLL(None, use_errno=True)  # loaded before the fork: nothing may be loaded after it


class ChildProcess:
    """A running program and everything it started."""

    def __init__(self, argv: Sequence[str]) -> None:
        """Start it; stdout and stderr are ours. Raises OSError."""
        supervisor = os.getpid()

        def die_with_supervisor() -> None:
            # KILL and not TERM: a supervisor killed by -9 can no longer end a child that hangs in its
            # own stop, and the store loses nothing it acknowledged.
            _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
            # A reload must not end a program that does not listen for it, or not yet.
            signal.signal(signal.SIGHUP, signal.SIG_IGN)
            if os.getppid() != supervisor:  # it died before the line above
                os._exit(1)

        # preexec_fn is safe here: the supervisor has no second thread.
        self._process = subprocess.Popen(
            argv, stdin=subprocess.DEVNULL, start_new_session=True, preexec_fn=die_with_supervisor
        )
        self.pid = self._process.pid

    def poll(self) -> int | None:
        """None while it runs; else its exit status, or minus the signal that ended it."""
        if self._process.returncode is None:
            # Looked at before it is reaped: until then no other process can get its number, so that
            # killing what is left of its session cannot hit a stranger.
            flags = os.WEXITED | os.WNOHANG | os.WNOWAIT
            if os.waitid(os.P_PID, self.pid, flags) is None:
                return None
            self._signal_session(signal.SIGKILL)
        return self._process.poll()

    def send(self, signum: int) -> None:
        """Signal the program itself; nothing happens when it is gone."""
        self._process.send_signal(signum)

    def kill(self) -> None:
        """SIGKILL to it and all it started."""
        if self._process.returncode is None:
            self._signal_session(signal.SIGKILL)

    def _signal_session(self, signum: int) -> None:
        try:
            os.killpg(self.pid, signum)
        except ProcessLookupError:
            return  # all of them have gone already
