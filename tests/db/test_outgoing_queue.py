"""The queue on disk: what was appended comes out in order, through restarts, torn ends and full disks."""

import errno
import os

import numpy as np
import pytest

from app.api.write_request import RequestReader
from db.errors import Unstorable, WriteRefused
from db.labels import labels_from
from db.nan import ABSENT, STALE
from db.outgoing_queue import Bounds, OutgoingQueue, waiting_in
from db.queue_files import read_mark, segment_path, segments
from db.queue_reader import QueueReader
from db.records import DenseAppend, SparseAppend
from db.remote_write_message import write_request
from tests.fakes_clock import FakeClock

NOW_MS = 1_795_000_000_000
WIDE = Bounds(1 << 40, 1 << 40)


def up(number: int):
    return labels_from({"__name__": "up", "instance": str(number)})


def page(at_ms: int, values, *, new=0, key="t#0", ends=False):
    values = np.array(values, dtype=float)
    return DenseAppend(
        key, [up(number) for number in range(len(values) - new, len(values))], at_ms, values, ends
    )


def drained(folder, most=10_000, *, acknowledge=True, reader=None):
    """(labels, ms, value's bits) of everything that waits, batch by batch."""
    reader = reader or QueueReader(folder)
    batches = []
    while (batch := reader.next(most)) is not None:
        message = write_request(batch.labels, batch.ids, batch.timestamps, batch.values)
        request = RequestReader().read(message)
        bits = request.values.view(np.uint64).tolist()
        batches.append(
            [
                (request.series[place], time, value)
                for place, time, value in zip(
                    request.index.tolist(), request.timestamps.tolist(), bits, strict=True
                )
            ]
        )
        if not acknowledge:
            break
        reader.acknowledge(batch)
    return batches


def bits(value: float) -> int:
    return int(np.array([value], dtype=float).view(np.uint64)[0])


@pytest.fixture
def clock():
    return FakeClock(NOW_MS)


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "outgoing" / "collect"


@pytest.fixture
def queue(folder, clock):
    queue = OutgoingQueue(folder, WIDE, clock.now_ms)
    yield queue
    queue.close()


def test_scrapes_and_single_samples_come_out_bit_for_bit(queue, folder) -> None:
    queue.append([page(NOW_MS, [1, 2], new=2), page(NOW_MS, [7], new=1, key="other")])
    late = SparseAppend([up(5), up(6)], np.array([9, 8, 7]), np.array([1.0, STALE, 3.0]), np.array([0, 0, 1]))
    queue.append([page(NOW_MS + 1, [ABSENT, STALE, 4], new=1), late])
    (first,) = drained(folder)
    assert sorted(first) == sorted(
        [
            (up(0), NOW_MS, bits(1)),
            (up(1), NOW_MS, bits(2)),
            (up(0), NOW_MS, bits(7)),
            (up(1), NOW_MS + 1, bits(STALE)),
            (up(2), NOW_MS + 1, bits(4)),
            (up(5), 9, bits(1)),
            (up(5), 8, bits(STALE)),
            (up(6), 7, bits(3)),
        ]
    )
    assert drained(folder) == []


def test_what_is_not_acknowledged_comes_again_in_another_process(queue, folder) -> None:
    for number in range(4):
        queue.append([page(NOW_MS + number, [number], new=number == 0)])
    reader = QueueReader(folder)
    batch = reader.next(2)
    assert batch is not None
    assert batch.timestamps.tolist() == [NOW_MS, NOW_MS + 1]
    again = reader.next(2)
    assert again is not None
    assert again.timestamps.tolist() == [NOW_MS, NOW_MS + 1]
    reader.acknowledge(batch)
    (rest,) = drained(folder)
    assert rest == [(up(0), NOW_MS + 2, bits(2)), (up(0), NOW_MS + 3, bits(3))]


def test_a_batch_has_whole_records_and_no_more_than_asked(folder, clock) -> None:
    queue = OutgoingQueue(folder, WIDE, clock.now_ms, record_samples=100)
    queue.append([page(NOW_MS, range(250), new=250)])
    assert [len(batch) for batch in drained(folder, most=210)] == [200, 50]


def test_an_order_is_continued_after_a_new_segment(folder, clock) -> None:
    """A segment stands for itself: its predecessor is deleted once it was sent."""
    queue = OutgoingQueue(folder, WIDE, clock.now_ms)
    queue.append([page(NOW_MS, [1, 2], new=2)])
    clock.advance(3_600)
    queue.append([page(NOW_MS + 1, [3, 4])])
    assert segments(folder) == [1, 2]
    first, second = drained(folder)
    assert (first[1], second[1]) == ((up(1), NOW_MS, bits(2)), (up(1), NOW_MS + 1, bits(4)))
    assert segments(folder) == [2]


def test_a_process_that_was_killed_leaves_a_torn_end_that_costs_nothing_else(folder, clock) -> None:
    queue = OutgoingQueue(folder, WIDE, clock.now_ms)
    queue.append([page(NOW_MS, [1], new=1)])
    queue.append([page(NOW_MS + 1, [2])])
    queue.close()
    reader = QueueReader(folder)
    os.truncate(segment_path(folder, 1), segment_path(folder, 1).stat().st_size - 3)
    assert drained(folder, reader=reader) == [[(up(0), NOW_MS, bits(1))]]
    again = OutgoingQueue(folder, WIDE, clock.now_ms)
    again.append([page(NOW_MS + 2, [3], new=1)])
    assert drained(folder, reader=reader) == [[(up(0), NOW_MS + 2, bits(3))]]
    assert read_mark(folder).segment == 2


def test_a_damaged_record_is_left_out(folder, clock) -> None:
    queue = OutgoingQueue(folder, WIDE, clock.now_ms)
    queue.append([page(NOW_MS, np.random.default_rng(1).random(500), new=500)])
    with segment_path(folder, 1).open("r+b") as file:
        file.seek(-1_000, os.SEEK_END)  # a value's bytes, which zstd alone would not notice
        file.write(b"\xff")
    queue.close()
    OutgoingQueue(folder, WIDE, clock.now_ms).append([page(NOW_MS + 1, [2], new=1)])
    assert drained(folder) == [[(up(0), NOW_MS + 1, bits(2))]]


def test_a_lost_mark_means_everything_again_and_nothing_less(queue, folder) -> None:
    queue.append([page(NOW_MS, [1], new=1)])
    assert len(drained(folder)) == 1
    (folder / "acknowledged").write_text("0000 nonsense\n")
    assert len(drained(folder)) == 1


def test_the_oldest_segments_go_when_the_queue_is_full_and_are_counted(folder, clock) -> None:
    queue = OutgoingQueue(folder, Bounds(1 << 20, 1 << 40), clock.now_ms)
    values = np.random.default_rng(1).normal(size=9_000)
    for number in range(40):
        queue.append([page(NOW_MS + number, values + number, new=9_000 if number == 0 else 0)])
    waiting = waiting_in(folder)
    assert waiting.bytes < (1 << 20) + (300 << 10)
    assert waiting.dropped % 9_000 == 0
    assert waiting.dropped + waiting.samples == 40 * 9_000
    (newest,) = {time for batch in drained(folder)[-1:] for _, time, _ in batch}
    assert newest == NOW_MS + 39


def test_what_is_too_old_goes_but_what_was_sent_is_not_counted(folder, clock) -> None:
    queue = OutgoingQueue(folder, Bounds(1 << 40, 3_600_000), clock.now_ms)
    queue.append([page(NOW_MS, [1, 2], new=2)])
    assert len(drained(folder)) == 1
    queue.append([page(NOW_MS + 1, [1, 2])])
    for _ in range(8):
        clock.advance(1_200)
        queue.append([page(clock.now_ms(), [1, 2])])
    assert waiting_in(folder).dropped == 2 + 2 * 4
    assert len(drained(folder)) < 5


def test_a_full_disk_refuses_and_the_same_append_may_be_repeated(folder, clock, monkeypatch) -> None:
    queue = OutgoingQueue(folder, WIDE, clock.now_ms)
    queue.append([page(NOW_MS, [1], new=1)])

    def full(_file):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    grown = page(NOW_MS + 1, [1, 2], new=1)
    monkeypatch.setattr("db.outgoing_queue.os.fdatasync", full)
    with pytest.raises(WriteRefused, match="the disk is full; free space on it"):
        queue.append([grown])
    monkeypatch.undo()
    queue.append([grown])
    first, second = drained(folder)
    assert first == [(up(0), NOW_MS, bits(1))]
    assert second == [(up(0), NOW_MS + 1, bits(1)), (up(1), NOW_MS + 1, bits(2))]


@pytest.mark.parametrize(
    "append",
    [
        DenseAppend("t#9", [], NOW_MS, np.zeros(3)),
        SparseAppend([up(0)], np.array([1, 2]), np.array([1.0])),
        SparseAppend([(("a", "\ud800"),)], np.array([1]), np.array([1.0])),
    ],
)
def test_what_cannot_be_stored_says_so_and_spoils_nothing(queue, folder, append) -> None:
    with pytest.raises(Unstorable):
        queue.append([page(NOW_MS, [1], new=1), append])
    queue.append([page(NOW_MS, [1], new=1)])
    assert drained(folder) == [[(up(0), NOW_MS, bits(1))]]


def test_an_order_that_ended_is_forgotten(queue) -> None:
    queue.append([page(NOW_MS, [1], new=1, ends=True)])
    with pytest.raises(Unstorable, match="1 values for 0 series"):
        queue.append([page(NOW_MS + 1, [1])])


def test_nothing_waits_in_a_queue_that_is_not_there(folder) -> None:
    assert QueueReader(folder).next(10) is None
    assert waiting_in(folder).samples == 0


def test_a_second_writer_is_refused_while_the_first_one_lives(queue, folder, clock) -> None:
    """Each would delete, or never find, the other's segments."""
    with pytest.raises(WriteRefused, match=r"another process writes to it; stop that one, or give .* --data"):
        OutgoingQueue(folder, WIDE, clock.now_ms)
    queue.close()
    OutgoingQueue(folder, WIDE, clock.now_ms).close()


def test_a_disk_that_stays_full_leaves_no_trail_of_segments(folder, clock, monkeypatch) -> None:
    queue = OutgoingQueue(folder, WIDE, clock.now_ms)

    def full(_file):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("db.outgoing_queue.os.fdatasync", full)
    for _ in range(20):
        with pytest.raises(WriteRefused):
            queue.append([page(NOW_MS, [1], new=1)])
    assert segments(folder) == []
    monkeypatch.undo()
    queue.append([page(NOW_MS, [1], new=1)])
    assert drained(folder) == [[(up(0), NOW_MS, bits(1))]]


def test_a_reader_leaves_a_segment_that_was_dropped_under_it(folder, clock) -> None:
    queue = OutgoingQueue(folder, Bounds(1 << 40, 3_600_000), clock.now_ms)
    queue.append([page(NOW_MS, [1], new=1)])
    queue.append([page(NOW_MS + 1, [2])])
    reader = QueueReader(folder)
    assert reader.next(1) is not None
    assert not reader.was_dropped()
    clock.advance(7_200)
    queue.append([page(clock.now_ms(), [3])])
    assert waiting_in(folder).dropped == 2
    assert reader.was_dropped()
    assert drained(folder, reader=reader) == [[(up(0), clock.now_ms(), bits(3))]]
