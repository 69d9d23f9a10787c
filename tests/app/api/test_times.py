import pytest

from app.api.times import FIRST_MS, LAST_MS, parse_seconds, parse_time


@pytest.mark.parametrize(
    ("text", "at_ms"),
    [
        ("0", 0),
        ("1700000000", 1_700_000_000_000),
        ("1700000000.123", 1_700_000_000_123),
        ("1700000000.1239", 1_700_000_000_124),
        ("1.7e9", 1_700_000_000_000),
        ("-1.5", -1_500),
        (".5", 500),
        ("2023-11-14T22:13:20Z", 1_700_000_000_000),
        ("2023-11-14T23:13:20+01:00", 1_700_000_000_000),
        ("2023-11-14T22:13:20.123456789Z", 1_700_000_000_123),
        ("2023-11-14T22:13:20.5Z", 1_700_000_000_500),
        ("1969-12-31T23:59:59.75Z", -250),
        ("-292273086-05-16T16:47:06Z", FIRST_MS),
        ("292277025-08-18T07:12:54.999999999Z", LAST_MS),
        ("-9223309901257974", FIRST_MS),
        ("9223309901257974", LAST_MS),
        ("1e300", LAST_MS),
    ],
)
def test_times(text, at_ms):
    assert parse_time(text) == at_ms


@pytest.mark.parametrize(
    "text",
    [
        *("", "x", "NaN", "inf", " 1", "1 ", "1_000", "١", "0x10", "1e", "--1", "-1h", "now"),
        *("2023-11-14 22:13:20", "2023-11-14", "2023-02-30T00:00:00Z", "2023-11-14T22:13:20"),
    ],
)
def test_what_is_no_time_is_said_in_prometheus_words(text):
    with pytest.raises(ValueError, match=r"^cannot parse .* to a valid timestamp$"):
        parse_time(text)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("15", 15),
        ("0.5", 0.5),
        ("-1", -1),
        ("1e3", 1000),
        ("1m30s", 90),
        ("500ms", 0.5),
        ("0", 0),
        ("1d", 86400),
    ],
)
def test_durations(text, seconds):
    assert parse_seconds(text) == seconds


@pytest.mark.parametrize("text", ["", "x", "NaN", "1 s", "s", "1.5m", "-1h", "1s1m"])
def test_what_is_no_duration(text):
    with pytest.raises(ValueError, match=r"^cannot parse .* to a valid duration$"):
        parse_seconds(text)


@pytest.mark.parametrize("text", ["1e20", "inf", "-1e20"])
def test_durations_beyond_what_go_can_count(text):
    with pytest.raises(ValueError, match=r"It overflows int64$"):
        parse_seconds(text)
