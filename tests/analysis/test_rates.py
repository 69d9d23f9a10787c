import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.analysis.rates import increases, rate_at, rate_window_ms

NAN = float("nan")


def rates(seconds, values, at, window_ms=None):
    found = rate_at(np.array(seconds) * 1000, np.array(values), np.array(at) * 1000, window_ms)
    return found.tolist()


def test_a_rate_appears_with_the_second_sample():
    first, second = rates([10, 20], [100.0, 150.0], [15, 20])
    assert np.isnan(first)
    assert second == 5.0


def test_a_reset_counts_from_zero():
    assert increases(np.array([100.0, 130.0, 20.0, 25.0])).tolist() == [0.0, 30.0, 50.0, 55.0]
    assert rates([0, 10, 20], [100.0, 130.0, 20.0], [20]) == [2.5]


def test_samples_that_say_nothing_are_skipped():
    assert rates([0, 10, 20, 30], [0.0, 10.0, NAN, 30.0], [30]) == [1.0]


def test_no_rate_once_the_window_holds_fewer_than_two_samples():
    seconds = list(range(0, 100, 10))
    assert rates(seconds, [float(s) for s in seconds], [90, 118]) == [1.0, 1.0]
    assert np.isnan(rates(seconds, [float(s) for s in seconds], [121])[0])


def test_the_window_follows_the_series_own_pace():
    assert rate_window_ms(np.arange(0, 150_000, 15_000)) == 60_000
    assert rate_window_ms(np.arange(0, 10_000, 1_000)) == 10_000
    assert rate_window_ms(np.arange(0, 10_000_000, 600_000)) == 300_000


def test_the_window_excludes_its_left_end():
    assert rates([0, 10, 20], [0.0, 100.0, 110.0], [20], window_ms=20_000) == [1.0]


@given(
    st.lists(st.floats(0, 1e6), min_size=2, max_size=40),
    st.floats(0.001, 1e6),
)
def test_a_rate_is_never_negative_and_scales_with_its_counter(values, factor):
    seconds = np.arange(len(values)) * 5
    plain = np.array(rates(seconds, values, [seconds[-1]]))
    scaled = np.array(rates(seconds, [value * factor for value in values], [seconds[-1]]))
    assert plain[0] >= 0
    assert scaled[0] == pytest.approx(plain[0] * factor, rel=1e-6, abs=1e-6 * factor)
