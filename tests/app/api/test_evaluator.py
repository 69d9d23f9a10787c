"""Queries in processes: limits reach the engine, errors come back, and who leaves takes the query along."""

import asyncio
from collections.abc import Callable, Coroutine
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest

from app.api.evaluator import ProcessEvaluator
from db.labels import labels_from
from db.promql.answer import Answer
from db.promql.errors import BadQuery, QueryTimeout, SourceUnavailable
from db.records import SparseAppend
from db.store import SampleStore

AT_MS = 1_700_000_000_000
# A hundred thousand windows of as many samples each: minutes.
ENDLESS = "stddev_over_time(stddev_over_time(vector(1)[100000s:1s])[100000s:1s])"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    opened = SampleStore.open(tmp_path / "samples.db")
    opened.write([SparseAppend([labels_from({}, "m")], np.array([AT_MS]), np.array([7.0]))])
    opened.close()
    return tmp_path / "samples.db"


def asked(path: Path, question: Callable[[ProcessEvaluator], Coroutine[Any, Any, Any]]) -> Any:
    others = set(psutil.Process().children(recursive=True))  # multiprocessing's own, of tests before
    evaluator = ProcessEvaluator(partial(SampleStore.open, path))
    try:
        return asyncio.run(question(evaluator))
    finally:
        evaluator.close()
        assert set(psutil.Process().children(recursive=True)) <= others


def test_it_answers(path: Path) -> None:
    async def both(evaluator: ProcessEvaluator) -> tuple[Answer, Answer]:
        window = AT_MS - 15_000, AT_MS + 15_000, 15_000
        return await evaluator.instant("m + 1", AT_MS + 60_000), await evaluator.ranged("m", *window)

    one, other = asked(path, both)
    assert (one.kind, one.values.tolist()) == ("vector", [[8.0]])
    assert other.timestamps.tolist() == [AT_MS - 15_000, AT_MS, AT_MS + 15_000]


def test_lookback_and_as_many_points_as_prometheus_takes(path: Path) -> None:
    """11,000 steps after the first; the API itself refuses more."""

    async def several(evaluator: ProcessEvaluator) -> list[int]:
        later = AT_MS + 60_000
        looked = [await evaluator.instant("m", later, 10.0, lookback) for lookback in (60_001, 60_000)]
        long = await evaluator.ranged("1", 0, 11_000_000, 1_000)
        return [*(answer.table.count for answer in looked), len(long.timestamps)]

    assert asked(path, several) == [1, 0, 11_001]


def test_what_is_wrong_comes_back(path: Path) -> None:
    with pytest.raises(BadQuery):
        asked(path, lambda evaluator: evaluator.instant("m{", AT_MS))
    path.write_bytes(b"no database, but long enough to be read as one" * 100)
    with pytest.raises(SourceUnavailable, match="not a database"):
        asked(path, lambda evaluator: evaluator.instant("m", AT_MS))


def test_processes_that_a_fault_has_ended_are_begun_anew(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def again(evaluator: ProcessEvaluator) -> Answer:
        with monkeypatch.context() as patch:
            patch.setattr("db.promql.worker_keeper.Keeper._start_missing", lambda _: 1 / 0)
            with pytest.raises(SourceUnavailable, match="being stopped"):
                await evaluator.instant("m", AT_MS)
        return await evaluator.instant("m", AT_MS)

    assert asked(path, again).values.tolist() == [[7.0]]


def test_it_does_not_wait_longer_than_it_may(path: Path) -> None:
    async def endless(evaluator: ProcessEvaluator) -> Answer:
        await evaluator.instant("m", AT_MS)  # the processes are there
        return await evaluator.instant(ENDLESS, AT_MS, 2.0)

    with pytest.raises(QueryTimeout, match=r"took longer than 2 s"):
        asked(path, endless)


def test_who_leaves_takes_the_query_along(path: Path) -> None:
    async def leave(evaluator: ProcessEvaluator) -> Answer:
        running = asyncio.create_task(evaluator.instant(ENDLESS, AT_MS))
        await evaluator.instant("m", AT_MS)  # the processes are there
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        return await evaluator.instant("m", AT_MS)

    assert asked(path, leave).values.tolist() == [[7.0]]
