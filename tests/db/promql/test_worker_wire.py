"""Messages between processes: whole, however they are cut on their way, and with nothing needless in them."""

import socket
from collections.abc import Iterator
from threading import Thread

import numpy as np
import pytest

from db.promql.table import SeriesTable
from db.promql.worker_wire import BadFrame, Incoming, send

Ends = tuple[socket.socket, socket.socket]


@pytest.fixture
def ends() -> Iterator[Ends]:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        yield ours, theirs


class Unreadable:
    def __reduce__(self):
        return int, ("no number",)


def sent(message: object) -> bytes:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        send(ours, message)
        ours.close()
        return theirs.recv(1_000_000)


def carried(message: SeriesTable) -> SeriesTable:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        send(ours, message)
        got = Incoming(theirs).read()
        assert isinstance(got, SeriesTable)
        return got


def pods(count: int) -> SeriesTable:
    return SeriesTable.of([(("pod", f"pod-{row}"),) for row in range(count)])


def test_a_message_that_arrives_byte_by_byte_is_whole(ends: Ends) -> None:
    ours, theirs = ends
    theirs.setblocking(False)
    message = {"none": np.zeros((0, 3)), "some": np.arange(6.0).reshape(2, 3).T, "text": "\0é"}
    *begun, last = sent(message)
    incoming = Incoming(theirs)
    for byte in begun:
        ours.send(bytes([byte]))
        assert incoming.read() is None
    ours.send(bytes([last]))
    got = incoming.read()
    assert isinstance(got, dict)
    assert got["none"].shape == (0, 3)
    assert got["some"].tolist() == [[0, 3], [1, 4], [2, 5]]
    assert got["text"] == "\0é"


def test_messages_follow_each_other(ends: Ends) -> None:
    ours, theirs = ends
    arrays = [np.arange(200_000), np.arange(3), np.arange(100_000)]

    def both() -> None:
        send(ours, arrays)
        send(ours, "second")

    thread = Thread(target=both)
    thread.start()
    incoming = Incoming(theirs)
    got = incoming.read()
    assert isinstance(got, list)
    assert all(map(np.array_equal, got, arrays))
    got[0][0] = 7  # it may be written to
    assert incoming.read() == "second"
    thread.join()


def test_an_end_in_the_middle_is_an_end(ends: Ends) -> None:
    ours, theirs = ends
    ours.send(sent("cut")[:-1])
    ours.close()
    with pytest.raises(EOFError):
        Incoming(theirs).read()


def test_what_cannot_be_read_is_said(ends: Ends) -> None:
    ours, theirs = ends
    send(ours, Unreadable())
    with pytest.raises(BadFrame, match="ValueError"):
        Incoming(theirs).read()


def test_a_table_travels_without_its_memory_and_the_texts_of_others() -> None:
    whole = pods(10_000)
    some = whole.take(np.array([9_999, 3, 3]))
    some.groups()
    assert len(sent(some)) < 1_000
    got = carried(some)
    assert list(got.rows()) == [(("pod", "pod-9999"),), (("pod", "pod-3"),), (("pod", "pod-3"),)]
    assert got.groups().number.tolist() == [0, 1, 1]
    assert len(whole.column("pod").texts) == 10_000


def test_an_absent_label_stays_absent_on_its_way() -> None:
    table = SeriesTable.of([(("a", "1"),), (("b", "2"),), (("b", "3"),), (("b", "4"),), ()])
    some = table.take(np.array([4, 3]))
    got = carried(some)
    assert list(got.rows()) == [(), (("b", "4"),)]
    assert got.column("a").codes.dtype == table.column("a").codes.dtype
