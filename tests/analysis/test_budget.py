import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.analysis.budget import budget_forecast, seasonal_naive
from app.analysis.evidence import Estimate, NotEnough

NAN = math.nan
DAY = np.where(np.arange(24) < 8, 1.0, 4.0)
WEEK = np.concatenate([np.tile(DAY, 5), np.tile(DAY / 4, 2)])


def test_the_same_hour_of_the_last_season():
    assert seasonal_naive(np.array([9.0, 9, 1, 2, 3]), 7, 3).tolist() == [1, 2, 3, 1, 2, 3, 1]


def test_a_missing_hour_comes_from_the_season_before_else_from_the_mean():
    history = np.array([4.0, 5, NAN, 1, NAN, NAN])
    assert seasonal_naive(history, 3, 3).tolist() == [1, 5, 3]
    assert np.isnan(seasonal_naive(np.full(6, NAN), 3, 3)).all()


def test_a_month_that_repeats_itself_is_foreseen_exactly():
    found = budget_forecast(np.tile(WEEK, 2), 168, 168, budget=1e9)
    assert found.season_hours == 168
    assert found.spent == WEEK.sum()
    assert found.total == Estimate(2 * WEEK.sum(), 2 * WEEK.sum(), 2 * WEEK.sum())
    assert found.reaches.outcome == "not within the horizon"
    assert found.reaches.seconds.value == math.inf
    assert found.reaches.chance == 0.0


def test_when_the_budget_is_used_up():
    found = budget_forecast(np.tile(WEEK, 2), 24, 168, budget=WEEK[-24:].sum() + DAY.sum() + 2.5)
    # A day in full, then 1 dollar an hour: the third hour of the second day.
    assert found.reaches.outcome == "reaches"
    assert found.reaches.seconds == Estimate(27 * 3600, 27 * 3600, 27 * 3600)
    assert found.reaches.chance == 1.0


def test_a_budget_already_used_up():
    found = budget_forecast(np.tile(WEEK, 2), 168, 10, budget=5.0)
    assert (found.reaches.outcome, found.reaches.seconds) == ("already", None)


def test_yesterday_serves_while_there_is_no_fortnight():
    found = budget_forecast(np.tile(DAY, 4), 72, 48)
    assert found.season_hours == 24
    assert found.total.value == 5 * DAY.sum()
    assert found.reaches is None


def test_the_interval_holds_the_true_total_about_as_often_as_it_says():
    held = []
    for seed in range(60):
        random = np.random.default_rng(seed)
        # Whole days are dear or cheap together, which single hours would hide.
        days = np.repeat(random.normal(1, 0.15, 42), 24)
        cost = np.tile(WEEK, 6) * np.maximum(days, 0)
        found = budget_forecast(cost[: 28 * 24], 14 * 24, 14 * 24)
        held.append(found.total.low <= cost[14 * 24 :].sum() <= found.total.high)
    assert np.mean(held) > 0.85


def test_steady_growth_is_within_the_interval():
    growing = np.tile(WEEK, 6) * np.repeat(1 + 0.1 * np.arange(6), 168)
    found = budget_forecast(growing[: 4 * 168], 168, 2 * 168)
    assert found.total.low < growing[3 * 168 :].sum() <= found.total.high


def test_hours_without_data_are_counted_and_not_guessed_into_what_was_spent():
    hours = np.tile(DAY, 4)
    hours[-10:-4] = NAN
    found = budget_forecast(hours, 24, 0)
    assert found.unknown_hours == 6
    assert found.spent == pytest.approx(DAY.sum() - 24.0)
    assert found.total == Estimate(found.spent, found.spent, found.spent)


def test_three_days_that_could_have_been_foreseen_are_needed():
    assert budget_forecast(np.tile(DAY, 3), 24, 100) == NotEnough(
        "2 of 3 days with the one a day earlier needed"
    )
    assert budget_forecast(np.array([]), 0, 100) == NotEnough("0 of 3 days with the one a day earlier needed")
    mostly_unknown = np.tile(DAY, 8)
    mostly_unknown[24:150] = NAN
    found = budget_forecast(mostly_unknown, 24, 100)
    assert found == NotEnough("1 of 3 days with the one a day earlier needed")


def test_more_hours_of_the_period_than_were_given():
    with pytest.raises(ValueError, match="100 hours so far, but only 72"):
        budget_forecast(np.tile(DAY, 3), 100, 5)


@given(st.lists(st.floats(0, 1000), min_size=96, max_size=120), st.integers(0, 72), st.integers(0, 100))
def test_a_total_is_never_less_than_what_was_spent(hours, so_far, left):
    found = budget_forecast(np.array(hours), so_far, left, budget=500.0)
    # The sum of a month's hours, rounded differently.
    slack = 1e-6
    assert found.spent - slack <= found.total.low <= found.total.value <= found.total.high
    if found.reaches.seconds is not None:
        assert 0 < found.reaches.seconds.low <= found.reaches.seconds.value <= found.reaches.seconds.high
