import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.analysis.buckets import Buckets
from app.analysis.comparison import (
    Comparison,
    Counts,
    compare_means,
    compare_paired_means,
    compare_quantiles,
    compare_rates,
    compare_shares,
)
from app.analysis.evidence import Estimate, NotEnough

INF = math.inf
EDGES = np.array([0.1, 0.2, 0.5, 1.0, 2.0, 5.0, INF])


def noise(seed, points, level=0.0, deviation=1.0):
    return np.random.default_rng(seed).normal(level, deviation, points)


def fill(observations, edges=EDGES):
    return Buckets(edges, np.array([(np.asarray(observations) <= edge).sum() for edge in edges], dtype=float))


def test_means_by_how_much_and_in_which_direction():
    found = compare_means(noise(1, 300, 100.0), noise(2, 400, 110.0))
    assert isinstance(found, Comparison)
    assert found.difference.low < 10 < found.difference.high
    assert found.ratio.low < 1.1 < found.ratio.high
    assert found.verdict == "higher"
    assert (found.observations_a, found.observations_b) == (300, 400)
    assert compare_means(noise(2, 400, 110.0), noise(1, 300, 100.0)).verdict == "lower"


def test_equal_means_show_a_difference_about_as_rarely_as_they_should():
    verdicts = [compare_means(noise(seed, 100), noise(seed + 500, 100)) for seed in range(200)]
    told = [found.verdict for found in verdicts if isinstance(found, Comparison)]
    assert len(told) > 150
    assert np.mean([verdict != "no difference shown" for verdict in told]) < 0.08


def test_means_that_may_be_negative_have_no_ratio():
    found = compare_means(noise(1, 300, 0.0), noise(2, 300, 5.0))
    assert found.ratio is None
    assert found.verdict == "higher"
    barely_positive = noise(1, 300) - noise(1, 300).mean() + 0.01
    assert compare_means(barely_positive, noise(2, 300, 5.0)).ratio is None


@pytest.mark.parametrize("swap", [False, True])
def test_one_short_side_is_not_enough(swap):
    sides = [noise(1, 300), noise(2, 7)]
    assert compare_means(*(sides[::-1] if swap else sides)) == NotEnough("7 of 20 points needed")


def test_pairs_see_through_the_wave_that_moves_both():
    wave = 50 + 40 * np.sin(np.arange(480) / 480 * 4 * np.pi)
    a, b = wave + noise(1, 480), wave + 0.5 + noise(2, 480)
    assert isinstance(compare_means(a, b), NotEnough)
    found = compare_paired_means(a, b)
    assert found.difference.low < 0.5 < found.difference.high
    assert found.verdict == "higher"


def test_pairs_that_scale_with_the_load_are_told_by_their_ratio():
    wave = 50 + 40 * np.sin(np.arange(480) / 480 * 4 * np.pi)
    a = wave * np.exp(noise(1, 480, 0, 0.02))
    found = compare_paired_means(a, wave * 0.8 * np.exp(noise(2, 480, 0, 0.02)))
    assert found.difference is None
    assert found.ratio.low < 0.8 < found.ratio.high
    assert found.ratio.high - found.ratio.low < 0.02
    assert found.verdict == "lower"


def test_pairs_leave_out_what_either_side_lacks():
    a, b = noise(1, 200, 5.0), noise(2, 200, 5.0)
    a[:50], b[150:] = np.nan, np.nan
    found = compare_paired_means(a, b)
    assert found.observations_a == found.observations_b == 100
    assert found.a.value == pytest.approx(a[50:150].mean())


def test_pairs_of_unlike_length_are_refused():
    with pytest.raises(ValueError, match="480 and 479"):
        compare_paired_means(np.ones(480), np.ones(479))


def test_pairs_without_a_common_point_are_not_enough():
    nothing = np.full(40, np.nan)
    assert compare_paired_means(nothing, np.ones(40)) == NotEnough("0 of 20 points needed")


def test_shares_are_newcombes_published_example():
    found = compare_shares(Counts(48, 80), Counts(56, 70))
    assert (found.difference.low, found.difference.high) == pytest.approx((0.0524, 0.3339), abs=6e-5)
    assert found.verdict == "higher"
    assert (found.observations_a, found.observations_b) == (80, 70)


def test_errors_in_bursts_count_for_less():
    a, b = Counts(100, 10_000), Counts(150, 10_000)
    assert compare_shares(a, b).verdict == "higher"
    assert compare_shares(a, Counts(150, 10_000, design_effect=20)).verdict == "no difference shown"


def test_no_errors_on_either_side_still_has_an_interval():
    found = compare_shares(Counts(0, 200), Counts(0, 300))
    assert found.ratio is None
    assert found.difference.low < 0 < found.difference.high
    assert found.verdict == "no difference shown"


def test_shares_need_trials_on_both_sides():
    assert compare_shares(Counts(1, 9), Counts(5, 500)) == NotEnough(
        "9 of 10 independent trials a side needed"
    )
    assert compare_shares(Counts(math.nan, 50), Counts(5, 500)) == NotEnough("one side has no data")
    assert isinstance(compare_shares(Counts(0, 0), Counts(0, 0)), NotEnough)


def test_rates_take_the_exposure_into_account():
    found = compare_rates(Counts(30, 1000.0), Counts(90, 1000.0))
    assert found.ratio.value == 3.0
    # The exact conditional interval of 90 in 120 (Clopper and Pearson): 0.663 to 0.825, as odds 1.96 to 4.70.
    assert found.ratio.low == pytest.approx(1.96, rel=0.05)
    assert found.ratio.high == pytest.approx(4.70, rel=0.05)
    assert compare_rates(Counts(30, 1000.0), Counts(90, 3000.0)).verdict == "no difference shown"


def test_rates_say_when_nothing_could_have_been_shown():
    assert compare_rates(Counts(0, 10.0), Counts(5, 10.0)) == NotEnough(
        "5 of 6 events on both sides together needed"
    )
    assert 2 * 0.5**5 > 0.05 > 2 * 0.5**6
    assert compare_rates(Counts(0, 10.0), Counts(6, 10.0)).verdict == "higher"
    assert isinstance(compare_rates(Counts(9, 0.0), Counts(9, 10.0)), NotEnough)


def test_equal_rates_show_a_difference_about_as_rarely_as_they_should():
    random = np.random.default_rng(3)
    pairs = random.poisson(12, (600, 2))
    shown = [compare_rates(Counts(a, 5.0), Counts(b, 5.0)).verdict != "no difference shown" for a, b in pairs]
    assert 0.01 < np.mean(shown) < 0.07


def test_quantiles_are_compared_by_bounds_only():
    found = compare_quantiles(0.5, fill([0.3] * 500), fill([3.0] * 400))
    assert found.a == Estimate(None, 0.2, 0.5)
    assert found.b == Estimate(None, 2.0, 5.0)
    assert found.difference == Estimate(None, 1.5, 4.8)
    assert found.ratio == Estimate(None, 4.0, 25.0)
    assert found.verdict == "higher"
    assert (found.observations_a, found.observations_b) == (500, 400)


def test_quantiles_in_one_bucket_show_no_difference_even_if_all_moved():
    found = compare_quantiles(0.5, fill([0.21] * 5000), fill([0.49] * 5000))
    assert found.verdict == "no difference shown"


def test_quantiles_beyond_the_last_edge_are_open_ended():
    found = compare_quantiles(0.5, fill([9.0] * 100), fill([9.0] * 100))
    assert found.difference == Estimate(None, -INF, INF)
    assert found.ratio == Estimate(None, 0.0, INF)
    assert found.verdict == "no difference shown"


def test_quantiles_may_have_different_edges():
    coarse = np.array([1.0, 10.0, INF])
    assert compare_quantiles(0.5, fill([0.3] * 90), fill([4.0] * 90, coarse)).verdict == "higher"


def test_quantiles_need_observations_on_both_sides():
    # Half of the 5 % for each side: 0.99^n <= 0.0125.
    assert compare_quantiles(0.99, fill([0.3] * 9000), fill([0.3] * 400)) == NotEnough(
        "400 of 437 observations needed"
    )


@given(st.lists(st.floats(0.01, 20), min_size=100, max_size=200), st.floats(0.2, 4.0))
def test_the_samples_own_difference_lies_within_the_bounds(observations, factor):
    moved = [value * factor for value in observations]
    found = compare_quantiles(0.5, fill(observations), fill(moved))
    own = sorted(moved)[len(moved) // 2] - sorted(observations)[len(moved) // 2]
    assert found.difference.low <= own <= found.difference.high
