"""Intervals in closed form for shares, rates of counts, their differences and their ratios.

Score intervals throughout: unlike "estimate plus or minus two standard errors" they hold at 0 of 50 and at
50 of 50, which is where the error ratio of a healthy service lies.
"""

import math
from statistics import NormalDist

import numpy as np

from app.analysis.evidence import CONFIDENCE, Estimate
from app.analysis.grid import FloatArray


def normal_quantile(confidence: float = CONFIDENCE) -> float:
    """z so that a standard normal lies within -z..z with this probability; 1.96 for 0.95."""
    return NormalDist().inv_cdf((1 + confidence) / 2)


def student_quantile(degrees: float, confidence: float = CONFIDENCE) -> float:
    """The same for Student's t. Abramowitz and Stegun 26.7.5; within 0.001 from 5 degrees of freedom on."""
    z = normal_quantile(confidence)
    terms = (
        (z**3 + z) / 4,
        (5 * z**5 + 16 * z**3 + 3 * z) / 96,
        (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384,
        (79 * z**9 + 776 * z**7 + 1482 * z**5 - 1920 * z**3 - 945 * z) / 92160,
    )
    return z + sum(term / degrees**power for power, term in enumerate(terms, start=1))


def wilson(hits: float, trials: float, confidence: float = CONFIDENCE) -> Estimate:
    """The share hits / trials, 0 to 1; trials above 0.

    Wilson 1927: (p + z²/2n +- z sqrt(p(1-p)/n + z²/4n²)) / (1 + z²/n). Neither needs to be whole:
    Prometheus's increase() is not.
    """
    z2 = normal_quantile(confidence) ** 2
    share = min(max(hits / trials, 0.0), 1.0)
    middle = share + z2 / (2 * trials)
    half = math.sqrt(z2 * (share * (1 - share) / trials + z2 / (4 * trials**2)))
    scale = 1 + z2 / trials
    # At 0 and at 1 the end is the share itself; only rounding says otherwise.
    low, high = (middle - half) / scale, (middle + half) / scale
    return Estimate(share, min(max(low, 0.0), share), max(min(high, 1.0), share))


def poisson_rate(events: float, exposure: float, confidence: float = CONFIDENCE) -> Estimate:
    """Events per unit of exposure (requests, GPU-hours); exposure above 0.

    The score interval: (x + z²/2 +- z sqrt(x + z²/4)) / exposure.
    """
    z2 = normal_quantile(confidence) ** 2
    half = math.sqrt(z2 * (events + z2 / 4))
    low, high = (events + z2 / 2 - half) / exposure, (events + z2 / 2 + half) / exposure
    rate = events / exposure
    return Estimate(rate, min(max(low, 0.0), rate), high)


def difference(a: Estimate, b: Estimate) -> Estimate:
    """b - a of two independent estimates, from their own intervals.

    Newcombe 1998 (method 10) for shares; Zou and Donner 2008 ("MOVER") for anything else. NaN without values.
    """
    if a.value is None or b.value is None:
        return Estimate(None, math.nan, math.nan)
    value = b.value - a.value
    return Estimate(
        value,
        value - math.hypot(b.value - b.low, a.high - a.value),
        value + math.hypot(b.high - b.value, a.value - a.low),
    )


def ratio(a: Estimate, b: Estimate) -> Estimate | None:
    """b / a of two independent estimates that cannot be negative; None where a is zero.

    Donner and Zou 2012 (MOVER for ratios), its lower end multiplied out so that nothing divides by zero. It
    leaves 1 out exactly when `difference` leaves 0 out. high: infinite where a's interval reaches zero.
    """
    if a.value is None or b.value is None or not a.value > 0:
        return None
    product = a.value * b.value
    numerator, other = b.low * (2 * b.value - b.low), a.high * (2 * a.value - a.high)
    below = product + math.sqrt(max(product**2 - numerator * other, 0.0))
    low = numerator / below if below > 0 else 0.0
    numerator, other = b.high * (2 * b.value - b.high), a.low * (2 * a.value - a.low)
    above = product + math.sqrt(max(product**2 - numerator * other, 0.0))
    return Estimate(b.value / a.value, low, above / other if other > 0 else math.inf)


def design_effect(events: FloatArray, exposure: FloatArray, most: float = 1.0) -> float:
    """How many times wider the variance of sum(events) / sum(exposure) is than if events were independent.

    float64[intervals] each, NaN where not known; one interval should be longer than an outage usually lasts.
    most: events one unit of exposure can have, 1 for shares, infinite for counts without a limit.
    Errors come in bursts: 900 failures of one bad minute are one piece of evidence, not 900. Rao and Scott
    1992: divide events and exposure by this number, then use any method made for independent ones. Never
    below 1; 1 where fewer than two intervals are known.
    """
    known = ~(np.isnan(events) | np.isnan(exposure)) & (exposure > 0)
    count = int(known.sum())
    events, exposure = events[known], exposure[known]
    total = float(exposure.sum())
    if count < 2 or not 0 < (rate := float(events.sum()) / total) < most:
        return 1.0
    observed = count / (count - 1) * float(((events - exposure * rate) ** 2).sum())
    expected = total * rate * (1 - rate / most)
    return max(observed / expected, 1.0)
