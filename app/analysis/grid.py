"""Samples onto a common time grid: what a sparkline, a sum over devices and a chart all start from.

Times are int64 milliseconds, strictly increasing; values float64, NaN where a sample says "nothing here"
(a staleness marker, or a NaN that the page itself printed).
"""

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]


def time_grid(end_ms: int, span_ms: int, points: int) -> IntArray:
    """int64[points]: end_ms, and before it multiples of the step span_ms / points.

    Multiples, so that the grid stands still while the end moves: the same samples give the same points, and
    a sparkline does not shimmer.
    """
    step = max(span_ms // points, 1)
    last = (end_ms - 1) // step * step
    multiples = last - np.arange(points - 2, -1, -1, dtype=np.int64) * step
    return np.append(multiples, end_ms)


def sample_at(timestamps: IntArray, values: FloatArray, at: IntArray, lookback_ms: int) -> FloatArray:
    """float64[len(at)]: the newest value at or before each time, NaN where none is younger than lookback."""
    if len(timestamps) == 0:
        return np.full(len(at), np.nan)
    newest = np.searchsorted(timestamps, at, side="right") - 1
    index = np.maximum(newest, 0)
    missing = (newest < 0) | (at - timestamps[index] >= lookback_ms)
    return np.where(missing, np.nan, values[index])


def sum_rows(rows: list[FloatArray], points: int) -> FloatArray:
    """float64[points]: sum over series; NaN only where no series has a value."""
    if not rows:
        return np.full(points, np.nan)
    stacked = np.vstack(rows)
    present = ~np.isnan(stacked)
    total: FloatArray = np.where(present, stacked, 0.0).sum(axis=0)
    return np.where(present.any(axis=0), total, np.nan)


def mean_rows(rows: list[FloatArray], points: int) -> FloatArray:
    """float64[points]: mean over the series that have a value; NaN where none has."""
    total = sum_rows(rows, points)
    if not rows:
        return total
    counts = (~np.isnan(np.vstack(rows))).sum(axis=0)
    return np.where(counts > 0, total / np.maximum(counts, 1), np.nan)


def last_value(values: FloatArray) -> float | None:
    """The value at the grid's end, None where there is none."""
    if len(values) == 0 or np.isnan(values[-1]):
        return None
    return float(values[-1])
