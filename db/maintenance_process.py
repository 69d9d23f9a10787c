"""The process that maintains a samples file: `python -m db.maintenance_process DIR LOG-FORMAT LOG-LEVEL`.

A process of its own, because sealing and merging would delay scrapes that share an interpreter with them. Its
parent (the collectors) tells it what to keep, one JSON line on standard input for each change, and is told
after each round, one line on standard output: empty, or what went wrong. It ends when standard input does.
"""

import ctypes
import json
import logging
import os
import select
import signal
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from db.errors import StoreError
from db.folder_claim import FolderTaken, claimed_folder
from db.logs import configure
from db.maintenance import Maintainer

NAME = "maintain"
ROUND_SECONDS = 5.0
LEASE_SECONDS = 1.0
_PR_SET_PDEATHSIG = 1  # linux/prctl.h
_TROUBLE_CHARACTERS = 500  # it is shown in a card

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Keep:
    """How long samples are kept, and how many bytes of them at most; None for any number."""

    retention_ms: int
    size_bytes: int | None

    def line(self) -> str:
        """As it is told to the process."""
        return json.dumps({"retention_ms": self.retention_ms, "size_bytes": self.size_bytes}) + "\n"


class Orders:
    """What the parent says on a file descriptor."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._begun = b""
        self.keep: Keep | None = None

    def wait(self, seconds: float) -> bool:
        """Take over what was said, waiting so many seconds for it; False when the parent has gone."""
        while select.select([self._descriptor], [], [], seconds)[0]:
            said = os.read(self._descriptor, 65_536)
            if not said:
                return False
            *lines, self._begun = (self._begun + said).split(b"\n")
            for line in lines:
                self.keep = Keep(**json.loads(line))
            seconds = 0.0
        return True


def rounds(
    maintainer: Maintainer, orders: Orders, say: Callable[[str], None], now_ms: Callable[[], int]
) -> None:
    """Work until the parent has gone."""
    while orders.keep is None:
        if not orders.wait(ROUND_SECONDS):
            return
    present = True
    while present:
        trouble = ""
        stopping = False
        said_at = time.monotonic()

        def ended() -> bool:
            nonlocal stopping
            nonlocal said_at
            stopping = stopping or not orders.wait(0.0)
            if time.monotonic() - said_at > ROUND_SECONDS:
                say("")  # a long piece of work is no hung process
                said_at = time.monotonic()
            return stopping

        try:
            maintainer.run(now_ms(), orders.keep.retention_ms, orders.keep.size_bytes, ended)
        except StoreError as error:
            trouble = " ".join(str(error).split())[:_TROUBLE_CHARACTERS]
            log.warning("maintenance is put off: %s", trouble)
        except Exception as error:  # a fault of ours in one piece of work must not end all the others
            trouble = f"unexpected {type(error).__name__}: {error}"[:_TROUBLE_CHARACTERS]
            log.exception("maintenance is put off")
        say(trouble)
        present = not stopping and orders.wait(ROUND_SECONDS)


def main(argv: list[str]) -> int:
    """Returns the exit status."""
    folder, log_format, log_level = argv
    # Ctrl-C reaches every process of a terminal; the parent says when to end.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    # A parent that is killed takes this process along at once; whatever is half done, the next one does anew.
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    configure(NAME, "json" if log_format == "json" else "logfmt", log_level)

    def say(trouble: str) -> None:
        sys.stdout.write(trouble + "\n")
        sys.stdout.flush()

    orders = Orders(sys.stdin.fileno())
    try:
        while True:
            try:
                return _hold(Path(folder), orders, say)
            except FolderTaken as error:
                # The one before us ends when it has finished what it is at.
                say(str(error))
                if not orders.wait(LEASE_SECONDS):
                    return 0
    except StoreError as error:
        say(str(error))
        return 1
    except BrokenPipeError:  # the parent was killed
        return 1


def _hold(folder: Path, orders: Orders, say: Callable[[str], None]) -> int:
    with claimed_folder(folder, NAME):
        maintainer = Maintainer.open(folder / "samples.db")
        try:
            rounds(maintainer, orders, say, lambda: time.time_ns() // 1_000_000)
        finally:
            maintainer.close()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
