import math

import numpy as np
import pytest

from app.analysis.batch_means import SeriesMean, effective_points, series_mean
from app.analysis.evidence import NotEnough


def autoregressive(correlation, points, random):
    """Mean 0, variance 1."""
    draws = random.standard_normal(points)
    draws[1:] *= math.sqrt(1 - correlation**2)
    for at in range(1, points):
        draws[at] += correlation * draws[at - 1]
    return draws


@pytest.mark.parametrize(("correlation", "points"), [(0.0, 40), (0.0, 600), (0.7, 600), (0.9, 1500)])
def test_the_interval_holds_the_true_mean_about_as_often_as_it_says(correlation, points):
    random = np.random.default_rng(1)
    found = [series_mean(autoregressive(correlation, points, random)) for _ in range(200)]
    told = [mean.estimate() for mean in found if isinstance(mean, SeriesMean)]
    assert len(told) > 150
    assert np.mean([interval.low <= 0 <= interval.high for interval in told]) > 0.9


def test_the_plain_standard_error_would_be_far_too_small():
    series = autoregressive(0.9, 5000, np.random.default_rng(2))
    found = series_mean(series)
    assert isinstance(found, SeriesMean)
    # sqrt((1 + 0.9) / (1 - 0.9)) = 4.4
    assert 3 < found.error / (series.std() / math.sqrt(5000)) < 6.5


def test_slow_series_and_trends_are_not_enough_data():
    slow = autoregressive(0.99, 200, np.random.default_rng(3))
    assert isinstance(series_mean(slow), NotEnough)
    assert isinstance(series_mean(np.arange(5000.0)), NotEnough)
    wave = np.sin(np.arange(2000) / 2000 * 4 * np.pi)
    assert isinstance(series_mean(wave + np.random.default_rng(4).normal(0, 0.3, 2000)), NotEnough)


def test_a_short_window_of_a_slow_series_is_refused_and_not_hoped_for():
    random = np.random.default_rng(8)
    found = [series_mean(autoregressive(0.8, 60, random)) for _ in range(200)]
    assert sum(isinstance(mean, SeriesMean) for mean in found) < 25


def test_gaps_are_left_out():
    series = np.random.default_rng(5).standard_normal(200) + 3
    holed = np.insert(series, [10, 10, 90], np.nan)
    assert series_mean(holed) == series_mean(series)


def test_few_points_say_how_many_are_needed():
    assert series_mean(np.full(12, 5.0)) == NotEnough("12 of 20 points needed")
    assert series_mean(np.array([])) == NotEnough("0 of 20 points needed")


def test_a_constant_has_no_error():
    found = series_mean(np.full(30, 5.0))
    assert isinstance(found, SeriesMean)
    assert (found.mean, found.error) == (5.0, 0.0)


def test_effective_points():
    # By hand: alternating signs are counted as independent, never as more than themselves.
    assert effective_points(np.array([1.0, -1.0] * 20), 1) == 40
    # r = 1/4 - 1/4... four points +1 +1 -1 -1: r = (1 - 1 + 1) / 4, raised by (1 + 3/4) / 4 to 0.6875.
    assert effective_points(np.array([1.0, 1.0, -1.0, -1.0]), 1) == pytest.approx(4 * 0.3125 / 1.6875)
    series = autoregressive(0.8, 20_000, np.random.default_rng(6))
    assert effective_points(series, 1) == pytest.approx(20_000 / 9, rel=0.15)
