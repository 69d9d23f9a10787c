"""Asks mounted file systems for their size without ever waiting for a dead one.

statvfs on an NFS mount whose server is gone does not return, and nothing can interrupt it. Each mount
that may hang is asked in a thread of its own; a mount that does not answer in time is remembered as
stuck and not asked again until its thread comes back, so that hung mounts do not pile up threads.
"""

import os
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass

# node_exporter waits 5 s; half of that keeps a first hang inside a 5 s scrape interval.
MOUNT_TIMEOUT_SECONDS = 2.5
STUCK = "mountpoint timeout"
# They live in this machine's memory: nothing to wait for, and a Kubernetes node has hundreds of them.
MEMORY_TYPES = frozenset({"tmpfs", "ramfs"})


@dataclass(frozen=True, slots=True)
class Mount:
    """One line of /proc/mounts; `path` is what statvfs is called with, the rest are labels."""

    device: str
    mountpoint: str
    fstype: str
    readonly: bool
    path: str


class _Question:
    """One statvfs call in a daemon thread: a hung one must not keep the process from ending."""

    def __init__(self, path: str, ask: Callable[[str], os.statvfs_result]) -> None:
        self.answer: os.statvfs_result | str = STUCK
        self._path = path
        self._ask = ask
        self._thread = threading.Thread(target=self._run, name=f"statvfs {path}", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        self.answer = _answer(self._path, self._ask)

    def wait(self, seconds: float) -> bool:
        """True when it came back."""
        self._thread.join(max(0.0, seconds))
        return not self._thread.is_alive()


class MountSizes:
    """statvfs for many mounts, bounded in time; `ask` and `timer` are arguments for the tests."""

    def __init__(
        self,
        timer: Callable[[], float],
        ask: Callable[[str], os.statvfs_result] = os.statvfs,
        timeout_seconds: float = MOUNT_TIMEOUT_SECONDS,
    ) -> None:
        self._timer = timer
        self._ask = ask
        self._timeout = timeout_seconds
        self._stuck: dict[str, _Question] = {}

    def read(self, mounts: Iterable[Mount]) -> dict[str, os.statvfs_result | str]:
        """Answer by path: the numbers, or why there are none. Takes `timeout_seconds` at most."""
        self._stuck = {path: question for path, question in self._stuck.items() if not question.wait(0)}
        answers: dict[str, os.statvfs_result | str] = {}
        asked: dict[str, _Question] = {}
        for mount in mounts:
            path = mount.path
            if path in answers or path in asked:
                continue
            if path in self._stuck:
                answers[path] = STUCK
            elif mount.fstype in MEMORY_TYPES:
                answers[path] = _answer(path, self._ask)
            else:
                asked[path] = _Question(path, self._ask)
        deadline = self._timer() + self._timeout
        for path, question in asked.items():
            if question.wait(deadline - self._timer()):
                answers[path] = question.answer
            else:
                answers[path] = STUCK
                self._stuck[path] = question
        return answers


def _answer(path: str, ask: Callable[[str], os.statvfs_result]) -> os.statvfs_result | str:
    try:
        return ask(path)
    except OSError as error:
        return (error.strerror or type(error).__name__).lower()
