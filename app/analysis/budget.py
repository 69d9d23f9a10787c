"""Month to date against a budget: what the month will cost, and when the budget is used up, with intervals.

Spending follows the clock and the week, not a line, so each coming hour is taken to cost what the same hour
cost last week (or yesterday, while there is no fortnight to go by). Hours are 3600 s: the day a clock changes
is one hour off, which is nothing beside the interval.
"""

import math
from dataclasses import dataclass

import numpy as np

from app.analysis.evidence import CONFIDENCE, Estimate, NotEnough, too_few
from app.analysis.forecast import TimeToLimit, central
from app.analysis.grid import FloatArray

DAY, WEEK = 24, 168
# Last week speaks for this one only where there is one more to judge it by.
WEEKS_NEEDED = 2
# Days whose error is known: of fewer there is no spread to speak of.
MIN_ERROR_DAYS = 3
RESAMPLES = 500
SEED = 20_240_601


@dataclass(frozen=True, slots=True)
class BudgetForecast:
    """spent: so far in this period, the unit of the hours (dollars, kWh), without `unknown_hours` that had no
    data. total: at the period's end. season_hours: 24 or 168, what the forecast repeats. reaches: when the
    budget is used up; None without a budget."""

    spent: float
    unknown_hours: int
    total: Estimate
    season_hours: int
    reaches: TimeToLimit | None


def seasonal_naive(history: FloatArray, steps: int, season: int) -> FloatArray:
    """float64[steps]: the last season over and over (Hyndman and Athanasopoulos 2021, 5.2).

    history: float64[at least season], newest last. A NaN is taken from the season before, as far back as
    there is one, else from the mean of the hours known in the last season; NaN throughout without any.
    """
    whole = len(history) // season
    seasons = history[len(history) - whole * season :].reshape(whole, season)
    pattern = seasons[-1].copy()
    for earlier in seasons[-2::-1]:
        pattern = np.where(np.isnan(pattern), earlier, pattern)
    known = ~np.isnan(pattern)
    if known.any():
        pattern[~known] = pattern[known].mean()
    return np.resize(pattern, steps)


def budget_forecast(
    hourly: FloatArray,
    hours_so_far: int,
    hours_left: int,
    budget: float | None = None,
    confidence: float = CONFIDENCE,
) -> BudgetForecast | NotEnough:
    """hourly: float64[hours], cost of each past hour, newest last, NaN where not known; may reach back before
    the period, of which it holds the last hours_so_far. hours_left: until the period ends.

    Interval: simulated months add to the seasonal naive forecast whole days of its past errors y_t - y_(t-m),
    summed from season to season as a seasonal random walk has it. Each simulated month draws one sign, since
    a naive forecast claims no direction: growth widens the interval both ways. No hour costs less than
    nothing.
    """
    if hours_so_far > len(hourly):
        raise ValueError(f"{hours_so_far} hours so far, but only {len(hourly)} hours of cost were given")
    season = WEEK if len(hourly) >= WEEKS_NEEDED * WEEK else DAY
    errors = _daily(hourly[season:] - hourly[:-season])
    if len(errors) < MIN_ERROR_DAYS:
        apart = "a week" if season == WEEK else "a day"
        return too_few(f"days with the one {apart} earlier", len(errors), MIN_ERROR_DAYS)
    mine = hourly[len(hourly) - hours_so_far :]
    spent = float(np.nansum(mine))
    expected = np.maximum(seasonal_naive(hourly, hours_left, season), 0.0)
    paths = spent + np.cumsum(_simulated(expected, errors, season), axis=1)
    total = spent + float(expected.sum())
    low, high = central(paths[:, -1], confidence) if hours_left else (total, total)
    return BudgetForecast(
        spent=spent,
        unknown_hours=int(np.isnan(mine).sum()),
        total=Estimate(total, min(low, total), max(high, total)),
        season_hours=season,
        reaches=None if budget is None else _reaches(budget, spent, expected, paths, confidence),
    )


def _daily(errors: FloatArray) -> FloatArray:
    """float64[days, 24], the last one newest: days at least half known, their gaps at the day's mean."""
    days = errors[len(errors) % DAY :].reshape(-1, DAY)
    known = ~np.isnan(days)
    days, known = days[2 * known.sum(axis=1) >= DAY], known[2 * known.sum(axis=1) >= DAY]
    means = np.where(known, days, 0.0).sum(axis=1, keepdims=True) / known.sum(axis=1, keepdims=True)
    filled: FloatArray = np.where(known, days, means)
    return filled


def _simulated(expected: FloatArray, errors: FloatArray, season: int) -> FloatArray:
    """float64[RESAMPLES, hours]: what those hours may cost. errors: float64[days, 24]."""
    hours = len(expected)
    seasons = math.ceil(hours / season)
    random = np.random.default_rng(SEED)
    days = random.integers(0, len(errors), (RESAMPLES, seasons * season // DAY))
    drawn = errors[days].reshape(RESAMPLES, seasons, season)
    away = np.cumsum(drawn, axis=1).reshape(RESAMPLES, seasons * season)[:, :hours]
    signs = random.choice(np.array([-1.0, 1.0]), (RESAMPLES, 1))
    hourly: FloatArray = np.maximum(expected + signs * away, 0.0)
    return hourly


def _reaches(
    budget: float, spent: float, expected: FloatArray, paths: FloatArray, confidence: float
) -> TimeToLimit:
    horizon = len(expected) * 3600.0
    if spent >= budget:
        return TimeToLimit("already", None, 1.0, horizon)
    waits = _first_reaching(paths, budget)
    wait = float(_first_reaching(spent + np.cumsum(expected)[None, :], budget)[0])
    low, high = central(waits, confidence)
    return TimeToLimit(
        outcome="reaches" if math.isfinite(wait) else "not within the horizon",
        seconds=Estimate(wait, min(low, wait), max(high, wait)),
        chance=float(np.isfinite(waits).mean()),
        horizon_s=horizon,
    )


def _first_reaching(paths: FloatArray, budget: float) -> FloatArray:
    """Seconds until the end of the hour in which each row of running totals meets it, or infinite."""
    met = paths >= budget
    hours = met.argmax(axis=1) + 1 if met.shape[1] else np.ones(len(paths))
    return np.where(met.any(axis=1), hours * 3600.0, np.inf)
