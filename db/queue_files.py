"""The files of an outgoing queue: segments that only grow, and a mark up to where they were acknowledged.

A segment stands for itself: a series' labels are in it before its first sample. It is a row of records, each
a head and a zstd frame; the head says how long the frame is and what it has to add up to, so that the torn
end that a killed process leaves is known for what it is.
"""

import os
import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import zstandard

from db.nan import FloatArray, IntArray

_SUFFIX = ".segment"
_HEAD = struct.Struct("<IIIq")  # bytes of the frame, its CRC-32, samples, when it was written (ms UTC)
_COUNTS = struct.Struct("<II")  # samples, bytes of the new series
_SERIES = struct.Struct("<qI")  # id, bytes of its labels
_MARK = "acknowledged"
_DROPPED = "dropped"
_LEVEL = 1
# More than any record of ours unpacks to; a damaged one must not take the memory.
_UNPACKED_BYTES = 256 << 20


class Torn(Exception):
    """There is no whole record here."""


@dataclass(frozen=True, slots=True, order=True)
class Position:
    """In front of a record: its segment's number, and the bytes before it."""

    segment: int
    offset: int


@dataclass(frozen=True, slots=True)
class Head:
    """What is known of a record without unpacking it."""

    size: int
    crc: int
    samples: int
    written_ms: int

    @property
    def whole_bytes(self) -> int:
        return _HEAD.size + self.size


@dataclass(frozen=True, slots=True, eq=False)
class Record:
    """series: new in this segment, id -> labels as `db.remote_write_message.label_bytes`. ids, timestamps:
    int64[n] (ms UTC); values: float64[n]."""

    series: dict[int, bytes]
    ids: IntArray
    timestamps: IntArray
    values: FloatArray


def packed(record: Record, written_ms: int) -> bytes:
    """A record as it stands in a segment."""
    series = b"".join(_SERIES.pack(number, len(labels)) + labels for number, labels in record.series.items())
    columns = (record.ids.astype("<i4"), record.timestamps.astype("<i8"), record.values.astype("<f8"))
    content = _COUNTS.pack(len(record.ids), len(series)) + series
    content += b"".join(np.ascontiguousarray(column).tobytes() for column in columns)
    frame = zstandard.ZstdCompressor(level=_LEVEL).compress(content)
    return _HEAD.pack(len(frame), zlib.crc32(frame), len(record.ids), written_ms) + frame


def read_head(file: int, offset: int) -> Head:
    """Raises Torn where no whole record is, OSError."""
    head = os.pread(file, _HEAD.size, offset)
    if len(head) < _HEAD.size:
        raise Torn
    found = Head(*_HEAD.unpack(head))
    if os.fstat(file).st_size < offset + found.whole_bytes:
        raise Torn
    return found


def read_record(file: int, offset: int, head: Head) -> Record:
    """Raises Torn where its bytes are not those that were written, OSError."""
    frame = os.pread(file, head.size, offset + _HEAD.size)
    if len(frame) < head.size or zlib.crc32(frame) != head.crc:
        raise Torn
    try:
        content = zstandard.ZstdDecompressor().decompress(frame, max_output_size=_UNPACKED_BYTES)
        return _unpacked(content)
    except (zstandard.ZstdError, struct.error, ValueError) as error:
        raise Torn from error


def _unpacked(content: bytes) -> Record:
    count, size = _COUNTS.unpack_from(content)
    at, end = _COUNTS.size, _COUNTS.size + size
    series = {}
    while at < end:
        number, length = _SERIES.unpack_from(content, at)
        at += _SERIES.size
        series[number] = content[at : at + length]
        at += length
    ids = np.frombuffer(content, dtype="<i4", count=count, offset=end).astype(np.int64)
    end += 4 * count
    timestamps = np.frombuffer(content, dtype="<i8", count=count, offset=end).astype(np.int64)
    values = np.frombuffer(content, dtype="<f8", count=count, offset=end + 8 * count).astype(np.float64)
    return Record(series, ids, timestamps, values)


def segment_path(folder: Path, number: int) -> Path:
    return folder / f"{number:012}{_SUFFIX}"


def segments(folder: Path) -> list[int]:
    """The numbers of the segments there are, the oldest first. Raises OSError."""
    try:
        names = [entry.name for entry in os.scandir(folder)]
    except FileNotFoundError:
        return []
    stems = [name.removesuffix(_SUFFIX) for name in names if name.endswith(_SUFFIX)]
    return sorted(int(stem) for stem in stems if stem.isascii() and stem.isdigit())


def heads(folder: Path, number: int, offset: int = 0) -> Iterator[Head]:
    """The heads of a segment's whole records from an offset on; none of one that is gone."""
    try:
        file = os.open(segment_path(folder, number), os.O_RDONLY)
    except FileNotFoundError:
        return
    try:
        while True:
            head = read_head(file, offset)
            yield head
            offset += head.whole_bytes
    except Torn:
        return
    finally:
        os.close(file)


def read_mark(folder: Path) -> Position:
    """Up to where everything was acknowledged; the very beginning where nobody says so."""
    found = _read_numbers(folder / _MARK, 2)
    return Position(0, 0) if found is None else Position(*found)


def write_mark(folder: Path, position: Position) -> None:
    """Not synchronised: after a power cut some records go out again. Raises OSError."""
    _write_numbers(folder / _MARK, (position.segment, position.offset))


def read_dropped(folder: Path) -> int:
    """How many samples the queue's bounds have cost so far."""
    found = _read_numbers(folder / _DROPPED, 1)
    return 0 if found is None else found[0]


def write_dropped(folder: Path, samples: int) -> None:
    """Raises OSError."""
    _write_numbers(folder / _DROPPED, (samples,))


def _write_numbers(path: Path, numbers: tuple[int, ...]) -> None:
    """In place and in one call, so that a full disk does not keep us from it."""
    text = " ".join(f"{number:020}" for number in numbers)
    line = f"{text} {zlib.crc32(text.encode()):08x}\n".encode()
    file = os.open(path, os.O_WRONLY | os.O_CREAT, 0o644)
    try:
        os.pwrite(file, line, 0)
    finally:
        os.close(file)


def _read_numbers(path: Path, count: int) -> tuple[int, ...] | None:
    try:
        text, _, crc = path.read_text(encoding="ascii").strip().rpartition(" ")
        if int(crc, 16) != zlib.crc32(text.encode()):
            return None
        numbers = tuple(map(int, text.split()))
    except (OSError, ValueError):
        return None
    return numbers if len(numbers) == count else None
