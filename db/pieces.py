"""Puts together what several places hold of the same series: head rows, sealed blocks, late additions.

A piece is a rectangle: series that share timestamps. Every sample has a place in the order of writing, and of
equal timestamps the sample written last wins. In the usual case the pieces of a series follow each other in
time and are only laid end to end.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from db.nan import BoolArray, FloatArray, IntArray, is_absent

# So few pieces are looked at for the commonest case, that all of them hold the same series.
_FEW = 16


@dataclass(frozen=True, slots=True)
class Piece:
    """Samples from one place.

    ids: int64[series]. timestamps: int64[n], strictly increasing, n >= 1. values: float64[series, n], ABSENT
    where there is none. order: int64[n], the place of each column in the order of writing.
    """

    ids: IntArray
    timestamps: IntArray
    values: FloatArray
    order: IntArray

    def between(self, start_ms: int, end_ms: int) -> "Piece | None":
        """What of it lies in [start_ms, end_ms], both ends included."""
        first = int(np.searchsorted(self.timestamps, start_ms))
        end = int(np.searchsorted(self.timestamps, end_ms, side="right"))
        if first >= end:
            return None
        if first == 0 and end == len(self.timestamps):
            return self
        part = slice(first, end)
        return Piece(self.ids, self.timestamps[part], self.values[:, part], self.order[part])


@dataclass(frozen=True, slots=True)
class Assembled:
    """Whole series that share timestamps: as Piece, but every series is in one of them only."""

    ids: IntArray
    timestamps: IntArray
    values: FloatArray


def layers(ids: IntArray, timestamps: IntArray, values: FloatArray, order: IntArray) -> list[Piece]:
    """Columns in any order and with repeated timestamps as pieces: of one timestamp each piece has one."""
    if len(timestamps) == 0:
        return []
    if bool((timestamps[1:] > timestamps[:-1]).all()):
        return [Piece(ids, timestamps, values, order)]
    sorting = np.lexsort((order, timestamps))
    starts = np.flatnonzero(np.diff(timestamps[sorting], prepend=timestamps[sorting[0]] - 1))
    repeats = np.diff(np.append(starts, len(sorting)))
    rank = np.arange(len(sorting)) - np.repeat(starts, repeats)
    found = []
    for layer in range(int(repeats.max())):
        mine = sorting[rank == layer]
        found.append(Piece(ids, timestamps[mine], values[:, mine], order[mine]))
    return found


def _last_written(timestamps: IntArray, order: IntArray, values: FloatArray) -> tuple[IntArray, FloatArray]:
    """Columns in any order as (timestamps, values) in time order; of equal timestamps the value written last
    that is there."""
    if bool((timestamps[1:] > timestamps[:-1]).all()):
        return timestamps, values
    sorting = np.lexsort((order, timestamps))
    timestamps, values = timestamps[sorting], values[:, sorting]
    starts = np.flatnonzero(np.diff(timestamps, prepend=timestamps[0] - 1))
    if len(starts) == len(timestamps):
        return timestamps, values
    repeats = np.diff(np.append(starts, len(timestamps)))
    merged = values[:, starts]
    for step in range(1, int(repeats.max())):
        again = np.flatnonzero(repeats > step)
        later = values[:, starts[again] + step]
        merged[:, again] = np.where(is_absent(later), merged[:, again], later)
    return timestamps[starts], merged


def assemble(pieces: Sequence[Piece]) -> list[Assembled]:
    """Every series of the pieces whole, in as few rectangles as share their timestamps."""
    if not pieces:
        return []
    pieces = sorted(pieces, key=lambda piece: int(piece.timestamps[0]))
    first = pieces[0].ids
    if len(pieces) <= _FEW and all(np.array_equal(piece.ids, first) for piece in pieces):
        order = np.argsort(first, kind="stable")
        return [_joined(first[order], pieces, np.repeat(order[:, None], len(pieces), axis=1))]
    ids = np.concatenate([piece.ids for piece in pieces])
    number = np.repeat(np.arange(len(pieces)), [len(piece.ids) for piece in pieces])
    row = np.concatenate([np.arange(len(piece.ids)) for piece in pieces])
    sorting = np.argsort(ids, kind="stable")
    ids, number, row = ids[sorting], number[sorting], row[sorting]
    starts = np.flatnonzero(np.diff(ids, prepend=ids[0] - 1))
    counts = np.diff(np.append(starts, len(ids)))
    found = []
    for count in np.unique(counts).tolist():
        mine = starts[counts == count][:, None] + np.arange(count)
        numbers, rows = number[mine], row[mine]
        # Series that are in the same pieces make one rectangle.
        for members in _alike(numbers):
            together = [pieces[index] for index in numbers[members[0]].tolist()]
            found.append(_joined(ids[mine[members, 0]], together, rows[members]))
    return found


def _alike(numbers: IntArray) -> list[IntArray]:
    """Which rows are equal, each group ascending."""
    if numbers.shape[1] == 1:
        key = numbers[:, 0]
    else:  # one number stands for a row: sorting whole rows takes ten times as long
        key = numbers @ np.random.default_rng(0).integers(1, 2**62, numbers.shape[1], dtype=np.int64)
    _, first, which = np.unique(key, return_index=True, return_inverse=True)
    if not bool((numbers == numbers[first][which]).all()):  # two different rows met in one number
        _, which = np.unique(numbers, axis=0, return_inverse=True)
        which = which.reshape(-1)
    by_group = np.argsort(which, kind="stable")
    return np.split(by_group, np.cumsum(np.bincount(which))[:-1])


def _joined(ids: IntArray, pieces: Sequence[Piece], rows: IntArray) -> Assembled:
    """Pieces that all hold these series; rows: int64[series, pieces], where in each of them."""
    if len(pieces) == 1:
        return Assembled(ids, pieces[0].timestamps, _rows(pieces[0].values, rows[:, 0]))
    timestamps = np.concatenate([piece.timestamps for piece in pieces])
    values = np.concatenate(
        [_rows(piece.values, rows[:, index]) for index, piece in enumerate(pieces)], axis=1
    )
    order = np.concatenate([piece.order for piece in pieces])
    timestamps, values = _last_written(timestamps, order, values)
    return Assembled(ids, timestamps, values)


def _rows(values: FloatArray, rows: IntArray) -> FloatArray:
    if len(rows) == len(values) and bool((rows == np.arange(len(rows))).all()):
        return values
    return values[rows]


def without_gaps(found: Assembled) -> list[Assembled]:
    """The same series without any ABSENT: those that miss some timestamps stand alone, empty ones are left
    out."""
    absent: BoolArray = is_absent(found.values)
    if not absent.any():
        return [found]
    count = absent.sum(axis=1)
    whole = np.flatnonzero(count == 0)
    result = []
    if len(whole):
        result.append(Assembled(found.ids[whole], found.timestamps, found.values[whole]))
    for row in np.flatnonzero((count > 0) & (count < len(found.timestamps))):
        there = ~absent[row]
        result.append(
            Assembled(found.ids[row : row + 1], found.timestamps[there], found.values[row : row + 1, there])
        )
    return result


def columns_of(
    series_ids: IntArray, timestamps: IntArray, values: FloatArray, order: IntArray
) -> list[Piece]:
    """Single samples, four parallel columns in any order, as pieces: series with equal timestamps share one.

    Of equal series and timestamp the last in `order` stays.
    """
    if not len(series_ids):
        return []
    sorting = np.lexsort((order, timestamps, series_ids))
    series_ids, timestamps = series_ids[sorting], timestamps[sorting]
    values, order = values[sorting], order[sorting]
    last = np.append((series_ids[1:] != series_ids[:-1]) | (timestamps[1:] != timestamps[:-1]), True)
    series_ids, timestamps, values, order = series_ids[last], timestamps[last], values[last], order[last]
    starts = np.flatnonzero(np.diff(series_ids, prepend=series_ids[0] - 1))
    ends = np.append(starts[1:], len(series_ids))
    shapes: dict[bytes, list[int]] = {}
    for index, (start, end) in enumerate(zip(starts.tolist(), ends.tolist(), strict=True)):
        key = timestamps[start:end].tobytes() + order[start:end].tobytes()
        shapes.setdefault(key, []).append(index)
    pieces = []
    for members in shapes.values():
        at = starts[members]
        length = int(ends[members[0]] - at[0])
        rectangle = at[:, None] + np.arange(length)
        first = slice(int(at[0]), int(at[0]) + length)
        pieces.append(Piece(series_ids[at], timestamps[first], values[rectangle], order[first]))
    return pieces
