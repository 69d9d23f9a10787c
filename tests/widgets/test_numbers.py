import pytest

from app.widgets.numbers import (
    ago,
    byte_rate_text,
    bytes_text,
    count_text,
    counted,
    exact,
    lapse,
    ratio_text,
    seconds_text,
)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0.00 B"),
        (1023, "1023 B"),
        (1024, "1.00 KiB"),
        (12_693_245_952, "11.8 GiB"),
        (1023.99 * 1024, "1.00 MiB"),
        (420 * 2**30, "420 GiB"),
        (-2048, "-2.00 KiB"),
        (None, "—"),
        (float("nan"), "—"),
    ],
)
def test_bytes(value, text):
    assert bytes_text(value) == text


def test_rates_ratios_seconds_counts():
    assert byte_rate_text(1.25e6) == "1.19 MiB/s"
    assert byte_rate_text(None) == "—"
    assert ratio_text(0.12345) == "12.3 %"
    assert seconds_text(0.0043) == "4.3 ms"
    assert seconds_text(2.5) == "2.50 s"
    assert count_text(1204) == "1,204"
    assert count_text(0.25) == "0.2"
    assert counted(1, "host") == "1 host"
    assert counted(1200, "GPU") == "1,200 GPUs"


def test_the_exact_value_has_every_digit():
    assert exact(12_693_245_953.0, "bytes") == "exactly 12,693,245,953 bytes"
    assert exact(0.1234567890123, "of time") == "exactly 0.1234567890123 of time"
    assert exact(None, "bytes") == "no value now"


@pytest.mark.parametrize(
    ("milliseconds", "text"),
    [
        (0, "0 s"),
        (3_900, "3 s"),
        (60_000, "1 min"),
        (3_600_000, "1 h"),
        (47 * 3_600_000, "47 h"),
        (48 * 3_600_000, "2 days"),
    ],
)
def test_lapses(milliseconds, text):
    assert lapse(milliseconds) == text


def test_ages():
    assert ago(1_000, 4_000) == "3 s ago"
    assert ago(None, 4_000) == "never"
    assert ago(9_000, 4_000) == "0 s ago"


def test_what_is_infinite_is_said_as_such():
    assert exact(float("inf"), "watts") == "exactly +inf watts"
    assert count_text(float("-inf")) == "-inf"
    assert bytes_text(float("inf")) == "inf PiB"
