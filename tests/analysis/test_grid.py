import numpy as np

from app.analysis.grid import last_value, mean_rows, sample_at, sum_rows, time_grid

NAN = float("nan")


def test_grid_ends_at_the_end_and_steps_on_multiples():
    assert time_grid(65_000, 60_000, 6).tolist() == [20_000, 30_000, 40_000, 50_000, 60_000, 65_000]


def test_grid_stands_still_while_the_end_moves_within_a_step():
    assert time_grid(61_000, 60_000, 6)[:-1].tolist() == time_grid(69_000, 60_000, 6)[:-1].tolist()


def test_grid_has_no_point_twice_when_the_end_is_a_multiple():
    grid = time_grid(60_000, 60_000, 6)
    assert grid.tolist() == [10_000, 20_000, 30_000, 40_000, 50_000, 60_000]


def test_sample_at_takes_the_newest_at_or_before():
    at = np.array([999, 1_000, 2_500, 3_000])
    found = sample_at(np.array([1_000, 2_000, 3_000]), np.array([1.0, 2.0, 3.0]), at, 300_000)
    assert found.tolist()[1:] == [1.0, 2.0, 3.0]
    assert np.isnan(found[0])


def test_sample_at_is_missing_once_the_lookback_is_over():
    found = sample_at(np.array([0]), np.array([7.0]), np.array([299_999, 300_000]), 300_000)
    assert found[0] == 7.0
    assert np.isnan(found[1])


def test_sample_at_is_missing_where_the_series_has_ended():
    found = sample_at(np.array([0, 1_000]), np.array([7.0, NAN]), np.array([500, 1_500]), 300_000)
    assert found[0] == 7.0
    assert np.isnan(found[1])


def test_sample_at_of_an_empty_series_is_missing():
    assert np.isnan(sample_at(np.array([], dtype=np.int64), np.array([]), np.array([1, 2]), 1)).all()


def test_sum_ignores_missing_rows_but_not_missing_columns():
    total = sum_rows([np.array([1.0, NAN, NAN]), np.array([2.0, 5.0, NAN])], 3)
    assert total[:2].tolist() == [3.0, 5.0]
    assert np.isnan(total[2])
    assert np.isnan(sum_rows([], 3)).all()


def test_mean_counts_only_rows_with_a_value():
    mean = mean_rows([np.array([1.0, NAN]), np.array([3.0, 5.0])], 2)
    assert mean.tolist() == [2.0, 5.0]


def test_last_value():
    assert last_value(np.array([1.0, 2.0])) == 2.0
    assert last_value(np.array([1.0, NAN])) is None
    assert last_value(np.array([])) is None
