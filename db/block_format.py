"""Format 1 of the bytes in `block.data` and `timeline.data`: rows of numbers, packed and found again.

Layout: head (struct), for each class of rows with the same width and delta its size, the size of each plane;
zstd of the per-row arrays; the planes, a zstd frame each (one frame for all would share one Huffman table);
the holes; the exceptions. Rows are sorted by class. Rows may differ in length; shorter ones are padded with
zero residuals.
"""

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from threading import local

import numpy as np
import zstandard

from db.codec import (
    EXPONENTS,
    RAW,
    Bytes,
    Coded,
    Special,
    Words,
    to_planes,
)
from db.nan import BoolArray, IntArray

VERSION = 1
_HEAD = struct.Struct(
    "<BBHIIII"
)  # version, classes, rows, columns, bytes of row arrays, of holes, of exceptions
_CLASS = struct.Struct("<BBH")  # width, delta, rows
_PLANE = struct.Struct("<I")  # bytes
_ROW = np.dtype(
    [
        ("place", "u1"),
        ("lane", "u1"),
        ("exponent", "i1"),
        ("holes", "u1"),
        ("length", "<u4"),
        ("base", "<i8"),
        ("first", "<i8"),
    ]
)
_EXCEPTION = np.dtype([("row", "<u2"), ("column", "<u4"), ("bits", "<u8")])
LANES = 64  # as many as a set of lanes has bits
_WORD_BYTES = 8
_per_thread = local()  # a compression context is not for two threads at once


class BadBlock(ValueError):
    """These bytes are not a block that this version can read."""


@dataclass(frozen=True, slots=True)
class PackRows:
    """Rows of one length for `pack`; places and lanes: [rows]."""

    places: IntArray
    lanes: IntArray
    coded: Coded
    special: Special


def _compressor(level: int) -> zstandard.ZstdCompressor:
    held: dict[int, zstandard.ZstdCompressor] = _per_thread.__dict__.setdefault("compressors", {})
    if level not in held:
        held[level] = zstandard.ZstdCompressor(level=level, write_checksum=False)
    return held[level]


def _decompress(data: memoryview, at_most: int) -> bytes:
    held = _per_thread.__dict__.get("decompressor")
    if held is None:
        held = _per_thread.decompressor = zstandard.ZstdDecompressor()
    try:
        # A damaged frame may claim any size, and that much would be allocated.
        if not 0 <= zstandard.frame_content_size(data) <= at_most:
            raise BadBlock("a part of it claims a size that it cannot have")
        found: bytes = held.decompress(data)
    except zstandard.ZstdError as error:
        raise BadBlock(f"its compressed part is damaged: {error}") from error
    return found


def pack(parts: Sequence[PackRows], level: int) -> bytes:
    """The bytes of a block. level: zstd's."""
    columns = max(part.coded.length for part in parts)
    lengths = np.concatenate([np.full(len(part.places), part.coded.length) for part in parts])
    place = np.concatenate([part.places for part in parts])
    delta = np.concatenate([part.coded.delta for part in parts])
    width = np.concatenate([part.coded.width for part in parts])
    order = np.lexsort((place, width, delta))
    rows = np.zeros(len(order), dtype=_ROW)
    rows["place"], rows["length"] = place[order], lengths[order]
    rows["lane"] = np.concatenate([part.lanes for part in parts])[order]
    rows["exponent"] = np.concatenate([part.coded.exponent for part in parts])[order]
    rows["base"] = np.concatenate([part.coded.base for part in parts])[order]
    rows["first"] = np.concatenate([part.coded.first for part in parts])[order]
    holes, has_holes = _pack_holes(parts, columns, order, level)
    rows["holes"] = has_holes
    exceptions = _pack_exceptions(parts, order, level)
    # By column: like bytes together compress better than like rows.
    row_bytes = _compressor(level).compress(b"".join(rows[name].tobytes() for name in _ROW.names or ()))
    classes, frames = _pack_classes(parts, columns, order, width[order], delta[order], level)
    head = _HEAD.pack(VERSION, len(classes), len(order), columns, len(row_bytes), len(holes), len(exceptions))
    sizes = [_PLANE.pack(len(frame)) for frame in frames]
    return b"".join((head, *classes, *sizes, row_bytes, *frames, holes, exceptions))


def _stacked(parts: Sequence[PackRows], columns: int) -> Words:
    if all(part.coded.length == columns for part in parts):
        return np.concatenate([part.coded.residuals for part in parts])
    stacked = np.zeros((sum(len(part.places) for part in parts), columns), dtype=np.uint64)
    at = 0
    for part in parts:
        stacked[at : at + len(part.places), : part.coded.length] = part.coded.residuals
        at += len(part.places)
    return stacked


def _pack_classes(
    parts: Sequence[PackRows], columns: int, order: IntArray, width: Bytes, delta: BoolArray, level: int
) -> tuple[list[bytes], list[bytes]]:
    """The heads of the classes, and their planes one after another."""
    residuals = _stacked(parts, columns)
    compress = _compressor(level).compress
    classes, frames = [], []
    edges = np.flatnonzero(np.diff(width.astype(np.int64) * 2 + delta, prepend=-1))
    for first, end in zip(edges, [*edges[1:], len(order)], strict=True):
        classes.append(_CLASS.pack(int(width[first]), int(delta[first]), int(end - first)))
        if width[first]:
            frames += [compress(plane) for plane in to_planes(residuals[order[first:end]], int(width[first]))]
    return classes, frames


def _pack_holes(
    parts: Sequence[PackRows], columns: int, order: IntArray, level: int
) -> tuple[bytes, BoolArray]:
    """One bit for each column of the rows that have holes, and which rows these are."""
    if all(part.special.holes is None for part in parts):
        return b"", np.zeros(len(order), dtype=np.bool_)
    holes = np.zeros((len(order), columns), dtype=np.bool_)
    at = 0
    for part in parts:
        if part.special.holes is not None:
            holes[at : at + len(part.places), : part.coded.length] = part.special.holes
        at += len(part.places)
    holes = holes[order]
    some: BoolArray = np.any(holes, axis=1)
    return _compressor(level).compress(np.packbits(holes[some], axis=1).tobytes()), some


def _pack_exceptions(parts: Sequence[PackRows], order: IntArray, level: int) -> bytes:
    count = sum(len(part.special.rows) for part in parts)
    if not count:
        return b""
    position = np.empty(len(order), dtype=np.int64)
    position[order] = np.arange(len(order))
    found = np.empty(count, dtype=_EXCEPTION)
    at = row = 0
    for part in parts:
        some = slice(at, at + len(part.special.rows))
        found["row"][some] = position[part.special.rows + row]
        found["column"][some], found["bits"][some] = part.special.columns, part.special.bits
        at, row = at + len(part.special.rows), row + len(part.places)
    found.sort(order=("row", "column"))
    return _compressor(level).compress(b"".join(found[name].tobytes() for name in _EXCEPTION.names or ()))


@dataclass(frozen=True, slots=True)
class _Frame:
    """Where the rows [first, end) of one class are; planes: their (start, end) among the bytes."""

    first: int
    end: int
    delta: bool
    planes: tuple[tuple[int, int], ...]

    @property
    def width(self) -> int:
        return len(self.planes)


class Block:
    """A block's rows, decoded as far as they are asked for. Raises BadBlock."""

    def __init__(self, data: bytes) -> None:
        self._data = memoryview(data)
        self.keeps_planes = False
        # What its last reader found out of it; only that reader knows what this is.
        self.remembered: object = None
        self._kept_planes: dict[int, list[Bytes]] = {}
        try:
            self._read_head(data)
        except (struct.error, ValueError) as error:
            raise BadBlock(f"its head is damaged: {error}") from error

    def _read_head(self, data: bytes) -> None:
        version, classes, rows, columns, row_bytes, holes, exceptions = _HEAD.unpack_from(data)
        if version != VERSION:
            raise BadBlock(f"its format is {version}, this version reads {VERSION}")
        self.rows, self.columns = int(rows), int(columns)
        heads = [_CLASS.unpack_from(data, _HEAD.size + index * _CLASS.size) for index in range(classes)]
        at = _HEAD.size + classes * _CLASS.size
        if any(width > _WORD_BYTES for width, _, _ in heads):
            raise BadBlock("its numbers claim to be wider than they can be")
        planes = sum(width for width, _, _ in heads)
        sizes = struct.unpack_from(f"<{planes}I", data, at)
        at += planes * _PLANE.size
        self._read_rows(_decompress(self._data[at : at + row_bytes], self.rows * _ROW.itemsize))
        at += row_bytes
        self.delta = np.empty(rows, dtype=np.bool_)
        self.frames: list[_Frame] = []
        first = plane = 0
        for width, delta, count in heads:
            self.delta[first : first + count] = delta
            spans = []
            for size in sizes[plane : plane + width]:
                spans.append((at, at + size))
                at += size
            self.frames.append(_Frame(first, first + count, bool(delta), tuple(spans)))
            first, plane = first + count, plane + width
        if first != rows:
            raise BadBlock("its classes do not add up to its rows")
        if at + holes + exceptions != len(data):
            raise BadBlock("it is longer or shorter than its head says")
        self._holes = self._data[at : at + holes]
        self._exceptions = self._data[at + holes : at + holes + exceptions]

    def _read_rows(self, plain: bytes) -> None:
        offset = 0
        column = {}
        for name in _ROW.names or ():
            column[name] = np.frombuffer(plain, _ROW[name], self.rows, offset)
            offset += self.rows * _ROW[name].itemsize
        self.places, self.lanes, self.lengths = column["place"], column["lane"], column["length"]
        self.exponent, self.base, self.first = column["exponent"], column["base"], column["first"]
        self.has_holes = column["holes"].astype(np.bool_)
        self.any_holes = bool(self.has_holes.any())
        # What a reader allocates and looks up by: it must not follow from damaged bytes.
        if self.rows == 0 or int(self.lengths.max()) != self.columns or int(self.lengths.min()) == 0:
            raise BadBlock("its rows do not have the lengths that its head says")
        if int(self.lanes.max()) >= LANES or self.exponent.min() < RAW or self.exponent.max() >= EXPONENTS:
            raise BadBlock("its rows are of a kind that does not exist")

    def decoded_bytes(self) -> int:
        """What it takes in memory once all its planes were kept."""
        values = sum((frame.end - frame.first) * frame.width for frame in self.frames)
        return len(self._data) + self.columns * values

    def planes(self, frame: _Frame) -> list[Bytes]:
        """Of each plane of a frame uint8[rows, columns], the lowest byte first."""
        if not self.keeps_planes:
            return self._planes(frame)
        held = self._kept_planes.get(frame.first)
        if held is None:
            held = self._kept_planes[frame.first] = self._planes(frame)
        return held

    def _planes(self, frame: _Frame) -> list[Bytes]:
        shape = (frame.end - frame.first, self.columns)
        size = shape[0] * shape[1]
        try:
            return [
                np.frombuffer(_decompress(self._data[start:end], size), np.uint8).reshape(shape)
                for start, end in frame.planes
            ]
        except ValueError as error:
            raise BadBlock("a frame has not the size that its head says") from error

    @cached_property
    def holes(self) -> BoolArray:
        """bool[rows with holes, columns], in the order of the rows."""
        count = int(self.has_holes.sum())
        row_bytes = (self.columns + 7) // 8
        plain = _decompress(self._holes, count * row_bytes)
        if len(plain) != count * row_bytes:
            raise BadBlock("its holes have not the size that its head says")
        packed = np.frombuffer(plain, np.uint8).reshape(count, row_bytes)
        return np.unpackbits(packed, axis=1, count=self.columns).astype(np.bool_)

    @cached_property
    def exceptions(self) -> tuple[IntArray, IntArray, Words]:
        """(rows, columns, bits), by row."""
        if not len(self._exceptions):
            return NO_EXCEPTIONS
        plain = _decompress(self._exceptions, self.rows * self.columns * _EXCEPTION.itemsize)
        count, offset, column = len(plain) // _EXCEPTION.itemsize, 0, {}
        for name in _EXCEPTION.names or ():
            column[name] = np.frombuffer(plain, _EXCEPTION[name], count, offset)
            offset += count * _EXCEPTION[name].itemsize
        rows, columns = column["row"].astype(np.int64), column["column"].astype(np.int64)
        if len(plain) % _EXCEPTION.itemsize or (rows >= self.rows).any() or (columns >= self.columns).any():
            raise BadBlock("its exceptions are not among its rows")
        return rows, columns, column["bits"]


NO_EXCEPTIONS: tuple[IntArray, IntArray, Words] = (
    np.empty(0, np.int64),
    np.empty(0, np.int64),
    np.empty(0, np.uint64),
)
