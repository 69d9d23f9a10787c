"""Windows in one form, a few at a time.

A part of a range selector is cut into blocks whose arrays fit into the processor's cache: functions of ranges
are written for one block, their memory is bounded however many series there are, and no sample outside of a
window has a say in what is computed for it.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import wraps

import numpy as np
import numpy.typing as npt

from db.nan import BoolArray, FloatArray, IntArray
from db.promql.context import Notes
from db.promql.range_function import RangeFunction
from db.promql.windows import WindowPart

# Numbers in one array of a block: less than 128 KiB, from where on malloc asks the kernel for new pages for
# each array, which takes longer than the arithmetic.
CELLS = 16_000
_SAMPLES = 4  # so many more samples than windows are taken
_RADIX_SORTED = 1 << 16  # NumPy sorts 16 bits in linear time


@dataclass(frozen=True, slots=True, eq=False)
class Block:
    """Windows that have samples, of series that share their timestamps.

    part: where they are from. timestamps: int64[n], ms UTC. values: float64[series, n]. first, count:
    int64[windows], the samples of a window are those at first, ..., first + count - 1; count >= 1. step:
    int64[windows], the step that a window is of.

    Series with timestamps of their own lie one behind the other, as if they were one, each with windows of
    its own: neighbours are not always samples of the same series, but those in one window are.
    """

    part: WindowPart
    timestamps: IntArray
    values: FloatArray
    first: IntArray
    count: IntArray
    step: IntArray

    @property
    def shape(self) -> tuple[int, int]:
        """(series, windows)"""
        return len(self.values), len(self.first)

    @property
    def last(self) -> IntArray:
        """int64[windows]: the place of each window's last sample."""
        return self.first + self.count - 1

    def value(self, places: IntArray) -> FloatArray:
        """float64[series, places]"""
        return self.values.take(places, axis=1)

    def take(self, windows: IntArray) -> "Block":
        """Some of the windows, in this order."""
        return replace(self, first=self.first[windows], count=self.count[windows], step=self.step[windows])

    def picked(self, rows: IntArray, windows: IntArray) -> "Block":
        """Some windows of some series as if all were of one series: rows, windows: int64[picked]."""
        series, samples = self.values.shape
        return Block(
            self.part,
            np.tile(self.timestamps, series),
            self.values.reshape(1, -1),
            self.first[windows] + rows * samples,
            self.count[windows],
            self.step[windows],
        )

    def rounds(self) -> Iterator[IntArray]:
        """The place of every window's first sample, then of the second, ...: of those windows that have so
        many, which are the first ones since the windows come with the longest first (`longest_first`)."""
        longest = int(self.count.max(initial=0))
        alive = np.searchsorted(-self.count, -np.arange(longest)).tolist()
        for number, windows in enumerate(alive):
            yield self.first[:windows] + number


BlockKernel = Callable[[Block], FloatArray]
Compare = Callable[[FloatArray, FloatArray], BoolArray]


def over(part: WindowPart, kernel: BlockKernel, minimum: int = 1) -> tuple[FloatArray, BoolArray]:
    """A value for each window of at least so many samples. kernel: Block -> float64[series, windows]; it may
    divide by zero and overflow as it likes. The result is as RangeFunction wants it."""
    there = part.count >= minimum
    found = np.zeros(part.shape)
    with np.errstate(all="ignore"):
        (_over_shared if part.values.ndim == 2 else _over_flat)(part, kernel, there, found)
    return found, there


def without_parameters(kernel: BlockKernel, minimum: int = 1, *, keeps_name: bool = False) -> RangeFunction:
    """The function of ranges that a kernel of blocks is. minimum: windows of fewer samples have no value."""

    def of_part(
        part: WindowPart, _parameters: Sequence[FloatArray], _notes: Notes
    ) -> tuple[FloatArray, BoolArray]:
        return over(part, kernel, minimum)

    return RangeFunction(of_part, keeps_name)


def longest_first(kernel: BlockKernel) -> BlockKernel:
    """For kernels that go in rounds."""

    @wraps(kernel)
    def sorted_kernel(block: Block) -> FloatArray:
        if bool((block.count[1:] <= block.count[:-1]).all()):
            return kernel(block)
        shorter: npt.NDArray[np.integer] = block.count.max() - block.count
        if shorter.max() < _RADIX_SORTED:
            shorter = shorter.astype(np.uint16)
        order = np.argsort(shorter, kind="stable")
        values = kernel(block.take(order))
        found = np.empty_like(values)
        found[..., order] = values
        return found

    return sorted_kernel


def happenings(block: Block, compare: Compare) -> tuple[BoolArray, IntArray, IntArray]:
    """Where a sample and the one before it (in this order) compare so.

    Gives bool[series, n], true at the later sample; and for each window the numbers before, until:
    int64[series, windows]. Counted through the whole array, the happenings within a window are number
    before, ..., until - 1.
    """
    marked = np.zeros(block.values.shape, dtype=np.bool_)
    marked[:, 1:] = compare(block.values[:, 1:], block.values[:, :-1])
    seen = np.cumsum(marked, dtype=np.int64).reshape(marked.shape)
    # What happened at a window's first sample did so between it and the sample before the window.
    return marked, seen.take(block.first, axis=1), seen.take(block.last, axis=1)


def _over_shared(part: WindowPart, kernel: BlockKernel, there: BoolArray, found: FloatArray) -> None:
    steps = np.flatnonzero(there[0])
    if not len(steps):
        return
    first, end = part.first[0, steps], part.end[0, steps]
    low, high = int(first.min()), int(end.max())
    size = max(1, CELLS // max(len(steps), (high - low) // _SAMPLES))
    for start in range(0, len(found), size):
        rows = slice(start, start + size)
        # `take` would copy them every time.
        values = np.ascontiguousarray(part.values[rows, low:high])
        block = Block(part, part.timestamps[low:high], values, first - low, end - first, steps)
        if len(steps) == found.shape[1]:
            found[rows] = kernel(block)
        else:
            found[rows, steps] = kernel(block)


def _over_flat(part: WindowPart, kernel: BlockKernel, there: BoolArray, found: FloatArray) -> None:
    series, steps = part.shape
    size = max(1, CELLS // max(1, steps, len(part.timestamps) // max(1, series) // _SAMPLES))
    for start in range(0, series, size):
        rows = slice(start, start + size)
        chosen = np.flatnonzero(there[rows])
        if not len(chosen):
            continue
        first, end = part.first[rows].ravel()[chosen], part.end[rows].ravel()[chosen]
        low, high = int(first.min()), int(end.max())
        values = part.values[None, low:high]
        block = Block(part, part.timestamps[low:high], values, first - low, end - first, chosen % steps)
        found[rows].ravel()[chosen] = kernel(block)[0]
