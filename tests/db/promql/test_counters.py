"""Rates, increases and changes are Prometheus's, reset by reset and edge by edge."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from db.promql.context import Notes
from db.promql.counters import RANGE_FUNCTIONS
from db.promql.windows import parts_of
from tests.db.promql.range_cases import INF, NAN, Case, rising, same, scrapes, some_case


def extrapolated(samples, start, end, counter, per_second):
    if len(samples) < 2:
        return None
    (first_time, first), (last_time, last) = samples[0], samples[-1]
    result = last - first
    if counter:
        for (_, previous), (_, value) in pairwise(samples):
            if value < previous:
                result += previous
    to_start, to_end = (first_time - start) / 1000, (end - last_time) / 1000
    sampled = (last_time - first_time) / 1000
    between = sampled / (len(samples) - 1)
    if to_start >= between * 1.1:
        to_start = between / 2
    if counter and result > 0 and first >= 0:
        to_zero = sampled * (first / result) if result < INF or first < INF else NAN
        if to_zero < to_start:
            to_start = to_zero
    if to_end >= between * 1.1:
        to_end = between / 2
    factor = (sampled + to_start + to_end) / sampled
    return result * (factor / ((end - start) / 1000) if per_second else factor)


def rate(samples, start, end, at, scalars):
    return extrapolated(samples, start, end, True, True)


def increase(samples, start, end, at, scalars):
    return extrapolated(samples, start, end, True, False)


def delta(samples, start, end, at, scalars):
    return extrapolated(samples, start, end, False, False)


def last_two(samples, counter):
    if len(samples) < 2:
        return None
    (before, previous), (last, value) = samples[-2:]
    if not counter:
        return value - previous
    return (value if value < previous else value - previous) / ((last - before) / 1000)


def irate(samples, start, end, at, scalars):
    return last_two(samples, True)


def idelta(samples, start, end, at, scalars):
    return last_two(samples, False)


def resets(samples, start, end, at, scalars):
    return float(sum(b < a for (_, a), (_, b) in pairwise(samples)))


def changes(samples, start, end, at, scalars):
    pairs = [(a, b) for (_, a), (_, b) in pairwise(samples)]
    return float(sum(b != a and not (a != a and b != b) for a, b in pairs))


REFERENCES = {
    function.__name__: function for function in (rate, increase, delta, irate, idelta, resets, changes)
}


def one(name: str, case: Case) -> float | None:
    [[value]] = case.computed(RANGE_FUNCTIONS[name])
    return value


def test_every_function_has_its_reference() -> None:
    assert set(REFERENCES) == set(RANGE_FUNCTIONS)


@pytest.mark.parametrize("name", sorted(REFERENCES))
@settings(max_examples=80, deadline=None)
@given(seed=st.integers(0, 1 << 40), counters=st.booleans())
def test_every_window_is_as_the_definition_says(name: str, seed: int, counters: bool) -> None:
    case = some_case(seed, counters=counters)
    found = case.computed(RANGE_FUNCTIONS[name])
    for row, wanted in enumerate(case.expected(REFERENCES[name], ())):
        finite = np.abs(case.values[row][np.isfinite(case.values[row])])
        scale = finite.sum() * 2 / (1 if name not in ("rate", "irate") else 0.001)
        for step, value in enumerate(wanted):
            assert same(found[row][step], value, scale), (row, step, case.window(row, step))


@pytest.mark.parametrize(
    ("values", "range_s", "wanted"),
    [
        (rising(0, 10, 10), 3000, 100),
        (rising(0, 18, 5) + rising(0, 18, 5), 3000, 160),
        (rising(10, 10, 10), 3000, 100),
        (rising(1, 10, 10), 3000, 100),
        (rising(0, 10, 10), 6000, 100),
        (rising(0, 18, 5) + rising(0, 18, 5), 6000, 162),
        (rising(10, 10, 10), 6000, 105),
        (rising(1, 10, 10), 6000, 101),
    ],
)
def test_increase_stops_where_the_counter_was_zero(values: list[float], range_s: int, wanted: float) -> None:
    assert same(one("increase", scrapes(300, values, 3000, range_s)), wanted)


def test_a_counter_after_a_reset_counts_from_zero() -> None:
    assert same(one("increase", scrapes(300, [0, 1, 2, 3, 2, 3, 4], 1800, 1800)), 7)


def test_a_reset_at_the_beginning_of_the_window_is_none() -> None:
    values = [*rising(0, 10, 9), 0, 10]
    assert one("rate", scrapes(300, values, 3000, 300)) is None
    assert one("rate", scrapes(300, values, 3000, 301)) == 0
    assert one("rate", scrapes(300, rising(0, 27, 4) + rising(0, 27, 5), 3000, 3000)) == pytest.approx(0.08)


@pytest.mark.parametrize(
    ("start", "wanted"), [(0, 0.5), (60, 0.55), (120, 0.6), (180, 0.6), (240, 0.6), (300, 0.6)]
)
def test_the_left_edge_is_cut_at_zero_and_at_half_an_interval(start: int, wanted: float) -> None:
    values = rising(start, 240, 10)
    assert one("rate", scrapes(240, values, 600, 1200)) == pytest.approx(wanted, rel=1e-12)
    assert one("rate", scrapes(240, values, 3000, 1200)) == pytest.approx(0.6, rel=1e-12)


def test_a_gap_of_eleven_tenths_is_too_long() -> None:
    """Exactly so: 1.1 times 5 is 5.5 for a float, too."""
    for end_ms, stretched in ((15_499, 10 + 5.499), (15_500, 10 + 2.5)):
        case = Case([0, 5000, 10_000], [[100.0, 101, 102]], [end_ms], end_ms + 1)
        assert one("delta", case) == pytest.approx(2 * (stretched + 0.001) / 10, rel=1e-12)


def test_the_window_moves_with_the_offset() -> None:
    case = scrapes(300, rising(0, 10, 10), 3000 - 300, 600, shift_s=300)
    assert one("rate", case) == pytest.approx(0.03333333333333333, rel=1e-12)


def test_irate_takes_the_last_two_samples_only() -> None:
    values = rising(0, 10, 5) + rising(0, 10, 5)
    assert one("irate", scrapes(300, rising(0, 10, 10), 3000, 3000)) == pytest.approx(1 / 30, rel=1e-12)
    assert one("irate", scrapes(300, values, 1800, 3000)) == 0
    assert one("idelta", scrapes(300, [0, 50, 100, 50], 1200, 1200)) == -50
    assert one("delta", scrapes(300, [200, 150, 100, 50, 0], 1200, 1200)) == pytest.approx(-200, rel=1e-12)


@pytest.mark.parametrize(("name", "last"), [("irate", 0.02), ("idelta", 6)])
def test_nan_next_to_a_number_gives_nan(name: str, last: float) -> None:
    times = [number * 300_000 for number in range(5)]
    case = Case(times, [[1, NAN, NAN, 5, 11]], times, 901_000)
    [found] = case.computed(RANGE_FUNCTIONS[name])
    assert all(same(*pair) for pair in zip(found, [None, NAN, NAN, NAN, last], strict=True))


@pytest.mark.parametrize(
    ("range_s", "resets", "changes"), [(360, 0, 0), (1200, 1, 2), (1800, 1, 3), (1920, 2, 4), (3000, 3, 7)]
)
def test_resets_and_changes_are_counted_within_the_window(range_s: int, resets: int, changes: int) -> None:
    case = scrapes(300, [1, 2, 3, 0, 1, 0, 0, 1, 2, 0], 3000, range_s)
    assert one("resets", case) == resets
    assert one("changes", case) == changes


def test_nan_after_nan_is_no_change() -> None:
    assert one("changes", scrapes(300, [NAN, NAN, NAN], 900, 1200)) == 0
    assert one("changes", scrapes(300, [0, NAN, 0], 900, 1200)) == 2
    assert one("resets", scrapes(300, [3, NAN, 0], 900, 1200)) == 0


@pytest.mark.parametrize("there", [True, False])
def test_nothing_outside_of_a_window_touches_it(there: bool) -> None:
    """Two series one behind the other, and windows beside NaN, infinities and huge values."""
    times = [number * 1000 for number in range(12)]
    values = [[INF, NAN, 1e308, -1e308, 1, 2, 3, 1, 2, INF, NAN, 1e308]] * 2
    holes = [[True] * 12, [True] * 11 + [there]]
    [first, second] = Case(times, values, [8000], 5000, holes).computed(RANGE_FUNCTIONS["increase"])
    assert first == second
    assert first == [pytest.approx(4 * 1.25)]


def test_many_resets_after_a_large_counter_lose_nothing() -> None:
    """The first reset takes back a large number; what the others add is small."""
    values = [1e9, *(0.1 if number % 2 else 0.3 for number in range(999))]
    [[found]] = Case(range(0, 1_000_000, 1000), [values], [999_000], 1_000_000).computed(
        RANGE_FUNCTIONS["increase"]
    )
    wanted = 0.3 - 1e9 + 1e9 + 0.3 * 499
    assert found == pytest.approx(wanted * 1000 / 999, rel=1e-12)


@pytest.mark.parametrize("name", sorted(RANGE_FUNCTIONS))
def test_no_samples_no_values(name: str) -> None:
    assert Case([500], [[1.0]], [100, 400], 50).computed(RANGE_FUNCTIONS[name]) == [[None, None]]
    steps = np.array([100, 400])
    nothing = np.zeros(0, dtype=np.int64)
    [part] = parts_of(np.arange(2), nothing, np.zeros((2, 0)), None, steps - 50, steps, steps)
    values, there = RANGE_FUNCTIONS[name].kernel(part, (), Notes())
    assert values.shape == (2, 2)
    assert not there.any()


def test_more_series_than_fit_into_a_block_are_all_computed() -> None:
    times = np.arange(50) * 1000
    values = np.arange(50) * np.arange(1, 3001)[:, None] * 1.0
    ends = np.arange(20, 50) * 1000
    there = np.ones(values.shape, dtype=np.bool_)
    there[::2, 3] = False
    for part in parts_of(np.arange(3000), times, values, there, ends - 10_000, ends, ends):
        found, exists = RANGE_FUNCTIONS["rate"].kernel(part, (), Notes())
        assert exists.all()
        assert np.abs(found / (part.rows[:, None] + 1.0) - 1).max() < 1e-12
