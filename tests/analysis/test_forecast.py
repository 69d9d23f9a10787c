import itertools
import math

import numpy as np
import pytest

from app.analysis.evidence import Estimate, NotEnough
from app.analysis.forecast import Trend, fit_trend, share_foreseen, time_to_limit

HOUR = 3600.0


def rising(points=240, slope=1.0, level=0.0, deviation=1.0, seed=1, correlation=0.0, step_s=15.0):
    """times, values; slope in units an hour, counted from the last point, which is at `level`."""
    times = np.arange(points) * step_s
    draws = np.random.default_rng(seed).standard_normal(points)
    draws[1:] *= math.sqrt(1 - correlation**2)
    for at in range(1, points):
        draws[at] += correlation * draws[at - 1]
    return times, level + slope * (times - times[-1]) / HOUR + draws * deviation


def test_a_straight_line_is_met_to_the_second():
    trend = fit_trend(*rising(slope=10.0, level=50.0, deviation=0.0))
    found = time_to_limit(trend, 60.0)
    assert found.outcome == "reaches"
    assert found.seconds.value == pytest.approx(HOUR)
    assert found.seconds.low == pytest.approx(HOUR)
    assert found.seconds.high == pytest.approx(HOUR)
    assert found.chance == 1.0


def test_the_slope_is_the_median_of_all_pairs():
    times, values = rising(points=31, slope=4.0, seed=9)
    slopes = [
        (values[j] - values[i]) / (times[j] - times[i]) for i, j in itertools.combinations(range(31), 2)
    ]
    trend = fit_trend(times, values)
    assert trend.slope == pytest.approx(np.median(slopes))
    assert trend.level == pytest.approx(np.median(values - np.median(slopes) * (times - times[-1])))


def test_outliers_do_not_bend_the_line():
    times, values = rising(slope=10.0, level=50.0, deviation=0.1)
    values[::5] = 1e6
    trend = fit_trend(times, values)
    assert trend.slope * HOUR == pytest.approx(10.0, rel=0.1)


@pytest.mark.parametrize(("correlation", "points"), [(0.0, 60), (0.0, 1000), (0.8, 240), (0.95, 1000)])
def test_the_interval_holds_the_true_time_about_as_often_as_it_says(correlation, points):
    held = []
    for seed in range(40):
        times, values = rising(points, slope=0.0, seed=seed, correlation=correlation)
        values += 4 * (times - times[-1]) / times[-1]
        found = time_to_limit(fit_trend(times, values), 4.0)
        held.append(found.seconds is not None and found.seconds.low <= times[-1] <= found.seconds.high)
    assert np.mean(held) > 0.85


def test_a_point_ahead_lies_where_it_was_said_to():
    held = []
    for seed in range(40):
        times, values = rising(500, slope=2.0, seed=seed, correlation=0.6)
        trend = fit_trend(times[:400], values[:400])
        bounds = trend.at(times[-1] - trend.end_s)
        held.append(bounds.low <= values[-1] <= bounds.high)
    assert np.mean(held) > 0.87


@pytest.mark.parametrize("correlation", [0.0, 0.9])
def test_the_resampled_lines_spread_as_much_as_lines_do(correlation):
    trends = [fit_trend(*rising(300, seed=seed, correlation=correlation)) for seed in range(40)]
    for fitted, resampled in (("level", "levels"), ("slope", "slopes")):
        truly = np.std([getattr(trend, fitted) for trend in trends])
        said = np.median([np.std(getattr(trend, resampled)) for trend in trends])
        assert 0.6 < said / truly < 1.6


def test_falling_away_from_the_limit_is_never():
    found = time_to_limit(fit_trend(*rising(slope=-5.0, level=50.0, deviation=0.1)), 60.0)
    assert found.outcome == "never at this rate"
    assert found.seconds == Estimate(math.inf, math.inf, math.inf)
    assert found.chance == 0.0


def test_a_flat_series_is_never_or_at_least_may_never():
    found = time_to_limit(fit_trend(*rising(slope=0.0, level=50.0)), 60.0)
    assert found.seconds.high == math.inf
    assert found.chance < 0.5


def test_a_constant_is_never():
    trend = fit_trend(np.arange(50.0), np.full(50, 3.0))
    assert time_to_limit(trend, 4.0).outcome == "never at this rate"
    assert time_to_limit(trend, 2.0, rising=False).outcome == "never at this rate"


def test_disk_space_falls_towards_its_limit():
    found = time_to_limit(fit_trend(*rising(slope=-10.0, level=20.0, deviation=0.1)), 0.0, rising=False)
    assert found.outcome == "reaches"
    assert found.seconds.low < 2 * HOUR < found.seconds.high


def test_what_is_past_its_limit_has_reached_it():
    found = time_to_limit(fit_trend(*rising(slope=1.0, level=50.0)), 40.0)
    assert (found.outcome, found.seconds) == ("already", None)


def test_beyond_the_horizon_is_not_told():
    trend = fit_trend(*rising(slope=10.0, level=0.0, deviation=0.1))
    assert trend.window_s == 239 * 15
    far = time_to_limit(trend, 45.0)
    assert far.horizon_s == 4 * trend.window_s
    assert (far.outcome, far.seconds.value) == ("not within the horizon", math.inf)
    near = time_to_limit(trend, 20.0, horizon_s=HOUR)
    assert (near.outcome, near.horizon_s) == ("not within the horizon", HOUR)
    assert time_to_limit(trend, 20.0).outcome == "reaches"


def test_the_same_points_give_the_same_answer_and_gaps_are_skipped():
    times, values = rising(slope=3.0, level=50.0)
    first = time_to_limit(fit_trend(times, values), 52.0)
    assert first == time_to_limit(fit_trend(times, values), 52.0)
    holed = np.insert(values, [5, 100, 101], np.nan)
    kept = time_to_limit(fit_trend(np.insert(times, [5, 100, 101], times[[5, 100, 101]]), holed), 52.0)
    assert kept == first


def test_not_enough_points_and_no_time():
    assert fit_trend(np.arange(5.0), np.arange(5.0)) == NotEnough("5 of 20 points needed")
    assert fit_trend(np.arange(30.0), np.full(30, np.nan)) == NotEnough("0 of 20 points needed")
    assert fit_trend(np.full(30, 7.0), np.arange(30.0)) == NotEnough("all points are of one moment")


def test_past_forecasts_are_judged_by_what_came():
    steady = share_foreseen(*rising(900, slope=5.0))
    assert steady > 0.85
    times, values = rising(900, slope=5.0)
    turned = values - np.where(np.arange(900) > 600, (np.arange(900) - 600) * 0.2, 0)
    assert share_foreseen(times, turned) < 0.3
    assert share_foreseen(times[:25], values[:25]) is None


def test_trend_is_in_the_callers_units():
    trend = fit_trend(*rising(slope=7.0, level=3.0, deviation=0.01))
    assert isinstance(trend, Trend)
    assert trend.at(HOUR).value == pytest.approx(10.0, abs=0.05)
