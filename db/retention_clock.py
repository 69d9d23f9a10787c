"""Up to when samples may be deleted, by a clock that is not believed at once when it jumps ahead.

Deleting is the one thing that a wrong clock makes final: everything would be older than the retention.
"""

import logging
from dataclasses import dataclass

log = logging.getLogger(__name__)

DOUBT_SECONDS = 3_600.0
"""A jump is believed after so long: time for a clock to be set right, or for someone to read the log."""


@dataclass(slots=True)
class RetentionClock:
    """Asked at every round; all times are the caller's, so that tests hold the clocks."""

    _believed_ms: int | None = None
    _believed_at: float = 0.0
    _doubted_at: float | None = None

    def now_ms(self, wall_ms: int, monotonic_seconds: float, newest_ms: int | None, retention_ms: int) -> int:
        """The time that may be believed. newest_ms: of all stored samples, None when there are none."""
        if self._believed_ms is None:
            # The first time there is nothing to compare with but the samples themselves.
            limit_ms = wall_ms if newest_ms is None else newest_ms + retention_ms
            base_ms = wall_ms if newest_ms is None else min(wall_ms, newest_ms)
        else:
            base_ms = self._believed_ms + int((monotonic_seconds - self._believed_at) * 1000)
            limit_ms = base_ms + int(DOUBT_SECONDS * 1000)
        if wall_ms <= limit_ms:
            self._believe(wall_ms, monotonic_seconds)
        elif self._doubted_at is None:
            self._doubted_at = monotonic_seconds
            log.warning(
                "the clock is %d h ahead of the samples; nothing is deleted for an hour: check the time",
                (wall_ms - base_ms) // 3_600_000,
            )
        elif monotonic_seconds - self._doubted_at >= DOUBT_SECONDS:
            self._believe(wall_ms, monotonic_seconds)
        return wall_ms if self._doubted_at is None else base_ms

    def _believe(self, wall_ms: int, monotonic_seconds: float) -> None:
        self._believed_ms, self._believed_at, self._doubted_at = wall_ms, monotonic_seconds, None
