"""What the pages stand on: the store, the processes' own reports, and the clock.

Streamlit runs page scripts without arguments, so the server installs this once before it starts; tests
install theirs, with a store they filled and a clock they hold.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, tzinfo
from itertools import count
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Generic, TypeVar

from db.catalog.catalog import Catalog
from db.catalog.load import load_catalog
from db.engine import open_state
from db.held_samples import Held
from db.processes import Process, beat, read_processes
from db.samples_source import open_samples_source
from db.settings import Settings
from db.store import SampleStore

if TYPE_CHECKING:
    from db.joined_source import JoinedSource

_T = TypeVar("_T")
_Where = TypeVar("_Where", bound=Path | str)
_numbers = count()


def wall_clock_ms() -> int:
    return time.time_ns() // 1_000_000


@dataclass(frozen=True, slots=True)
class PageContext:
    """store and processes may raise a `db.errors.StoreError`; pages then say "unreachable".

    held: what the collector process keeps in memory because the store refuses it.
    demo: what the store holds is simulated, and every page has to say so.
    catalog: the signals, with what the user added.
    zone: in which charts and clock times are shown.
    identity: tells one context from another in cache keys.
    """

    store: Callable[[], "SampleStore | JoinedSource"]
    processes: Callable[[], list[Process]]
    now_ms: Callable[[], int] = wall_clock_ms
    zone: tzinfo = UTC
    held: Callable[[], Held | None] = lambda: None
    demo: bool = False
    catalog: Callable[[], Catalog] = load_catalog
    identity: int = field(default_factory=lambda: next(_numbers))


class KeptOpen(Generic[_T, _Where]):
    """Opens a database on first use and keeps it, but notices when its file was replaced.

    An open SQLite connection outlives its file: after a restored backup it would answer from the deleted
    one for ever. A server's URL names no file; its connections are replaced as they break. A failed opening
    is tried again at the next use.
    """

    def __init__(self, where: _Where, opener: Callable[[_Where], _T], closer: Callable[[_T], None]) -> None:
        self._where = where
        self._opener = opener
        self._closer = closer
        self._lock = Lock()
        self._opened: tuple[_T, tuple[int, int]] | None = None

    def __call__(self) -> _T:
        """The open database. Raises StoreError."""
        with self._lock:
            if self._opened is not None:
                if self._opened[1] == self._file():
                    return self._opened[0]
                self._closer(self._opened[0])
                self._opened = None
            handle = self._opener(self._where)
            self._opened = handle, self._file()
            return handle

    def close(self) -> None:
        with self._lock:
            if self._opened is not None:
                self._closer(self._opened[0])
                self._opened = None

    def _file(self) -> tuple[int, int]:
        if not isinstance(self._where, Path):
            return 0, 0
        try:
            status = self._where.stat()
        except OSError:
            return 0, 0
        return status.st_dev, status.st_ino


class ProcessBook:
    """Strata's own processes as they report themselves, in the state database."""

    def __init__(self, where: Path | str) -> None:
        self._state = KeptOpen(where, open_state, lambda engine: engine.dispose())

    def read(self) -> list[Process]:
        """Raises StoreError."""
        return read_processes(self._state())

    def beat(self, *, pid: int, started_ms: int, now_ms: int) -> None:
        """The web process is alive. Raises StoreError."""
        beat(self._state(), "web", pid=pid, started_ms=started_ms, now_ms=now_ms)

    def close(self) -> None:
        self._state.close()


def kept_samples(path: Path) -> KeptOpen[SampleStore, Path]:
    return KeptOpen(path, SampleStore.open, SampleStore.close)


def kept_source(settings: Settings) -> "KeptOpen[SampleStore | JoinedSource, Path]":
    """What pages and queries read: the store, joined with the engine of the settings where there is one."""
    engine = settings.store.prometheus
    return KeptOpen(
        settings.samples_path,
        lambda path: open_samples_source(path, engine),
        lambda source: source.close(),
    )


_installed: list[PageContext] = []


def install(context: PageContext) -> None:
    """Make it the one that pages see from now on."""
    _installed[:] = [context]


def current() -> PageContext:
    """Raises RuntimeError when no server installed one."""
    if not _installed:
        raise RuntimeError("no page context: start the pages with `strata web`, not with `streamlit run`")
    return _installed[0]
