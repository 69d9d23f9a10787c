"""Rates of counters: per second, over a trailing window, resets counted, nothing extrapolated.

Where a counter falls, it restarted from zero (Prometheus's rule). NaN samples (staleness markers) are
skipped: a counter that vanished and came back lower is a reset like any other.
"""

import numpy as np

from app.analysis.grid import FloatArray, IntArray

# Four scrapes in the window: one may be lost and there still is a slope.
WINDOW_SCRAPES = 4
MIN_WINDOW_MS = 10_000
MAX_WINDOW_MS = 300_000


def increases(values: FloatArray) -> FloatArray:
    """float64[n]: how much the counter has grown since its first sample, resets counted."""
    steps = np.diff(values)
    grown = np.where(steps < 0, values[1:], steps)
    return np.concatenate([np.zeros(1), np.cumsum(grown)])


def rate_window_ms(timestamps: IntArray) -> int:
    """A trailing window that holds WINDOW_SCRAPES samples at the series' own pace."""
    if len(timestamps) < 2:
        return MIN_WINDOW_MS
    pace = float(np.median(np.diff(timestamps)))
    return int(np.clip(pace * WINDOW_SCRAPES, MIN_WINDOW_MS, MAX_WINDOW_MS))


def rate_at(
    timestamps: IntArray, values: FloatArray, at: IntArray, window_ms: int | None = None
) -> FloatArray:
    """float64[len(at)]: growth per second between the first and the last sample in (t - window, t].

    NaN where the window holds fewer than two samples. window_ms: None takes the series' own pace.
    """
    known = ~np.isnan(values)
    if not known.all():
        timestamps, values = timestamps[known], values[known]
    if len(timestamps) < 2:
        return np.full(len(at), np.nan)
    window = rate_window_ms(timestamps) if window_ms is None else window_ms
    last = np.searchsorted(timestamps, at, side="right") - 1
    first = np.searchsorted(timestamps, at - window, side="right")
    usable = last > first
    last, first = np.where(usable, last, 1), np.where(usable, first, 0)
    total = increases(values)
    seconds = (timestamps[last] - timestamps[first]) / 1000.0
    return np.where(usable, (total[last] - total[first]) / seconds, np.nan)
