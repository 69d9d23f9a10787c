"""The sending side of an outgoing queue: batches in the order of writing, from the first that nobody has
acknowledged."""

import logging
import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from db.nan import FloatArray, IntArray
from db.queue_files import (
    Position,
    Record,
    Torn,
    read_head,
    read_mark,
    read_record,
    segment_path,
    segments,
    write_mark,
)

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, eq=False)
class Batch:
    """Samples that are sent together. labels: id -> bytes as `db.remote_write_message.label_bytes`, of more
    series than these, perhaps. ids, timestamps: int64[n] (ms UTC); values: float64[n]. end: behind them."""

    labels: dict[int, bytes]
    ids: IntArray
    timestamps: IntArray
    values: FloatArray
    written_ms: int
    end: Position

    def __len__(self) -> int:
        return len(self.ids)


class QueueReader:
    """To be used by one thread. A queue that does not exist yet is empty."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._at = read_mark(folder)
        self._file: int | None = None
        self._labels: dict[int, bytes] = {}

    def close(self) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def next(self, most: int) -> Batch | None:
        """The next samples, whole records of together `most` at most (one at least); None when there are
        none yet. The same again until they are acknowledged. Raises OSError."""
        while True:
            # In this order: what is written to a segment is written before the next one is begun.
            later = [number for number in segments(self._folder) if number > self._at.segment]
            batch = self._read(most) if self._open() else None
            if batch is not None or not later:
                return batch
            self._leave(later[0])

    def acknowledge(self, batch: Batch) -> None:
        """It has arrived, or never will. Raises OSError."""
        self._at = batch.end
        write_mark(self._folder, batch.end)

    def was_dropped(self) -> bool:
        """Has the queue's size or age cost what `next` gave last? Raises OSError."""
        return self._file is not None and os.fstat(self._file).st_nlink == 0

    def _open(self) -> bool:
        """The segment at the mark, with the series that it names before it."""
        if self._file is not None and self.was_dropped():
            self.close()
        if self._file is not None:
            return True
        try:
            self._file = os.open(segment_path(self._folder, self._at.segment), os.O_RDONLY)
        except FileNotFoundError:
            return False
        self._labels = {}
        offset = 0
        try:
            while offset < self._at.offset:
                head = read_head(self._file, offset)
                self._labels.update(read_record(self._file, offset, head).series)
                offset += head.whole_bytes
        except Torn:
            self._at = Position(self._at.segment, offset)  # a mark that is not of this file
        return True

    def _read(self, most: int) -> Batch | None:
        assert self._file is not None  # noqa: S101  _open says so
        found: list[Record] = []
        count, offset, written_ms = 0, self._at.offset, 0
        try:
            while count < most:
                head = read_head(self._file, offset)
                if found and count + head.samples > most:
                    break
                record = read_record(self._file, offset, head)
                self._labels.update(record.series)
                found.append(record)
                count, offset = count + head.samples, offset + head.whole_bytes
                written_ms = written_ms or head.written_ms
        except Torn:
            pass
        if not found:
            return None
        return Batch(
            self._labels,
            np.concatenate([record.ids for record in found]),
            np.concatenate([record.timestamps for record in found]),
            np.concatenate([record.values for record in found]),
            written_ms,
            Position(self._at.segment, offset),
        )

    def _leave(self, number: int) -> None:
        """Go on with a later segment; the present one is sent, or a torn end is all that is left of it."""
        finished = self._at.segment
        if self._file is not None:
            rest = os.fstat(self._file).st_size - self._at.offset
            if rest:
                log.warning("%d bytes of an interrupted or damaged write are left out", rest)
        self.close()
        self._at = Position(number, 0)
        write_mark(self._folder, self._at)
        segment_path(self._folder, finished).unlink(missing_ok=True)
