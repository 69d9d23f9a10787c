"""What the tests of workers share: workers over a small store, and processes that tell when they begin."""

import os
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import TextIO

import numpy as np
import pytest

from db.promql.limits import Limits
from db.promql.question import Question
from db.promql.workers import QueryWorkers
from db.records import SparseAppend
from db.store import SampleStore
from tests.db.promql.worker_answers import obey

NOW = 1_700_000_000_000
UP = [(("__name__", "up"), ("instance", f"gpu{row}")) for row in range(3)]
MB = 1024 * 1024

Make = Callable[..., QueryWorkers]


class Pipe:
    """What processes tell that will not end by themselves."""

    def __init__(self, path: Path) -> None:
        os.mkfifo(path)
        self.path = path
        self._file: TextIO | None = None

    def pids(self, count: int = 1) -> list[int]:
        """Wait until so many have begun."""
        self._file = self.path.open()
        return [int(self._file.readline()) for _ in range(count)]

    def wait_until_gone(self) -> None:
        """All that have begun."""
        assert self._file is not None
        assert self._file.read() == ""

    def close(self) -> None:
        if self._file is not None:
            self._file.close()


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = tmp_path_factory.mktemp("data") / "samples.db"
    store = SampleStore.open(found)
    store.write([SparseAppend(UP, np.full(3, NOW), np.array([1.0, 0.0, 1.0]))])
    store.close()
    return found


@pytest.fixture(scope="module")
def workers(path: Path) -> Iterator[QueryWorkers]:
    """For tests that end no process."""
    with QueryWorkers(partial(SampleStore.open, path), 2, spares=0, waiting=100, answer=obey) as opened:
        yield opened


@pytest.fixture
def make(path: Path) -> Iterator[Make]:
    opened: list[QueryWorkers] = []

    def make(count: int = 1, limits: Limits | None = None, spares: int = 0, **options: int) -> QueryWorkers:
        source = partial(SampleStore.open, path)
        opened.append(QueryWorkers(source, count, limits, spares=spares, answer=obey, **options))
        return opened[-1]

    yield make
    for workers in opened:
        workers.close()


@pytest.fixture
def pipes(tmp_path: Path) -> Iterator[list[Pipe]]:
    made = [Pipe(tmp_path / f"pipe{number}") for number in range(3)]
    yield made
    for pipe in made:
        pipe.close()


@pytest.fixture
def pipe(pipes: list[Pipe]) -> Pipe:
    return pipes[0]


def ask(text: str, **options: float) -> Question:
    return Question(text, NOW, NOW, **options)


def value(workers: QueryWorkers, text: str) -> float:
    return float(workers.submit(ask(text)).result().values[0, 0])


def reaped(pid: int) -> bool:
    try:
        os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return True
    return False


def descriptors() -> set[str]:
    return {path.name for path in Path("/proc/self/fd").iterdir()}
