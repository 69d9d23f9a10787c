"""Histograms of many simulated servers at once: a row of buckets for each."""

from collections.abc import Sequence

import numpy as np

from db.nan import BoolArray, FloatArray, IntArray

_TOKEN_SPREAD = 0.22  # of the logarithm of the time between two tokens, about its mean


class Histograms:
    """One histogram family: `rows` of them with the same edges (upper bounds, ascending, +Inf left out)."""

    def __init__(self, rows: int, edges: Sequence[float]) -> None:
        self.edges = tuple(edges)
        self._bounds = np.array(edges, dtype=np.float64)
        self._log_bounds = np.log(self._bounds)
        self._counts = np.zeros((rows, len(edges) + 1))
        # Counted apart: fractions that add up to a whole number do so only nearly.
        self._totals = np.zeros(rows)
        self.sums = np.zeros(rows)

    def observe(self, rows: IntArray, values: FloatArray | IntArray) -> None:
        """One observation each."""
        if not len(rows):
            return
        width = self._counts.shape[1]
        flat = rows * width + np.searchsorted(self._bounds, values)  # an edge belongs to the bucket it ends
        self._counts += np.bincount(flat, minlength=self._counts.size).reshape(self._counts.shape)
        self._totals += np.bincount(rows, minlength=len(self.sums))
        self.sums += np.bincount(rows, weights=values, minlength=len(self.sums))

    def observe_equal(self, counts: FloatArray, values: FloatArray) -> None:
        """To each row so many observations of one value; counts may have a fraction."""
        rows = np.flatnonzero(counts > 0)
        self._counts[rows, np.searchsorted(self._bounds, values[rows])] += counts[rows]
        self._totals[rows] += counts[rows]
        self.sums[rows] += counts[rows] * values[rows]

    def observe_spread(self, counts: FloatArray, means: FloatArray) -> None:
        """To each row so many observations around a mean: log-logistic, near enough to a log-normal."""
        rows = np.flatnonzero(counts > 0)
        if not len(rows):
            return
        distance = self._log_bounds - np.log(means[rows])[:, None]
        below = 1.0 / (1.0 + np.exp(np.clip(-1.7 * distance / _TOKEN_SPREAD, -60, 60)))
        share = np.diff(below, axis=1, prepend=0.0, append=1.0)
        self._counts[rows] += counts[rows, None] * share
        self._totals[rows] += counts[rows]
        self.sums[rows] += counts[rows] * means[rows]

    def cumulative(self) -> FloatArray:
        """Whole numbers, as a page shows them: rows x (edges and +Inf)."""
        totals = np.floor(self._totals)[:, None]
        whole: FloatArray = np.minimum(np.floor(np.cumsum(self._counts, axis=1)), totals)
        whole[:, -1:] = totals
        return whole

    def reset(self, rows: BoolArray) -> None:
        self._counts[rows] = 0.0
        self._totals[rows] = 0.0
        self.sums[rows] = 0.0
