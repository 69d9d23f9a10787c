"""Functions that lay a line through a window's samples, or smooth them.

Source of what is computed: prometheus/prometheus, promql/functions.go (linearRegression, funcDeriv,
funcPredictLinear, funcDoubleExponentialSmoothing).
"""

from collections.abc import Sequence

import numpy as np

from db.nan import BoolArray, FloatArray, IntArray
from db.promql.blocks import Block, happenings, longest_first, over, without_parameters
from db.promql.context import Notes
from db.promql.errors import ExecutionError
from db.promql.range_function import RangeFunction
from db.promql.sums import sums
from db.promql.windows import WindowPart


def _line(block: Block, origin: IntArray) -> tuple[FloatArray, FloatArray]:
    """The slope per second and the height at the origin (int64[windows], ms UTC) of the line with the least
    squares; float64[series, windows] each. The windows come with the longest first."""

    def terms(places: IntArray | slice, windows: slice) -> Sequence[FloatArray]:
        x = (block.timestamps[places] - origin[windows])[None] / 1e3
        y = block.values[:, places] if isinstance(places, slice) else block.value(places)
        return x, y, x * y, x * x

    x, y, xy, xx = (found.value() for found in sums(block, terms))
    count = block.count
    slope = (xy - x * y / count) / (xx - x * x / count)
    height = y / count - slope * x / count
    # Of equal samples there is nothing to compute, and nothing that rounding may tilt.
    _, before, until = happenings(block, np.not_equal)
    level = before == until
    begin = block.value(block.first)
    slope = np.where(level, np.where(np.isinf(begin), np.nan, 0.0), slope)
    height = np.where(level, np.where(np.isinf(begin), np.nan, begin), height)
    return slope, height


def _slope(block: Block) -> FloatArray:
    # Times near the samples' own keep the squares small.
    return _line(block, block.timestamps[block.first])[0]


def _predict_linear(
    part: WindowPart, parameters: Sequence[FloatArray], _notes: Notes
) -> tuple[FloatArray, BoolArray]:
    [seconds] = parameters

    def of_block(block: Block) -> FloatArray:
        slope, height = _line(block, part.at[block.step])
        return slope * seconds[block.step] + height

    return over(part, longest_first(of_block), minimum=2)


def _smoothed(
    part: WindowPart, parameters: Sequence[FloatArray], _notes: Notes
) -> tuple[FloatArray, BoolArray]:
    """Raises ExecutionError when a factor is not between 0 and 1 where there are samples."""
    level_factors, trend_factors = parameters
    _check_factors(part, level_factors, trend_factors)

    def of_block(block: Block) -> FloatArray:
        kept, follows = level_factors[block.step], trend_factors[block.step]
        rounds = block.rounds()
        level = block.value(next(rounds))
        trend = block.value(block.first + 1) - level
        older = np.zeros_like(level)
        for number, places in enumerate(rounds, start=1):
            alive = slice(0, len(places))
            now, sf, tf = level[:, alive], kept[alive], follows[alive]
            if number > 1:
                trend[:, alive] = tf * (now - older[:, alive]) + (1 - tf) * trend[:, alive]
            following = sf * block.value(places) + (1 - sf) * (now + trend[:, alive])
            older[:, alive] = now
            level[:, alive] = following
        return level

    return over(part, longest_first(of_block), minimum=2)


def _check_factors(part: WindowPart, level: FloatArray, trend: FloatArray) -> None:
    used = (part.count > 0).any(axis=0)
    wrong = used & ((level <= 0) | (level >= 1) | (trend <= 0) | (trend >= 1))
    if not wrong.any():
        return
    step = int(wrong.argmax())
    for kind, symbol, value in (("smoothing", "sf", level[step]), ("trend", "tf", trend[step])):
        if value <= 0 or value >= 1:
            shown = f"{value:f}".replace("inf", "Inf") if value < np.inf else "+Inf"
            raise ExecutionError(f"invalid {kind} factor. Expected: 0 < {symbol} < 1, got: {shown}")


RANGE_FUNCTIONS: dict[str, RangeFunction] = {
    "deriv": without_parameters(longest_first(_slope), minimum=2),
    "predict_linear": RangeFunction(_predict_linear),
    "double_exponential_smoothing": RangeFunction(_smoothed),
}
