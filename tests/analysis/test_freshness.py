import pytest

from app.analysis.freshness import freshness, stale_after_ms


def test_three_missed_attempts_make_stale():
    assert freshness(0, 15.0, 45_000) == "live"
    assert freshness(0, 15.0, 45_001) == "stale"


def test_a_fast_source_is_given_twenty_seconds():
    assert stale_after_ms(1.0) == 20_000


def test_never_is_not_stale():
    assert freshness(None, 15.0, 10**12) == "never"


@pytest.mark.parametrize("ahead", [1, 60_000])
def test_a_clock_behind_the_collectors_is_live(ahead):
    assert freshness(1_000_000 + ahead, 15.0, 1_000_000) == "live"
