"""Decodes many blocks together: wide series fill a block in pairs, and numpy's fixed costs for each of
hundreds of blocks would be most of the time of a query."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from db.block_format import Block
from db.codec import Bytes, from_planes, sum_of_planes, to_floats
from db.nan import ABSENT, FloatArray, IntArray


def decode_values(blocks: Sequence[Block], wanted: Sequence[IntArray], first: int, end: int) -> FloatArray:
    """float64[all wanted rows, end - first]: the columns [first, end) of rows of blocks that have the same
    number of columns; ABSENT in holes; past a row's length there is nothing of meaning."""
    integers, exponent = decode_integers(blocks, wanted, first, end)
    values = to_floats(integers, exponent)
    at = 0
    for block, rows in zip(blocks, wanted, strict=True):
        _put_special(block, rows, values[at : at + len(rows)], first, end)
        at += len(rows)
    return values


def _put_special(block: Block, wanted: IntArray, values: FloatArray, first: int, end: int) -> None:
    """Put exceptions and holes over the numbers; values: a part of a larger array."""
    rows, columns, bits = block.exceptions
    if len(rows):
        at = np.searchsorted(wanted, rows)
        at[at == len(wanted)] = 0
        mine = (wanted[at] == rows) & (columns >= first) & (columns < end)
        values.view(np.uint64)[at[mine], columns[mine] - first] = bits[mine]
    if block.any_holes:
        holed = np.flatnonzero(block.has_holes[wanted])
        number = np.cumsum(block.has_holes) - 1
        mask = block.holes[number[wanted[holed]], first:end]
        values[holed] = np.where(mask, ABSENT, values[holed])


def decode_integers(
    blocks: Sequence[Block], wanted: Sequence[IntArray], first: int, end: int
) -> tuple[IntArray, npt.NDArray[np.int8]]:
    """Rows before scaling, and their exponents."""
    # (width, delta) -> rows of the result, planes of each block, base, first value
    classes: dict[
        tuple[int, bool], tuple[list[int], list[Sequence[Bytes]], list[IntArray], list[IntArray]]
    ] = {}
    count = 0
    for block, rows in zip(blocks, wanted, strict=True):
        for frame in block.frames:
            low, high = 0, len(rows)
            if len(block.frames) > 1:
                low, high = int(rows.searchsorted(frame.first)), int(rows.searchsorted(frame.end))
                if low == high:
                    continue
            planes, base, start = block.planes(frame), block.base, block.first
            if high - low < block.rows:
                inside = rows[low:high]
                base, start = base[inside], start[inside]
                if high - low < frame.end - frame.first:
                    planes = [plane[inside - frame.first] for plane in planes]
            held = classes.setdefault((frame.width, frame.delta), ([], [], [], []))
            held[0].extend(range(count + low, count + high))
            held[1].append(planes)
            held[2].append(base)
            held[3].append(start)
        count += len(rows)
    exponent = np.concatenate([block.exponent[rows] for block, rows in zip(blocks, wanted, strict=True)])
    integers = np.empty((count, end - first), dtype=np.int64)
    for (width, delta), (at, planes_of, bases, firsts) in classes.items():
        base, start = np.concatenate(bases), np.concatenate(firsts)
        together = [_stacked([planes[number] for planes in planes_of]) for number in range(width)]
        part = _class_integers(together, delta, base, start, first, end)
        if len(at) == count and at == list(range(count)):
            return part, exponent
        integers[at] = part
    return integers, exponent


def _stacked(planes: Sequence[Bytes]) -> Bytes:
    return planes[0] if len(planes) == 1 else np.concatenate(planes)


def _class_integers(
    planes: Sequence[Bytes], delta: bool, base: IntArray, start: IntArray, first: int, end: int
) -> IntArray:
    if not planes:
        steps = np.arange(first, end) if delta else np.zeros(end - first, dtype=np.int64)
        return (start if delta else base)[:, None] + base[:, None] * steps
    integers = from_planes([plane[:, first:end] for plane in planes]).view(np.int64)
    integers += base[:, None]
    if delta:
        # The first difference is none: what it holds is before the sum, the value itself.
        before = sum_of_planes([plane[:, : first + 1] for plane in planes]).view(np.int64)
        integers[:, 0] = start + before + base * first
        np.cumsum(integers, axis=1, out=integers)
    return integers
