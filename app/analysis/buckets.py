"""Classic histograms over one window, asked only what buckets know: counts at edges, and bounds in between.

`quantiles.bucket_quantile` draws a line within a bucket, as Prometheus does; that is right for a chart and
wrong for "is B slower than A", where the answer must not hang on where in a bucket nobody looked.
"""

import math
from dataclasses import dataclass

import numpy as np

from app.analysis.evidence import CONFIDENCE, Estimate, NotEnough, too_few
from app.analysis.grid import FloatArray

# Edges written as 0.30000000000000004 by one exporter and 0.3 by another are one edge.
EDGE_TOLERANCE = 1e-9


@dataclass(frozen=True, slots=True)
class Buckets:
    """A classic histogram over one window. edges: float64[buckets], upper, ascending, the last infinite;
    counts: float64[buckets], observations up to each edge in that window (an increase, not a rate).
    design_effect: see intervals.design_effect; floor: what no observation is below."""

    edges: FloatArray
    counts: FloatArray
    design_effect: float = 1.0
    floor: float = 0.0

    def __post_init__(self) -> None:
        if len(self.edges) != len(self.counts):
            raise ValueError(
                f"{len(self.edges)} bucket edges and {len(self.counts)} counts: give one per edge"
            )
        if len(self.edges) < 2 or not np.isposinf(self.edges[-1]) or not (np.diff(self.edges) > 0).all():
            raise ValueError("bucket edges must be at least two, ascending, and end in +Inf")

    def cumulative(self) -> FloatArray:
        """float64[buckets]: counts made non-decreasing, as rates of single buckets may not be."""
        filled: FloatArray = np.maximum.accumulate(np.maximum(np.nan_to_num(self.counts), 0.0))
        return filled

    def total(self) -> float:
        return float(self.cumulative()[-1])


def count_at_most(limit: float, buckets: Buckets) -> tuple[float, float]:
    """The least and the most observations that can be at or below limit: equal where it is an edge."""
    cumulative = buckets.cumulative()
    reaches = int(np.searchsorted(buckets.edges, limit * (1 - EDGE_TOLERANCE)))
    passed = int(np.searchsorted(buckets.edges, limit * (1 + EDGE_TOLERANCE), side="right"))
    low = float(cumulative[passed - 1]) if passed > 0 else 0.0
    return low, float(cumulative[min(reaches, len(cumulative) - 1)])


def nearest_edge(wanted: float, buckets: Buckets) -> int:
    """Index of the finite edge that is off by the smallest factor: 0.5 rather than 0.1 for 0.25."""
    finite = buckets.edges[:-1]
    with np.errstate(divide="ignore", invalid="ignore"):
        off = np.where(finite > 0, np.abs(np.log(finite / wanted)), np.inf)
    return int(np.argmin(off))


def quantile_bounds(
    quantile: float, buckets: Buckets, confidence: float = CONFIDENCE
) -> Estimate | NotEnough:
    """Edges between which the true quantile lies; value None, as buckets never know it.

    Distribution-free interval of order statistics (Hahn and Meeker 1991, 5.2): of n observations the number
    below the quantile is binomial (n, quantile), which gives two ranks; each is widened to its bucket's edge.
    Not enough data where even the largest (or smallest) of n observations is no bound:
    72 are needed for p95, 368 for p99.
    """
    if not 0 < quantile < 1:
        raise ValueError(f"a quantile lies between 0 and 1, not at {quantile}")
    cumulative = buckets.cumulative() / max(buckets.design_effect, 1.0)
    count = math.floor(cumulative[-1] + 1e-9)
    needed = observations_needed(quantile, confidence)
    if count < needed:
        return too_few("observations", count, needed)
    low_rank, high_rank = binomial_ranks(quantile, count, confidence)
    first = edge_below(buckets, int(np.searchsorted(cumulative, low_rank - 1e-9)))
    last = int(np.searchsorted(cumulative, high_rank - 1e-9))
    return Estimate(None, first, float(buckets.edges[min(last, len(cumulative) - 1)]))


def edge_below(buckets: Buckets, bucket: int) -> float:
    """The lower edge of a bucket: the floor for the first one, unless that bucket lies below the floor."""
    if bucket > 0:
        return float(buckets.edges[bucket - 1])
    return buckets.floor if buckets.edges[0] > buckets.floor else -math.inf


def observations_needed(quantile: float, confidence: float = CONFIDENCE) -> int:
    """The least n whose smallest and largest bound it: max(q, 1 - q)^n <= (1 - confidence) / 2."""
    return math.ceil(math.log((1 - confidence) / 2) / math.log(max(quantile, 1 - quantile)))


def binomial_ranks(quantile: float, count: int, confidence: float = CONFIDENCE) -> tuple[int, int]:
    """Ranks l < u, from 1, such that the quantile lies between the l-th and the u-th observation.

    Each side errs by (1-confidence)/2 at most: P(B < l) and P(B >= u), B binomial (count, quantile). Needs
    `observations_needed`.
    """
    tail = (1 - confidence) / 2
    middle, deviation = count * quantile, math.sqrt(count * quantile * (1 - quantile))
    # Beyond twelve deviations there is no mass a float could show.
    start = max(math.floor(middle - 12 * deviation - 12), 0)
    end = min(math.ceil(middle + 12 * deviation + 12), count)
    below = np.arange(start, end)
    steps = np.log((count - below) / (below + 1.0)) + math.log(quantile / (1 - quantile))
    logarithms = np.concatenate([np.zeros(1), np.cumsum(steps)])
    mass = np.exp(logarithms - logarithms.max())
    mass /= mass.sum()
    up_to, from_on = np.cumsum(mass), np.cumsum(mass[::-1])[::-1]
    low_rank = start + int(np.searchsorted(up_to, tail, side="right"))
    # from_on falls; the first entry at or below the tail.
    high_rank = start + int(np.count_nonzero(from_on > tail))
    return low_rank, high_rank
