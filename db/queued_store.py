"""What the collectors write to when all samples go to an engine: a queue for the samples, the store for what
is said about their sources."""

from collections.abc import Callable, Collection, Sequence
from pathlib import Path

from db.outgoing_queue import FOLDER, Bounds, OutgoingQueue
from db.records import DenseAppend, MetricMetadata, SourceReport, SparseAppend
from db.remote_settings import PrometheusSettings
from db.sources import SourceKey
from db.store import SampleStore


class QueuedStore:
    """The writing part of a `SampleStore`, with its errors."""

    def __init__(self, store: SampleStore, queue: OutgoingQueue) -> None:
        self._store = store
        self._queue = queue

    def write(
        self,
        appends: Sequence[DenseAppend | SparseAppend],
        reports: Sequence[SourceReport] = (),
        metadata: Sequence[MetricMetadata] = (),
    ) -> None:
        """Raises as `SampleStore.write` does."""
        # The reports first: they may be written twice, and the samples may not.
        if reports or metadata:
            self._store.write((), reports, metadata)
        self._queue.append(appends)

    def retain_sources(self, keys: Collection[SourceKey]) -> None:
        self._store.retain_sources(keys)


class KeptQueue:
    """Gives the store, or the store behind a queue, whichever samples are to be written to.

    The queue is made at the first use: a process that never writes has none.
    """

    def __init__(
        self,
        store: Callable[[], SampleStore],
        data: Path,
        writer: str,
        engine: PrometheusSettings | None,
        now_ms: Callable[[], int],
    ) -> None:
        self._store = store
        self._folder = queue_folder(data, writer)
        self._engine = engine
        self._now_ms = now_ms
        self._queue: OutgoingQueue | None = None

    def __call__(self) -> SampleStore | QueuedStore:
        """Raises StoreError."""
        if self._engine is None or not self._engine.is_written:
            return self._store()
        if self._queue is None:
            most = self._engine.max_samples_per_send
            self._queue = OutgoingQueue(self._folder, bounds_of(self._engine), self._now_ms, most)
        return QueuedStore(self._store(), self._queue)


def queue_folder(data: Path, writer: str) -> Path:
    """Each process that writes has a queue of its own: two would not know of each other's series."""
    return data / FOLDER / writer


def bounds_of(settings: PrometheusSettings) -> Bounds:
    return Bounds(settings.queue.size, int(settings.queue.age * 1000))
