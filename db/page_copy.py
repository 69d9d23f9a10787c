"""Copies a SQLite file page by page, as one snapshot, while other processes go on writing to it.

SQLite's own ways hold one read snapshot until the last byte (`VACUUM INTO`, the backup API in one step), so
that the write-ahead log keeps everything written meanwhile, or begin anew at every commit of another process
(the backup API in steps). Here the file is copied in slices of a second. At the end of each the log is folded
into the file and may start over; the numbers of the pages written since are read from the log itself
(https://www.sqlite.org/fileformat2.html#walformat), and those pages are copied once more, until few are left.
Then the file stands still under a read snapshot for the moment that these few take. Measured with 500 MB, 5
commits/s and a target of 40 MB/s on a busy machine: the slowest commit took 49 ms without any copy, 53 ms
during this one and 162 ms under one snapshot; the log stayed at 4 MB here and grew to 42 MB there.

Why no page is missed: a read transaction that begins while the whole log is in the file reads the file alone,
and while it lasts nobody can fold anything into it (https://www.sqlite.org/walformat.html#wal_read_lock): the
file does not change, and frames that are not folded are not overwritten. Between two such transactions the
write lock is held. A page noted for nothing costs one copy of it.
"""

import os
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

_ROUNDS = 10  # writers that are faster than the copy never leave only few pages
_RETRY_SECONDS = 0.05
_FRAME_HEADER = 24
_LOG_HEADER = 32

# POSIX drops a process's locks on a file as soon as it closes any descriptor of that file, SQLite's own
# among them. One descriptor a file is kept until the process ends.
_kept: dict[tuple[int, int], int] = {}


class CopyFailed(Exception):
    """The copy cannot be made; str() is the reason and the mend, without the file's name."""


@dataclass(frozen=True, slots=True)
class PageCopy:
    """What a copy took. size_bytes: of the copy; again_bytes: copied more than once; rounds: how often."""

    size_bytes: int
    again_bytes: int
    rounds: int


@dataclass(frozen=True, slots=True)
class Pace:
    """slice_seconds: what is written in this time is what the log may gain before it is folded. last_bytes:
    copied in one go while the file stands still, in some 50 ms on a slow disk. patience_seconds: how long a
    reader may hold an old snapshot; Strata's own stay under 5 s."""

    chunk_bytes: int = 4 << 20
    slice_seconds: float = 1.0
    last_bytes: int = 4 << 20
    patience_seconds: float = 60.0


_USUAL = Pace()


def copy_online(source: Path, target: Path, pace: Pace = _USUAL) -> PageCopy:
    """Copy the database `source` to the new file `target`, synced to disk. Holds every commit that was
    acknowledged before the call, and of later ones a prefix.

    Raises CopyFailed, sqlite3.Error or OSError; what is then left of the target is of no use.
    """
    with closing(_Source(source, pace)) as file, target.open("xb", buffering=0) as out:
        if file.settle():
            file.changed.clear()  # nothing was copied yet
        _copy_whole(file, out.fileno())
        again = 0
        for number in range(1, _ROUNDS + 1):
            file.settle_for_certain()
            pages = sorted(file.changed)
            file.changed.clear()
            again += len(pages) * file.page_size
            last = number == _ROUNDS or len(pages) * file.page_size <= pace.last_bytes
            _copy_pages(file, out.fileno(), pages, stand_still=last)
            if last:
                size = file.size()
                break
        out.truncate(size)
        os.fsync(out.fileno())
        return PageCopy(size, again, number)


def _copy_whole(file: "_Source", out: int) -> None:
    at = 0
    while chunk := os.pread(file.descriptor, file.pace.chunk_bytes, at):
        _write(out, chunk, at)
        # Now, and not all at the end: a scrape's commit would wait for the disk behind it.
        os.fdatasync(out)
        os.posix_fadvise(out, at, len(chunk), os.POSIX_FADV_DONTNEED)
        at += len(chunk)
        file.settle_if_due()


def _copy_pages(file: "_Source", out: int, pages: list[int], stand_still: bool) -> None:
    for number in pages:
        at = (number - 1) * file.page_size
        _write(out, os.pread(file.descriptor, file.page_size, at), at)
        if not stand_still:
            file.settle_if_due()


def _write(out: int, data: bytes, at: int) -> None:
    view = memoryview(data)
    while view:
        written = os.pwrite(out, view, at)
        view, at = view[written:], at + written


class _Source:
    """The file that is copied. changed: pages written to it since they were last taken from here."""

    def __init__(self, path: Path, pace: Pace) -> None:
        self.pace = pace
        self._log = path.with_name(path.name + "-wal")
        self.descriptor = _descriptor(path)
        self._connections = [_connect(path, pace) for _ in range(4)]
        self._locker, self._folder, *self._readers = self._connections
        if self._locker.execute("PRAGMA journal_mode=WAL").fetchone()[0] != "wal":
            raise CopyFailed("has no write-ahead log, so that it cannot be copied while it is in use")
        self.page_size = int(self._locker.execute("PRAGMA page_size").fetchone()[0])
        self.changed: set[int] = set()
        self._salts = b""
        self._noted = 0  # frames of the log with these salts that were noted
        self._settled = time.monotonic()

    def close(self) -> None:
        for connection in self._connections:
            connection.close()

    def size(self) -> int:
        """Bytes of the database, while the file stands still."""
        pages = int.from_bytes(os.pread(self.descriptor, 4, 28), "big")
        return pages * self.page_size

    def settle_if_due(self) -> None:
        if time.monotonic() - self._settled >= self.pace.slice_seconds:
            self.settle()

    def settle_for_certain(self) -> None:
        """Settle until the file stands still. Raises CopyFailed when somebody never lets it."""
        deadline = time.monotonic() + self.pace.patience_seconds
        while not self.settle():
            if time.monotonic() > deadline:
                patience = self.pace.patience_seconds
                raise CopyFailed(f"has been read by another program for {patience:g} s; stop that program")
            time.sleep(_RETRY_SECONDS)

    def settle(self) -> bool:
        """Fold the log into the file, note what changed, and let the file stand still from now on.

        False: somebody reads an older snapshot, the file may still change; what does is noted next time.
        """
        # Nearly everything is folded here, where it keeps nobody waiting.
        self._hold_newest()
        self._fold()
        with self._writers_kept_out():
            salts, frames = self._note_changes()
            self._let_go(self._readers[0])
            in_log, folded = self._fold()
            complete = folded == in_log >= 0
            # Behind the log's end may be frames of a writer that died: they will be written over.
            self._salts, self._noted = salts, min(max(in_log, 0), frames)
            self._begin(self._readers[0])
        self._settled = time.monotonic()
        return complete

    def _hold_newest(self) -> None:
        """Begin the newest snapshot before the one held is let go of: the log cannot start over between."""
        self._begin(self._readers[1])
        self._let_go(self._readers[0])
        self._readers.reverse()

    def _begin(self, reader: sqlite3.Connection) -> None:
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM sqlite_schema").fetchone()

    def _let_go(self, reader: sqlite3.Connection) -> None:
        if reader.in_transaction:
            reader.execute("ROLLBACK")

    def _fold(self) -> tuple[int, int]:
        """(frames in the log, how many of them are in the file); (-1, -1) when another process is at it."""
        _busy, in_log, folded = self._folder.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
        return int(in_log), int(folded)

    @contextmanager
    def _writers_kept_out(self) -> Iterator[None]:
        self._locker.execute("BEGIN IMMEDIATE")
        try:
            yield
        finally:
            self._locker.execute("ROLLBACK")

    def _note_changes(self) -> tuple[bytes, int]:
        """Note the pages of all frames that were added since the last time.

        Returns the log's salts, which change when it starts over, and the number of frames that carry them.
        """
        try:
            log = os.open(self._log, os.O_RDONLY)  # SQLite has no locks on this one
        except FileNotFoundError:
            return b"", 0
        try:
            salts = os.pread(log, _LOG_HEADER, 0)[16:24]
            frame = self._noted if salts == self._salts else 0
            step = _FRAME_HEADER + self.page_size
            while len(header := os.pread(log, _FRAME_HEADER, _LOG_HEADER + frame * step)) == _FRAME_HEADER:
                if header[8:16] != salts:
                    break
                self.changed.add(int.from_bytes(header[:4], "big"))
                frame += 1
            return salts, frame
        finally:
            os.close(log)


def _connect(path: Path, pace: Pace) -> sqlite3.Connection:
    return sqlite3.connect(path, isolation_level=None, timeout=pace.patience_seconds)


def _descriptor(path: Path) -> int:
    status = path.stat()
    # A kept descriptor holds its file, so that the number cannot have gone to another one.
    key = status.st_dev, status.st_ino
    if key not in _kept:
        _kept[key] = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    return _kept[key]
