"""The mean of a series whose neighbouring points are alike, with an honest standard error.

Points 15 s apart are nothing like independent draws: sd / sqrt(n) is too small by a factor of three to ten.
Means of long enough batches are nearly independent, and their spread is the error of the whole mean.
Batch means rather than a block bootstrap: no random numbers, and Student's t repays the few batches.
"""

import math
from dataclasses import dataclass

import numpy as np

from app.analysis.evidence import CONFIDENCE, Estimate, NotEnough, too_few
from app.analysis.grid import FloatArray
from app.analysis.intervals import normal_quantile, student_quantile

# Schmeiser 1982: with fewer than 10 batches the interval grows wide, more than 30 buy nothing.
BATCHES = (30, 20, 10)
# Two points a batch, else it says nothing of the correlation within.
MIN_POINTS = 20
# Worth fewer independent points, simulated intervals held the true mean in 40-80 % instead of 95 % of cases.
MIN_EFFECTIVE_POINTS = 15
# One-sided 20 % test that neighbouring batch means are alike (von Neumann 1941; Law and Carson 1979). Strict,
# because accepting correlated batches is the error that makes an interval too narrow.
ALIKE_Z = normal_quantile(0.6)

TOO_SLOW = NotEnough("the series moves too slowly for this window; take a longer one")


@dataclass(frozen=True, slots=True)
class SeriesMean:
    """mean, and its standard error, in the series' unit; batches: what the error was told from."""

    mean: float
    error: float
    batches: int
    points: int

    def estimate(self, confidence: float = CONFIDENCE) -> Estimate:
        half = student_quantile(self.batches - 1, confidence) * self.error
        return Estimate(self.mean, self.mean - half, self.mean + half)


def series_mean(values: FloatArray) -> SeriesMean | NotEnough:
    """values: float64[points] in time order, evenly spaced; NaN where not known (left out).

    Not enough data where the points are worth fewer than MIN_EFFECTIVE_POINTS independent ones, or where
    means of a tenth of the window still resemble their neighbours (a trend, a daily wave).
    """
    values = values[np.isfinite(values)]
    points = len(values)
    if points < MIN_POINTS:
        return too_few("points", points, MIN_POINTS)
    mean, spread = float(values.mean()), float(values.std(ddof=1))
    effective = effective_points(values - mean, 1)
    if effective < MIN_EFFECTIVE_POINTS:
        return TOO_SLOW
    for batches in BATCHES:
        length = points // batches
        if length < 2:
            continue
        # The oldest points that fill no batch are left out of the error, not of the mean.
        means = values[points - batches * length :].reshape(batches, length).mean(axis=1)
        if not _alike(means):
            by_batches = float(means.std(ddof=1)) / math.sqrt(batches)
            return SeriesMean(mean, max(by_batches, spread / math.sqrt(effective)), batches, points)
    return TOO_SLOW


def effective_points(away: FloatArray, fitted: int) -> float:
    """How many independent points say as much as these. away: float64[points], from a mean (fitted: 1) or
    from a line (fitted: 2).

    n (1 - f) / (1 + f), f the correlation of neighbours (AR(1); Priestley 1981, 5.3.2). Taking out what was
    fitted lowers f by (1 + 3f) / n or (2 + 4f) / n (Kendall 1954, Orcutt and Winokur 1969), which is put
    back. A negative f counts as zero.
    """
    points = len(away)
    total = float((away**2).sum())
    if not total > 0:
        return float(points)
    alike = float((away[1:] * away[:-1]).sum()) / total
    alike += (fitted + (fitted + 2) * alike) / points
    alike = min(max(alike, 0.0), 0.999)
    return points * (1 - alike) / (1 + alike)


def _alike(means: FloatArray) -> bool:
    """1 - von Neumann's ratio / 2 is the correlation of neighbours, its variance (k - 2) / (k² - 1)."""
    count = len(means)
    total = float(((means - means.mean()) ** 2).sum())
    if not total > 0:
        return False
    correlation = 1 - float((np.diff(means) ** 2).sum()) / (2 * total)
    return correlation > ALIKE_Z * math.sqrt((count - 2) / (count**2 - 1))
