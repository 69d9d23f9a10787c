"""The time-series store as everybody else sees it: write, load, select, latest.

Any number of processes open one file. A write is one transaction and durable when `write` returns;
a read is one snapshot. Where samples are (head or blocks) shows nowhere.
"""

from collections.abc import Collection, Sequence
from pathlib import Path
from threading import Lock

import numpy as np
from sqlalchemy import Connection, Engine, select, text
from sqlalchemy.dialects.sqlite import insert
from sqlalchemy.exc import DatabaseError

from db.block_cache import BlockCache
from db.block_load import load_slabs
from db.block_read import Fetched, decode, fetch
from db.bundles import Placer
from db.damage import naming_damage
from db.engine import OUTSIDE_TRANSACTIONS, open_samples, reading, writing
from db.errors import StoreUnreachable, Unstorable
from db.head import LayoutLengths, end_layouts, read_head, write_appends
from db.index import intern_series
from db.latest import read_latest
from db.models import LabelPairRow, MetadataRow
from db.nan import IntArray, is_absent
from db.pieces import Assembled, Piece, assemble, without_gaps
from db.ragged import Ragged, ragged
from db.records import (
    FIRST_MS,
    LAST_MS,
    DenseAppend,
    Latest,
    LatestSample,
    Matcher,
    MetricMetadata,
    Rectangle,
    Series,
    Slab,
    SourceReport,
    SparseAppend,
    Steps,
)
from db.selection import Selection, Selections
from db.series_ids import SeriesIds
from db.series_set import SeriesSet
from db.sources import SourceKey, read_reports, retain_reports, write_reports
from db.steps import at_steps
from db.store_state import read_state

# Prometheus's lookback: a series without a sample for this long has no current value.
LOOKBACK_MS = 300_000
# New series that one transaction takes: giving so many their ids takes some tenths of a second.
_MET_AT_ONCE = 8_192


class SampleStore:
    """One samples file. Safe for threads; every method raises a `db.errors.StoreError` on failure."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self._lengths = LayoutLengths()
        self._series_ids = SeriesIds()
        self._placer = Placer()
        self._selections = Selections()
        self._blocks = BlockCache()
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
        self.engine.dispose()

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
        with self._write_lock:
            self._meet(appends)
            self._series_ids.begin()
            with writing(self.engine) as connection:
                layouts = write_appends(connection, appends, self._lengths, self._series_ids)
                if metadata:
                    rows = [
                        {"metric": item.metric, "type": item.type, "help": item.help, "unit": item.unit}
                        for item in metadata
                    ]
                    connection.execute(insert(MetadataRow).on_conflict_do_nothing(), rows)
                write_reports(connection, reports)
            self._lengths.known.update(layouts)
            self._series_ids.keep()
            for append in appends:
                if isinstance(append, DenseAppend) and append.ends:
                    self._lengths.known.pop(append.layout_key, None)

    def _meet(self, appends: Sequence[DenseAppend | SparseAppend]) -> None:
        """Give very many new series their ids in transactions of their own: others write in between."""
        new = [
            labels for append in appends if isinstance(append, DenseAppend) for labels in append.new_series
        ]
        for first in range(0, len(new) if len(new) > _MET_AT_ONCE else 0, _MET_AT_ONCE):
            with writing(self.engine) as connection:
                intern_series(connection, new[first : first + _MET_AT_ONCE])

    def load(self, slabs: Sequence[Slab]) -> None:
        """Store many samples of any age at once, in blocks; when it returns, they are on disk.

        Raises WriteRefused, and then a part may be stored and the same call may be repeated; Unstorable when
        repeating it cannot help. Meant for a hundred thousand samples and more.
        """
        try:
            with self._write_lock:
                load_slabs(self.engine, self._placer, slabs)
        except (ValueError, TypeError, OverflowError) as error:
            raise Unstorable(str(error)) from error

    def select(self, matchers: Sequence[Matcher], start_ms: int, end_ms: int) -> list[Series]:
        """Every matching series that has samples in [start_ms, end_ms] (both ends included), ordered by
        labels; staleness markers are among the values. Raises BadMatcher or StoreUnreachable."""
        found, ids, matching = self._wholes(matchers, start_ms, end_ms)
        labels = list(matching)
        series = []
        for whole in (part for item in found for part in without_gaps(item)):
            rows = np.searchsorted(ids, whole.ids).tolist()
            series += [
                Series(labels[row], whole.timestamps, values)
                for row, values in zip(rows, whole.values, strict=True)
            ]
        return sorted(series, key=lambda item: item.labels)

    def slabs(self, matchers: Sequence[Matcher], start_ms: int, end_ms: int) -> list[Slab]:
        """The same samples as `select` gives, in rectangles: series that share their timestamps are together,
        and each is in one rectangle only; `db.nan.ABSENT` where one misses a timestamp."""
        found, ids, matching = self._wholes(matchers, start_ms, end_ms)
        labels = list(matching)
        slabs = []
        for whole in found:
            there = ~is_absent(whole.values).all(axis=1)
            rows = np.searchsorted(ids, whole.ids[there]).tolist()
            values = whole.values if there.all() else whole.values[there]
            if len(rows):
                slabs.append(Slab([labels[row] for row in rows], whole.timestamps, values))
        return slabs

    def rectangles(
        self, matchers: Sequence[Matcher], start_ms: int, end_ms: int
    ) -> tuple[SeriesSet, list[Rectangle]]:
        """Every matching series, and the samples of [start_ms, end_ms] in rectangles: as `slabs`, but with
        places in one set of series, which stays the same object as long as no series is added."""
        found, ids, series = self._wholes(matchers, start_ms, end_ms)
        return series, _rectangles(ids, found)

    def ragged(
        self, matchers: Sequence[Matcher], start_ms: int, end_ms: int
    ) -> tuple[SeriesSet, Ragged | list[Rectangle]]:
        """As `rectangles`, but short stretches of many targets as one row of samples."""
        with naming_damage(self.engine):
            ids, series, pieces = self._pieces(matchers, start_ms, end_ms)
        return series, ragged(ids, pieces) or _rectangles(ids, assemble(pieces))

    def _pieces(
        self, matchers: Sequence[Matcher], start_ms: int, end_ms: int
    ) -> tuple[IntArray, SeriesSet, list[Piece]]:
        with reading(self.engine) as connection:
            selection, pieces, fetched = self._read(connection, matchers, start_ms, end_ms)
        # Decoded outside the snapshot, which pins the write-ahead log.
        pieces += decode(fetched.rows(), max(start_ms, FIRST_MS), min(end_ms, LAST_MS))
        return selection.ids, selection.series, pieces

    def _wholes(
        self, matchers: Sequence[Matcher], start_ms: int, end_ms: int
    ) -> tuple[list[Assembled], IntArray, SeriesSet]:
        with naming_damage(self.engine):
            ids, series, pieces = self._pieces(matchers, start_ms, end_ms)
        return assemble(pieces), ids, series

    def _read(
        self, connection: Connection, matchers: Sequence[Matcher], start_ms: int, end_ms: int
    ) -> tuple[Selection, list[Piece], Fetched]:
        start_ms, end_ms = max(start_ms, FIRST_MS), min(end_ms, LAST_MS)
        state = read_state(connection)
        selection = self._selections.find(connection, state, matchers)
        slots = selection.slots(connection, state).layouts
        pieces = read_head(connection, state, selection.ids, slots, start_ms, end_ms)
        members = selection.members(connection, state)
        return selection, pieces, fetch(connection, state, members, start_ms, end_ms, self._blocks)

    def at_steps(
        self,
        matchers: Sequence[Matcher],
        start_ms: int,
        end_ms: int,
        step_ms: int,
        lookback_ms: int = LOOKBACK_MS,
    ) -> Steps:
        """What every matching series is at start_ms, start_ms + step_ms, ... up to end_ms: its newest sample
        in (step - lookback_ms, step] unless it has ended there. Series with nothing at any step are left
        out."""
        grid = np.arange(start_ms, end_ms + 1, step_ms, dtype=np.int64)
        with naming_damage(self.engine):
            with reading(self.engine) as connection:
                begin_ms = start_ms - lookback_ms + 1
                selection, pieces, fetched = self._read(connection, matchers, begin_ms, end_ms)
            values = at_steps(selection.ids, pieces, fetched.rows(), grid, lookback_ms)
        absent = is_absent(values)
        if not absent.any():
            return Steps(selection.series, grid, values, whole=True)
        there = np.flatnonzero(~absent.all(axis=1))
        if len(there) < len(values):
            values = values[there]
        return Steps(selection.series.take(there), grid, values)

    def latest_columns(
        self, matchers: Sequence[Matcher], at_ms: int, lookback_ms: int = LOOKBACK_MS
    ) -> Latest:
        """The newest sample at or before at_ms of every matching series that has not ended. The window is
        (at_ms - lookback_ms, at_ms], as Prometheus has it."""
        with naming_damage(self.engine), reading(self.engine) as connection:
            state = read_state(connection)
            selection = self._selections.find(connection, state, matchers)
            times, values = read_latest(
                connection, state, selection, self._blocks, at_ms - lookback_ms + 1, at_ms
            )
        absent = is_absent(values)
        if absent.any():
            live = np.flatnonzero(~absent)
            return Latest(selection.series.take(live), times[live], values[live])
        return Latest(selection.series, times, values)

    def latest(
        self, matchers: Sequence[Matcher], at_ms: int, lookback_ms: int = LOOKBACK_MS
    ) -> list[LatestSample]:
        """As `latest_columns`, one by one, ordered by labels."""
        found = self.latest_columns(matchers, at_ms, lookback_ms)
        samples = zip(found.series, found.timestamps.tolist(), found.values.tolist(), strict=True)
        return sorted((LatestSample(*sample) for sample in samples), key=lambda sample: sample.labels)

    def label_values(self, name: str) -> list[str]:
        """All values ever stored for a label."""
        with reading(self.engine) as connection:
            rows = connection.execute(select(LabelPairRow.value).where(LabelPairRow.name == name))
            return sorted(row.value for row in rows)

    def metadata(self) -> list[MetricMetadata]:
        """TYPE, HELP and UNIT of every family, as its sources declared them."""
        with reading(self.engine) as connection:
            rows = connection.execute(select(MetadataRow.__table__).order_by(MetadataRow.metric))
            return [MetricMetadata(*row) for row in rows]

    def sources(self) -> list[SourceReport]:
        """The last attempt on each target and collector."""
        with reading(self.engine) as connection:
            return read_reports(connection)

    def retain_sources(self, keys: Collection[SourceKey]) -> None:
        """Forget the sources that are not among the keys."""
        with self._write_lock, writing(self.engine) as connection:
            retain_reports(connection, keys)

    def end_orders(self) -> None:
        """Say that no other process appends dense rows any more: their orders may go once they are sealed.
        For the process that begins to write in their stead; one that was killed could not say it itself."""
        with self._write_lock, writing(self.engine) as connection:
            own = [layout_id for layout_id, _ in self._lengths.known.values()]
            end_layouts(connection, own)

    def generation(self) -> int:
        """A number that changes when any process commits to the file; for cache keys."""
        with self._generation_lock:
            try:
                return int(self._watcher.execute(text("PRAGMA data_version")).scalar_one())
            except DatabaseError as error:
                raise StoreUnreachable(f"{self.engine.url.database}: {error.orig}") from error


def _rectangles(ids: IntArray, found: Sequence[Assembled]) -> list[Rectangle]:
    return [Rectangle(np.searchsorted(ids, whole.ids), whole.timestamps, whole.values) for whole in found]
