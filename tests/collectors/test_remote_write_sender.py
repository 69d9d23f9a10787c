"""Catching up with an engine that was away: nothing lost, nothing hurried, order kept; bad samples alone."""

import asyncio

import cramjam
import numpy as np
import pytest

from app.api.write_request import RequestReader
from collectors.remote_write_request import Outcome
from collectors.remote_write_sender import RemoteWriteSender, SenderState
from db.labels import labels_from
from db.outgoing_queue import FOLDER, Bounds, OutgoingQueue, waiting_in
from db.records import DenseAppend, SparseAppend
from tests.fakes_clock import FakeClock

NOW_MS = 1_795_000_000_000
TAKEN = Outcome("taken")


def series(number: int):
    return labels_from({"__name__": "m", "i": str(number)})


class Engine:
    """Answers by `judge`, which is given the samples; keeps what it took, and when it was asked."""

    def __init__(self, clock, judge):
        self.clock = clock
        self.judge = judge
        self.taken: list = []
        self.asked_ms: list[int] = []
        self.sizes: list[int] = []
        self.together = 0

    async def send(self, body, now_ms):
        self.together += 1
        assert self.together == 1, "one request at a time"
        await asyncio.sleep(0)
        request = RequestReader().read(bytes(cramjam.snappy.decompress_raw(body)))
        samples = [
            (request.series[place], time, value)
            for place, time, value in zip(
                request.index.tolist(), request.timestamps.tolist(), request.values.tolist(), strict=True
            )
        ]
        self.asked_ms.append(self.clock.now_ms())
        self.sizes.append(len(samples))
        outcome = self.judge(samples)
        if outcome.kind == "taken":
            self.taken += samples
        self.together -= 1
        return outcome


@pytest.fixture
def clock():
    return FakeClock(NOW_MS)


def queue_in(tmp_path, clock, name="collect"):
    return OutgoingQueue(tmp_path / FOLDER / name, Bounds(1 << 40, 1 << 40), clock.now_ms)


def sender_of(tmp_path, clock, judge, *, jitter=0.0, most=10_000):
    state = SenderState()
    engine = Engine(clock, judge)
    sender = RemoteWriteSender(tmp_path, engine, most, clock, state, jitter=lambda: jitter)
    return sender, engine, state


def run(sender, until):
    """Until it is so, and nothing waits any more."""
    folder = sender._folder

    def over():
        return until() and not any(waiting_in(one).samples for one in folder.iterdir())

    async def go():
        task = asyncio.create_task(sender.run())
        for _ in range(20_000):
            if over():
                break
            await asyncio.sleep(0.0005)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        sender.close()
        assert over()

    asyncio.run(go())


def by_series(samples):
    found: dict = {}
    for labels, time, value in samples:
        found.setdefault(labels, []).append((time, value))
    return found


def test_an_hour_without_the_engine_costs_nothing(tmp_path, clock) -> None:
    """720 scrapes of 50 series wait; the engine comes back after an hour of tries."""
    queue = queue_in(tmp_path, clock)
    for number in range(720):
        new = [series(i) for i in range(50)] if number == 0 else []
        queue.append([DenseAppend("t#0", new, NOW_MS + 5_000 * number, np.arange(50.0) + number)])
    begun = clock.now_ms()
    later = Outcome("later", "http://e cannot be reached: connection refused")
    sender, engine, state = sender_of(
        tmp_path, clock, lambda _: later if clock.now_ms() < begun + 3_600_000 else TAKEN, jitter=1.0
    )
    run(sender, lambda: len(engine.taken) == 720 * 50)
    found = by_series(engine.taken)
    assert found == {
        series(i): [(NOW_MS + 5_000 * number, float(i + number)) for number in range(720)] for i in range(50)
    }
    tries = [at for at in engine.asked_ms if at < begun + 3_600_000]
    assert len(tries) < 130  # not hammered: mostly half a minute apart
    assert max(np.diff(tries)) == 30_000
    assert max(engine.sizes) <= 10_000
    assert waiting_in(tmp_path / FOLDER / "collect").samples == 0
    assert (state.sent, state.rejected, state.trouble, state.failing_since_ms) == (36_000, 0, "", None)


def test_the_engine_says_how_long_to_wait(tmp_path, clock) -> None:
    queue_in(tmp_path, clock).append([SparseAppend([series(0)], np.array([1]), np.array([1.0]))])
    answers = [Outcome("later", "HTTP 429", 90.0), Outcome("later", "HTTP 503", 0.0), TAKEN]
    sender, engine, state = sender_of(tmp_path, clock, lambda _: answers.pop(0))
    run(sender, lambda: bool(engine.taken))
    assert np.diff(engine.asked_ms).tolist() == [90_000, 500]
    assert (state.retries, state.requests) == (2, 3)


def test_what_the_engine_refuses_is_found_and_the_rest_goes_in(tmp_path, clock) -> None:
    labels = [series(i) for i in range(500)]
    values = np.arange(500.0)
    queue_in(tmp_path, clock).append([SparseAppend(labels, np.full(500, NOW_MS), values)])

    def judge(samples):
        bad = any(value == 123 for _, _, value in samples)
        return Outcome("refused", "HTTP 400: out of order sample") if bad else TAKEN

    sender, engine, state = sender_of(tmp_path, clock, judge)
    run(sender, lambda: state.sent == 499)
    assert state.rejected == 1
    assert "out of order" in state.rejection
    assert {value for _, _, value in engine.taken} == set(values) - {123}
    assert waiting_in(tmp_path / FOLDER / "collect").samples == 0


def test_samples_that_are_too_old_are_found_wherever_they_stand(tmp_path, clock) -> None:
    """Ten series among five hundred: too many to be found one by one."""
    times = np.where(np.arange(500) % 50 == 7, 1_000, NOW_MS)
    queue_in(tmp_path, clock).append([SparseAppend([series(i) for i in range(500)], times, np.ones(500))])

    def judge(samples):
        old = any(time == 1_000 for _, time, _ in samples)
        return Outcome("refused", "HTTP 500: too old sample") if old else TAKEN

    sender, engine, state = sender_of(tmp_path, clock, judge)
    run(sender, lambda: bool(engine.taken))
    assert (state.sent, state.rejected) == (490, 10)
    assert state.requests < 60


def test_an_engine_that_refuses_everything_is_not_asked_for_ever(tmp_path, clock) -> None:
    labels = [series(i) for i in range(5_000)]
    queue_in(tmp_path, clock).append([SparseAppend(labels, np.full(5_000, NOW_MS), np.zeros(5_000))])
    sender, engine, state = sender_of(tmp_path, clock, lambda _: Outcome("refused", "HTTP 400: no"))
    run(sender, lambda: state.rejected == 5_000)
    assert len(engine.sizes) < 100


def test_a_new_process_goes_on_where_the_last_one_stopped(tmp_path, clock) -> None:
    queue = queue_in(tmp_path, clock)
    queue.append([DenseAppend("t#0", [series(0)], NOW_MS, np.array([1.0]))])
    sender, engine, _ = sender_of(tmp_path, clock, lambda _: TAKEN)
    run(sender, lambda: len(engine.taken) == 1)
    queue.append([DenseAppend("t#0", [], NOW_MS + 1, np.array([2.0]))])
    queue.close()
    queue_in(tmp_path, clock).append([DenseAppend("t#0", [series(0)], NOW_MS + 2, np.array([3.0]))])
    sender, engine, _ = sender_of(tmp_path, clock, lambda _: TAKEN)
    run(sender, lambda: len(engine.taken) == 2)
    assert [value for _, _, value in engine.taken] == [2.0, 3.0]


def test_every_writers_queue_is_sent(tmp_path, clock) -> None:
    for name in ("collect", "web"):
        queue = queue_in(tmp_path, clock, name)
        queue.append([SparseAppend([series(len(name))], np.array([NOW_MS]), np.array([1.0]))])
    sender, engine, _ = sender_of(tmp_path, clock, lambda _: TAKEN)
    run(sender, lambda: len(engine.taken) == 2)
    assert {labels for labels, _, _ in engine.taken} == {series(3), series(7)}


def test_once_sends_what_it_can_and_leaves_the_rest_waiting(tmp_path, clock) -> None:
    queue_in(tmp_path, clock).append([SparseAppend([series(0)], np.array([1]), np.array([1.0]))])
    sender, engine, state = sender_of(tmp_path, clock, lambda _: Outcome("later", "gone"))
    asyncio.run(sender.once())
    assert len(engine.asked_ms) == 1
    assert waiting_in(tmp_path / FOLDER / "collect").samples == 1
    assert state.trouble == "gone"
    sender, engine, _ = sender_of(tmp_path, clock, lambda _: TAKEN)
    asyncio.run(sender.once())
    assert len(engine.taken) == 1


def test_what_the_queue_has_dropped_is_not_sent_for_ever(tmp_path, clock) -> None:
    """An engine may choke on one request; what comes behind it must not wait beyond the queue's age."""
    queue = OutgoingQueue(tmp_path / FOLDER / "collect", Bounds(1 << 40, 3_600_000), clock.now_ms)
    queue.append([SparseAppend([series(0)], np.array([1]), np.array([0.0]))])

    def judge(samples):
        if samples[0][0] == series(1):
            return TAKEN
        clock.advance(7_200)
        queue.append([SparseAppend([series(1)], np.array([2]), np.array([1.0]))])
        return Outcome("later", "it fails")

    sender, engine, state = sender_of(tmp_path, clock, judge)
    run(sender, lambda: bool(engine.taken))
    assert engine.taken == [(series(1), 2, 1.0)]
    assert (state.sent, waiting_in(tmp_path / FOLDER / "collect").dropped) == (1, 1)
    queue.close()
