import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.analysis.buckets import Buckets
from app.analysis.drift import (
    Drift,
    chi_square_quantile,
    drift,
    jensen_shannon_distance,
    on_common_edges,
    population_stability_index,
)
from app.analysis.evidence import NotEnough

INF = math.inf


def histogram(edges, counts, **more):
    return Buckets(np.array([*edges, INF]), np.cumsum(np.array(counts, dtype=float)), **more)


def test_psi_is_the_sum_by_hand():
    before, after = np.array([50.0, 30.0, 20.0]), np.array([20.0, 30.0, 50.0])
    p = [50.5 / 101.5, 30.5 / 101.5, 20.5 / 101.5]
    by_hand = 2 * (p[0] - p[2]) * math.log(p[0] / p[2])
    assert population_stability_index(before, after) == pytest.approx(by_hand)
    # Without the pseudo-count, 0.5498: the textbook's formula, reached with ten thousand times the data.
    assert population_stability_index(before * 1e4, after * 1e4) == pytest.approx(
        2 * 0.3 * math.log(2.5), rel=1e-4
    )


def test_jensen_shannon_by_hand_and_at_its_ends():
    assert jensen_shannon_distance(np.array([1.0, 0.0]), np.array([0.0, 9.0])) == 1.0
    assert jensen_shannon_distance(np.array([1.0, 3.0]), np.array([2.0, 6.0])) == 0.0
    # p = (1, 0), q = (1/2, 1/2): half of log2(4/3), and half of (log2(2/3) / 2 + 1/2).
    by_hand = math.log2(4 / 3) / 2 + (math.log2(2 / 3) / 2 + 1 / 2) / 2
    found = jensen_shannon_distance(np.array([8.0, 0.0]), np.array([4.0, 4.0]))
    assert found == pytest.approx(math.sqrt(by_hand))


shares = st.lists(st.integers(0, 1000), min_size=4, max_size=4).filter(any)


@given(shares, shares, shares)
def test_both_measures_are_symmetric_and_jensen_shannon_is_a_metric(a, b, c):
    a, b, c = (np.array(counts, dtype=float) for counts in (a, b, c))
    assert population_stability_index(a, b) == pytest.approx(population_stability_index(b, a))
    assert population_stability_index(a, b) >= 0
    near = jensen_shannon_distance
    assert near(a, b) == pytest.approx(near(b, a))
    assert 0 <= near(a, b) <= 1
    assert near(a, c) <= near(a, b) + near(b, c) + 1e-7


@pytest.mark.parametrize(
    ("shift", "reading"), [(0, "stable"), (200, "stable"), (1500, "some drift"), (2500, "drift")]
)
def test_the_usual_reading(shift, reading):
    before = histogram([100, 1000], [5000, 3000, 2000])
    found = drift(before, histogram([100, 1000], [5000 - shift, 3000, 2000 + shift]))
    assert isinstance(found, Drift)
    assert found.reading == reading
    assert found.before.tolist() == [0.5, 0.3, 0.2]
    assert found.after.sum() == pytest.approx(1)
    assert found.edges.tolist() == [100, 1000, INF]


def test_edges_that_moved_with_an_upgrade_are_brought_together():
    before = histogram([1, 2, 5, 10], [10, 20, 30, 40, 50])
    after = histogram([2, 4, 10 * (1 + 1e-15)], [15, 25, 35, 45])
    edges, first, second = on_common_edges(before, after)
    assert edges.tolist() == [2, 10, INF]
    assert first.tolist() == [30, 70, 50]
    assert second.tolist() == [15, 60, 45]


def test_edges_with_nothing_in_common():
    found = drift(histogram([1, 2], [9, 9, 9]), histogram([3, 4], [9, 9, 9]))
    assert found == NotEnough("the two windows share no bucket edge")


def test_buckets_empty_in_one_window_give_no_infinity():
    found = drift(histogram([1, 2], [9000, 0, 0]), histogram([1, 2], [0, 0, 9000]))
    assert math.isfinite(found.psi)
    assert found.psi > 10
    assert found.js_distance == 1.0
    assert found.reading == "drift"
    # Empty in both: no bucket of its own, and the last one still ends nowhere.
    assert len(found.edges) == 2
    assert found.edges[-1] == INF


def test_buckets_empty_in_both_windows_change_nothing():
    plain = drift(histogram([1], [500, 700]), histogram([1], [700, 500]))
    padded = drift(histogram([0.5, 1, 2], [0, 500, 0, 700]), histogram([0.5, 1, 2], [0, 700, 0, 500]))
    assert padded.psi == plain.psi
    assert padded.chance == plain.chance


def test_everything_in_one_bucket_is_stable():
    found = drift(histogram([1, 2], [5000, 0, 0]), histogram([1, 2], [4000, 0, 0]))
    assert (found.psi, found.js_distance, found.reading) == (0.0, 0.0, "stable")
    assert found.edges.tolist() == [INF]


def test_an_empty_window_is_not_stable():
    found = drift(histogram([1], [0, 0]), histogram([1], [50, 50]))
    assert found == NotEnough("no observations in one of the windows")


def test_few_observations_are_not_enough_unless_the_drift_is_plain():
    few = histogram([1, 2, 4], [10, 10, 10, 10])
    found = drift(few, histogram([1, 2, 4], [8, 12, 9, 11]))
    # chi-square 7.81 with 3 degrees of freedom, (1/n + 1/n) x 7.81 < 0.1: 156.3.
    assert found == NotEnough("40 of 156 observations needed")
    assert drift(few, histogram([1, 2, 4], [0, 0, 1, 39])).reading == "drift"


def test_chance_is_what_psi_reaches_in_one_of_twenty_without_drift():
    random = np.random.default_rng(5)
    share = [0.1, 0.2, 0.3, 0.2, 0.1, 0.1]
    edges = [1, 2, 3, 4, 5]
    exceeded = []
    for _ in range(600):
        found = drift(
            histogram(edges, random.multinomial(2000, share)),
            histogram(edges, random.multinomial(3000, share)),
        )
        exceeded.append(found.psi > found.chance)
    assert 0.02 < np.mean(exceeded) < 0.08


def test_dependent_observations_raise_what_chance_can_do():
    plain = drift(histogram([1], [500, 500]), histogram([1], [500, 500]))
    alike = drift(histogram([1], [500, 500], design_effect=3), histogram([1], [500, 500], design_effect=3))
    assert alike.chance == pytest.approx(3 * plain.chance)


@pytest.mark.parametrize(
    ("degrees", "table", "within"),
    [(1, 3.841, 0.03), (3, 7.815, 0.006), (9, 16.919, 0.005), (30, 43.773, 0.005)],
)
def test_chi_square_is_the_tables(degrees, table, within):
    assert chi_square_quantile(degrees) == pytest.approx(table, rel=within)
