"""Durations, sizes and switches as Prometheus reads and prints them."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from db.config_types import (
    Count,
    Duration,
    Switch,
    format_duration,
    parse_bytes,
    parse_duration,
    suggest,
)
from db.yaml_lines import Plain


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("15s", 15),
        ("500ms", 0.5),
        ("1h30m", 5400),
        ("1m0s", 60),
        ("1d", 86400),
        ("2w", 1209600),
        ("1y", 31536000),
        ("0", 0),
        ("0s", 0),
    ],
)
def test_durations_are_read(text: str, seconds: float) -> None:
    assert parse_duration(text) == seconds


@pytest.mark.parametrize(
    "text", ["", "15", "1.5s", "-1s", "1s1m", "5 s", "s", "1S", "300y", "9" * 400 + "ms"]
)
def test_what_is_no_duration_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"duration|292 years"):
        parse_duration(text)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0s"), (0.5, "500ms"), (90, "1m30s"), (7776000, "90d"), (604800, "1w"), (31536000, "1y")],
)
def test_durations_are_printed_as_prometheus_does(seconds: float, text: str) -> None:
    assert format_duration(seconds) == text


@given(st.integers(min_value=0, max_value=10**12))
def test_a_printed_duration_reads_back(milliseconds: int) -> None:
    seconds = milliseconds / 1000

    assert parse_duration(format_duration(seconds)) == seconds


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("0", 0),
        ("10B", 10),
        ("1KB", 1024),
        ("1KiB", 1024),
        ("1.5MB", 1572864),
        ("1MB512KB", 1572864),
        ("1GB", 2**30),
    ],
)
def test_sizes_are_read(text: str, size: int) -> None:
    assert parse_bytes(text) == size


@pytest.mark.parametrize("text", ["", "10", "1mb", "MB", "1MB 5", "-1MB", "1XB", "99999999EB"])
def test_what_is_no_size_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"size|unit|too large"):
        parse_bytes(text)


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (Switch, "true"),  # quoted
        (Switch, Plain("1")),
        (Switch, 1),
        (Count, "5"),  # quoted
        (Count, Plain("-1")),
        (Count, Plain("1.5")),
        (Count, True),
        (Duration, Plain("5")),
        (Duration, True),
        (Duration, []),
    ],
)
def test_values_of_another_type_are_refused(kind: Any, value: Any) -> None:
    with pytest.raises(ValidationError):
        TypeAdapter(kind).validate_python(value)


@pytest.mark.parametrize(
    ("kind", "value", "meant"),
    [
        (Switch, Plain("yes"), True),
        (Switch, Plain("Off"), False),
        (Count, Plain("1_000"), 1000),
        (Count, Plain("1e3"), 1000),
        (Duration, 2.5, 2.5),
    ],
)
def test_plain_scalars_are_typed_by_their_field(kind: Any, value: Any, meant: Any) -> None:
    assert TypeAdapter(kind).validate_python(value) == meant


def test_a_close_name_is_suggested_and_a_far_one_is_not() -> None:
    assert suggest("scrape_intervall", ["scrape_interval", "scheme"]) == "; did you mean 'scrape_interval'?"
    assert suggest("zzz", ["scrape_interval", "scheme"]) == ""
