"""The value of every series at every step of a grid, decoding no more than the steps need.

This is what a range query spends its time on: thousands of series, a day of samples each, a step a minute.
Rows that are stored as plain integers are picked at the steps first and turned into floats after.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from db.block_format import LANES, Block
from db.block_read import FoundRows, decode
from db.codec import POWERS, RAW
from db.nan import ABSENT, BoolArray, FloatArray, IntArray, is_absent, is_stale
from db.pieces import Piece, assemble
from db.scratch import Scratch

_scratch = Scratch()
# Below these numbers each piece is filled by itself.
_MANY_PIECES = 8
_MANY_STEPS = 64


def at_steps(
    ids: IntArray, pieces: Sequence[Piece], found: Sequence[FoundRows], grid: IntArray, lookback_ms: int
) -> FloatArray:
    """float64[ids, grid]: the newest sample in (step - lookback_ms, step], ABSENT where there is none or
    where it says that the series has ended. ids: sorted; pieces and found: all that is stored of them."""
    values = _scratch.empty((len(ids), len(grid)))
    values.fill(ABSENT)
    filler = _Filler(ids, grid, lookback_ms, values)
    sources: list[tuple[int, Piece | FoundRows]] = [(int(item.timestamps[0]), item) for item in pieces]
    sources += [(min(int(times[0]) for times in item.timestamps.values()), item) for item in found]
    in_order = [source for _, source in sorted(sources, key=lambda item: item[0])]
    if not _tangled(in_order):
        together = _all_before(found, pieces)
        for source in in_order:
            if isinstance(source, FoundRows):
                filler.fill_block(source)
            elif not together:
                filler.fill(source.ids, source.timestamps, source.values)
        if together and not filler.fill_many(pieces):
            for piece in sorted(pieces, key=lambda piece: int(piece.timestamps[0])):
                filler.fill(piece.ids, piece.timestamps, piece.values)
        return filler.values
    # Some series have samples that were written out of time order: these are put together first.
    for whole in assemble([*pieces, *decode(found)]):
        filler.fill(whole.ids, whole.timestamps, whole.values)
    return filler.values


def _tangled(sources: Sequence[Piece | FoundRows]) -> bool:
    """Do the sources of some series not follow each other in time, in this order?"""
    if not sources:
        return False
    owners = np.concatenate([source.ids for source in sources])
    alone = np.sort(owners)
    if not bool((alone[1:] == alone[:-1]).any()):
        return False
    first, last = [], []
    for source in sources:
        if isinstance(source, Piece):
            first.append(np.full(len(source.ids), source.timestamps[0]))
            last.append(np.full(len(source.ids), source.timestamps[-1]))
            continue
        lanes = source.block.lanes[source.rows]
        ends = np.zeros((2, 64), dtype=np.int64)
        for lane, times in source.timestamps.items():
            ends[:, lane] = times[0], times[-1]
        first.append(ends[0, lanes])
        last.append(ends[1, lanes])
    # Stable: of one series the sources stay in the order in which they will be read.
    order = np.argsort(owners, kind="stable")
    owners, firsts, lasts = owners[order], np.concatenate(first)[order], np.concatenate(last)[order]
    return bool(((owners[1:] == owners[:-1]) & (firsts[1:] <= lasts[:-1])).any())


def _all_before(found: Sequence[FoundRows], pieces: Sequence[Piece]) -> bool:
    """Do all blocks end before the first of the pieces begins?"""
    if not pieces:
        return False
    begin = min(int(piece.timestamps[0]) for piece in pieces)
    return all(int(times[-1]) < begin for item in found for times in item.timestamps.values())


@dataclass(frozen=True, slots=True)
class _Reach:
    """The steps [first, end) that some timestamps may decide; index: for each the last one at or before it;
    fresh: None when all of these are within the lookback, else which."""

    first: int
    end: int
    index: IntArray
    fresh: BoolArray | None


@dataclass(frozen=True, slots=True)
class _BlockReach:
    """The steps [first, end) that some lanes may decide. number: lane -> row of index, which holds the last
    timestamp at or before each step, and of valid: None, or where there is such a one within the lookback."""

    first: int
    end: int
    number: IntArray
    index: IntArray
    valid: BoolArray | None


@dataclass(slots=True)
class _Filler:
    """Writes what a source says of the steps it reaches; the sources of a series come in time order."""

    ids: IntArray
    grid: IntArray
    lookback_ms: int
    values: FloatArray
    _lanes: dict[tuple[int, int], _Reach] = field(default_factory=dict)
    _reached: dict[tuple[int, tuple[int, ...]], _BlockReach] = field(default_factory=dict)

    def _reach(self, timestamps: IntArray) -> _Reach:
        ends = (timestamps[0], timestamps[-1] + self.lookback_ms)
        first, end = np.searchsorted(self.grid, ends).tolist()
        steps = self.grid[first:end]
        index = timestamps.searchsorted(steps, side="right") - 1
        fresh = steps - timestamps[index] < self.lookback_ms
        return _Reach(first, end, index, None if fresh.all() else fresh)

    def fill(self, ids: IntArray, timestamps: IntArray, values: FloatArray) -> None:
        """values: float64[ids, timestamps]."""
        reach = self._reach(timestamps)
        if reach.first == reach.end:
            return
        rows = self.ids.searchsorted(ids)
        absent = is_absent(values)
        holed = absent.any(axis=1)
        if not holed.any():
            self._put(rows, reach, _without_stale(values.take(reach.index, axis=1)))
            return
        whole = ~holed
        if whole.any():
            self._put(rows[whole], reach, _without_stale(values[whole].take(reach.index, axis=1)))
        for row in np.flatnonzero(holed):
            there = np.flatnonzero(~absent[row])
            if len(there):
                self.fill(ids[row : row + 1], timestamps[there], values[row : row + 1, there])

    def _put(self, rows: IntArray, reach: _Reach, values: FloatArray) -> None:
        low, high = int(rows[0]), int(rows[-1])
        together = high - low == len(rows) - 1 and (len(rows) < 3 or bool((rows[1:] > rows[:-1]).all()))
        target = self.values[low : high + 1] if together else self.values
        if reach.fresh is None:
            if together:
                target[:, reach.first : reach.end] = values
            else:
                target[rows, reach.first : reach.end] = values
            return
        steps = np.flatnonzero(reach.fresh)
        if together:
            target[:, reach.first + steps] = values[:, steps]
        else:
            target[rows[:, None], reach.first + steps] = values[:, steps]

    def fill_many(self, pieces: Sequence[Piece]) -> bool:
        """The same for many small pieces at once, step by step; False, and nothing done, where it would not
        be quicker or a series is in several of them."""
        lengths = {len(piece.timestamps) for piece in pieces}
        if len(pieces) < _MANY_PIECES or len(lengths) != 1:
            return False
        times = np.stack([piece.timestamps for piece in pieces])
        values = np.concatenate([piece.values for piece in pieces])
        ids = np.concatenate([piece.ids for piece in pieces])
        ends = (times[:, 0].min(), times[:, -1].max() + self.lookback_ms)
        first, end = np.searchsorted(self.grid, ends).tolist()
        if end - first > _MANY_STEPS or len(np.unique(ids)) < len(ids) or is_absent(values).any():
            return False
        rows = self.ids.searchsorted(ids)
        lane = np.repeat(np.arange(len(pieces)), [len(piece.ids) for piece in pieces])
        every, each = np.arange(len(pieces)), np.arange(len(ids))
        for number in range(first, end):
            step = self.grid[number]
            index = (times <= step).sum(axis=1) - 1
            fresh = (index >= 0) & (step - times[every, index] < self.lookback_ms)
            reached = np.flatnonzero(fresh[lane])
            chosen = values[each[reached], index[lane[reached]]]
            self.values[rows[reached], number] = _without_stale(chosen)
        return True

    def fill_block(self, item: FoundRows) -> None:
        """All rows of a block that are asked for."""
        block = item.block
        reach = self._block_reach(item)
        if reach.first == reach.end:
            return
        plain = _plain_rows(block)[item.rows]
        if reach.end - reach.first > 2 * block.columns:
            plain[:] = False  # the steps are finer than the samples: picking would be more than decoding
        rows = self.ids.searchsorted(item.ids)
        lanes = reach.number[block.lanes[item.rows]]
        for frame in block.frames:
            low, high = item.rows.searchsorted((frame.first, frame.end)).tolist()
            some = np.flatnonzero(plain[low:high]) + low
            if not len(some):
                continue
            at, lane = item.rows[some], lanes[some]
            flat = reach.index[lane] + ((at - frame.first) * block.columns)[:, None]
            # In float64 at once: the numbers of plain rows, and all sums on the way, are below 2**53.
            floats = np.repeat(block.base[at].astype(np.float64)[:, None], reach.end - reach.first, axis=1)
            for number, plane in enumerate(block.planes(frame)):
                floats += plane.take(flat) * 256.0**number if number else plane.take(flat)
            exponent = block.exponent[at]
            if exponent.any():
                floats /= POWERS[exponent][:, None]
            self._put_steps(rows[some], reach, floats, None if reach.valid is None else reach.valid[lane])
        left = np.flatnonzero(~plain)
        if len(left):
            part = FoundRows(
                block, item.rows[left], item.ids[left], item.order, item.timeline_id, item.timestamps
            )
            for piece in decode([part]):
                self.fill(piece.ids, piece.timestamps, piece.values)

    def _block_reach(self, item: FoundRows) -> _BlockReach:
        key = (item.timeline_id, tuple(item.timestamps))
        held = self._reached.get(key)
        if held is None:
            held = self._reached[key] = self._reach_of_lanes(item.timeline_id, item.timestamps)
        return held

    def _lane_reach(self, key: tuple[int, int], timestamps: IntArray) -> _Reach:
        held = self._lanes.get(key)
        if held is None:
            held = self._lanes[key] = self._reach(timestamps)
        return held

    def _reach_of_lanes(self, timeline_id: int, lanes: Mapping[int, IntArray]) -> _BlockReach:
        reaches = [self._lane_reach((timeline_id, lane), lanes[lane]) for lane in lanes]
        first, end = min(reach.first for reach in reaches), max(reach.end for reach in reaches)
        index = np.zeros((len(reaches), end - first), dtype=np.int64)
        valid = np.zeros((len(reaches), end - first), dtype=np.bool_)
        number = np.zeros(LANES, dtype=np.int64)
        for row, (lane, reach) in enumerate(zip(lanes, reaches, strict=True)):
            number[lane] = row
            steps = slice(reach.first - first, reach.end - first)
            index[row, steps] = reach.index
            valid[row, steps] = True if reach.fresh is None else reach.fresh
        return _BlockReach(first, end, number, index, None if valid.all() else valid)

    def _put_steps(
        self, rows: IntArray, reach: _BlockReach, values: FloatArray, valid: BoolArray | None
    ) -> None:
        low, high = int(rows[0]), int(rows[-1])
        if high - low == len(rows) - 1 and (len(rows) < 3 or bool((rows[1:] > rows[:-1]).all())):
            target = self.values[low : high + 1, reach.first : reach.end]
            np.copyto(target, values, where=True if valid is None else valid)
            return
        if valid is not None:
            values = np.where(valid, values, self.values[rows, reach.first : reach.end])
        self.values[rows, reach.first : reach.end] = values


def _without_stale(values: FloatArray) -> FloatArray:
    stale = is_stale(values)
    if stale.any():
        values[stale] = ABSENT
    return values


def _plain_rows(block: Block) -> BoolArray:
    """Which rows are integers without differences, holes or exceptions."""
    odd: BoolArray = block.has_holes | block.delta | (block.exponent == RAW)
    odd[block.exceptions[0]] = True
    return ~odd
