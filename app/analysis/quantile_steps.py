"""Quantiles of cumulative buckets over many steps at once, each with what is known about it: the vectorised
form of `app.analysis.quantiles`."""

from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]
SignArray = npt.NDArray[np.int8]

BELOW: Final = -1
EXACT: Final = 0
ABOVE: Final = 1


@dataclass(frozen=True, slots=True, eq=False)
class QuantileSteps:
    """values: float64[steps], in the edges' unit, NaN without observations. bounds: int8[steps], BELOW where
    the quantile is at most the value, ABOVE where it is at least that, EXACT (interpolated) elsewhere.
    observations: float64[steps], in the unit of the counts."""

    values: FloatArray
    bounds: SignArray
    observations: FloatArray


def bucket_quantile_steps(quantile: float, edges: FloatArray, counts: FloatArray) -> QuantileSteps:
    """The quantile, 0 to 1, at each step.

    edges: float64[buckets], ascending, the last one infinite. counts: float64[buckets, steps], cumulative;
    NaN is none. Interpolated within a bucket as Prometheus does (promql/quantile.go, bucketQuantile).
    """
    steps = counts.shape[1]
    if len(edges) < 2 or not np.isposinf(edges[-1]):
        nothing = np.full(steps, np.nan)
        return QuantileSteps(nothing, np.zeros(steps, dtype=np.int8), np.zeros(steps))
    counts = np.maximum.accumulate(np.nan_to_num(counts), axis=0)
    total = counts[-1]
    rank = quantile * total
    bucket = (counts[:-1] < rank).sum(axis=0)
    at = np.arange(steps)
    first, last = bucket == 0, bucket == len(edges) - 1
    inner = np.clip(bucket, 1, len(edges) - 2) if len(edges) > 2 else np.zeros(steps, dtype=np.int64)
    before = np.maximum(inner - 1, 0)
    below, upto = counts[before, at], counts[inner, at]
    with np.errstate(invalid="ignore", divide="ignore"):
        share = (rank - below) / (upto - below)
        values = edges[before] + (edges[inner] - edges[before]) * share
    values = np.where(first, edges[0], np.where(last, edges[-2], values))
    values = np.where(total > 0, values, np.nan)
    bounds = np.where(total > 0, np.where(last, ABOVE, np.where(first, BELOW, EXACT)), EXACT)
    return QuantileSteps(values, bounds.astype(np.int8), total)
