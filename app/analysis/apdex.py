"""Apdex from latency buckets: how content callers are, 0 to 1, and at which edges that was read.

Buckets know how many requests took at most 0.25 s or 0.5 s, not 0.4 s: T and 4T move to the nearest edges,
the result names them, and bounds say what the score at the T asked for can be at all.
"""

import math
from dataclasses import dataclass
from typing import Literal

from app.analysis.buckets import Buckets, count_at_most, nearest_edge
from app.analysis.evidence import NotEnough

Rating = Literal["excellent", "good", "fair", "poor", "unacceptable"]

# Apdex Technical Specification 1.1: fewer samples than this are a "small group", shown with a mark.
SMALL_GROUP = 100
# The same. Down from the best, each with the least score (rounded to two places) that earns it.
RATINGS: tuple[tuple[float, Rating], ...] = (
    (0.94, "excellent"),
    (0.85, "good"),
    (0.70, "fair"),
    (0.50, "poor"),
    (0.0, "unacceptable"),
)


@dataclass(frozen=True, slots=True)
class Apdex:
    """score: at the edges used. low, high: what it lies between at the T asked for. satisfied_edge,
    tolerating_edge: upper edges read in place of T and 4T, in the buckets' unit. samples: with the failed."""

    score: float
    low: float
    high: float
    satisfied_edge: float
    tolerating_edge: float
    samples: float

    @property
    def small_group(self) -> bool:
        return self.samples < SMALL_GROUP

    @property
    def rating(self) -> Rating:
        rounded = math.floor(self.score * 100 + 0.5 + 1e-9) / 100
        return next(word for least, word in RATINGS if rounded >= least)


def apdex(target: float, buckets: Buckets, failed: float = 0.0) -> Apdex | NotEnough:
    """(satisfied + tolerating / 2) / samples: satisfied up to target, tolerating up to four times that.

    target: T, above 0, in the buckets' unit (seconds). failed: requests with an error that the buckets do not
    hold; they count as frustrated (the specification again).
    """
    if not target > 0:
        raise ValueError(f"the Apdex target must be above 0, not {target}")
    cumulative = buckets.cumulative()
    samples = float(cumulative[-1]) + max(failed, 0.0)
    if not samples > 0:
        return NotEnough("no requests")
    satisfied, tolerating = nearest_edge(target, buckets), nearest_edge(4 * target, buckets)
    at_most = [count_at_most(wanted, buckets) for wanted in (target, 4 * target)]
    return Apdex(
        score=float(cumulative[satisfied] + cumulative[tolerating]) / 2 / samples,
        low=sum(low for low, _ in at_most) / 2 / samples,
        high=sum(high for _, high in at_most) / 2 / samples,
        satisfied_edge=float(buckets.edges[satisfied]),
        tolerating_edge=float(buckets.edges[tolerating]),
        samples=samples,
    )
