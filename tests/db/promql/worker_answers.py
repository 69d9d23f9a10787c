"""What the workers under test do instead of answering PromQL: the query's text is an order.

A process that begins something it will not end by itself opens a named pipe for writing and tells its process
id. Whoever reads the pipe to its end knows, without a clock, that every process that opened it has gone.
"""

import ctypes
import os
import resource
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from db.nan import STALE
from db.promql.answer import Answer
from db.promql.errors import BadQuery, QueryTimeout
from db.promql.question import Question
from db.promql.table import SeriesTable
from db.records import Matcher
from db.store import SampleStore

_kept: list[object] = []


def open_and_tell(path: Path, pipe: Path) -> SampleStore:
    """The process holds the pipe open as long as it lives."""
    store = SampleStore.open(path)
    _tell(str(pipe))
    return store


def obey(source: SampleStore, question: Question) -> Answer:
    order, _, argument = question.text.partition(" ")
    return _ORDERS[order](source, question, argument)


def number(value: float) -> Answer:
    return Answer("scalar", SeriesTable(0, {}), np.array([0]), np.array([[value]]))


def large() -> Answer:
    """1,000 series with every fourth value missing and a staleness marker, as parts of larger arrays."""
    table = SeriesTable.of(
        [(("__name__", "large"), ("pod", f"pod \0 {row} \ud7ff\n")) for row in range(2_000)]
    )
    values = np.arange(2_000 * 300, dtype=np.float64).reshape(300, 2_000).T
    values[0, 0] = STALE
    there = np.arange(values.size).reshape(values.shape) % 4 != 0
    half = np.arange(0, 2_000, 2)
    return Answer("matrix", table.take(half), np.arange(300), values[::2], there[::2], warnings=("careful",))


def _tell(pipe: str) -> None:
    opened = os.open(pipe, os.O_WRONLY)
    os.write(opened, f"{os.getpid()}\n".encode())


def _hang_in_numpy(source: SampleStore, question: Question, pipe: str) -> Answer:
    _tell(pipe)
    values = np.random.default_rng(0).random(2_000_000)
    while True:
        np.sort(values)


def _hang_in_sleep(source: SampleStore, question: Question, pipe: str) -> Answer:
    _tell(pipe)
    time.sleep(3_600)
    return number(0)


def _allocate(source: SampleStore, question: Question, argument: str) -> Answer:
    while True:
        _kept.append(np.ones(1_000_000))


def _keep(source: SampleStore, question: Question, count: str) -> Answer:
    _kept.append(np.ones(int(count), dtype=np.uint8))
    return number(os.getpid())


def _exit(source: SampleStore, question: Question, status: str) -> Answer:
    os._exit(int(status))


def _segfault(source: SampleStore, question: Question, argument: str) -> Answer:
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    ctypes.string_at(0)
    return number(0)


def _note(source: SampleStore, question: Question, argument: str) -> Answer:
    path, line = argument.rsplit(" ", 1)
    with Path(path).open("a") as file:
        file.write(line)
    return number(0)


def _refuse(source: SampleStore, question: Question, argument: str) -> Answer:
    raise BadQuery(argument)


def _fail(source: SampleStore, question: Question, argument: str) -> Answer:
    raise KeyError(argument)


def _time_out(source: SampleStore, question: Question, argument: str) -> Answer:
    raise QueryTimeout("noticed in the middle of it")


def _latest(source: SampleStore, question: Question, metric: str) -> Answer:
    found = source.latest_columns([Matcher("__name__", "=", metric)], question.start_ms)
    return Answer(
        "vector", SeriesTable.of(found.series), np.array([question.start_ms]), found.values[:, None]
    )


_ORDERS: dict[str, Callable[[SampleStore, Question, str], Answer]] = {
    "sort": _hang_in_numpy,
    "sleep": _hang_in_sleep,
    "allocate": _allocate,
    "keep": _keep,
    "exit": _exit,
    "segfault": _segfault,
    "note": _note,
    "refuse": _refuse,
    "fail": _fail,
    "time-out": _time_out,
    "latest": _latest,
    "large": lambda source, question, argument: large(),
    "pid": lambda source, question, argument: number(os.getpid()),
    "seconds": lambda source, question, argument: number(question.options.limits.seconds),
    "samples": lambda source, question, argument: number(question.options.limits.samples),
    "score": lambda source, question, argument: number(float(Path("/proc/self/oom_score_adj").read_text())),
}
