"""Sums, means, extremes, spreads and quantiles of windows are Prometheus's."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from db.promql.blocks import over
from db.promql.context import Notes
from db.promql.over_time import RANGE_FUNCTIONS
from db.promql.sums import is_long
from tests.db.promql.range_cases import INF, NAN, Case, increased, same, scrapes, some_case

LARGE = 9.988465674311579e307


def sum_over_time(samples, start, end, at, scalars):
    total = lost = 0.0
    for _, value in samples:
        total, lost = increased(value, total, lost)
    return total if math.isinf(total) else total + lost


def avg_over_time(samples, start, end, at, scalars):
    total, mean, lost, count, incremental = samples[0][1], 0.0, 0.0, 1, False
    for count, (_, value) in enumerate(samples[1:], start=2):
        if not incremental:
            following, missing = increased(value, total, lost)
            if not math.isinf(following):
                total, lost = following, missing
                continue
            incremental = True
            mean, lost = total / (count - 1), lost / (count - 1)
        share = (count - 1) / count
        mean, lost = increased(value / count, share * mean, share * lost)
    return mean + lost if incremental else total / count + lost / count


def extreme(samples, better):
    found = samples[0][1]
    for _, value in samples:
        if better(value, found) or math.isnan(found):
            found = value
    return found


def min_over_time(samples, start, end, at, scalars):
    return extreme(samples, lambda value, found: value < found)


def max_over_time(samples, start, end, at, scalars):
    return extreme(samples, lambda value, found: value > found)


def count_over_time(samples, start, end, at, scalars):
    return float(len(samples))


def last_over_time(samples, start, end, at, scalars):
    return samples[-1][1]


def present_over_time(samples, start, end, at, scalars):
    return 1.0


def stdvar_over_time(samples, start, end, at, scalars):
    mean = mean_lost = squares = squares_lost = 0.0
    for count, (_, value) in enumerate(samples, start=1):
        away = value - (mean + mean_lost)
        mean, mean_lost = increased(away / count, mean, mean_lost)
        squares, squares_lost = increased(away * (value - (mean + mean_lost)), squares, squares_lost)
    return (squares + squares_lost) / len(samples)


def stddev_over_time(samples, start, end, at, scalars):
    variance = stdvar_over_time(samples, start, end, at, scalars)
    return math.sqrt(variance) if variance >= 0 else NAN


def quantile_over_time(samples, start, end, at, scalars):
    [wanted] = scalars
    if math.isnan(wanted):
        return NAN
    if wanted < 0 or wanted > 1:
        return -INF if wanted < 0 else INF
    values = sorted((value for _, value in samples), key=lambda value: (value == value, value))
    rank = wanted * (len(values) - 1)
    lower = math.floor(rank)
    upper = min(len(values) - 1, lower + 1)
    weight = rank - lower
    return values[lower] * (1 - weight) + values[upper] * weight


REFERENCES = {
    function.__name__: function
    for function in (
        sum_over_time,
        avg_over_time,
        min_over_time,
        max_over_time,
        count_over_time,
        last_over_time,
        present_over_time,
        stddev_over_time,
        stdvar_over_time,
        quantile_over_time,
    )
}


def one(name: str, case: Case, *scalars: float) -> float | None:
    [[value]] = case.computed(RANGE_FUNCTIONS[name], [[scalar] for scalar in scalars])
    return value


def check(name: str, case: Case, parameters: list[list[float]]) -> None:
    found = case.computed(RANGE_FUNCTIONS[name], parameters)
    for row, wanted in enumerate(case.expected(REFERENCES[name], parameters)):
        for step, value in enumerate(wanted):
            assert same(found[row][step], value), (row, step, case.window(row, step))


def test_every_function_has_its_reference() -> None:
    assert set(REFERENCES) == set(RANGE_FUNCTIONS)
    assert [name for name, function in RANGE_FUNCTIONS.items() if function.keeps_name] == ["last_over_time"]


@pytest.mark.parametrize("name", sorted(REFERENCES))
@settings(max_examples=80, deadline=None)
@given(seed=st.integers(0, 1 << 40), large=st.booleans())
def test_every_window_is_as_the_definition_says(name: str, seed: int, large: bool) -> None:
    case = some_case(seed)
    random = np.random.default_rng(seed)
    if large and "std" not in name:  # sums that overflow
        case.values = np.where(random.random(case.values.shape) < 0.5, LARGE, case.values)
        case.values[random.random(case.values.shape) < 0.2] = -LARGE
    quantiles = random.choice((0, 1, 0.5, 0.99, 0.1, 1 / 3, -1, 2, NAN, INF, -INF), len(case.ends)).tolist()
    check(name, case, [quantiles] if name == "quantile_over_time" else [])


@pytest.mark.parametrize("name", sorted(REFERENCES))
@pytest.mark.parametrize("special", [None, NAN, INF, LARGE])
def test_long_windows_are_as_the_definition_says(name: str, special: float | None) -> None:
    """So few and so long that they are not worked on side by side."""
    random = np.random.default_rng(7)
    times = np.arange(6000) * 1000
    values = random.normal(size=(2, 6000)) + 5
    if special is not None:
        values[0, 2500:2900:100] = special
    there = np.ones(values.shape, dtype=np.bool_)
    there[1, 100:120] = False
    case = Case(times, values, [5_000_000, 5_999_000], 4_000_000, there)
    parameters = [[0.9, 0.3]] if name == "quantile_over_time" else []
    found = case.computed(RANGE_FUNCTIONS[name], parameters)
    for row, wanted in enumerate(case.expected(REFERENCES[name], parameters)):
        for step, value in enumerate(wanted):
            if "std" in name and special == LARGE and row == 0:
                continue  # the squares overflow, in whatever order
            assert same(found[row][step], value), (row, step)


def test_sums_in_time_order_are_the_same_bits() -> None:
    random = np.random.default_rng(3)
    values = random.normal(size=(3, 400)) * 10.0 ** random.integers(-8, 8, (3, 400))
    case = Case(range(0, 400_000, 1000), values, range(50_000, 400_000, 7000), 200_000)
    for name in ("sum_over_time", "avg_over_time", "stdvar_over_time"):
        found = case.computed(RANGE_FUNCTIONS[name])
        assert found == case.expected(REFERENCES[name], [])


@pytest.mark.parametrize("windows", [1, 2000])
def test_long_sums_lose_nothing(windows: int) -> None:
    """Whether a window is summed on its own or with others that overlap: each 1 is below 1e17's precision."""
    values = [1e17, *[1.0] * 5998, -1e17]
    case = Case(range(6000), [values] * 2, [5999] * windows, 6000)
    found = case.computed(RANGE_FUNCTIONS["sum_over_time"])
    assert found == [[5998.0] * windows] * 2
    found = case.computed(RANGE_FUNCTIONS["avg_over_time"])
    assert found == [[5998 / 6000] * windows] * 2


def test_long_windows_that_overlap_are_as_the_definition_says() -> None:
    random = np.random.default_rng(5)
    values = random.normal(size=(2, 1500))
    values[0, 300] = NAN
    values[1, [500, 900]] = INF, -INF
    case = Case(range(0, 1_500_000, 1000), values, range(300_000, 1_500_000, 8000), 270_000)
    case.timestamps[700:] += 40_000
    check("sum_over_time", case, [])
    check("avg_over_time", case, [])


def test_squares_that_overflow_are_infinite() -> None:
    assert one("stdvar_over_time", scrapes(10, [1e200, -1e200], 55, 60)) == INF
    assert one("stddev_over_time", scrapes(10, [1e200, -1e200], 55, 60)) == INF


@pytest.mark.parametrize("count", [2, 7, 100, 4000])
def test_a_variance_far_from_zero_is_as_near_the_truth_as_prometheus(count: int) -> None:
    random = np.random.default_rng(4)
    values = 1.7e9 + random.normal(20, 16, count)
    case = Case(range(count), [values], [count - 1], count)
    exact = [Fraction(value) for value in values.tolist()]
    middle = sum(exact) / count
    truth = sum((value - middle) ** 2 for value in exact) / count
    found = one("stdvar_over_time", case)
    [[theirs]] = case.expected(stdvar_over_time, [])
    assert abs(Fraction(found) - truth) <= abs(Fraction(theirs) - truth) + truth * Fraction(1e-15)


def test_the_mean_of_equal_samples_is_that_sample() -> None:
    for count in range(1, 14):
        assert one("avg_over_time", scrapes(10, [52.0] * 100, 600, 10 * count)) == 52
    for count in (3, 1000):
        assert one("stdvar_over_time", scrapes(10, [1.5990505637277868] * 1000, 9990, 10 * count)) == 0
    assert one("sum_over_time", Case(range(4001), [[1.0] * 4001], [4000], 3003)) == 3003


@pytest.mark.parametrize(
    ("values", "mean", "total"),
    [
        ([1, 2, 3, 4, 5], 3, 15),
        ([1, 2, 3, 4, INF], INF, INF),
        ([1, 2, 3, 4, -INF], -INF, -INF),
        ([1, 2, 3, INF, -INF], NAN, NAN),
        ([INF, 0, INF], INF, INF),
        ([INF, INF, INF, -INF], NAN, NAN),
        ([1, 2, 3, -INF, -INF], -INF, -INF),
        ([-INF, 0, -INF], -INF, -INF),
        ([-INF, -INF, -INF, INF], NAN, NAN),
        ([1, 2, -INF, -INF, INF], NAN, NAN),
        ([LARGE, LARGE], LARGE, INF),
        ([-LARGE, -LARGE, -LARGE], -LARGE, -INF),
        ([-LARGE, LARGE], 0, 0),
        ([1, 2, 3, NAN, NAN], NAN, NAN),
        ([1, 1e100, 1, -1e100], 0.5, 2),
        ([-2.258e220, -1.78264e219, 0.76342771, 1.9592258, 2.3757689e217], None, None),
    ],
)
def test_means_of_extreme_values(values: list[float], mean: float | None, total: float | None) -> None:
    case = scrapes(10, values, 55, 60)
    reference = [avg_over_time, sum_over_time]
    for name, function, wanted in zip(
        ("avg_over_time", "sum_over_time"), reference, (mean, total), strict=True
    ):
        if wanted is None:
            wanted = function([(0, value) for value in values], 0, 0, 0, ())
        assert same(one(name, case), wanted), name


@pytest.mark.parametrize(
    ("values", "mean"),
    [
        ([1e10, 1e-6, 1e-6, 1e-6, 1e-6, 1e-6], 1.6666666666666675e09),
        ([1.78264e50, 0.76342771, 1.9592258, 2.258e220, 7.69805412, 458.90154], 3.76333333333333e219),
        ([-1.78264e215, 0.76342771, 1.9592258, 2.258e220, 7.69805412, -458.90154], 3.76330362266667e219),
    ],
)
def test_means_of_very_different_values(values: list[float], mean: float) -> None:
    assert one("avg_over_time", scrapes(5, values, 55, 60)) == pytest.approx(mean, rel=1e-14)


def test_spread() -> None:
    case = scrapes(10, [0, 8, 8, 2, 3], 60, 120)
    assert one("stdvar_over_time", case) == pytest.approx(10.56, rel=1e-14)
    assert one("stddev_over_time", case) == pytest.approx(3.249615, rel=1e-6)


@pytest.mark.parametrize(
    ("values", "low", "high"),
    [
        ([2, 0, 3], 0, 3),
        ([2, 0, NAN], 0, 2),
        ([2, NAN, 1], 1, 2),
        ([NAN, 0, 1], 0, 1),
        ([NAN, NAN, NAN], NAN, NAN),
    ],
)
def test_extremes_leave_nan_out(values: list[float], low: float, high: float) -> None:
    case = scrapes(10, values, 60, 120)
    assert same(one("min_over_time", case), low)
    assert same(one("max_over_time", case), high)


@pytest.mark.parametrize(
    ("wanted", "two", "three", "uneven"),
    [(0, 0, 0, 0), (0.5, 0.5, 1, 1), (0.75, 0.75, 1.5, 2.5), (0.8, 0.8, 1.6, 2.8), (1, 1, 2, 4)],
)
def test_quantiles_lie_between_samples(wanted: float, two: float, three: float, uneven: float) -> None:
    for values, quantile in (([0, 1], two), ([0, 1, 2], three), ([0, 1, 4], uneven)):
        assert same(one("quantile_over_time", scrapes(10, values, 60, 120), wanted), quantile)


def test_what_is_no_quantile_is_warned_of_once_where_there_are_samples() -> None:
    case = Case(
        [0, 1000], [[1.0, 2.0]] * 2, [1000, 1001, 1002, 1003, 9000], 1500, [[True, True], [False, True]]
    )
    notes = Notes()
    parameters = [[-1.0, 2.0, NAN, 2.0, 77.0]]
    found = case.computed(RANGE_FUNCTIONS["quantile_over_time"], parameters, notes)
    for row in found:
        assert all(same(*pair) for pair in zip(row, [-INF, INF, NAN, INF, None], strict=True))
    text = "PromQL warning: quantile value should be between 0 and 1, got "
    assert sorted(notes.warnings) == sorted(text + value for value in ("-1", "2", "NaN"))


def test_nothing_outside_of_a_window_touches_it() -> None:
    times = range(0, 9000, 1000)
    values = [[NAN, INF, 1e308, 1.0, 2.0, 4.0, -INF, NAN, 1e308]] * 3
    holes = [[True] * 9, [True] * 8 + [False], [False] + [True] * 8]
    for name in ("sum_over_time", "avg_over_time", "max_over_time", "stddev_over_time", "count_over_time"):
        found = Case(times, values, [5000], 3000, holes).computed(RANGE_FUNCTIONS[name])
        wanted = REFERENCES[name]([(3000, 1.0), (4000, 2.0), (5000, 4.0)], 0, 0, 0, ())
        assert found == [[wanted]] * 3, name


def test_windows_that_share_most_of_their_samples() -> None:
    """Extremes of overlapping windows of many lengths, and of what happens to hold NaN."""
    random = np.random.default_rng(1)
    values = np.where(random.random((3, 300)) < 0.1, NAN, random.normal(size=(3, 300)))
    case = Case(range(0, 300_000, 1000), values, range(0, 320_000, 1000), 90_000)
    check("max_over_time", case, [])
    check("min_over_time", case, [])


def test_a_few_windows_are_recognised_as_long() -> None:
    """The tests of long windows above would otherwise test the other way again."""
    [part] = scrapes(1, [1.0] * 6000, 6000, 6000).parts()
    seen = []

    def kernel(block):
        seen.append(is_long(block))
        return np.zeros(block.shape)

    over(part, kernel)
    assert seen == [True]
