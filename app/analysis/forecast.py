"""When does this series meet its limit (KV cache, queue, disk)? With an interval, and a plain "never".

A straight line through the window's points, by the median of all slopes, so that a quarter of the points may
be anything. It knows nothing of a daily wave: give it a window of whole days or of well under one, and money
that follows the clock goes to `budget_forecast`.
"""

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np

from app.analysis.batch_means import effective_points
from app.analysis.evidence import CONFIDENCE, Estimate, NotEnough, too_few
from app.analysis.grid import FloatArray

Outcome = Literal["already", "reaches", "not within the horizon", "never at this rate"]

MIN_POINTS = 20
# Slopes of all pairs cost the square of this; medians of as many slices keep what a trend needs.
MAX_POINTS = 60
RESAMPLES = 200
# How far ahead a window may look, in its own lengths: the usual disk alert reads 6 h and looks 24 h ahead
# (node_exporter's mixin, NodeFilesystemSpaceFillingUp).
HORIZON_WINDOWS = 4.0
SEED = 20_240_601


@dataclass(frozen=True, slots=True)
class Trend:
    """Line level + slope (t - end_s) through a window. slopes, levels: float64[RESAMPLES], of the resampled
    lines. residuals: float64[points], from the line. Seconds; the series' unit; their quotient."""

    end_s: float
    window_s: float
    level: float
    slope: float
    levels: FloatArray
    slopes: FloatArray
    residuals: FloatArray

    def at(self, seconds_ahead: float, confidence: float = CONFIDENCE) -> Estimate:
        """Where a single point will lie: the lines' spread and the residuals' together."""
        lines = self.levels + self.slopes * seconds_ahead
        drawn = np.random.default_rng(SEED).choice(self.residuals, (20, len(lines)))
        value = self.level + self.slope * seconds_ahead
        low, high = central(lines + drawn, confidence)
        return Estimate(value, min(low, value), max(high, value))


@dataclass(frozen=True, slots=True)
class TimeToLimit:
    """seconds: from the window's end until the trend meets the limit, infinite where it does not, within
    `horizon_s` or at all; None with "already". chance: share of the resampled lines that meet it in time."""

    outcome: Outcome
    seconds: Estimate | None
    chance: float
    horizon_s: float


def fit_trend(times_s: FloatArray, values: FloatArray) -> Trend | NotEnough:
    """times_s: float64[points], ascending; values: float64[points], NaN where not known (skipped).

    Theil 1950 and Sen 1968: slope = median of (y_j - y_i) / (t_j - t_i), level = median of y - slope t. The
    interval comes from refitting the line to itself plus redrawn residuals (Efron and Tibshirani 1993, 9.4).
    Since neighbours are alike, the refitted lines are then spread by sqrt(n / effective points); drawing
    whole blocks instead held the truth less often. The seed is fixed: the same points give the same answer.
    """
    known = np.isfinite(values)
    times_s, values = times_s[known], values[known]
    if len(values) < MIN_POINTS:
        return too_few("points", len(values), MIN_POINTS)
    end_s, window_s = float(times_s[-1]), float(times_s[-1] - times_s[0])
    if not window_s > 0:
        return NotEnough("all points are of one moment")
    ahead, points = _thinned(times_s - end_s, values)
    count = len(points)
    slope, level = _lines(ahead, points[None, :])
    fitted = level[0] + slope[0] * ahead
    residuals = (points - fitted) * math.sqrt(count / (count - 2))
    spread = math.sqrt(count / effective_points(residuals - residuals.mean(), 2))
    drawn = np.random.default_rng(SEED).choice(residuals, (RESAMPLES, count))
    slopes, levels = _lines(ahead, fitted + drawn)
    return Trend(
        end_s=end_s,
        window_s=window_s,
        level=float(level[0]),
        slope=float(slope[0]),
        levels=level[0] + (levels - level[0]) * spread,
        slopes=slope[0] + (slopes - slope[0]) * spread,
        residuals=values - level[0] - slope[0] * (times_s - end_s),
    )


def time_to_limit(
    trend: Trend,
    limit: float,
    rising: bool = True,
    horizon_s: float | None = None,
    confidence: float = CONFIDENCE,
) -> TimeToLimit:
    """rising: the limit is an upper one (KV cache full), else a lower one (disk free, budget left).

    horizon_s: None and at most HORIZON_WINDOWS times the window; beyond it a line is a guess.
    """
    longest = HORIZON_WINDOWS * trend.window_s
    horizon = longest if horizon_s is None else min(horizon_s, longest)
    sign = 1.0 if rising else -1.0
    room = sign * (limit - trend.level)
    if room <= 0:
        return TimeToLimit("already", None, 1.0, horizon)
    crossings = _crossing(sign * (limit - trend.levels), sign * trend.slopes, horizon)
    wait = float(_crossing(np.array([room]), np.array([sign * trend.slope]), math.inf)[0])
    low, high = central(crossings, confidence)
    if math.isinf(wait):
        outcome: Outcome = "never at this rate"
    elif wait > horizon:
        outcome, wait = "not within the horizon", math.inf
    else:
        outcome = "reaches"
    return TimeToLimit(
        outcome=outcome,
        seconds=Estimate(wait, min(low, wait), max(high, wait)),
        chance=float(np.isfinite(crossings).mean()),
        horizon_s=horizon,
    )


def share_foreseen(times_s: FloatArray, values: FloatArray, confidence: float = CONFIDENCE) -> float | None:
    """How good was it lately? Of the last third's points, the share within the interval that the first two
    thirds foresaw; near `confidence` if the series goes on as it went. None where there are too few
    points."""
    known = np.isfinite(values)
    times_s, values = times_s[known], values[known]
    past = 2 * len(values) // 3
    trend = fit_trend(times_s[:past], values[:past])
    if isinstance(trend, NotEnough):
        return None
    seen = [
        (bounds := trend.at(time - trend.end_s, confidence)).low <= value <= bounds.high
        for time, value in zip(*_thinned(times_s[past:], values[past:]), strict=True)
    ]
    return float(np.mean(seen))


def _thinned(times_s: FloatArray, values: FloatArray) -> tuple[FloatArray, FloatArray]:
    """At most MAX_POINTS: the medians of slices of equally many points."""
    if len(values) <= MAX_POINTS:
        return times_s, values
    slices = np.array_split(np.arange(len(values)), MAX_POINTS)
    return (
        np.array([times_s[part].mean() for part in slices]),
        np.array([np.median(values[part]) for part in slices]),
    )


def _lines(times: FloatArray, rows: FloatArray) -> tuple[FloatArray, FloatArray]:
    """slope and level at time 0, float64[rows] each. rows: float64[rows, points]."""
    first, second = np.triu_indices(len(times), 1)
    apart = times[second] - times[first]
    first, second, apart = first[apart > 0], second[apart > 0], apart[apart > 0]
    slopes = np.median((rows[:, second] - rows[:, first]) / apart, axis=1)
    levels = np.median(rows - slopes[:, None] * times, axis=1)
    return slopes, levels


def _crossing(room: FloatArray, speed: FloatArray, horizon: float) -> FloatArray:
    """Seconds until room is used up at this speed, never below 0, infinite beyond the horizon."""
    with np.errstate(divide="ignore", invalid="ignore"):
        wait = np.where(speed > 0, np.maximum(room, 0.0) / speed, np.inf)
    late: FloatArray = np.where(wait > horizon, np.inf, wait)
    return late


def central(values: FloatArray, confidence: float) -> tuple[float, float]:
    """The middle `confidence` of values, by order, since infinity cannot be averaged."""
    tail = (1 - confidence) / 2
    low = np.quantile(values, tail, method="lower")
    high = np.quantile(values, 1 - tail, method="higher")
    return float(low), float(high)
