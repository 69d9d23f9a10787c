import math
import random
import struct
from decimal import Decimal

import numpy as np
import pytest

from app.api.sample_text import number_text, number_texts, time_text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0"),
        (-0.0, "-0"),
        (1.0, "1"),
        (-17.5, "-17.5"),
        (10.0, "10"),
        (1.05, "1.05"),
        (0.1, "0.1"),
        (1e-4, "0.0001"),
        (1.5e-5, "0.000015"),
        (-1e-5, "-0.00001"),
        (1.25e-6, "0.00000125"),
        (9.9999999e-7, "9.9999999e-07"),
        (-1e-7, "-1e-07"),
        (5e-324, "5e-324"),
        (1e15, "1000000000000000"),
        (123456789012345680.0, "123456789012345680"),
        (-1.5e17, "-150000000000000000"),
        (1e20, "100000000000000000000"),
        (1e21, "1e+21"),
        (1.7976931348623157e308, "1.7976931348623157e+308"),
        (math.nan, "NaN"),
        (math.inf, "+Inf"),
        (-math.inf, "-Inf"),
    ],
)
def test_numbers_are_written_as_prometheus_writes_them(value, text):
    assert number_text(value) == text
    assert number_texts(np.array([value, 2.0, value])) == [text.encode(), b"2", text.encode()]


def test_every_text_is_the_shortest_that_means_the_number():
    draw = random.Random(3)
    bits = [struct.unpack("<d", draw.randbytes(8))[0] for _ in range(3000)]
    values = [value for value in bits if math.isfinite(value)]
    values += [10 ** draw.uniform(-8, 23) * draw.choice((-1, 1)) for _ in range(3000)]
    for value, text in zip(values, number_texts(np.array(values)), strict=True):
        said = text.decode()
        assert float(said) == value
        # As many digits as the shortest text of Python has, and an exponent only outside of Go's bounds.
        assert Decimal(said) == Decimal(repr(value))
        assert ("e" in said) == (not 1e-6 <= abs(value) < 1e21)


def test_no_numbers():
    assert number_texts(np.array([])) == []


@pytest.mark.parametrize(
    ("at_ms", "text"),
    [
        (0, "0"),
        (1_700_000_000_000, "1700000000"),
        (1_700_000_000_050, "1700000000.050"),
        (1_700_000_000_500, "1700000000.500"),
        (7, "0.007"),
        (-1_500, "-1.500"),
    ],
)
def test_times_have_three_decimals_or_none(at_ms, text):
    assert time_text(at_ms) == text
