"""The processes themselves: how they begin, what may happen to them, and that none stays behind."""

import os
import signal
import subprocess
import sys
import time
import warnings
from contextlib import suppress
from functools import partial
from pathlib import Path
from threading import Thread

import pytest

from db.promql.errors import (
    ExecutionError,
    SourceUnavailable,
)
from db.promql.question import Question
from db.promql.workers import QueryWorkers
from db.store import SampleStore
from tests.db.promql.worker_answers import obey, open_and_tell
from tests.db.promql.worker_pools import (
    Make,
    Pipe,
    ask,
    descriptors,
    make,
    path,
    pipe,
    pipes,
    reaped,
    value,
    workers,
)

__all__ = ["make", "path", "pipe", "pipes", "workers"]  # the fixtures


def test_a_process_that_was_killed_while_idle_is_replaced_unnoticed(make: Make) -> None:
    workers = make()
    for _ in range(3):
        os.kill(int(value(workers, "pid")), signal.SIGKILL)
        with suppress(ExecutionError):  # it may be asked before the system has ended it
            value(workers, "pid")
    assert value(workers, "pid")


def test_a_process_that_was_killed_before_it_read_the_question_is_no_fault_of_its_words(
    make: Make, caplog: pytest.LogCaptureFixture
) -> None:
    workers = make()
    pid = int(value(workers, "pid"))
    os.kill(pid, signal.SIGSTOP)
    running = workers.submit(Question("pid", 0, 0))
    while not (Path("/proc") / str(pid) / "stat").read_text().partition(") ")[2].startswith("T"):
        time.sleep(0.001)
    assert not running.wait(0.2)
    os.kill(pid, signal.SIGKILL)
    with pytest.raises(ExecutionError, match="killed by SIGKILL"):
        running.result()
    assert "ended by itself" in caplog.text
    assert "not understood" not in caplog.text


def test_the_system_ends_a_query_before_it_ends_us(workers: QueryWorkers) -> None:
    assert value(workers, "score") > float(Path("/proc/self/oom_score_adj").read_text())


def test_the_error_of_opening_is_what_queries_get_until_it_opens(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    folder.write_text("in the way")
    with QueryWorkers(partial(SampleStore.open, folder / "samples.db"), 1, answer=obey) as workers:
        for _ in range(2):
            with pytest.raises(SourceUnavailable, match=f"{folder}: cannot be created"):
                value(workers, "pid")
        folder.unlink()
        gives_up = time.monotonic() + 60
        while True:
            try:
                assert value(workers, "pid")
                break
            except SourceUnavailable:
                assert time.monotonic() < gives_up
                time.sleep(0.05)  # between two tries there is a pause, in which the error stays


def test_a_process_that_ends_while_it_opens_says_so(path: Path) -> None:
    with (
        QueryWorkers(partial(os._exit, 7), 1, answer=obey) as workers,
        pytest.raises(SourceUnavailable, match="ended before it could answer: exit status 7"),
    ):
        value(workers, "pid")


def test_a_source_that_cannot_be_sent_is_refused_at_once() -> None:
    with pytest.raises(AttributeError, match="Can't pickle"):
        QueryWorkers(lambda: None)


def test_closing_ends_every_process_and_query_and_leaves_nothing(path: Path, pipe: Pipe) -> None:
    before = descriptors()
    workers = QueryWorkers(partial(open_and_tell, path, pipe.path), 2, spares=1, answer=obey)
    pids = pipe.pids(3)
    running = [workers.submit(ask("sleep /dev/null")) for _ in range(4)]
    workers.close()
    workers.close()
    pipe.wait_until_gone()
    pipe.close()
    assert all(map(reaped, pids))
    assert descriptors() == before
    for one in running:
        with pytest.raises(SourceUnavailable, match="are being stopped"):
            one.result()
    with pytest.raises(SourceUnavailable, match="are being stopped"):
        workers.submit(ask("pid"))


def test_replaced_processes_leave_no_descriptors(make: Make) -> None:
    workers = make()
    value(workers, "pid")
    before = descriptors()
    for _ in range(3):
        with pytest.raises(ExecutionError):
            value(workers, "exit 1")
    value(workers, "pid")
    assert len(descriptors()) == len(before)


def test_a_parent_that_is_killed_leaves_no_process(path: Path, pipe: Pipe) -> None:
    argv = [sys.executable, "-m", "tests.db.promql.worker_parent", str(path), str(pipe.path)]
    with subprocess.Popen(argv) as parent:
        pids = pipe.pids(3)  # both have opened, and one of them has begun its query
        assert len(set(pids)) == 2
        parent.kill()
    pipe.wait_until_gone()


def test_what_a_terminal_sends_to_all_ends_no_query(workers: QueryWorkers) -> None:
    first = value(workers, "pid")
    for sent in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        os.kill(int(first), sent)
    assert value(workers, "pid") == first


def test_processes_outlive_the_thread_that_opened_them(make: Make) -> None:
    made: list[QueryWorkers] = []
    first: list[float] = []

    def open_them() -> None:
        made.append(make())
        first.append(value(made[0], "pid"))

    thread = Thread(target=open_them)
    thread.start()
    thread.join()
    assert value(made[0], "pid") == first[0]


def test_a_fork_of_the_parent_is_refused_and_harms_nobody(workers: QueryWorkers) -> None:
    first = value(workers, "pid")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # Python 3.12: forking beside threads
        pid = os.fork()
    if pid == 0:
        status = 1
        try:
            workers.submit(ask("pid"))
        except SourceUnavailable:
            workers.close()
            status = 0
        finally:
            os._exit(status)
    assert os.waitpid(pid, 0)[1] == 0
    assert value(workers, "pid") == first
