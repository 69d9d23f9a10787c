"""Functions that make one number of a window's samples: their sum, mean, extremes, spread, quantiles.

Source of what is computed: prometheus/prometheus, promql/functions.go (func...OverTime) and quantile.go.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from db.nan import BoolArray, FloatArray, IntArray
from db.promql.blocks import Block, longest_first, over, without_parameters
from db.promql.context import Notes
from db.promql.range_function import RangeFunction
from db.promql.sums import increased, is_long, sum_of_values, sums
from db.promql.windows import WindowPart
from db.promql.wording import general

# Samples that are sorted at once.
_SORTED = 1 << 19
# From this many times as many samples in all windows as there are samples, windows are put together from
# halves that they share.
_OVERLAP = 8


def _sum(block: Block) -> FloatArray:
    return sum_of_values(block).value()


def _mean(block: Block) -> FloatArray:
    found = sum_of_values(block)
    mean = found.total / block.count + found.lost / block.count
    special = ~np.isfinite(found.total)
    if special.any():
        # By windows, so that the longest stay first.
        windows, rows = np.nonzero(special.T)
        mean[rows, windows] = _mean_without_finite_sum(block.picked(rows, windows))[0]
    return mean


def _mean_without_finite_sum(block: Block) -> FloatArray:
    """Where samples are infinite or NaN, they are all that matters."""
    marks = np.where(np.isfinite(block.values), 0.0, block.values)
    mean = sum_of_values(replace(block, values=marks)).total
    finite = np.flatnonzero(mean[0] == 0)
    if len(finite):
        mean[:, finite] = _incremental_mean(block.take(finite))
    return mean


def _incremental_mean(block: Block) -> FloatArray:
    """The mean of samples whose sum is too large for a float: from there on, where the sum would be infinite,
    the mean itself is brought forward."""
    rounds = block.rounds()
    total = block.value(next(rounds))
    mean, lost = np.zeros_like(total), np.zeros_like(total)
    switched = np.zeros(total.shape, dtype=np.bool_)
    for number, places in enumerate(rounds, start=1):
        alive = (slice(None), slice(0, len(places)))
        values = block.value(places)
        following, missing = increased(total[alive], lost[alive], values)
        overflows = np.isinf(following) & ~switched[alive]
        mean[alive] = np.where(overflows, total[alive] / number, mean[alive])
        lost[alive] = np.where(overflows, lost[alive] / number, lost[alive])
        switched[alive] |= overflows
        share = number / (number + 1)
        moved, moved_missing = increased(share * mean[alive], share * lost[alive], values / (number + 1))
        mean[alive] = np.where(switched[alive], moved, mean[alive])
        lost[alive] = np.where(switched[alive], moved_missing, missing)
        total[alive] = np.where(switched[alive], total[alive], following)
    return np.where(switched, mean + lost, total / block.count + lost / block.count)


def _variance(block: Block) -> FloatArray:
    if is_long(block):
        return _variance_in_two_passes(block)
    mean, mean_lost, squares, squares_lost = np.zeros((4, *block.shape))
    for number, places in enumerate(block.rounds(), start=1):
        alive = (slice(None), slice(0, len(places)))
        values = block.value(places)
        away = values - (mean[alive] + mean_lost[alive])
        mean[alive], mean_lost[alive] = increased(mean[alive], mean_lost[alive], away / number)
        away *= values - (mean[alive] + mean_lost[alive])
        squares[alive], squares_lost[alive] = increased(squares[alive], squares_lost[alive], away)
    return (squares + squares_lost) / block.count


def _variance_in_two_passes(block: Block) -> FloatArray:
    """About the first sample, so that the variance of equal samples is exactly zero."""
    begin = block.value(block.first)

    def from_begin(places: IntArray | slice, windows: slice) -> Sequence[FloatArray]:
        return (block.values[:, places] - begin[:, windows],)

    mean = sums(block, from_begin)[0].value() / block.count

    def squares(places: IntArray | slice, windows: slice) -> Sequence[FloatArray]:
        away = block.values[:, places] - begin[:, windows] - mean[:, windows]
        away *= away
        return (away,)

    return sums(block, squares)[0].value() / block.count


def _deviation(block: Block) -> FloatArray:
    return np.sqrt(_variance(block))


def _extreme(ufunc: np.ufunc) -> RangeFunction:
    """ufunc: of two numbers one of them, NaN only if both are."""

    def of_block(block: Block) -> FloatArray:
        if int(block.count.sum()) <= _OVERLAP * block.values.shape[1]:
            # Pairs of begin and end; the end behind the last value needs a value of its own to stand on.
            held = np.concatenate([block.values, np.zeros((len(block.values), 1))], axis=1)
            edges = np.stack([block.first, block.first + block.count], axis=-1)
            found: FloatArray = ufunc.reduceat(held, edges.reshape(-1), axis=1)[:, ::2]
            return found
        found = np.empty(block.shape)
        # table: of each place and the `size` - 1 behind it. A window is two of them, which may overlap.
        table, size, longest = block.values, 1, int(block.count.max())
        while True:
            fits = np.flatnonzero((block.count >= size) & (block.count < 2 * size))
            first, second = block.first[fits], block.first[fits] + block.count[fits] - size
            found[:, fits] = ufunc(table.take(first, axis=1), table.take(second, axis=1))
            if longest < 2 * size:
                return found
            table, size = ufunc(table[:, :-size], table[:, size:]), 2 * size

    return without_parameters(of_block)


def _count(block: Block) -> FloatArray:
    return np.zeros(block.shape) + block.count


def _present(block: Block) -> FloatArray:
    return np.ones(block.shape)


def _last(block: Block) -> FloatArray:
    return block.value(block.last)


def _quantile(
    part: WindowPart, parameters: Sequence[FloatArray], notes: Notes
) -> tuple[FloatArray, BoolArray]:
    [wanted] = parameters
    valid = (wanted >= 0) & (wanted <= 1)
    for value in np.unique(wanted[~valid & (part.count > 0).any(axis=0)]).tolist():
        notes.warn(f"quantile value should be between 0 and 1, got {general(value)}")
    # What no sample has a say in: -Inf below 0, +Inf above 1, NaN of NaN.
    without = np.where(np.isnan(wanted), np.nan, np.copysign(np.inf, wanted))

    def of_block(block: Block) -> FloatArray:
        found = np.empty(block.shape)
        found[...] = without[block.step]
        windows = np.flatnonzero(valid[block.step])
        windows = windows[np.argsort(block.count[windows], kind="stable")]
        for alike in np.split(windows, np.flatnonzero(np.diff(block.count[windows])) + 1):
            if len(alike):
                _quantiles_of_alike(block, alike, wanted, found)
        return found

    return over(part, of_block)


def _quantiles_of_alike(block: Block, alike: IntArray, wanted: FloatArray, found: FloatArray) -> None:
    """Of windows with the same number of samples."""
    count = int(block.count[alike[0]])
    size = max(1, _SORTED // (count * len(block.values)))
    for start in range(0, len(alike), size):
        windows = alike[start : start + size]
        places = block.first[windows][:, None] + np.arange(count)
        # Prometheus has NaN below all numbers, NumPy above: the negatives, sorted, are in its order reversed.
        negatives = -block.values[:, places]
        negatives.sort(axis=-1)
        rank = wanted[block.step[windows]] * (count - 1)
        lower = np.floor(rank)
        weight = rank - lower
        low = count - 1 - lower.astype(np.int64)
        high = np.maximum(low - 1, 0)
        at = np.arange(len(windows))
        found[:, windows] = -negatives[:, at, low] * (1 - weight) + -negatives[:, at, high] * weight


RANGE_FUNCTIONS: dict[str, RangeFunction] = {
    "sum_over_time": without_parameters(longest_first(_sum)),
    "avg_over_time": without_parameters(longest_first(_mean)),
    "min_over_time": _extreme(np.fmin),
    "max_over_time": _extreme(np.fmax),
    "count_over_time": without_parameters(_count),
    "last_over_time": without_parameters(_last, keeps_name=True),
    "present_over_time": without_parameters(_present),
    "stddev_over_time": without_parameters(longest_first(_deviation)),
    "stdvar_over_time": without_parameters(longest_first(_variance)),
    "quantile_over_time": RangeFunction(_quantile),
}
