"""A clock that is moved by hand and children that end when a test says so."""

import signal
from collections.abc import Sequence

from app.supervise import Status


class FakeClock:
    """Monotonic seconds; `wait` moves them and hands out the signals a test has queued."""

    def __init__(self) -> None:
        self.seconds = 1_000.0
        self.signals: list[list[int]] = []

    def now(self) -> float:
        return self.seconds

    def wait(self, seconds: float) -> Sequence[int]:
        if self.signals:
            return self.signals.pop(0)
        self.seconds += seconds
        return []


class FakeChild:
    """Runs until `end`; obeys SIGTERM unless it is deaf."""

    def __init__(self, pid: int, *, deaf: bool = False) -> None:
        self.pid = pid
        self.deaf = deaf
        self.received: list[int] = []
        self.status: int | None = None

    def poll(self) -> int | None:
        return self.status

    def send(self, signum: int) -> None:
        self.received.append(signum)
        if signum == signal.SIGTERM and not self.deaf:
            self.status = 0

    def kill(self) -> None:
        self.received.append(signal.SIGKILL)
        self.status = -signal.SIGKILL

    def end(self, status: int) -> None:
        self.status = status


class FakeSpawner:
    """Starts fake children and remembers them, by the first word of their command line."""

    def __init__(self) -> None:
        self.children: dict[str, list[FakeChild]] = {}
        self.deaf: set[str] = set()
        self.missing: set[str] = set()
        self._pids = iter(range(100, 10_000))

    def __call__(self, argv: Sequence[str]) -> FakeChild:
        name = argv[0]
        if name in self.missing:
            raise FileNotFoundError(2, "No such file or directory", name)
        child = FakeChild(next(self._pids), deaf=name in self.deaf)
        self.children.setdefault(name, []).append(child)
        return child

    def newest(self, name: str) -> FakeChild:
        return self.children[name][-1]

    def starts(self, name: str) -> int:
        return len(self.children.get(name, []))


class Statuses(list[Status]):
    """What the supervisor reported, in order."""

    def of(self, name: str) -> Status:
        return [status for status in self if status.name == name][-1]
