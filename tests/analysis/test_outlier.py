import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.analysis.evidence import NotEnough
from app.analysis.outlier import MAD_CORRECTION, find_outliers, threshold_of, typical_level

NAN = math.nan


def test_which_one_and_by_how_much():
    found = find_outliers(np.array([1980.0, 1975, 1985, 1978, 1210, 1982, 1979, 1981]))
    (slow,) = found.outliers
    assert slow.index == 4
    assert slow.value == 1210
    assert slow.difference == pytest.approx(1210 - found.median)
    assert slow.ratio == pytest.approx(0.611, abs=0.001)
    assert slow.z < -100
    assert (found.peers, found.median) == (8, 1979.5)


def test_scale_by_hand():
    # Median 4, distances 3 2 0 1 6 -> MAD 2; 1.4826 x 1.206 x 2.
    found = find_outliers(np.array([1.0, 2, 4, 5, 10]))
    assert found.scale == pytest.approx(2 * 1.4826 * 1.206)
    assert found.outliers == ()


def test_the_oddest_comes_first_and_several_are_found():
    found = find_outliers(np.array([10.0, 11, 10, 9, 10.5, 9.5, 30, 60]))
    assert [outlier.index for outlier in found.outliers] == [7, 6]


def test_identical_peers_leave_no_doubt():
    (slow,) = find_outliers(np.array([100.0, 100, 100, 50])).outliers
    assert (slow.index, slow.z) == (3, -math.inf)
    assert find_outliers(np.full(5, 100.0)).outliers == ()


def test_what_is_odd_but_does_not_matter_is_left_alone():
    clocks = np.array([1980.0, 1980, 1980, 1980, 1965])
    assert find_outliers(clocks).outliers == ()
    assert [outlier.index for outlier in find_outliers(clocks, least_ratio=0.005).outliers] == [4]
    queue = np.array([0.0, 0, 0, 0, 1])
    assert [outlier.ratio for outlier in find_outliers(queue).outliers] == [None]
    assert find_outliers(queue, least_difference=5).outliers == ()


def test_three_cannot_tell_who_is_odd():
    assert find_outliers(np.array([1.0, 1, 9])) == NotEnough("3 of 4 peers needed")
    assert find_outliers(np.array([1.0, NAN, 1, NAN, 9])) == NotEnough("3 of 4 peers needed")


def test_members_without_data_keep_their_place():
    found = find_outliers(np.array([NAN, 5.0, 5.1, NAN, 4.9, 5.0, 9.0]))
    assert [outlier.index for outlier in found.outliers] == [6]
    assert found.peers == 5


@pytest.mark.parametrize("members", [4, 5, 6, 7, 8, 9, 10, 11, 13, 16, 22, 31, 32, 100])
def test_one_of_a_hundred_healthy_groups_has_an_outlier(members):
    random = np.random.default_rng(members)
    groups = random.normal(1000, 1, (60_000 if members < 32 else 15_000, members))
    away = np.abs(groups - np.median(groups, axis=1, keepdims=True))
    correction = MAD_CORRECTION.get(members, members / (members - 0.8))
    z = away.max(axis=1) / (np.median(away, axis=1) * 1.4826 * correction)
    assert 0.003 < (z > threshold_of(members)).mean() < 0.0125


@pytest.mark.parametrize("members", [4, 5, 6, 7, 8, 9, 12])
def test_the_scale_is_that_of_a_normal_population_on_average(members):
    random = np.random.default_rng(members)
    scales = [find_outliers(group, least_ratio=0).scale for group in random.normal(50, 3, (1500, members))]
    assert np.mean(scales) == pytest.approx(3, rel=0.05)


def test_a_bad_minority_hides_nobody():
    values = np.array([10.0, 10.2, 9.8, 10.1, 9.9, 10.0, 99, 98, 97])
    found = find_outliers(values)
    assert sorted(outlier.index for outlier in found.outliers) == [6, 7, 8]


@given(st.lists(st.integers(-1000, 1000), min_size=4, max_size=20), st.randoms())
def test_order_of_the_peers_is_nothing(values, random):
    order = list(range(len(values)))
    random.shuffle(order)
    plain = find_outliers(np.array(values, dtype=float))
    mixed = find_outliers(np.array([values[at] for at in order], dtype=float))
    assert {outlier.index for outlier in plain.outliers} == {
        order[outlier.index] for outlier in mixed.outliers
    }


def test_load_that_moves_all_drops_out_and_so_does_a_hiccup():
    random = np.random.default_rng(2)
    load = 100 + 80 * np.sin(np.arange(200) / 20)
    matrix = load + random.normal(0, 1, (6, 200))
    matrix[3] += 25
    matrix[1, 50:60] += 500
    found = find_outliers(typical_level(matrix))
    assert [outlier.index for outlier in found.outliers] == [3]
    assert found.outliers[0].difference == pytest.approx(25, abs=1)


def test_steps_and_members_with_too_little_data_are_left_out():
    # The last step has three members known and says nothing; the last member is known at one step of three.
    matrix = np.array(
        [
            [1.0, 2.0, 3.0, 50.0],
            [1.0, 2.0, 3.0, 60.0],
            [1.0, 2.0, 3.0, 70.0],
            [7.0, 8.0, NAN, NAN],
            [1.0, NAN, 3.0, NAN],
            [9.0, NAN, NAN, NAN],
        ]
    )
    assert typical_level(matrix)[:5].tolist() == [2.0, 2.0, 2.0, 8.0, 2.0]
    assert np.isnan(typical_level(matrix)[5])
    assert np.isnan(typical_level(np.full((5, 3), NAN))).all()
    assert np.isnan(typical_level(np.ones((3, 9)))).all()
