"""Everything that is done to stored samples after they were written: sealing, merging, deleting, emptying the
write-ahead log. One process of a folder does it (`db.maintenance_process`), beside those that write."""

import logging
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from sqlalchemy import Engine

from db.bundles import Placer
from db.compact import compact, due
from db.engine import open_samples, outside_transactions
from db.errors import StoreError, WriteRefused
from db.retention import newest_ms, retain, shrink_file, sweep
from db.retention_clock import RetentionClock
from db.seal import KEPT_MS, seal

log = logging.getLogger(__name__)

SEAL_EVERY_MS = 5 * 60_000
# What comes late for a window that was merged is merged this often: each time writes the whole window.
LATE_EVERY_MS = 3_600_000
RETAIN_EVERY_MS = 60_000
SWEEP_EVERY_MS = 3_600_000
# 16 MB: what a burst of writing leaves behind is given back to the disk.
_LONG_LOG_PAGES = 4_096
# Our readers let go of their snapshots after seconds; a log of so many pages (256 MB) means that a foreign
# program holds one.
_PINNED_PAGES = 65_536


class Maintainer:
    """The work itself, driven by a clock that the caller gives. Not safe for threads.

    Every method may raise WriteRefused or StoreUnreachable and may then be called again: what was done stays
    done, what was half done is done anew.
    """

    def __init__(self, engine: Engine, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._engine = engine
        self._monotonic = monotonic
        self._clock = RetentionClock()
        self._placer = Placer()
        self._sealed_ms: int | None = None
        self._late_ms: int | None = None
        self._retained_ms: int | None = None
        self._swept_ms: int | None = None
        self._kept: tuple[int, int | None] | None = None

    @classmethod
    def open(cls, path: Path) -> "Maintainer":
        """For a samples file. Raises StoreUnreachable or NewerDatabase."""
        return cls(open_samples(path))

    def close(self) -> None:
        self._engine.dispose()

    def run(
        self,
        now_ms: int,
        retention_ms: int,
        size_bytes: int | None = None,
        stopping: Callable[[], bool] = lambda: False,
    ) -> None:
        """Do what is due at this time; call it every few seconds. stopping: asked between pieces of work."""
        failed: list[StoreError] = []
        pieces: tuple[Callable[[], None], ...] = (
            partial(self._seal_and_merge, now_ms, stopping),
            # A full disk refuses to seal: that must not keep the old from being deleted.
            partial(self._delete, now_ms, (retention_ms, size_bytes), stopping),
            self.checkpoint,
        )
        for work in pieces:
            try:
                work()
            except StoreError as error:
                failed.append(error)
        if failed:
            raise failed[0]

    def _seal_and_merge(self, now_ms: int, stopping: Callable[[], bool]) -> None:
        if not _due(self._sealed_ms, now_ms, SEAL_EVERY_MS):
            return
        while not stopping() and seal(self._engine, self._placer, now_ms):
            pass
        self._sealed_ms = now_ms
        late = _due(self._late_ms, now_ms, LATE_EVERY_MS)
        self.compact(now_ms, late=late, stopping=stopping)
        if late:
            self._late_ms = now_ms

    def _delete(self, now_ms: int, kept: tuple[int, int | None], stopping: Callable[[], bool]) -> None:
        # A changed retention counts at once.
        if stopping() or not (kept != self._kept or _due(self._retained_ms, now_ms, RETAIN_EVERY_MS)):
            return
        retention_ms, size_bytes = kept
        newest = newest_ms(self._engine)
        believed_ms = self._clock.now_ms(now_ms, self._monotonic(), newest, retention_ms)
        self.retain(believed_ms - retention_ms, size_bytes)
        if _due(self._swept_ms, now_ms, SWEEP_EVERY_MS):
            sweep(self._engine)
            self._swept_ms = now_ms
        self._retained_ms, self._kept = now_ms, kept

    def seal(self, now_ms: int, kept_ms: int = KEPT_MS) -> None:
        """Move everything older than kept_ms from the head into blocks."""
        while seal(self._engine, self._placer, now_ms, kept_ms):
            pass

    def compact(
        self, now_ms: int, *, late: bool = True, stopping: Callable[[], bool] = lambda: False
    ) -> None:
        """Merge the blocks of windows that are over. late: also of those that were merged before."""
        for work in due(self._engine, now_ms, late=late):
            if stopping():
                return
            compact(self._engine, work)

    def retain(self, cutoff_ms: int, size_bytes: int | None = None) -> None:
        """Delete blocks that end before cutoff_ms and the oldest ones beyond size_bytes."""
        retain(self._engine, cutoff_ms, size_bytes)
        shrink_file(self._engine)

    def checkpoint(self) -> None:
        """Move the write-ahead log into the file; readers and writers go on meanwhile."""
        with outside_transactions(self._engine) as connection:
            _, pages, moved = connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
            if pages == moved > _LONG_LOG_PAGES:
                # While readers follow upon readers, the log never begins anew by itself. A short one can wait
                # for a round without readers; for a long one, everybody waits until the last of them is done.
                (busy_ms,) = connection.execute("PRAGMA busy_timeout").fetchone()
                if pages <= _PINNED_PAGES // 2:
                    connection.execute("PRAGMA busy_timeout=0")
                connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
                connection.execute(f"PRAGMA busy_timeout={busy_ms}")
        if pages - moved > _PINNED_PAGES:
            raise WriteRefused(
                f"{self._engine.url.database}: some program has kept it open for reading for so long that "
                f"the write-ahead log holds {pages * 4 // 1024} MB; end that program"
            )


def _due(last_ms: int | None, now_ms: int, every_ms: int) -> bool:
    # A clock that was set back must not stop the work.
    return last_ms is None or not last_ms <= now_ms < last_ms + every_ms
