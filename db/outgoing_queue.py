"""Samples on their way to an engine: an append-only queue on disk, written by one process, sent by another
part of it or by another process.

What `append` returned from is on disk. The bounds cost the oldest segments first, counted.
"""

import errno
import fcntl
import logging
import os
from collections import ChainMap
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from db.errors import Unstorable, WriteRefused
from db.labels import Labels
from db.nan import BoolArray, FloatArray, IntArray, is_absent
from db.queue_files import (
    Record,
    heads,
    packed,
    read_dropped,
    read_mark,
    segment_path,
    segments,
    write_dropped,
)
from db.records import DenseAppend, SparseAppend
from db.remote_write_message import label_bytes

log = logging.getLogger(__name__)

FOLDER = "outgoing"
_SEGMENT_BYTES = 32 << 20
# A queue has this many segments at least before any is dropped, and one is begun so often at least.
_SEGMENTS = 16
_SEGMENT_MS = 600_000
# A request takes whole records.
RECORD_SAMPLES = 5_000
_SPARSE_SERIES = 200_000


@dataclass(frozen=True, slots=True)
class Bounds:
    """What may wait: bytes on disk, and since when (ms)."""

    bytes: int
    age_ms: int


@dataclass(slots=True)
class _Grown:
    """What an append adds to what is known of series; kept once it is on disk."""

    layouts: dict[str, IntArray] = field(default_factory=dict)
    sparse: dict[Labels, int] = field(default_factory=dict)
    labels: dict[int, bytes] = field(default_factory=dict)
    ended: list[str] = field(default_factory=list)


class OutgoingQueue:
    """The writing side. To be used by one thread of one process; a second one is refused."""

    def __init__(
        self,
        folder: Path,
        bounds: Bounds,
        now_ms: Callable[[], int],
        record_samples: int = RECORD_SAMPLES,
    ) -> None:
        """folder: of this writer alone. record_samples: what one request may take. Raises WriteRefused."""
        self._record_samples = min(record_samples, RECORD_SAMPLES)
        self._folder = folder
        self._bounds = bounds
        self._now_ms = now_ms
        self._segment_bytes = max(64 << 10, min(_SEGMENT_BYTES, bounds.bytes // _SEGMENTS))
        self._claim: int | None
        self._file: int | None = None
        self._size = self._begun_ms = 0
        self._layouts: dict[str, IntArray] = {}
        self._sparse: dict[Labels, int] = {}
        self._labels: dict[int, bytes] = {}
        self._next_id = 0
        self._defined: BoolArray = np.zeros(1024, dtype=np.bool_)
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._claim = _claimed(folder)
        except OSError as error:
            raise WriteRefused(_refusal(folder, error)) from error
        try:
            # A process that was killed may have left a torn end behind; nothing is ever written after one.
            # The mark may be beyond all segments: those that were sent are deleted.
            self._number = max([*segments(folder), read_mark(folder).segment])
        except OSError as error:
            os.close(self._claim)
            raise WriteRefused(_refusal(folder, error)) from error

    def close(self) -> None:
        self._leave_segment()
        if self._claim is not None:
            os.close(self._claim)
            self._claim = None

    def append(self, appends: Sequence[DenseAppend | SparseAppend]) -> None:
        """Raises WriteRefused, and then nothing of it counts and the same call may be repeated; Unstorable
        when repeating it cannot help."""
        grown = _Grown()
        try:
            columns = [self._columns(append, grown) for append in appends]
        except (ValueError, TypeError, OverflowError) as error:
            raise Unstorable(str(error)) from error
        parts = tuple(np.concatenate(part) for part in zip(*columns, strict=True))
        if parts and len(parts[0]):
            try:
                self._write(parts[0], parts[1], parts[2], ChainMap(grown.labels, self._labels))
            except OSError as error:
                self._leave_failed_segment()
                raise WriteRefused(_refusal(self._folder, error)) from error
        self._keep(grown)

    def _columns(
        self, append: DenseAppend | SparseAppend, grown: _Grown
    ) -> tuple[IntArray, IntArray, FloatArray]:
        """Ids, timestamps and values of the samples that are there."""
        if isinstance(append, SparseAppend):
            index = np.arange(len(append.series)) if append.index is None else append.index
            if not len(index) == len(append.timestamps) == len(append.values):
                raise ValueError("as many series, timestamps and values were expected")
            ids = np.array([self._sparse_id(labels, grown) for labels in append.series], dtype=np.int64)
            return ids[index], append.timestamps.astype(np.int64), append.values
        held = grown.layouts.get(append.layout_key)
        if held is None:
            held = self._layouts.get(append.layout_key, np.zeros(0, dtype=np.int64))
        if append.new_series:
            added = [self._new_id(labels, grown) for labels in append.new_series]
            held = np.concatenate([held, np.array(added, dtype=np.int64)])
        if len(held) != len(append.values):
            raise ValueError(f"{append.layout_key}: {len(append.values)} values for {len(held)} series")
        grown.layouts[append.layout_key] = held
        if append.ends:
            grown.ended.append(append.layout_key)
        there = np.flatnonzero(~is_absent(append.values))
        times = np.full(len(there), append.timestamp_ms, dtype=np.int64)
        return held[there], times, append.values[there]

    def _sparse_id(self, labels: Labels, grown: _Grown) -> int:
        found = self._sparse.get(labels, grown.sparse.get(labels))
        if found is None:
            found = grown.sparse[labels] = self._new_id(labels, grown)
        return found

    def _new_id(self, labels: Labels, grown: _Grown) -> int:
        number, self._next_id = self._next_id, self._next_id + 1
        grown.labels[number] = label_bytes(labels)
        return number

    def _write(
        self, ids: IntArray, timestamps: IntArray, values: FloatArray, labels: Mapping[int, bytes]
    ) -> None:
        """One write and one synchronisation for all. Raises OSError."""
        now_ms = self._now_ms()
        if self._size >= self._segment_bytes or now_ms - self._begun_ms >= _SEGMENT_MS:
            self._leave_segment()
        file = self._segment(now_ms)
        if self._next_id > len(self._defined):
            self._defined = np.concatenate([self._defined, np.zeros(self._next_id, dtype=np.bool_)])
        defined = self._defined.copy()
        records = []
        for first in range(0, len(ids), self._record_samples):
            part = slice(first, first + self._record_samples)
            some = np.unique(ids[part])
            fresh = some[~defined[some]]
            defined[fresh] = True
            series = {number: labels[number] for number in fresh.tolist()}
            records.append(packed(Record(series, ids[part], timestamps[part], values[part]), now_ms))
        data = b"".join(records)
        try:
            _write_all(file, data)
            os.fdatasync(file)
        except OSError:
            with suppress(OSError):
                os.ftruncate(file, self._size)
            raise
        self._size += len(data)
        self._defined = defined

    def _segment(self, now_ms: int) -> int:
        if self._file is None:
            self._trim(now_ms)
            path = segment_path(self._folder, self._number + 1)
            self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND, 0o644)
            self._number += 1
            self._size, self._begun_ms = 0, now_ms
            self._defined[:] = False
            _synchronise(self._folder)
        return self._file

    def _leave_segment(self) -> None:
        """What comes next begins a segment of its own."""
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def _leave_failed_segment(self) -> None:
        if self._file is not None and self._size == 0:  # a disk that stays full leaves one at every try
            with suppress(OSError):
                segment_path(self._folder, self._number).unlink()
        self._leave_segment()

    def _trim(self, now_ms: int) -> None:
        """Drop the oldest segments beyond the bounds. Raises OSError."""
        mark, gone = read_mark(self._folder), 0
        sizes = {number: _size(self._folder, number) for number in segments(self._folder)}
        total = sum(sizes.values())
        for number, size in sizes.items():
            offset = mark.offset if number == mark.segment else 0
            waiting = [] if number < mark.segment else list(heads(self._folder, number, offset))
            newest_ms = max((head.written_ms for head in waiting), default=now_ms)
            if total <= self._bounds.bytes and now_ms - newest_ms <= self._bounds.age_ms:
                break
            segment_path(self._folder, number).unlink(missing_ok=True)
            total -= size
            gone += sum(head.samples for head in waiting)
        if gone:
            log.error(
                "dropped %d samples that waited for the engine: the queue's size or age is used up", gone
            )
            write_dropped(self._folder, read_dropped(self._folder) + gone)

    def _keep(self, grown: _Grown) -> None:
        self._labels.update(grown.labels)
        self._layouts.update(grown.layouts)
        self._sparse.update(grown.sparse)
        for key in grown.ended:
            for number in self._layouts.pop(key, _NO_IDS).tolist():
                self._labels.pop(number, None)
        if len(self._sparse) > _SPARSE_SERIES:
            for number in self._sparse.values():
                self._labels.pop(number, None)
            self._sparse.clear()


@dataclass(frozen=True, slots=True)
class Waiting:
    """What is in a queue: samples, bytes on disk, since when the oldest waits (None when nothing does), and
    samples that its bounds have cost."""

    samples: int
    bytes: int
    oldest_ms: int | None
    dropped: int


def waiting_in(folder: Path) -> Waiting:
    """Raises OSError."""
    mark = read_mark(folder)
    samples, size, oldest = 0, 0, None
    for number in segments(folder):
        size += _size(folder, number)
        if number < mark.segment:
            continue
        for head in heads(folder, number, mark.offset if number == mark.segment else 0):
            samples += head.samples
            oldest = head.written_ms if oldest is None else oldest
    return Waiting(samples, size, oldest, read_dropped(folder))


def all_waiting(data: Path) -> list[Waiting]:
    """Of each queue of a data folder. Raises OSError."""
    folder = data / FOLDER
    if not folder.is_dir():
        return []
    return [waiting_in(one) for one in sorted(folder.iterdir()) if one.is_dir()]


_NO_IDS: IntArray = np.zeros(0, dtype=np.int64)


def _size(folder: Path, number: int) -> int:
    try:
        return segment_path(folder, number).stat().st_size
    except FileNotFoundError:
        return 0


def _write_all(file: int, data: bytes) -> None:
    left = memoryview(data)
    while left:
        left = left[os.write(file, left) :]


def _synchronise(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _claimed(folder: Path) -> int:
    """A lock until it is closed or the process ends. Raises OSError, WriteRefused when another has it."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(descriptor)
        if isinstance(error, BlockingIOError):
            raise WriteRefused(
                f"{folder}: another process writes to it; stop that one, or give this one another --data"
            ) from error
        raise
    return descriptor


def _refusal(folder: Path, error: OSError) -> str:
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return f"{folder}: the disk is full; free space on it"
    return f"{folder}: cannot be written: {error.strerror}"
