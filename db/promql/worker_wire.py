"""What the queries' processes and their parent say to each other, and how it travels over a socket.

A frame is a pickle and, behind it, the arrays it mentions, each as raw bytes that are sent from and received
into their own memory (pickle protocol 5). Both ends are ours: nobody else can reach the socket.
"""

import pickle
import struct
from collections.abc import Callable, Generator
from dataclasses import dataclass
from socket import socket
from typing import Protocol

import numpy as np

from db.promql.answer import Answer
from db.promql.errors import QueryError
from db.promql.question import Question
from db.promql.source import Source

_HEADER = struct.Struct("<QI")  # bytes of the pickle, number of arrays; then the bytes of each array
_LENGTH = np.dtype("<u8")
# Smaller arrays are sent together with the pickle: a copy is cheaper than a call.
_COPIED_BYTES = 65_536


class ClosableSource(Source, Protocol):
    def close(self) -> None: ...


class BadFrame(Exception):
    """What arrived cannot be understood."""


@dataclass(frozen=True, slots=True)
class Opening:
    """The first that a process is told. open_source, answer: functions of modules, or partials of such: they
    are sent by name. memory_bytes: what it may hold beyond what it has once the source is open."""

    open_source: Callable[[], ClosableSource]
    answer: Callable[[Source, Question], Answer]
    memory_bytes: int


@dataclass(frozen=True, slots=True)
class Opened:
    """The first that a process says. error: why it cannot open the source and ends; None when it can."""

    error: QueryError | None = None
    trace: str = ""


@dataclass(frozen=True, slots=True)
class Reply:
    """result: or why there is none. trace: of a fault of ours, for the log. retires: this process wants no
    further question."""

    result: Answer | QueryError
    trace: str = ""
    retires: bool = False


def send(to: socket, message: object) -> None:
    """Raises OSError; or MemoryError, and then nothing was sent."""
    found: list[pickle.PickleBuffer] = []
    body = pickle.dumps(message, protocol=5, buffer_callback=found.append)
    arrays = [buffer.raw() for buffer in found]
    lengths = np.array([array.nbytes for array in arrays], dtype=_LENGTH)
    small = bytearray(_HEADER.pack(len(body), len(arrays)) + lengths.tobytes() + body)
    parts: list[bytearray | memoryview] = [small]
    for array in arrays:
        if array.nbytes <= _COPIED_BYTES:
            small += array
        else:
            small = bytearray()
            parts += [array, small]
    for part in parts:
        to.sendall(part)


class Incoming:
    """Puts frames together from what arrives on a socket, blocking or not."""

    def __init__(self, connection: socket) -> None:
        self._connection = connection
        self._parts = _frame()
        self._rest = next(self._parts)

    def read(self) -> object:
        """The next message; None while a part of it is still to come, on a socket that does not block.
        Raises EOFError when the other end has gone, OSError, or BadFrame."""
        while True:
            try:
                count = self._connection.recv_into(self._rest)
            except BlockingIOError:
                return None
            if count == 0:
                raise EOFError
            self._rest = self._rest[count:]
            if not self._rest:
                try:
                    self._rest = next(self._parts)
                except StopIteration as whole:
                    message: object = whole.value
                    self._parts = _frame()
                    self._rest = next(self._parts)
                    return message


def _frame() -> Generator[memoryview, None, object]:
    """Yields the places to fill, one after the other, none of them empty; returns the message."""
    header = bytearray(_HEADER.size)
    yield memoryview(header)
    size, count = _HEADER.unpack(header)
    lengths = np.empty(count, dtype=_LENGTH)
    if count:
        yield lengths.data.cast("B")
    try:
        body = bytearray(size)
        arrays = [np.empty(length, dtype=np.uint8) for length in lengths.tolist()]
    except MemoryError as error:
        raise BadFrame(f"no memory for {size + int(lengths.sum()):,} bytes") from error
    yield memoryview(body)
    for array in arrays:
        if len(array):
            yield array.data
    try:
        return pickle.loads(body, buffers=arrays)  # noqa: S301  from a process that we started
    except Exception as error:
        raise BadFrame(f"{type(error).__name__}: {error}") from error
