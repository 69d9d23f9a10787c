import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.analysis.apdex import apdex
from app.analysis.buckets import Buckets
from app.analysis.evidence import NotEnough

EDGES = np.array([0.1, 0.25, 0.5, 1.0, 2.0, 5.0, math.inf])


def fill(observations):
    return Buckets(EDGES, np.array([(np.asarray(observations) <= edge).sum() for edge in EDGES], dtype=float))


def test_the_specifications_own_example():
    # 100 samples with a target of 3 s: 60 satisfied, 30 tolerating, 10 frustrated; 0.75.
    buckets = Buckets(np.array([3.0, 12.0, math.inf]), np.array([60.0, 90.0, 100.0]))
    found = apdex(3.0, buckets)
    assert found.score == found.low == found.high == 0.75
    assert (found.satisfied_edge, found.tolerating_edge) == (3.0, 12.0)
    assert found.rating == "fair"
    assert not found.small_group


def test_a_target_between_edges_says_which_were_read_and_what_it_could_be():
    found = apdex(0.4, fill([0.3] * 50 + [1.5] * 50))
    assert (found.satisfied_edge, found.tolerating_edge) == (0.5, 2.0)
    assert found.score == 0.75
    # At 0.4 none or all of the first fifty; at 1.6 none or all of the others.
    assert (found.low, found.high) == (0.25, 0.75)


def test_a_target_above_all_edges():
    found = apdex(40.0, fill([0.3] * 10 + [9.0] * 10))
    assert found.satisfied_edge == found.tolerating_edge == 5.0
    assert found.score == 0.5
    assert (found.low, found.high) == (0.5, 1.0)


def test_failed_requests_are_frustrated():
    found = apdex(0.5, fill([0.3] * 30), failed=10)
    assert found.score == 0.75
    assert found.samples == 40
    assert apdex(0.5, fill([]), failed=10).score == 0.0


def test_few_samples_are_marked_and_none_is_not_a_score():
    assert apdex(0.5, fill([0.3] * 99)).small_group
    assert not apdex(0.5, fill([0.3] * 100)).small_group
    assert apdex(0.5, fill([])) == NotEnough("no requests")


@pytest.mark.parametrize(
    ("good", "rating"),
    [
        (940, "excellent"),
        (935, "excellent"),
        (934, "good"),
        (850, "good"),
        (700, "fair"),
        (500, "poor"),
        (494, "unacceptable"),
    ],
)
def test_the_rating_is_that_of_the_score_in_two_places(good, rating):
    assert apdex(0.5, fill([0.3] * good + [9.0] * (1000 - good))).rating == rating


def test_a_target_of_zero_is_refused():
    with pytest.raises(ValueError, match="above 0"):
        apdex(0.0, fill([0.3]))


@given(st.lists(st.floats(0, 12), min_size=1, max_size=60), st.floats(0.05, 8))
def test_the_true_score_lies_within_the_bounds(observations, target):
    satisfied = sum(value <= target for value in observations)
    tolerating = sum(target < value <= 4 * target for value in observations)
    true = (satisfied + tolerating / 2) / len(observations)
    found = apdex(target, fill(observations))
    assert found.low - 1e-9 <= true <= found.high + 1e-9
    assert 0 <= found.score <= 1
