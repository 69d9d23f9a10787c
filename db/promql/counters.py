"""Functions of counters: how fast they rise, and how often they change and start again.

Source of what is computed: prometheus/prometheus, promql/functions.go (extrapolatedRate, instantValue,
funcResets, funcChanges).
"""

from dataclasses import replace

import numpy as np

from db.nan import BoolArray, FloatArray
from db.promql.blocks import Block, Compare, happenings, longest_first, without_parameters
from db.promql.range_function import RangeFunction
from db.promql.sums import sum_of_values

# A gap at the window's edge up to this many times the usual one between samples is bridged.
_BRIDGED = 1.1
# What may have been zero within the window is found by a product, then looked at exactly.
_A_LITTLE_LESS = 1 - 1e-9


def _extrapolated(*, counter: bool, per_second: bool) -> RangeFunction:
    """The difference of the last and the first sample, stretched to the edges of the window. counter: falls
    are starts from zero, and it is not stretched to where the counter would have been below zero."""

    def of_block(block: Block) -> FloatArray:
        part, step = block.part, block.step
        begin = block.value(block.first)
        rise = block.value(block.last) - begin
        if counter:
            _add_what_was_before_resets(block, rise)
        first, last = block.timestamps[block.first], block.timestamps[block.last]
        sampled = (last - first) / 1000
        between = sampled / (block.count - 1)
        near = between * _BRIDGED
        to_start = (first - part.starts[step]) / 1000
        to_start = np.where(to_start >= near, between / 2, to_start)
        to_end = (part.ends[step] - last) / 1000
        to_end = np.where(to_end >= near, between / 2, to_end)
        # Exactly as Go has the seconds of a duration.
        whole, rest = np.divmod(part.ends[step] - part.starts[step], 1000)
        divisor = whole + rest / 1000 if per_second else np.ones(len(step))
        found = rise * ((sampled + to_start + to_end) / sampled / divisor)
        if counter:
            rows, at = np.nonzero(begin * (sampled / to_start * _A_LITTLE_LESS) < rise)
            if len(rows):
                sampled, to_start, to_end, divisor = sampled[at], to_start[at], to_end[at], divisor[at]
                begin, rise = begin[rows, at], rise[rows, at]
                to_zero = sampled * (begin / rise)
                to_start = np.where((begin >= 0) & (to_zero < to_start), to_zero, to_start)
                found[rows, at] = rise * ((sampled + to_start + to_end) / sampled / divisor)
        return found

    return without_parameters(of_block, minimum=2)


def _add_what_was_before_resets(block: Block, rise: FloatArray) -> None:
    """Add to rise, float64[series, windows], what the counters had reached when they fell."""
    falls = block.values[:, 1:] < block.values[:, :-1]
    if not falls.any():
        return
    rows = np.flatnonzero(falls.any(axis=1))
    some = block if len(rows) == len(falls) else replace(block, values=block.values[rows])
    marked, before, until = happenings(some, np.less)
    hit = until > before
    if not hit.any():
        return
    reached = some.values[:, :-1][marked[:, 1:]]
    places = np.arange(len(reached))
    row, window = np.nonzero(hit)
    first, count = before[hit], (until - before)[hit]
    total, lost = longest_first(_total_and_lost)(
        Block(block.part, places, reached[None], first, count, block.step[window])
    )
    # One after the other: the first two are often large and nearly cancel.
    rise[rows[row], window] += total[0]
    rise[rows[row], window] += lost[0]


def _total_and_lost(block: Block) -> FloatArray:
    found = sum_of_values(block)
    return np.stack([found.total, np.where(np.isinf(found.total), 0.0, found.lost)])


def _of_the_last_two(*, counter: bool) -> RangeFunction:
    def of_block(block: Block) -> FloatArray:
        last, before = block.last, block.last - 1
        value, previous = block.value(last), block.value(before)
        difference = value - previous
        if counter:
            difference = np.where(value < previous, value, difference)
            difference /= (block.timestamps[last] - block.timestamps[before]) / 1000
        return difference

    return without_parameters(of_block, minimum=2)


def _number_of(compare: Compare) -> RangeFunction:
    """How often a sample and the one before it compare so."""

    def of_block(block: Block) -> FloatArray:
        _, before, until = happenings(block, compare)
        return (until - before).astype(np.float64)

    return without_parameters(of_block)


def _differs(value: FloatArray, previous: FloatArray) -> BoolArray:
    """NaN after NaN is no change."""
    changed: BoolArray = (value != previous) & ((value == value) | (previous == previous))
    return changed


RANGE_FUNCTIONS: dict[str, RangeFunction] = {
    "rate": _extrapolated(counter=True, per_second=True),
    "increase": _extrapolated(counter=True, per_second=False),
    "delta": _extrapolated(counter=False, per_second=False),
    "irate": _of_the_last_two(counter=True),
    "idelta": _of_the_last_two(counter=False),
    "resets": _number_of(np.less),
    "changes": _number_of(_differs),
}
