"""Samples of many series one behind the other: for short stretches of hundreds of targets, where a rectangle
for each target would be most of the work."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from db.nan import FloatArray, IntArray, is_absent
from db.pieces import Piece

# With fewer pieces, or longer ones, rectangles are as quick and need less memory.
_MANY_PIECES = 64
_SHORT = 256


@dataclass(frozen=True, slots=True)
class Ragged:
    """rows: int64[series], ascending places in a SeriesSet. begin: int64[series + 1], where each series'
    samples begin, and the end of the last. timestamps: int64[n], strictly increasing within a series.
    values: float64[n], staleness markers kept, none absent."""

    rows: IntArray
    begin: IntArray
    timestamps: IntArray
    values: FloatArray


def ragged(ids: IntArray, pieces: Sequence[Piece]) -> Ragged | None:
    """The samples of all pieces, as series of `ids` (sorted). None where rectangles are better, or where the
    pieces of a series overlap in time, so that a sample may stand in for another."""
    if len(pieces) < _MANY_PIECES:
        return None
    height = np.array([len(piece.ids) for piece in pieces])
    width = np.array([len(piece.timestamps) for piece in pieces])
    if (height * width).sum() > _SHORT * height.sum():
        return None
    owner = np.concatenate([piece.ids for piece in pieces])
    number = np.repeat(np.arange(len(pieces)), height)
    times = np.concatenate([piece.timestamps for piece in pieces])
    times_begin = np.cumsum(width) - width
    first, last = times[times_begin], times[times_begin + width - 1]
    sorting = np.lexsort((first[number], owner))
    owner, number = owner[sorting], number[sorting]
    again = owner[1:] == owner[:-1]
    if bool((again & (first[number[1:]] <= last[number[:-1]])).any()):
        return None
    values = np.concatenate([np.ascontiguousarray(piece.values).reshape(-1) for piece in pieces])
    length = width[number]
    # Where each row's values begin: rows of a piece lie behind one another.
    values_begin = (np.cumsum(np.repeat(width, height)) - np.repeat(width, height))[sorting]
    before = np.cumsum(length) - length
    within = np.arange(length.sum()) - np.repeat(before, length)
    values = values[np.repeat(values_begin, length) + within]
    times = times[np.repeat(times_begin[number], length) + within]
    absent = is_absent(values)
    if absent.any():
        length = length - np.add.reduceat(absent, before, dtype=np.int64)
        values, times = values[~absent], times[~absent]
    starts = np.flatnonzero(np.append(True, ~again))
    count = np.add.reduceat(length, starts)
    begin = np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(count)])
    return Ragged(np.searchsorted(ids, owner[starts]), begin, times, values)
