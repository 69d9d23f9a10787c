"""Quantiles and fractions of classic histograms, many at once.

The arrays of all functions: bounds float64[buckets, histograms], ascending in each histogram and each only
once. counts float64[buckets, histograms, steps], cumulative. length int64[histograms]: how many of the
buckets a histogram has; behind them its last bucket is repeated. What is asked, q, lower, upper:
float64[histograms or 1, steps]. The results: float64[histograms, steps].
"""

from dataclasses import dataclass

import numpy as np

from db.nan import BoolArray, FloatArray, IntArray

# Counts that differ by less than this part of their sum are equal, apart from rounding.
# Source: prometheus/prometheus, promql/quantile.go, smallDeltaTolerance; util/almost/almost.go.
_TOLERANCE = 1e-12
_SMALLEST_NORMAL = float(np.finfo(np.float64).tiny)
_LARGEST = float(np.finfo(np.float64).max)


@dataclass(frozen=True, slots=True)
class Forced:
    """Where counts fell from a bucket to a larger one and were raised. where: bool[histograms, steps]. The
    least and the greatest bound at which they were, and by how much at most: float64[histograms, steps]."""

    where: BoolArray
    least: FloatArray
    greatest: FloatArray
    difference: FloatArray


def quantile(
    bounds: FloatArray, counts: FloatArray, length: IntArray, q: FloatArray
) -> tuple[FloatArray, Forced | None]:
    """The value below which the part q of the observations lies, by linear interpolation in a bucket; in the
    first bucket from 0, or its bound if that is not above 0; in the last one the bound before it.

    NaN where there are no observations, less than two buckets, no bucket of +Inf, or q is NaN; -Inf for
    q < 0, +Inf for q > 1.
    """
    with np.errstate(all="ignore"):
        counts, forced = _monotonic(bounds, counts)
        last = (length - 1)[:, None]
        total = counts[-1]
        rank = q * total
        found = _first_with(counts, rank, last)
        group, step = np.arange(counts.shape[1])[:, None], np.arange(counts.shape[2])[None]
        before = np.maximum(found - 1, 0)
        first = found == 0
        start = np.where(first, 0.0, bounds[before, group])
        below = np.where(first, 0.0, counts[before, group, step])
        end, inside = bounds[found, group], counts[found, group, step] - below
        values = start + (end - start) * ((rank - below) / inside)
    values = np.where(first & (end <= 0), end, values)
    values = np.where(found == last, bounds[np.maximum(last - 1, 0), group], values)
    infinite = _has_infinite(bounds)
    values = np.where(infinite & (last > 0) & (total != 0) & ~np.isnan(q), values, np.nan)
    values = np.where(q < 0, -np.inf, np.where(q > 1, np.inf, values))
    if forced is not None:
        where = forced.where & infinite & (q >= 0) & (q <= 1)
        forced = Forced(where, forced.least, forced.greatest, forced.difference) if where.any() else None
    return values, forced


def fraction(
    bounds: FloatArray, counts: FloatArray, length: IntArray, lower: FloatArray, upper: FloatArray
) -> FloatArray:
    """The part of the observations between lower and upper, by linear interpolation in a bucket.

    NaN where there are no observations, no bucket of +Inf, or a limit is NaN; 0 where lower >= upper.
    """
    total = counts[-1]
    with np.errstate(all="ignore"):
        values = (
            _observed_below(bounds, counts, length, upper) - _observed_below(bounds, counts, length, lower)
        ) / total
    values = np.where(lower >= upper, 0.0, values)
    unknown = ~_has_infinite(bounds) | (total == 0) | np.isnan(lower) | np.isnan(upper)
    return np.where(unknown, np.nan, values)


def _has_infinite(bounds: FloatArray) -> BoolArray:
    """bool[histograms, 1]"""
    found: BoolArray = (bounds[-1] == np.inf)[:, None]
    return found


def _observed_below(
    bounds: FloatArray, counts: FloatArray, length: IntArray, limit: FloatArray
) -> FloatArray:
    """How many observations are below a limit. A bucket without an end counts only as a whole."""
    found = (bounds[:, :, None] <= limit).sum(axis=0)
    group, step = np.arange(counts.shape[1])[:, None], np.arange(counts.shape[2])[None]
    first, beyond = found == 0, found >= length[:, None]
    found, before = np.minimum(found, (length - 1)[:, None]), np.maximum(found - 1, 0)
    start = np.where(first, np.where(bounds[0] <= 0, -np.inf, 0.0)[:, None], bounds[before, group])
    below = np.where(first, 0.0, counts[before, group, step])
    end, count = bounds[found, group], counts[found, group, step]
    inside = np.where(np.isneginf(start), count, below + (count - below) * (limit - start) / (end - start))
    rank = np.where(start >= limit, below, inside)
    rank = np.where(np.isneginf(limit), 0.0, rank)  # there may be a bucket up to -Inf
    return np.where(beyond | (rank > counts[-1]), counts[-1], rank)


def _first_with(counts: FloatArray, rank: FloatArray, last: IntArray) -> IntArray:
    """int64[histograms, steps]: the first bucket before `last` that counts so many, else `last`.

    It halves as Go's sort.Search does, so that among counts of NaN the same bucket is found.
    """
    group, step = np.arange(counts.shape[1])[:, None], np.arange(counts.shape[2])[None]
    low = np.zeros(rank.shape, dtype=np.int64)
    high = np.broadcast_to(last, rank.shape)
    while (is_open := low < high).any():
        middle = (low + high) >> 1
        enough = counts[middle, group, step] >= rank
        high = np.where(is_open & enough, middle, high)
        low = np.where(is_open & ~enough, middle + 1, low)
    return low


def _almost_equal(left: FloatArray, right: FloatArray) -> BoolArray:
    total, difference = np.abs(left) + np.abs(right), np.abs(left - right)
    small = (left == 0) | (right == 0) | (total < _SMALLEST_NORMAL)
    near = np.where(
        small,
        difference < _TOLERANCE * _SMALLEST_NORMAL,
        difference / np.minimum(total, _LARGEST) < _TOLERANCE,
    )
    found: BoolArray = near | (left == right) | (np.isnan(left) & np.isnan(right))
    return found


def _monotonic(bounds: FloatArray, counts: FloatArray) -> tuple[FloatArray, Forced | None]:
    """Counts that never fall: a difference as small as rounding makes it is removed silently, a count that
    falls is raised to the one before it, and said."""
    before, after = counts[:-1], counts[1:]
    rise = after - before
    # So large a rise is no rounding; what is smaller is looked at again below.
    rises = (rise >= _SMALLEST_NORMAL) & (rise * (0.1 / _TOLERANCE) > np.abs(before) + np.abs(after))
    rises |= after == before
    group, step = np.nonzero(~rises.all(axis=0))
    if not len(group):
        return counts, None
    # Only where something is to be done, bucket by bucket: what a count is compared with may itself change.
    chosen, limits = counts[:, group, step], bounds[:, group]
    forced = np.zeros(len(group), dtype=np.bool_)
    least, greatest = np.full(len(group), np.inf), np.full(len(group), -np.inf)
    difference = np.zeros(len(group))
    for place in range(1, len(chosen)):
        held, count, bound = chosen[place - 1], chosen[place], limits[place]
        near = _almost_equal(held, count)
        falls = ~near & (count < held)
        forced |= falls
        least = np.where(falls, np.minimum(least, bound), least)
        greatest = np.where(falls, np.maximum(greatest, bound), greatest)
        difference = np.where(falls, np.maximum(difference, held - count), difference)
        chosen[place] = np.where(near | falls, held, count)
    counts = counts.copy()
    counts[:, group, step] = chosen
    where = np.zeros(counts.shape[1:], dtype=np.bool_)
    where[group, step] = forced
    by = [np.zeros(where.shape) for _ in range(3)]
    for whole, some in zip(by, (least, greatest, difference), strict=True):
        whole[group, step] = some
    return counts, Forced(where, *by)
