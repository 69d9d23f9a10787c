"""Slopes, predictions and smoothed values are Prometheus's."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from db.promql.errors import ExecutionError
from db.promql.regression import RANGE_FUNCTIONS
from tests.db.promql.range_cases import INF, NAN, Case, increased, rising, same, scrapes, some_case

SAWTOOTH = rising(0, 10, 4) + rising(0, 10, 5)


def divided(one: float, other: float) -> float:
    """As floats are, without Python's error."""
    return float(np.float64(one) / np.float64(other))


def line(samples, origin):
    totals, lost = [0.0] * 4, [0.0] * 4
    for time, y in samples:
        x = (time - origin) / 1e3
        for place, term in enumerate((x, y, x * y, x * x)):
            totals[place], lost[place] = increased(term, totals[place], lost[place])
    begin = samples[0][1]
    if all(y == begin for _, y in samples[1:]):
        return (NAN, NAN) if math.isinf(begin) else (0.0, begin)
    x, y, xy, xx = (total + missing for total, missing in zip(totals, lost, strict=True))
    count = len(samples)
    with np.errstate(all="ignore"):
        slope = divided(xy - x * y / count, xx - x * x / count)
    return slope, y / count - slope * x / count


def deriv(samples, start, end, at, scalars):
    return line(samples, samples[0][0])[0] if len(samples) > 1 else None


def predict_linear(samples, start, end, at, scalars):
    if len(samples) < 2:
        return None
    slope, height = line(samples, at)
    return slope * scalars[0] + height


def double_exponential_smoothing(samples, start, end, at, scalars):
    if len(samples) < 2:
        return None
    sf, tf = scalars
    older, level, trend = 0.0, samples[0][1], samples[1][1] - samples[0][1]
    for place, (_, value) in enumerate(samples[1:]):
        if place:
            trend = tf * (level - older) + (1 - tf) * trend
        older, level = level, sf * value + (1 - sf) * (level + trend)
    return level


REFERENCES = {
    function.__name__: function for function in (deriv, predict_linear, double_exponential_smoothing)
}


def one(name: str, case: Case, *scalars: float) -> float | None:
    [[value]] = case.computed(RANGE_FUNCTIONS[name], [[scalar] for scalar in scalars])
    return value


def some_parameters(name: str, random: np.random.Generator, steps: int) -> list[list[float]]:
    if name == "predict_linear":
        return [random.choice((0.0, 600.0, -3.5), steps).tolist()]
    if name == "double_exponential_smoothing":
        return [random.choice((0.01, 0.5, 0.999, NAN), steps).tolist() for _ in range(2)]
    return []


def test_every_function_has_its_reference() -> None:
    assert set(REFERENCES) == set(RANGE_FUNCTIONS)


@pytest.mark.parametrize("name", sorted(REFERENCES))
@settings(max_examples=80, deadline=None)
@given(seed=st.integers(0, 1 << 40))
def test_every_window_is_as_the_definition_says(name: str, seed: int) -> None:
    case = some_case(seed)
    parameters = some_parameters(name, np.random.default_rng(seed), len(case.ends))
    found = case.computed(RANGE_FUNCTIONS[name], parameters)
    for row, wanted in enumerate(case.expected(REFERENCES[name], parameters)):
        for step, value in enumerate(wanted):
            assert same(found[row][step], value), (row, step, case.window(row, step))


@pytest.mark.parametrize("name", sorted(REFERENCES))
def test_long_windows_are_as_the_definition_says(name: str) -> None:
    random = np.random.default_rng(7)
    times = np.arange(3000) * 1000
    values = random.normal(size=(3, 3000)) + times / 1e5
    values[2] = 4.5
    there = np.ones(values.shape, dtype=np.bool_)
    there[1, 100:120] = False
    case = Case(times, values, [2_500_000, 2_999_000], 2_000_000, there, 300_000)
    parameters = {"deriv": [], "predict_linear": [[60.0, 3600.0]]}.get(name, [[0.3, 0.4], [0.1, 0.2]])
    found = case.computed(RANGE_FUNCTIONS[name], parameters)
    for row, wanted in enumerate(case.expected(REFERENCES[name], parameters)):
        assert found[row] == pytest.approx(wanted, rel=1e-11)


def test_the_slope_of_a_line_is_its_rate() -> None:
    assert one("deriv", scrapes(300, rising(0, 80, 10), 3000, 3000)) == pytest.approx(80 / 300, rel=1e-14)
    assert one("deriv", scrapes(300, SAWTOOTH, 3000, 6000)) == pytest.approx(0.010606060606060607, rel=1e-14)


def test_the_slope_is_the_same_in_this_century() -> None:
    """Milliseconds since 1970, squared, leave no place for the samples."""
    begin = 1_753_000_000_000
    times = [begin + number * 15_000 for number in range(20)]
    case = Case(times, [[1e9 + number for number in range(20)]], [times[-1]], 600_000)
    assert one("deriv", case) == pytest.approx(1 / 15, rel=1e-12)


@pytest.mark.parametrize(
    ("at_s", "range_s", "shift_s", "seconds", "wanted"),
    [
        (3000, 3000, 0, 3600, 70),
        (3000, 3300, 0, 3600, 76.81818181818181),
        (3000, 3300, 600 - 3000, 3600, 51.36363636363637),
        (3000, 3300, 4200 - 3000, 3600, 89.54545454545455),
    ],
)
def test_predictions_are_for_a_time_after_the_evaluation(
    at_s: int, range_s: int, shift_s: int, seconds: float, wanted: float
) -> None:
    """Not after the window, which offset and `@` move."""
    case = scrapes(300, SAWTOOTH, at_s, range_s, shift_s)
    assert one("predict_linear", case, seconds) == pytest.approx(wanted, rel=1e-13)


def test_infinite_samples_give_nan() -> None:
    values = [-INF, *rising(0, 80, 10), INF]
    assert same(one("deriv", scrapes(300, values, 6000, 6001)), NAN)
    assert same(one("predict_linear", scrapes(300, values, 6000, 6001), 6000), NAN)
    assert same(one("deriv", scrapes(300, [INF, INF, INF], 600, 900)), NAN)


def test_equal_samples_have_no_slope() -> None:
    case = scrapes(17, [0.1] * 40, 660, 660)
    assert one("deriv", case) == 0
    assert one("predict_linear", case, 1e9) == 0.1
    assert same(one("deriv", scrapes(17, [NAN] * 40, 660, 660)), NAN)


def test_smoothing_follows_a_trend() -> None:
    case = scrapes(10, rising(0, 10, 1000), 8000, 60)
    assert one("double_exponential_smoothing", case, 0.01, 0.1) == pytest.approx(8000, rel=1e-12)
    case = scrapes(10, rising(0, -20, 1000), 8000, 60)
    assert one("double_exponential_smoothing", case, 0.01, 0.1) == pytest.approx(-16000, rel=1e-12)
    assert one("double_exponential_smoothing", scrapes(10, [1.0], 5, 60), 0.01, 0.1) is None


@pytest.mark.parametrize(
    ("sf", "tf", "message"),
    [
        (1, 0.5, "invalid smoothing factor. Expected: 0 < sf < 1, got: 1.000000"),
        (-0.25, 7, "invalid smoothing factor. Expected: 0 < sf < 1, got: -0.250000"),
        (0.5, 0, "invalid trend factor. Expected: 0 < tf < 1, got: 0.000000"),
        (0.5, INF, "invalid trend factor. Expected: 0 < tf < 1, got: +Inf"),
        (-INF, 0.5, "invalid smoothing factor. Expected: 0 < sf < 1, got: -Inf"),
    ],
)
def test_wrong_factors_are_an_error(sf: float, tf: float, message: str) -> None:
    with pytest.raises(ExecutionError) as raised:
        one("double_exponential_smoothing", scrapes(10, [1.0, 2.0], 15, 60), sf, tf)
    assert str(raised.value) == message


def test_wrong_factors_matter_only_where_there_are_samples() -> None:
    function = RANGE_FUNCTIONS["double_exponential_smoothing"]
    case = Case([0, 1000], [[1.0, 2.0]], [1000, 90_000], 5000)
    assert case.computed(function, [[0.5, 7.0], [0.5, 7.0]]) == [[2.0, None]]
    with pytest.raises(ExecutionError, match=r"got: 8\.000000"):
        case.computed(function, [[0.5, 7.0], [8.0, 0.5]])
