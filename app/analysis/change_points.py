"""When did this series change its level? Change points, with the level before and after.

Rank statistics over seeded intervals: a spike, however high, is one rank and fakes no change, no distribution
is assumed, and 10,000 points take some 50 ms. A level has to last for about ten points. A steady ramp is a
trend and gives none or a few steps; a daily wave may give several a day (compare with last week instead).
"""

import math
from dataclasses import dataclass

import numpy as np

from app.analysis.evidence import NotEnough, too_few
from app.analysis.grid import FloatArray, IntArray

MIN_POINTS = 20
# Shorter events are outliers, not levels.
MIN_SEGMENT = 5
# Interval lengths grow by this and start every half length (Kovács, Bühlmann, Li and Munk 2023).
GROWTH = 2.0
# A shift smaller than the usual scatter around the level is true, perhaps, and of no use.
MIN_STRENGTH = 1.0
# The neighbours' correlation is bounded so that a random walk does not need infinite evidence.
MAX_CORRELATION = 0.95
# Of squared differences the largest tenth is left out: changes and spikes live there.
TRIMMED = 0.1


@dataclass(frozen=True, slots=True)
class ChangePoint:
    """index: first point of the new level, in the series as given. before, after: medians of the levels, its
    unit. strength: |after - before| in robust standard deviations of the scatter within levels; infinite
    where there is no scatter."""

    index: int
    before: float
    after: float
    strength: float


def change_points(
    values: FloatArray, min_strength: float = MIN_STRENGTH
) -> tuple[ChangePoint, ...] | NotEnough:
    """values: float64[points], evenly spaced, NaN where not known (skipped). In time order; none is ().

    Within each interval the ranks left and right of a split are compared (Mann and Whitney), as z = |W| /
    sqrt(k (m - k) / m S²), S² the variance of the mid-ranks; the narrowest interval whose best split passes
    the threshold gives a change, intervals around it are dropped, and so on (Baranowski, Chen and Fryzlewicz
    2019, "narrowest over threshold"). Correlated neighbours raise the threshold by sqrt((1 + f) / (1 - f)).
    """
    known = np.flatnonzero(np.isfinite(values))
    if len(known) < MIN_POINTS:
        return too_few("points", len(known), MIN_POINTS)
    series = values[known]
    threshold = _threshold(len(series)) * _inflation(series)
    splits = _refined(series, _narrowest_first(series, threshold), threshold)
    while splits:
        found = _described(series, splits)
        weakest = min(range(len(found)), key=lambda at: found[at].strength)
        if found[weakest].strength >= min_strength:
            return tuple(
                ChangePoint(int(known[point.index]), point.before, point.after, point.strength)
                for point in found
            )
        del splits[weakest]
    return ()


def _threshold(points: int) -> float:
    """Of independent points, the best of all splits exceeds this in about 1 of 100 series; simulated."""
    return math.sqrt(2 * math.log(points)) + 0.6


def _inflation(series: FloatArray) -> float:
    """sqrt of the long-run variance over the plain one, of an AR(1).

    Its f is told from differences over one and two steps, var2 / var1 = 1 + f, which level changes do not
    touch (Chakar, Lebarbier, Lévy-Leduc and Robin 2017; by trimmed means here: medians fail on integers).
    """
    one, two = _trimmed_square(np.diff(series)), _trimmed_square(series[2:] - series[:-2])
    correlation = min(max(two / one - 1, 0.0), MAX_CORRELATION) if one > 0 else 0.0
    return math.sqrt((1 + correlation) / (1 - correlation))


def _trimmed_square(steps: FloatArray) -> float:
    squares = np.sort(steps**2)
    return float(squares[: max(int(len(squares) * (1 - TRIMMED)), 1)].mean())


def _narrowest_first(series: FloatArray, threshold: float) -> list[int]:
    """Splits in order, each the first point right of it."""
    starts, ends, splits = _candidates(series, threshold)
    chosen: list[int] = []
    while len(splits):
        split = int(splits[0])
        chosen.append(split)
        # Candidates come narrowest first.
        apart = (ends <= split) | (starts >= split)
        starts, ends, splits = starts[apart], ends[apart], splits[apart]
    return sorted(chosen)


def _candidates(series: FloatArray, threshold: float) -> tuple[IntArray, IntArray, IntArray]:
    """start, end (exclusive) and best split of each interval that passes, narrowest first, then clearest."""
    points = len(series)
    codes = np.unique(series, return_inverse=True)[1]
    # Small integers sort several times faster.
    codes = codes.astype(np.int16 if points < 2**15 else np.int32)
    rows: list[IntArray] = []
    # Two perfectly separate halves of m points reach z² = 3m/4; shorter intervals cannot pass.
    length = max(float(2 * MIN_SEGMENT), threshold**2 / 0.75)
    while length <= points * GROWTH:
        size = min(math.ceil(length), points)
        first = np.arange(0, points - size + 1, max(size // 2, 1))
        first = np.append(first, points - size) if first[-1] != points - size else first
        best, at = _best_split(codes[first[:, None] + np.arange(size)])
        passes = np.flatnonzero(best > threshold)
        passes = passes[np.argsort(-best[passes], kind="stable")]
        rows.append(np.stack([first[passes], first[passes] + size, first[passes] + at[passes]]))
        length *= GROWTH
    if not rows:
        return (np.empty(0, dtype=np.int64),) * 3
    start, end, split = np.concatenate(rows, axis=1)
    return start, end, split


def _best_split(windows: IntArray) -> tuple[FloatArray, IntArray]:
    """The largest z of each row, and how many points lie left of that split. windows: int[rows, m]."""
    rows, size = windows.shape
    ranks = _mid_ranks(windows) - (size + 1) / 2
    variance = (ranks**2).sum(axis=1, keepdims=True) / (size - 1)
    left = np.arange(MIN_SEGMENT, size - MIN_SEGMENT + 1)
    sums = np.abs(np.cumsum(ranks, axis=1)[:, left - 1])
    with np.errstate(invalid="ignore", divide="ignore"):
        z = np.where(variance > 0, sums / np.sqrt(left * (size - left) / size * variance), 0.0)
    at = np.argmax(z, axis=1)
    return z[np.arange(rows), at], left[at]


def _mid_ranks(windows: IntArray) -> FloatArray:
    """Ranks from 1 along each row, equal values sharing their mean: ranked once from each end."""
    size = windows.shape[1]
    place = np.arange(1, size + 1)
    forward = np.empty(windows.shape, dtype=np.int32)
    backward = np.empty(windows.shape, dtype=np.int32)
    order = np.argsort(windows, axis=1, kind="stable")
    np.put_along_axis(forward, order, np.broadcast_to(place, windows.shape), axis=1)
    order = size - 1 - np.argsort(windows[:, ::-1], axis=1, kind="stable")
    np.put_along_axis(backward, order, np.broadcast_to(place, windows.shape), axis=1)
    return (forward + backward) / 2


def _refined(series: FloatArray, splits: list[int], threshold: float) -> list[int]:
    """Each split found again between its neighbours, where more points tell; dropped if they no longer do."""
    kept: list[int] = []
    for number in range(len(splits)):
        start = kept[-1] if kept else 0
        end = splits[number + 1] if number + 1 < len(splits) else len(series)
        if end - start < 2 * MIN_SEGMENT:
            continue
        codes = np.unique(series[start:end], return_inverse=True)[1]
        best, left = _best_split(codes[None, :])
        if best[0] > threshold:
            kept.append(start + int(left[0]))
    return kept


def _described(series: FloatArray, splits: list[int]) -> list[ChangePoint]:
    levels = [np.median(part) for part in np.split(series, splits)]
    scatter = np.concatenate(
        [part - level for part, level in zip(np.split(series, splits), levels, strict=True)]
    )
    deviation = 1.4826 * float(np.median(np.abs(scatter)))
    if deviation == 0:
        # More than half of the points are exactly on their level (a queue mostly empty).
        deviation = float(np.abs(scatter).mean()) * math.sqrt(math.pi / 2)
    return [
        ChangePoint(
            index=split,
            before=float(before),
            after=float(after),
            strength=abs(float(after - before)) / deviation if deviation > 0 else _of_nothing(before, after),
        )
        for split, before, after in zip(splits, levels, levels[1:], strict=False)
    ]


def _of_nothing(before: float, after: float) -> float:
    return math.inf if before != after else 0.0
