"""Fewer points, same picture: the minimum and maximum of every bucket survive, and so do gaps.

Min/max rather than averaging or every n-th point, because a one-step spike is what people look for.
"""

import numpy as np

from app.analysis.grid import FloatArray, IntArray

# More than a screen has columns; the browser draws 2,000 SVG points without effort.
MAX_POINTS = 2_000


def decimate(
    timestamps: IntArray, values: FloatArray, limit: int = MAX_POINTS
) -> tuple[IntArray, FloatArray]:
    """At most `limit` of the points, in time order; first and last point always kept.

    A bucket that holds a NaN keeps one, so that the line still breaks there.
    """
    count = len(timestamps)
    if count <= limit:
        return timestamps, values
    # Three points a bucket at worst (min, max, gap), and the two ends.
    buckets = max((limit - 2) // 3, 1)
    edges = np.linspace(0, count, buckets + 1).astype(np.int64)[:-1]
    missing = np.isnan(values)
    low = _first_in_bucket(np.where(missing, np.inf, values), edges, np.minimum)
    high = _first_in_bucket(np.where(missing, -np.inf, values), edges, np.maximum)
    gap = _first_in_bucket(np.where(missing, 1.0, 0.0), edges, np.maximum)
    gap = gap[missing[gap]]
    keep = np.unique(np.concatenate([low, high, gap, np.array([0, count - 1])]))
    return timestamps[keep], values[keep]


def _first_in_bucket(values: FloatArray, edges: IntArray, extreme: np.ufunc) -> IntArray:
    """int64[buckets]: where each bucket first reaches its extreme."""
    lengths = np.diff(np.append(edges, len(values)))
    reached = values == np.repeat(extreme.reduceat(values, edges), lengths)
    at = np.flatnonzero(reached)
    first: IntArray = at[np.searchsorted(at, edges)]
    return first


def with_gaps(timestamps: IntArray, values: FloatArray, max_gap_ms: int) -> tuple[IntArray, FloatArray]:
    """Put a NaN into every hole longer than max_gap_ms, so that no line is drawn across missing data."""
    holes = np.flatnonzero(np.diff(timestamps) > max_gap_ms)
    if len(holes) == 0:
        return timestamps, values
    return (
        np.insert(timestamps, holes + 1, timestamps[holes] + 1),
        np.insert(values, holes + 1, np.nan),
    )
