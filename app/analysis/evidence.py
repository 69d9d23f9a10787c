"""What a statistic may answer: a number with its interval, or plainly that there was too little to tell.

A page draws the two differently, so "not enough data" is a value of its own and never a NaN or a zero.
"""

from dataclasses import dataclass

# The share of such intervals that hold the true value; the convention of every method cited in this package.
CONFIDENCE = 0.95


@dataclass(frozen=True, slots=True)
class Estimate:
    """low <= value <= high, in the unit of what was measured; low and high may be infinite. value: None where
    only the bounds are known (a quantile of buckets)."""

    value: float | None
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class NotEnough:
    """reason: what is missing, as one clause for the page ("12 of 72 requests needed")."""

    reason: str


def too_few(what: str, have: float, need: float) -> NotEnough:
    return NotEnough(f"{have:,.0f} of {need:,.0f} {what} needed")
