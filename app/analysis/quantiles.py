"""Quantiles of cumulative buckets that say when they are only a bound.

Prometheus's histogram_quantile interpolates within the first bucket as if its values were spread from zero,
and answers the last finite edge for what lies above: both look like measurements and are none.
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]
Bound = Literal["", "below", "above"]


@dataclass(frozen=True, slots=True)
class Quantile:
    """value: in the edges' unit, NaN without observations. bound: "below": no more than value (it fell into
    the first bucket); "above": at least value (into the last). observations: the number they were told from,
    in the unit of the counts."""

    value: float
    bound: Bound
    observations: float


NOTHING = Quantile(float("nan"), "", 0.0)


def bucket_quantile(quantile: float, edges: FloatArray, counts: FloatArray) -> Quantile:
    """The quantile, 0 to 1, of cumulative buckets.

    edges: float64[buckets], upper edges, ascending, the last one infinite. counts: float64[buckets],
    observations up to each edge. Within a bucket values are taken as evenly spread, as Prometheus does
    (promql/quantile.go, bucketQuantile).
    """
    if len(edges) < 2 or not np.isposinf(edges[-1]):
        return NOTHING
    counts = np.maximum.accumulate(np.nan_to_num(counts))
    total = float(counts[-1])
    if not total > 0:
        return NOTHING
    rank = quantile * total
    # Never the last finite edge by a rounding error of the sum: Prometheus compares the same way.
    bucket = min(int(np.searchsorted(counts[:-1], rank)), len(edges) - 1)
    if bucket == len(edges) - 1:
        return Quantile(float(edges[-2]), "above", total)
    if bucket == 0:
        return Quantile(float(edges[0]), "below", total)
    start, end = float(edges[bucket - 1]), float(edges[bucket])
    below, inside = float(counts[bucket - 1]), float(counts[bucket] - counts[bucket - 1])
    return Quantile(start + (end - start) * (rank - below) / inside, "", total)
