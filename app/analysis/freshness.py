"""When is a number too old to be called live? One rule for tiles, tables and banners."""

from typing import Literal

Freshness = Literal["live", "stale", "never"]

# Three missed attempts, as operators write it in alert rules; with a floor, since a two-second collector
# on a busy machine may pause for longer than six seconds without anything being wrong.
MISSED_ATTEMPTS = 3
FLOOR_SECONDS = 20.0


def stale_after_ms(interval_seconds: float) -> int:
    return int(max(MISSED_ATTEMPTS * interval_seconds, FLOOR_SECONDS) * 1000)


def freshness(newest_ms: int | None, interval_seconds: float, now_ms: int) -> Freshness:
    """newest_ms: when data last arrived; interval_seconds: how often it should."""
    if newest_ms is None:
        return "never"
    return "stale" if now_ms - newest_ms > stale_after_ms(interval_seconds) else "live"
