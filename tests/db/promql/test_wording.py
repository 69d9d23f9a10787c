import math

import pytest

from db.promql.wording import general, quoted


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.1, "0.1"),
        (-0.1, "-0.1"),
        (1.0, "1"),
        (0.0, "0"),
        (-0.0, "-0"),
        (0.0001, "0.0001"),
        (0.00001, "1e-05"),
        (123456.0, "123456"),
        (100000.0, "100000"),
        (1e6, "1e+06"),
        (-1234567.0, "-1.234567e+06"),
        (1234567.5, "1.2345675e+06"),
        (1.5e300, "1.5e+300"),
        (1e100, "1e+100"),
        (2.0**53, "9.007199254740992e+15"),
        (math.nan, "NaN"),
        (math.inf, "+Inf"),
        (-math.inf, "-Inf"),
    ],
)
def test_numbers_are_written_as_go_does(value, text):
    assert general(value) == text


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a", '"a"'),
        ("", '""'),
        ('a"b\\', '"a\\"b\\\\"'),
        ("a\nb\t\x00\x7f", '"a\\nb\\t\\x00\\x7f"'),
        ("é漢", '"é漢"'),
        ("a\udcc5z", '"a\\xc5z"'),
        ("\u202e\U000e0001", '"\\u202e\\U000e0001"'),
    ],
)
def test_texts_are_quoted_as_go_does(text, shown):
    assert quoted(text) == shown
