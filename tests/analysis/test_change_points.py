import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.analysis.change_points import _best_split, _mid_ranks, change_points
from app.analysis.evidence import NotEnough


def levels(*parts, deviation=0.3, seed=1):
    """(level, points) after each other, with noise."""
    flat = np.concatenate([np.full(points, float(level)) for level, points in parts])
    return flat + np.random.default_rng(seed).normal(0, deviation, len(flat))


def autoregressive(correlation, points, random):
    series = random.standard_normal(points)
    series[1:] *= math.sqrt(1 - correlation**2)
    for at in range(1, points):
        series[at] += correlation * series[at - 1]
    return series


def test_one_change_where_by_how_much_and_how_clear():
    (found,) = change_points(levels((10, 150), (12, 100)))
    assert abs(found.index - 150) <= 1
    assert found.before == pytest.approx(10, abs=0.15)
    assert found.after == pytest.approx(12, abs=0.15)
    assert found.strength == pytest.approx(2 / 0.3, rel=0.25)


def test_several_changes_up_and_down_and_back():
    found = change_points(levels((5, 200), (8, 60), (5, 300), (4, 200), (6, 40)))
    assert [round(point.index, -1) for point in found] == [200, 260, 560, 760]
    assert [round(point.after) for point in found] == [8, 5, 4, 6]
    assert all(one.after == two.before for one, two in itertools.pairwise(found))


def test_a_change_among_the_newest_points():
    (found,) = change_points(levels((0, 500), (3, 10)))
    assert found.index == 500


def test_a_clean_step_is_infinitely_clear():
    (found,) = change_points(np.repeat([1.0, 2.0], 40))
    assert (found.index, found.before, found.after, found.strength) == (40, 1.0, 2.0, math.inf)


def test_gaps_are_skipped_and_the_index_is_the_callers():
    series = levels((10, 150), (12, 150))
    series[20:60] = np.nan
    series[140:160] = np.nan
    (found,) = change_points(series)
    assert found.index == 160


def test_spikes_however_high_are_no_change():
    series = levels((10, 400))
    series[[30, 31, 90, 200, 201, 202, 333]] = 1e9
    assert change_points(series) == ()
    moved = levels((10, 200), (12, 200))
    moved[[30, 31, 90, 222, 333]] = -1e9
    (found,) = change_points(moved)
    assert abs(found.index - 200) <= 1


def test_nothing_to_find():
    assert change_points(np.full(100, 7.0)) == ()
    assert change_points(levels((7, 500))) == ()


@pytest.mark.parametrize("correlation", [0.0, 0.6, 0.9])
def test_noise_rarely_has_a_change_even_if_neighbours_are_alike(correlation):
    random = np.random.default_rng(4)
    found = [change_points(autoregressive(correlation, 300, random)) for _ in range(80)]
    assert sum(points != () for points in found) <= 5


def test_a_queue_that_is_mostly_empty_and_then_is_not():
    random = np.random.default_rng(6)
    queue = np.where(random.random(500) < 0.1, 5.0, 0.0)
    assert change_points(queue) == ()
    queue[400:] += random.poisson(4, 100)
    (found,) = change_points(queue)
    assert abs(found.index - 400) <= 3


def test_a_shift_smaller_than_the_scatter_is_left_out():
    series = levels((10, 2000), (10.2, 2000))
    assert change_points(series) == ()
    (found,) = change_points(series, min_strength=0.3)
    assert abs(found.index - 2000) < 120


def test_too_few_points():
    series = np.full(60, np.nan)
    series[:19] = 1.0
    assert change_points(series) == NotEnough("19 of 20 points needed")


@settings(max_examples=40)
@given(st.integers(60, 160), st.integers(60, 160), st.floats(2, 50), st.integers(0, 10_000))
def test_shifting_and_stretching_the_series_moves_no_change(left, right, jump, seed):
    series = levels((0, left), (jump, right), seed=seed)
    plain, scaled = change_points(series), change_points(series * 1000 - 77)
    assert [point.index for point in plain] == [point.index for point in scaled]
    assert any(abs(point.index - left) <= 2 for point in plain)


def test_ten_thousand_points_with_several_changes():
    found = change_points(levels((0, 3000), (1, 2000), (0, 4000), (2, 1000)))
    assert [round(point.index, -2) for point in found] == [3000, 5000, 9000]


@given(st.lists(st.lists(st.integers(0, 4), min_size=6, max_size=6), min_size=1, max_size=4))
def test_mid_ranks_are_those_counted_by_hand(rows):
    windows = np.array(rows, dtype=np.int16)
    by_hand = [
        [sum(x < value for x in row) + (sum(x == value for x in row) + 1) / 2 for value in row]
        for row in rows
    ]
    assert _mid_ranks(windows).tolist() == by_hand


def test_the_best_split_is_mann_whitneys_z():
    window = np.array([[3, 1, 4, 1, 5, 9, 12, 16, 15, 13, 15, 18]], dtype=np.int16)
    z, left = _best_split(window)
    row = window[0].tolist()
    by_hand = {}
    for split in range(5, 8):
        wins = sum((y > x) + (y == x) / 2 for x in row[:split] for y in row[split:])
        ties = sum(row.count(value) ** 3 - row.count(value) for value in set(row))
        count, other = split, 12 - split
        variance = count * other / 12 * (13 - ties / (12 * 11))
        by_hand[split] = abs(wins - count * other / 2) / math.sqrt(variance)
    assert z[0] == pytest.approx(max(by_hand.values()))
    assert by_hand[int(left[0])] == max(by_hand.values())
