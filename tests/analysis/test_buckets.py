"""Oracles: binomial sums in exact arithmetic, and raw observations that the buckets were made of."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.analysis.buckets import (
    Buckets,
    binomial_ranks,
    count_at_most,
    nearest_edge,
    observations_needed,
    quantile_bounds,
)
from app.analysis.evidence import Estimate, NotEnough

INF = math.inf
EDGES = np.array([0.1, 0.2, 0.5, 1.0, 2.0, 5.0, INF])


def fill(observations, edges=EDGES):
    return Buckets(edges, np.array([(np.asarray(observations) <= edge).sum() for edge in edges], dtype=float))


def exact_ranks(quantile, count):
    mass = [math.comb(count, k) * quantile**k * (1 - quantile) ** (count - k) for k in range(count + 1)]
    tail = Fraction(25, 1000)
    low = max(rank for rank in range(count + 1) if sum(mass[:rank]) <= tail)
    high = min(rank for rank in range(1, count + 2) if sum(mass[rank:]) <= tail)
    return low, high


@pytest.mark.parametrize("quantile", [Fraction(1, 2), Fraction(9, 10), Fraction(95, 100), Fraction(1, 20)])
@pytest.mark.parametrize("count", [73, 100, 137])
def test_ranks_are_the_exact_binomial_ones(quantile, count):
    assert binomial_ranks(float(quantile), count) == exact_ranks(quantile, count)


def test_ranks_of_the_median_are_the_published_ones():
    # Conover's table A3 / Hahn and Meeker: 95 % for the median of 20 lies between the 6th and the 15th.
    assert binomial_ranks(0.5, 20) == (6, 15)


def test_ranks_of_a_hundred_million_observations():
    low, high = binomial_ranks(0.99, 100_000_000)
    deviation = math.sqrt(1e8 * 0.99 * 0.01)
    assert low == pytest.approx(99_000_000 - 1.96 * deviation, abs=3)
    assert high == pytest.approx(99_000_000 + 1.96 * deviation, abs=3)


@pytest.mark.parametrize(("quantile", "needed"), [(0.5, 6), (0.9, 36), (0.95, 72), (0.99, 368), (0.05, 72)])
def test_observations_needed(quantile, needed):
    assert observations_needed(quantile) == needed
    low, high = binomial_ranks(quantile, needed)
    assert 1 <= low <= high <= needed
    low, high = binomial_ranks(quantile, needed - 1)
    assert low < 1 or high > needed - 1


def test_bounds_are_edges_and_there_is_no_value():
    found = quantile_bounds(0.5, fill([0.3] * 200))
    assert found == Estimate(None, 0.2, 0.5)


def test_the_first_and_the_last_bucket_are_open():
    assert quantile_bounds(0.5, fill([0.05] * 50)) == Estimate(None, 0.0, 0.1)
    assert quantile_bounds(0.5, fill([60.0] * 50)) == Estimate(None, 5.0, INF)
    below_zero = Buckets(np.array([-1.0, 1.0, INF]), np.array([50.0, 50.0, 50.0]))
    assert quantile_bounds(0.5, below_zero) == Estimate(None, -INF, -1.0)


def test_too_few_observations_say_so():
    assert quantile_bounds(0.95, fill([0.3] * 71)) == NotEnough("71 of 72 observations needed")
    alike = Buckets(EDGES, fill([0.3] * 200).counts, design_effect=4.0)
    assert quantile_bounds(0.95, alike) == NotEnough("50 of 72 observations needed")


def test_dependent_observations_widen_the_bounds():
    observations = np.concatenate([np.full(440, 0.3), np.full(560, 0.7)])
    # 440 of 1000 below 0.5: beyond 1.96 x 15.8 of the half; with a quarter of the evidence it is not.
    plain = fill(observations)
    assert quantile_bounds(0.5, plain) == Estimate(None, 0.5, 1.0)
    assert quantile_bounds(0.5, Buckets(EDGES, plain.counts, 10.0)) == Estimate(None, 0.2, 1.0)


def test_bounds_hold_the_true_quantile_at_least_as_often_as_they_say():
    random = np.random.default_rng(11)
    truth = math.exp(1.6448536)  # p95 of a standard lognormal
    edges = np.append(np.exp(np.linspace(-3, 5, 60)), INF)
    held = []
    for _ in range(300):
        found = quantile_bounds(0.95, fill(np.exp(random.standard_normal(200)), edges))
        held.append(found.low <= truth <= found.high)
    assert np.mean(held) > 0.94


@settings(max_examples=60)
@given(st.lists(st.floats(0.01, 20), min_size=80, max_size=150), st.sampled_from([0.1, 0.5, 0.9]))
def test_the_samples_own_quantile_lies_within_the_bounds(observations, quantile):
    found = quantile_bounds(quantile, fill(observations))
    own = sorted(observations)[math.ceil(quantile * len(observations)) - 1]
    assert found.low <= own <= found.high


@given(st.lists(st.floats(0, 10), min_size=1, max_size=50), st.floats(0, 10))
def test_count_at_most_holds_the_true_count(observations, limit):
    low, high = count_at_most(limit, fill(observations))
    assert low <= sum(value <= limit for value in observations) <= high


def test_count_at_most_is_exact_at_an_edge_however_it_was_written():
    edges = np.array([0.1 + 0.2, 1.0, INF])
    assert count_at_most(0.3, Buckets(edges, np.array([4.0, 6.0, 9.0]))) == (4.0, 4.0)
    assert count_at_most(7.0, Buckets(edges, np.array([4.0, 6.0, 9.0]))) == (6.0, 9.0)
    assert count_at_most(0.2, Buckets(edges, np.array([4.0, 6.0, 9.0]))) == (0.0, 4.0)


def test_nearest_edge_is_by_factor():
    assert EDGES[nearest_edge(0.35, fill([]))] == 0.5
    assert EDGES[nearest_edge(1000.0, fill([]))] == 5.0
    with_zero = Buckets(np.array([0.0, 1.0, INF]), np.zeros(3))
    assert nearest_edge(0.001, with_zero) == 1


def test_counts_that_fall_or_are_missing_are_mended():
    ragged = Buckets(np.array([1.0, 2.0, 3.0, INF]), np.array([5.0, 4.0, np.nan, 9.0]))
    assert ragged.cumulative().tolist() == [5.0, 5.0, 5.0, 9.0]


@pytest.mark.parametrize(
    ("edges", "counts", "says"),
    [
        ([1.0, INF], [1.0], "2 bucket edges and 1 counts"),
        ([1.0, 2.0], [1.0, 2.0], "end in"),
        ([2.0, 1.0, INF], [1.0, 2.0, 3.0], "ascending"),
        ([INF], [1.0], "at least two"),
    ],
)
def test_what_is_no_histogram_is_refused(edges, counts, says):
    with pytest.raises(ValueError, match=says):
        Buckets(np.array(edges), np.array(counts))


def test_a_quantile_beyond_the_ends_is_refused():
    with pytest.raises(ValueError, match="between 0 and 1"):
        quantile_bounds(1.0, fill([0.3] * 10))
