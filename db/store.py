"""The time-series store as everybody else sees it: write, select, latest.

Any number of processes open one file. A write is one transaction and durable when `write` returns;
a read is one snapshot. Sealed blocks will join the head behind this same interface.
"""

from collections.abc import Collection, Sequence
from pathlib import Path
from threading import Lock

import numpy as np
from sqlalchemy import Connection, Engine, select, text
from sqlalchemy.dialects.sqlite import insert
from sqlalchemy.exc import DatabaseError

from db.engine import OUTSIDE_TRANSACTIONS, open_samples, reading, writing
from db.errors import StoreUnreachable, Unstorable
from db.head import LayoutLengths, merge, read_newest, read_pieces, write_dense, write_sparse
from db.index import load_labels, match_series
from db.labels import Labels
from db.models import LabelPairRow, MetadataRow
from db.nan import is_stale
from db.records import (
    DenseAppend,
    LatestSample,
    Matcher,
    MetricMetadata,
    Series,
    SourceReport,
    SparseAppend,
)
from db.retention import drop_older
from db.sources import SourceKey, read_reports, retain_reports, write_reports

# Prometheus's lookback: a series without a sample for this long has no current value.
LOOKBACK_MS = 300_000
_LABELS_CACHED = 200_000


class SampleStore:
    """One samples file. Safe for threads; every method raises a `db.errors.StoreError` on failure."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._lengths = LayoutLengths()
        self._labels: dict[int, Labels] = {}  # ids are never reused, so this cache cannot go stale
        self._write_lock = Lock()
        self._generation_lock = Lock()
        # An idle connection of its own: data_version tells it of commits by every other connection.
        self._watcher = engine.connect().execution_options(**OUTSIDE_TRANSACTIONS)

    @classmethod
    def open(cls, path: Path) -> "SampleStore":
        """Open the file, creating or migrating it. Raises StoreUnreachable or NewerDatabase."""
        return cls(open_samples(path))

    def close(self) -> None:
        self._watcher.close()
        self._engine.dispose()

    def write(
        self,
        appends: Sequence[DenseAppend | SparseAppend],
        reports: Sequence[SourceReport] = (),
        metadata: Sequence[MetricMetadata] = (),
    ) -> None:
        """Store everything in one transaction; when it returns, it is on disk.

        Raises WriteRefused, and then nothing of it was stored and the same call may be repeated; Unstorable
        when repeating it cannot help.
        """
        try:
            self._write(appends, reports, metadata)
        # Text that is not UTF-8, values that do not fit their order, numbers beyond int64.
        except (ValueError, TypeError, OverflowError) as error:
            raise Unstorable(str(error)) from error

    def _write(
        self,
        appends: Sequence[DenseAppend | SparseAppend],
        reports: Sequence[SourceReport],
        metadata: Sequence[MetricMetadata],
    ) -> None:
        dense = [append for append in appends if isinstance(append, DenseAppend)]
        with self._write_lock:
            with writing(self._engine) as connection:
                layouts = write_dense(connection, dense, self._lengths)
                for append in appends:
                    if isinstance(append, SparseAppend):
                        write_sparse(connection, append)
                if metadata:
                    rows = [
                        {"metric": item.metric, "type": item.type, "help": item.help, "unit": item.unit}
                        for item in metadata
                    ]
                    connection.execute(insert(MetadataRow).on_conflict_do_nothing(), rows)
                write_reports(connection, reports)
            self._lengths.known.update(layouts)
            for append in dense:
                if append.ends:
                    self._lengths.known.pop(append.layout_key, None)

    def select(self, matchers: Sequence[Matcher], start_ms: int, end_ms: int) -> list[Series]:
        """Every matching series that has samples in [start_ms, end_ms] (both ends included), ordered by
        labels; staleness markers are among the values. Raises BadMatcher or StoreUnreachable."""
        with reading(self._engine) as connection:
            pieces = read_pieces(connection, match_series(connection, matchers), start_ms, end_ms)
            labels = self._labels_of(connection, pieces)
        found = [Series(labels[series_id], *merge(parts)) for series_id, parts in pieces.items()]
        return sorted(found, key=lambda series: series.labels)

    def latest(
        self, matchers: Sequence[Matcher], at_ms: int, lookback_ms: int = LOOKBACK_MS
    ) -> list[LatestSample]:
        """The newest sample at or before at_ms of every matching series that has not ended, ordered by
        labels. The window is (at_ms - lookback_ms, at_ms], as Prometheus has it."""
        with reading(self._engine) as connection:
            ids = match_series(connection, matchers)
            newest = read_newest(connection, ids, at_ms - lookback_ms + 1, at_ms)
            ended = is_stale(np.array([value for _, value in newest.values()], dtype=np.float64))
            live = {key: newest[key] for key, gone in zip(newest, ended, strict=True) if not gone}
            labels = self._labels_of(connection, live)
        found = [LatestSample(labels[key], at, float(value)) for key, (at, value) in live.items()]
        return sorted(found, key=lambda sample: sample.labels)

    def label_values(self, name: str) -> list[str]:
        """All values ever stored for a label."""
        with reading(self._engine) as connection:
            rows = connection.execute(select(LabelPairRow.value).where(LabelPairRow.name == name))
            return sorted(row.value for row in rows)

    def metadata(self) -> list[MetricMetadata]:
        """TYPE, HELP and UNIT of every family, as its sources declared them."""
        with reading(self._engine) as connection:
            rows = connection.execute(select(MetadataRow.__table__).order_by(MetadataRow.metric))
            return [MetricMetadata(*row) for row in rows]

    def sources(self) -> list[SourceReport]:
        """The last attempt on each target and collector."""
        with reading(self._engine) as connection:
            return read_reports(connection)

    def retain_sources(self, keys: Collection[SourceKey]) -> None:
        """Forget the sources that are not among the keys."""
        with self._write_lock, writing(self._engine) as connection:
            retain_reports(connection, keys)

    def drop_older(self, cutoff_ms: int) -> bool:
        """Delete one bounded batch of samples older than cutoff_ms; True when more is left to delete."""
        with self._write_lock, writing(self._engine) as connection:
            return drop_older(connection, cutoff_ms, keep=self._lengths.known.values())

    def generation(self) -> int:
        """A number that changes when any process commits to the file; for cache keys."""
        with self._generation_lock:
            try:
                return int(self._watcher.execute(text("PRAGMA data_version")).scalar_one())
            except DatabaseError as error:
                raise StoreUnreachable(f"{self._engine.url.database}: {error.orig}") from error

    def _labels_of(self, connection: Connection, ids: Collection[int]) -> dict[int, Labels]:
        held = self._labels  # other threads may swap in another dict at any moment
        missing = [series_id for series_id in ids if series_id not in held]
        if missing:
            if len(held) > _LABELS_CACHED:
                held, missing = {}, list(ids)
            held = {**held, **load_labels(connection, np.array(missing, dtype=np.int64))}
            self._labels = held
        return held
