"""Service level objectives: share of good requests, error budget left, burn rate, and goodput.

Goodput is the share of requests that met *every* objective. Engines publish one histogram a metric and never
the joint one, so from them goodput is only known between two bounds, and both are told.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from app.analysis.buckets import Buckets, count_at_most
from app.analysis.evidence import Estimate, NotEnough
from app.analysis.grid import FloatArray


@dataclass(frozen=True, slots=True)
class Budget:
    """objective: share of requests that must be good. good_share: that was. allowed, spent: bad requests
    that the objective lets pass in this window, and those there were. left: share of the budget, 1 untouched,
    0 used up, negative overspent. burn_rate: 1 uses the budget up exactly at the period's end."""

    objective: float
    good_share: float
    allowed: float
    spent: float
    left: float
    burn_rate: float


def error_budget(bad: float, total: float, objective: float) -> Budget | NotEnough:
    """bad of total requests since the period (often 30 days) began; objective above 0 and below 1."""
    _check(objective)
    if not total > 0 or math.isnan(bad):
        return NotEnough("no requests")
    allowed = (1 - objective) * total
    return Budget(
        objective=objective,
        good_share=1 - bad / total,
        allowed=allowed,
        spent=bad,
        left=1 - bad / allowed,
        burn_rate=bad / allowed,
    )


def burn_rate(bad: FloatArray, total: FloatArray, objective: float) -> FloatArray:
    """float64, the shape of bad and total: (bad / total) / (1 - objective), NaN where there were no requests.

    Google's SRE Workbook, chapter 5: 14.4 over an hour spends 2 % of a 30-day budget.
    """
    _check(objective)
    with np.errstate(divide="ignore", invalid="ignore"):
        rate: FloatArray = np.where(total > 0, bad / total / (1 - objective), np.nan)
    return rate


def seconds_left(left: float, rate: float, period_seconds: float) -> float:
    """Until the budget is used up at this burn rate: infinite at a rate of zero, 0 where nothing is left.

    left: share of the budget, as in Budget; rate: its burn rate now, from a recent window.
    """
    if left <= 0:
        return 0.0
    return left * period_seconds / rate if rate > 0 else math.inf


def share_within(limit: float, buckets: Buckets, requests: float | None = None) -> Estimate | NotEnough:
    """Share of requests whose value was at most limit; value is told where limit is an edge, else bounds.

    requests: all there were, where some never got a value (a request that failed has no time to first token):
    those did not meet the objective. None: the histogram's own count.
    """
    low, high = count_at_most(limit, buckets)
    total = max(buckets.total(), requests or 0.0)
    if not total > 0:
        return NotEnough("no requests")
    return Estimate(low / total if low == high else None, low / total, high / total)


def goodput(shares: Sequence[Estimate]) -> Estimate:
    """Bounds of the share that met every objective; shares: of the requests that met each one.

    All must be of the same requests. Fréchet's bounds: at least sum(shares) - (k - 1), at most the least
    share; nothing narrower holds without the joint counts. value: where the two meet.
    """
    if not shares:
        raise ValueError("goodput needs at least one objective")
    low = max(1 - math.fsum(1 - share.low for share in shares), 0.0)
    high = max(min(share.high for share in shares), low)
    return Estimate(low if high == low else None, low, high)


def _check(objective: float) -> None:
    if not 0 < objective < 1:
        raise ValueError(f"an objective is a share above 0 and below 1 (0.999), not {objective}")
