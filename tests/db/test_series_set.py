"""Labels of many series, kept by column, read back as they were."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from db.labels import Labels, labels_from
from db.series_set import SeriesSet

SERIES = st.lists(
    st.dictionaries(st.sampled_from("abcd"), st.text(min_size=1, max_size=3), max_size=4).map(labels_from),
    max_size=12,
)


@given(SERIES, SERIES)
def test_every_series_comes_back_whole_and_in_its_place(first: list[Labels], more: list[Labels]) -> None:
    series = SeriesSet(first).extended(more)
    assert list(series) == first + more
    assert [series[row] for row in range(len(series))] == first + more
    rows = np.arange(len(series))[::-2].copy()
    assert list(series.take(rows)) == (first + more)[::-2]


def test_the_same_rows_taken_again_are_the_same_object() -> None:
    series = SeriesSet([labels_from({"a": str(number)}) for number in range(4)])
    some = series.take(np.array([1, 3]))
    assert series.take(np.array([1, 3])) is some
    assert list(series.take(np.array([1, 2]))) == [(("a", "1"),), (("a", "2"),)]
    assert series.take(np.arange(4)) is series


def test_a_place_beyond_the_end_is_an_index_error() -> None:
    with pytest.raises(IndexError):
        SeriesSet([labels_from({"a": "1"})])[1]
