"""Two selections side by side: champion and challenger, two nodes, two weeks. By how much, and is it chance?

Every function takes a (the reference) and b, answers b - a and b / a with intervals, and says "not enough
data" instead of a number it could not stand behind. Which one to use:

- `compare_means`: a gauge, two windows or two independent things
- `compare_paired_means`: a gauge at the same times on both sides (two nodes under one load, hour by hour
  against last week); what moves both, the daily wave first, drops out
- `compare_shares`: x of n (errors of requests, thumbs up of all thumbs)
- `compare_rates`: events per exposure without an upper limit (preemptions per request, XIDs per GPU-hour)
- `compare_quantiles`: p95 of histogram buckets, bounds only
"""

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np

from app.analysis.batch_means import SeriesMean, series_mean
from app.analysis.buckets import Buckets, quantile_bounds
from app.analysis.evidence import CONFIDENCE, Estimate, NotEnough, too_few
from app.analysis.grid import FloatArray
from app.analysis.intervals import difference, poisson_rate, ratio, wilson

Verdict = Literal["higher", "lower", "no difference shown"]

# Newcombe 1998 tried his interval from 5 trials a side; twice that here.
MIN_TRIALS = 10
# With five events in all, even all on one side of equal exposures is chance at 95 %: 2 x 0.5^5 = 0.06.
MIN_EVENTS = 6
NO_DATA = NotEnough("one side has no data")


@dataclass(frozen=True, slots=True)
class Comparison:
    """a, b: each side with its interval. difference: b - a, in their unit; None where only the ratio is told.
    ratio: b / a; None where a is zero or may be negative. observations: points, trials or events a side."""

    a: Estimate
    b: Estimate
    difference: Estimate | None
    ratio: Estimate | None
    observations_a: float
    observations_b: float

    @property
    def verdict(self) -> Verdict:
        """Of b against a; the difference decides, the ratio only where there is none."""
        low, high = 0.0, 0.0
        if self.difference is not None:
            low, high = self.difference.low, self.difference.high
        elif self.ratio is not None:
            low, high = self.ratio.low - 1, self.ratio.high - 1
        return "higher" if low > 0 else "lower" if high < 0 else "no difference shown"


@dataclass(frozen=True, slots=True)
class Counts:
    """events: of `exposure` trials, requests or GPU-hours; neither must be whole. design_effect: see
    intervals.design_effect; 1 only where events are independent of each other."""

    events: float
    exposure: float
    design_effect: float = 1.0


def compare_means(a: FloatArray, b: FloatArray, confidence: float = CONFIDENCE) -> Comparison | NotEnough:
    """a: float64[m], b: float64[n], in time order, evenly spaced, NaN where not known. By batch means."""
    mean_a, mean_b = series_mean(a), series_mean(b)
    if isinstance(mean_a, NotEnough):
        return mean_a
    if isinstance(mean_b, NotEnough):
        return mean_b
    return _of_means(mean_a, mean_b, confidence)


def _of_means(mean_a: SeriesMean, mean_b: SeriesMean, confidence: float) -> Comparison:
    side_a, side_b = mean_a.estimate(confidence), mean_b.estimate(confidence)
    return Comparison(
        a=side_a,
        b=side_b,
        difference=difference(side_a, side_b),
        # An interval that reaches below zero belongs to something that may be negative: no ratio of that.
        ratio=ratio(side_a, side_b) if side_a.low > 0 and side_b.low > 0 else None,
        observations_a=mean_a.points,
        observations_b=mean_b.points,
    )


def compare_paired_means(
    a: FloatArray, b: FloatArray, confidence: float = CONFIDENCE
) -> Comparison | NotEnough:
    """a, b: float64[points] at the same times; a time where either is NaN is left out.

    The difference is the mean of b - a. The ratio is the geometric mean of b / a, where both are positive
    throughout: it holds where load scales both sides, and there the plain difference often still moves.
    """
    if len(a) != len(b):
        raise ValueError(f"paired series must be of one length, not {len(a)} and {len(b)} points")
    known = np.isfinite(a) & np.isfinite(b)
    a, b = a[known], b[known]
    apart = series_mean(b - a)
    positive = len(a) > 0 and bool((a > 0).all() and (b > 0).all())
    factor = series_mean(np.log(b) - np.log(a)) if positive else apart
    if isinstance(apart, NotEnough) and isinstance(factor, NotEnough):
        return apart
    by_factor = None
    if positive and not isinstance(factor, NotEnough):
        log = factor.estimate(confidence)
        by_factor = Estimate(float(np.exp(factor.mean)), float(np.exp(log.low)), float(np.exp(log.high)))
    mean_a, mean_b = float(a.mean()), float(b.mean())
    return Comparison(
        # Of these very times, so without an interval of their own.
        a=Estimate(mean_a, mean_a, mean_a),
        b=Estimate(mean_b, mean_b, mean_b),
        difference=None if isinstance(apart, NotEnough) else apart.estimate(confidence),
        ratio=by_factor,
        observations_a=len(a),
        observations_b=len(b),
    )


def compare_shares(a: Counts, b: Counts, confidence: float = CONFIDENCE) -> Comparison | NotEnough:
    """Shares of trials: each side by Wilson, their difference by Newcombe, both after the design effect."""
    sides = _independent(a), _independent(b)
    if not _known(sides):
        return NO_DATA
    fewest = min(side.exposure for side in sides)
    if not fewest >= MIN_TRIALS:
        return too_few("independent trials a side", fewest, MIN_TRIALS)
    first, second = (wilson(side.events, side.exposure, confidence) for side in sides)
    return Comparison(first, second, difference(first, second), ratio(first, second), a.exposure, b.exposure)


def compare_rates(a: Counts, b: Counts, confidence: float = CONFIDENCE) -> Comparison | NotEnough:
    """Events per unit of exposure: each side by the score interval of a Poisson rate."""
    sides = _independent(a), _independent(b)
    if not _known(sides):
        return NO_DATA
    if not min(side.exposure for side in sides) > 0:
        return NO_DATA
    events = sum(side.events for side in sides)
    if not events >= MIN_EVENTS:
        return too_few("events on both sides together", events, MIN_EVENTS)
    first, second = (poisson_rate(side.events, side.exposure, confidence) for side in sides)
    return Comparison(first, second, difference(first, second), ratio(first, second), a.events, b.events)


def _known(sides: tuple[Counts, Counts]) -> bool:
    return all(math.isfinite(side.events) and math.isfinite(side.exposure) for side in sides)


def _independent(side: Counts) -> Counts:
    """As many independent events as say the same (Rao and Scott 1992)."""
    effect = max(side.design_effect, 1.0)
    return Counts(side.events / effect, side.exposure / effect)


def compare_quantiles(
    quantile: float, a: Buckets, b: Buckets, confidence: float = CONFIDENCE
) -> Comparison | NotEnough:
    """Bounds of a quantile of two histograms, whose edges may differ; every value is None.

    Each side errs with half of 1 - confidence (Bonferroni), so that the difference of the bounds holds with
    `confidence`, whether the two are independent or not (client-seen against engine-seen latency).
    """
    each = 1 - (1 - confidence) / 2
    side_a, side_b = quantile_bounds(quantile, a, each), quantile_bounds(quantile, b, each)
    if isinstance(side_a, NotEnough):
        return side_a
    if isinstance(side_b, NotEnough):
        return side_b
    quotient = None
    if side_a.low >= 0 and side_b.low >= 0 and side_a.high > 0:
        low = side_b.low / side_a.high
        quotient = Estimate(None, low, side_b.high / side_a.low if side_a.low > 0 else float("inf"))
    return Comparison(
        a=side_a,
        b=side_b,
        difference=Estimate(None, side_b.low - side_a.high, side_b.high - side_a.low),
        ratio=quotient,
        observations_a=a.total(),
        observations_b=b.total(),
    )
