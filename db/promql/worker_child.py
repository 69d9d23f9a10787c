"""One of the processes that answer queries, as its parent holds it."""

import os
import socket
import subprocess
import sys
from enum import Enum, auto
from signal import Signals
from typing import TYPE_CHECKING

from db.promql.worker_wire import Incoming, Opening, send

if TYPE_CHECKING:
    from db.promql.running import Running

# It reads at once what it is told; one that does not was stopped by somebody (SIGSTOP).
_SEND_SECONDS = 5.0
# A process that was killed goes at once, unless it waits for a disk.
_REAP_SECONDS = 1.0
# More than its caches of selections hold.
_TEXTS_KNOWN = 512
# Its work is not linear algebra: more threads would only take memory and time to start.
_ENVIRONMENT = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
# A folder named db where somebody started us is not ours.
_SAFE_PATH = ("-P",) if sys.flags.safe_path else ()


class Phase(Enum):
    STARTING = auto()
    IDLE = auto()
    BUSY = auto()
    LEAVING = auto()  # it was killed, or has nothing more to do


class WorkerChild:
    """To be made, used and reaped in one thread, which may not end before the process: the kernel takes the
    death of the thread that started it for the death of the parent."""

    def __init__(self, opening: Opening, give_up_at: float) -> None:
        """Start it. give_up_at: when it has to be ready. Raises OSError."""
        self.socket, theirs = socket.socketpair()
        try:
            with theirs:
                self._process: subprocess.Popen[bytes] = subprocess.Popen(
                    [sys.executable, *_SAFE_PATH, "-m", "db.promql.worker_process", str(os.getpid())],
                    stdin=theirs.fileno(),
                    stdout=subprocess.DEVNULL,
                    env={**os.environ, **_ENVIRONMENT},
                )
        except BaseException:
            self.socket.close()
            raise
        self.phase = Phase.STARTING
        self.give_up_at = give_up_at
        self.running: Running | None = None
        self._known: dict[str, None] = {}
        self._incoming = Incoming(self.socket)
        try:
            self.send(opening)
        except OSError:
            self.reap()
            raise

    @property
    def pid(self) -> int:
        return self._process.pid

    def send(self, message: object) -> None:
        """Raises OSError when the process is gone, or does not read; it is of no use then."""
        self.socket.settimeout(_SEND_SECONDS)
        try:
            send(self.socket, message)
        finally:
            self.socket.setblocking(False)

    def knows(self, text: str) -> bool:
        """Has it been asked this lately?"""
        return text in self._known

    def learn(self, text: str) -> None:
        self._known.pop(text, None)
        self._known[text] = None
        if len(self._known) > _TEXTS_KNOWN:
            del self._known[next(iter(self._known))]

    def read(self) -> object:
        """As Incoming.read."""
        return self._incoming.read()

    def leave(self) -> None:
        """Kill it; its socket ends when it has gone."""
        self.phase = Phase.LEAVING
        self._process.kill()

    def reap(self) -> str | None:
        """Once its socket has ended: how the process ended; None when it has not gone yet."""
        self.socket.close()
        self._process.kill()
        try:
            status = self._process.wait(_REAP_SECONDS)
        except subprocess.TimeoutExpired:
            return None
        return f"exit status {status}" if status >= 0 else f"killed by {Signals(-status).name}"

    def gone(self) -> bool:
        """Of one that `reap` found not gone yet."""
        return self._process.poll() is not None
