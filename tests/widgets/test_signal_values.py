"""Values of signals as people read them."""

import math

import pytest

from app.widgets.signal_values import reading_text, value_text
from db.catalog.read import Reading


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (0.0, "1/s", "0/s"),
        (0.25, "1/s", "0.25/s"),
        (3.0, "requests/s", "3 requests/s"),
        (2.5e12, "flop/s", "2.5 TFLOP/s"),
        (math.nan, "seconds", "—"),
    ],
)
def test_a_value_with_its_unit(value: float, unit: str, text: str):
    assert value_text(value, unit) == text


def test_a_bound_is_shown_as_one():
    assert reading_text(Reading((), 0.3, "below", 12.0), "seconds") == "< 300.0 ms"
    assert reading_text(Reading((), 0.3, "above", 12.0), "seconds") == "> 300.0 ms"
