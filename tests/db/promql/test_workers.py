"""Queries in processes: whatever one of them does, the others are answered and nothing stays behind."""

import asyncio
import os
import signal
from functools import partial
from itertools import count
from pathlib import Path
from threading import Thread

import numpy as np
import pytest

from db.promql.engine import Options
from db.promql.errors import (
    BadQuery,
    ExecutionError,
    LimitExceeded,
    QueryCanceled,
    QueryError,
    QueryTimeout,
    SourceUnavailable,
)
from db.promql.limits import Limits
from db.promql.running import Running
from db.promql.workers import QueryWorkers
from db.store import SampleStore
from tests.db.promql.worker_answers import large, obey, open_and_tell
from tests.db.promql.worker_pools import (
    MB,
    NOW,
    UP,
    Make,
    Pipe,
    ask,
    make,
    path,
    pipe,
    pipes,
    reaped,
    value,
    workers,
)

__all__ = ["make", "path", "pipe", "pipes", "workers"]  # the fixtures


@pytest.mark.parametrize("order", ["sort", "sleep"])
def test_cancelling_a_query_ends_its_process_and_frees_its_worker(make: Make, pipe: Pipe, order: str) -> None:
    workers = make()
    running = workers.submit(ask(f"{order} {pipe.path}"))
    (pid,) = pipe.pids()
    running.cancel()
    with pytest.raises(QueryCanceled, match="was cancelled"):
        running.result()
    pipe.wait_until_gone()
    assert value(workers, "pid") != pid
    workers.close()
    assert reaped(pid)


def test_a_query_that_takes_too_long_is_ended(make: Make, pipe: Pipe) -> None:
    workers = make()
    first = value(workers, "pid")
    running = workers.submit(ask(f"sort {pipe.path}", seconds=2))
    assert pipe.pids() == [first]
    with pytest.raises(QueryTimeout, match="took longer than 2 s; select fewer series"):
        running.result()
    pipe.wait_until_gone()
    assert value(workers, "pid") != first


def test_a_query_that_notices_its_time_itself_keeps_its_process(workers: QueryWorkers) -> None:
    first = value(workers, "pid")
    with pytest.raises(QueryTimeout, match="took longer than 120 s"):
        value(workers, "time-out")
    assert value(workers, "pid") == first


def test_waiting_counts_towards_the_time(make: Make, pipe: Pipe, tmp_path: Path) -> None:
    workers = make()
    running = workers.submit(ask(f"sleep {pipe.path}"))
    pipe.pids()
    noted = tmp_path / "noted"
    late = workers.submit(ask(f"note {noted} late", seconds=0.2))
    with pytest.raises(QueryTimeout, match=r"waited 0\.2 s for others"):
        late.result()
    running.cancel()
    value(workers, "pid")
    assert not noted.exists()


def test_a_query_is_told_what_is_left_of_the_tighter_limits(make: Make) -> None:
    workers = make(limits=Limits(samples=1_000, seconds=60))
    assert value(workers, "samples") == 1_000
    assert 0 < value(workers, "seconds") < 60
    options = Options(limits=Limits(samples=10, seconds=1_000))
    assert workers.instant("samples", NOW, options).values[0, 0] == 10
    assert workers.ranged("seconds", NOW, NOW, 1, options).values[0, 0] < 60


def test_a_query_without_end_of_memory_is_refused_and_others_go_on(make: Make, pipe: Pipe) -> None:
    workers = make(count=2, memory_bytes=200 * MB)
    beside = workers.submit(ask(f"sleep {pipe.path}"))
    pipe.pids()
    first = value(workers, "pid")
    with pytest.raises(LimitExceeded, match="needs more than 200 MB of memory; select fewer series"):
        value(workers, "allocate")
    assert workers.submit(ask("latest up")).result().values.tolist() == [[1], [0], [1]]
    assert value(workers, "pid") != first  # what a failed allocation leaves behind is not to be trusted
    assert not beside.done()


def test_memory_that_stays_is_given_back_by_a_fresh_process(make: Make) -> None:
    workers = make(memory_bytes=400 * MB)
    first = value(workers, f"keep {300 * MB}")
    assert value(workers, "keep 1") == first
    assert value(workers, f"keep {300 * MB}") != first


@pytest.mark.parametrize(("order", "how"), [("exit 3", "exit status 3"), ("segfault", "killed by SIGSEGV")])
def test_a_process_that_ends_by_itself_fails_its_query_only(make: Make, order: str, how: str) -> None:
    workers = make()
    lost, next_one = workers.submit(ask(order)), workers.submit(ask("latest up"))
    with pytest.raises(ExecutionError, match=rf"the query's process ended \({how}\); select fewer"):
        lost.result()
    assert next_one.result().table.count == 3


def test_a_process_that_the_system_killed_may_have_had_no_memory(make: Make, pipe: Pipe) -> None:
    workers = make()
    running = workers.submit(ask(f"sleep {pipe.path}"))
    os.kill(pipe.pids()[0], signal.SIGKILL)
    with pytest.raises(ExecutionError, match="SIGKILL: perhaps the machine has no memory left"):
        running.result()


def test_errors_keep_their_class_and_words(workers: QueryWorkers) -> None:
    first = value(workers, "pid")
    with pytest.raises(BadQuery) as refused:
        value(workers, "refuse it says why")
    assert str(refused.value) == "it says why"
    with pytest.raises(QueryError, match="unexpected KeyError: 'x'") as fault:
        value(workers, "fail x")
    assert fault.value.kind == "internal"
    assert value(workers, "pid") == first


def test_an_answer_arrives_as_it_was(workers: QueryWorkers) -> None:
    got, expected = workers.submit(ask("large")).result(), large()
    assert list(got.table.rows()) == list(expected.table.rows())
    assert got.kind == "matrix"
    assert got.warnings == ("careful",)
    assert np.array_equal(got.timestamps, expected.timestamps)
    assert got.values.tobytes() == expected.values.tobytes()
    assert got.there is not None
    assert np.array_equal(got.there, expected.there)


def test_queries_wait_in_their_order_and_cancelled_ones_are_dropped(
    make: Make, pipe: Pipe, tmp_path: Path
) -> None:
    workers = make()
    first = workers.submit(ask(f"sleep {pipe.path}"))
    pipe.pids()
    noted = tmp_path / "noted"
    waiting = [workers.submit(ask(f"note {noted} {name}")) for name in "abcd"]
    waiting[1].cancel()
    first.cancel()
    waiting[3].result()
    assert noted.read_text() == "acd"
    with pytest.raises(QueryCanceled):
        waiting[1].result()


def test_no_more_wait_than_may(make: Make, pipe: Pipe) -> None:
    workers = make(waiting=2)
    first = workers.submit(ask(f"sleep {pipe.path}"))
    pipe.pids()
    waiting = [workers.submit(ask("pid")) for _ in range(2)]
    with pytest.raises(SourceUnavailable, match="3 queries are running or waiting already; ask again"):
        workers.submit(ask("pid"))
    waiting[0].cancel()
    last = workers.submit(ask("pid"))
    first.cancel()
    assert last.result().values[0, 0] == waiting[1].result().values[0, 0]


def test_as_many_run_at_once_as_there_are_workers(path: Path, pipes: list[Pipe]) -> None:
    opened, first, last = pipes
    source = partial(open_and_tell, path, opened.path)
    with QueryWorkers(source, 2, spares=1, answer=obey) as workers:
        assert len(set(opened.pids(3))) == 3
        running = [workers.submit(ask(f"sleep {first.path}")) for _ in range(2)]
        assert len(set(first.pids(2))) == 2
        with pytest.raises(QueryTimeout, match="waited 1 s for others"):
            workers.submit(ask("pid", seconds=1)).result()
        third = workers.submit(ask(f"sleep {last.path}"))
        running[0].cancel()
        last.pids()
        assert not running[1].done()
        assert not third.done()


def test_a_query_goes_to_the_process_that_answered_it_before(path: Path) -> None:
    """Its caches hold the labels; without that the one used last would get it."""
    with QueryWorkers(partial(SampleStore.open, path), 2, answer=obey) as workers:

        def pids(*texts: str) -> list[float]:
            running = [workers.submit(ask(text)) for text in texts]
            return [float(one.result().values[0, 0]) for one in running]

        for number in count():  # until both had something to do at once
            texts = f"pid {number} a", f"pid {number} b"
            first, second = pids(*texts)
            if first != second:
                break
        for _ in range(5):
            assert [*pids(texts[0]), *pids(texts[1])] == [first, second]


def test_a_task_that_is_cancelled_cancels_its_query(make: Make, pipe: Pipe) -> None:
    workers = make()

    async def cancelled() -> float:
        task = asyncio.create_task(workers.ask(ask(f"sort {pipe.path}")))
        await asyncio.to_thread(pipe.pids)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await asyncio.to_thread(pipe.wait_until_gone)
        return float((await workers.ask(ask("pid"))).values[0, 0])

    assert asyncio.run(cancelled())


def test_whoever_stops_waiting_cancels_the_query(make: Make, pipe: Pipe) -> None:
    workers = make()
    running = workers.submit(ask(f"sleep {pipe.path}"))
    assert not running.wait(0)

    def interrupt() -> None:
        pipe.pids()
        os.kill(os.getpid(), signal.SIGINT)

    # A shell that starts the tests in the background has SIGINT ignored.
    former = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        thread = Thread(target=interrupt)
        thread.start()
        with pytest.raises(KeyboardInterrupt):
            running.result()
        thread.join()
    finally:
        signal.signal(signal.SIGINT, former)
    pipe.wait_until_gone()
    assert running.wait(0)


def test_many_threads_get_their_own_answers(workers: QueryWorkers) -> None:
    got: dict[int, float] = {}

    def one(number: int) -> None:
        options = Options(limits=Limits(samples=number))
        got[number] = float(workers.instant("samples", NOW, options).values[0, 0])

    threads = [Thread(target=one, args=(number,)) for number in range(60)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert got == {number: float(number) for number in range(60)}


def test_promql_is_what_workers_answer(path: Path) -> None:
    with QueryWorkers(partial(SampleStore.open, path), 1) as workers:
        assert workers.instant("sum(up)", NOW).values.tolist() == [[2.0]]
        found = workers.ranged("up == 1", NOW - 60_000, NOW, 60_000)
        assert list(found.table.rows()) == [UP[0], UP[2]]
        with pytest.raises(BadQuery):
            workers.instant("sum(", NOW)


def test_only_one_end_counts() -> None:
    ends: list[str] = []
    running = Running(ask("x"), 1, 0, lambda: ends.append("end"), lambda one: ends.append("cancel"))
    assert running.end(QueryTimeout("first"))
    running.cancel()
    assert not running.end(QueryTimeout("second"))
    assert ends == ["end"]
    with pytest.raises(QueryTimeout, match="first"):
        running.result()
