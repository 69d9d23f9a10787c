"""Floats as text against Go's strconv, whose results are written down here."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from db.promql.numbers import format_value, format_values


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0"),
        (-0.0, "-0"),
        (1.0, "1"),
        (10.0, "10"),
        (100.05, "100.05"),
        (-1.5, "-1.5"),
        (0.1, "0.1"),
        (1e-4, "0.0001"),
        (1e-5, "0.00001"),
        (9.99e-6, "0.00000999"),
        (1e15, "1000000000000000"),
        (1e16, "10000000000000000"),
        (1.2345e22, "12345000000000000000000"),
        (5e-324, "0." + "0" * 323 + "5"),
        (1.7976931348623157e308, "17976931348623157" + "0" * 292),
        (math.nan, "NaN"),
        (math.inf, "+Inf"),
        (-math.inf, "-Inf"),
    ],
)
def test_values_are_written_without_exponent(value, text):
    assert format_value(value) == text
    assert format_values(np.array([3.0, value, 7.0])) == ["3", text, "7"]


@given(st.lists(st.floats(), max_size=8))
def test_many_are_written_as_one_by_one_and_read_back(values):
    texts = format_values(np.array(values, dtype=float))
    assert texts == [format_value(value) for value in values]
    for text, value in zip(texts, values, strict=True):
        assert "e" not in text
        assert float(text) == value or math.isnan(value)


def test_values_of_every_second_place_are_written_too():
    assert format_values(np.array([1.0, 2.5, 3.0, 4.5])[::2]) == ["1", "3"]
