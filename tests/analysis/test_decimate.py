import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from app.analysis.decimate import MAX_POINTS, decimate, with_gaps

NAN = float("nan")


def test_few_points_are_left_alone():
    times, values = np.arange(10), np.arange(10.0)
    assert decimate(times, values)[0] is times


def test_a_single_spike_among_a_million_survives():
    values = np.zeros(1_000_000)
    values[345_678] = 9.0
    values[765_432] = -9.0
    times, kept = decimate(np.arange(1_000_000), values)
    assert len(kept) <= MAX_POINTS
    assert times[kept == 9.0].tolist() == [345_678]
    assert times[kept == -9.0].tolist() == [765_432]


def test_a_gap_survives():
    values = np.ones(100_000)
    values[50_000] = NAN
    times, kept = decimate(np.arange(100_000), values)
    assert times[np.isnan(kept)].tolist() == [50_000]


def test_only_gaps():
    _, kept = decimate(np.arange(100_000), np.full(100_000, NAN))
    assert len(kept) <= MAX_POINTS
    assert np.isnan(kept).all()


@given(st.lists(st.one_of(st.floats(-1e9, 1e9), st.just(NAN)), min_size=1, max_size=400), st.integers(5, 60))
def test_the_extremes_the_ends_and_the_order_are_kept(items, limit):
    values = np.array(items)
    times, kept = decimate(np.arange(len(values)), values, limit)
    assert len(times) <= max(limit, 5)
    assert (np.diff(times) > 0).all()
    assert times[0] == 0
    assert times[-1] == len(values) - 1
    if not np.isnan(values).all():
        assert np.nanmin(kept) == np.nanmin(values)
        assert np.nanmax(kept) == np.nanmax(values)
    assert np.isnan(kept).any() == np.isnan(values).any()


def test_long_holes_break_the_line():
    times, values = with_gaps(np.array([0, 10, 100, 110]), np.array([1.0, 2.0, 3.0, 4.0]), 50)
    assert times.tolist() == [0, 10, 11, 100, 110]
    assert np.isnan(values[2])
