"""A clock that jumps ahead deletes nothing until it was believed."""

from db.retention_clock import DOUBT_SECONDS, RetentionClock

DAY_MS = 86_400_000
NOW_MS = 1_800_000_000_000
KEEP_MS = 15 * DAY_MS


def test_a_steady_clock_is_believed_at_once() -> None:
    clock = RetentionClock()
    for second in range(0, 600, 60):
        assert clock.now_ms(NOW_MS + second * 1000, second, NOW_MS, KEEP_MS) == NOW_MS + second * 1000


def test_an_empty_store_has_nothing_to_doubt() -> None:
    assert RetentionClock().now_ms(NOW_MS, 0.0, None, KEEP_MS) == NOW_MS


def test_a_week_without_samples_is_no_jump() -> None:
    assert RetentionClock().now_ms(NOW_MS, 0.0, NOW_MS - 7 * DAY_MS, KEEP_MS) == NOW_MS


def test_a_start_at_which_everything_would_be_too_old_waits_an_hour() -> None:
    clock = RetentionClock()
    newest = NOW_MS - 400 * DAY_MS
    assert clock.now_ms(NOW_MS, 0.0, newest, KEEP_MS) <= newest
    assert clock.now_ms(NOW_MS + 1000, DOUBT_SECONDS - 1, newest, KEEP_MS) <= newest
    later = NOW_MS + 3_600_000
    assert clock.now_ms(later, DOUBT_SECONDS, newest, KEEP_MS) == later


def test_a_jump_while_running_moves_nothing_until_it_has_lasted() -> None:
    clock = RetentionClock()
    clock.now_ms(NOW_MS, 0.0, NOW_MS, KEEP_MS)
    ahead = NOW_MS + 365 * DAY_MS
    assert clock.now_ms(ahead, 60.0, NOW_MS, KEEP_MS) == NOW_MS + 60_000
    # Samples that were written with the wrong time prove nothing.
    assert clock.now_ms(ahead + 60_000, 120.0, ahead, KEEP_MS) == NOW_MS + 120_000
    assert clock.now_ms(ahead, 61.0 + DOUBT_SECONDS, ahead, KEEP_MS) == ahead


def test_a_jump_that_is_set_right_is_forgotten() -> None:
    clock = RetentionClock()
    clock.now_ms(NOW_MS, 0.0, NOW_MS, KEEP_MS)
    clock.now_ms(NOW_MS + 365 * DAY_MS, 60.0, NOW_MS, KEEP_MS)
    assert clock.now_ms(NOW_MS + 120_000, 120.0, NOW_MS, KEEP_MS) == NOW_MS + 120_000
    ahead = NOW_MS + 365 * DAY_MS
    assert clock.now_ms(ahead, 90.0 + DOUBT_SECONDS, NOW_MS, KEEP_MS) < ahead  # the doubt begins anew


def test_a_clock_that_is_set_back_is_believed() -> None:
    clock = RetentionClock()
    clock.now_ms(NOW_MS, 0.0, NOW_MS, KEEP_MS)
    assert clock.now_ms(NOW_MS - DAY_MS, 60.0, NOW_MS, KEEP_MS) == NOW_MS - DAY_MS
