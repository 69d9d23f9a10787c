"""The local store and a remote engine as one source of samples, and queries over both."""

from collections.abc import Sequence

import numpy as np

from db.errors import StoreUnreachable
from db.labels import METRIC_NAME, Labels
from db.nan import ABSENT, FloatArray, is_absent
from db.promql.answer import Answer
from db.promql.engine import Options, instant, ranged
from db.promql.errors import QueryError
from db.promql.kubernetes_labels import moved_labels
from db.promql.limits import Budget
from db.promql.parse import parse
from db.promql.routing import Locality, aside, route
from db.promql.source import Source
from db.records import Latest, Matcher, Rectangle, Series, SourceReport, Steps
from db.remote import RemoteEngine
from db.remote_decode import SeriesMemory
from db.series_set import SeriesSet
from db.store import SampleStore

_OPTIONS = Options()
# How far back the engine's label names are looked at.
_RECENT_MS = 3_600_000


class JoinedSource:
    """A `Source` whose every selection is answered by the store, by the engine, or by both."""

    def __init__(self, store: SampleStore, engine: RemoteEngine, *, writes: bool = False) -> None:
        """writes: do all samples go to the engine, too? Then the store has only what did not."""
        self.store = store
        self.engine = engine
        self._writes = writes
        self._memory = SeriesMemory()

    def close(self) -> None:
        self.store.close()
        self.engine.close()

    def instant(self, text: str, at_ms: int, options: Options = _OPTIONS) -> Answer:
        """As `db.promql.engine.instant`. What only touches the engine is the engine's own answer."""
        locality = self.locality()
        found = route(parse(text), locality, at_ms, at_ms, options.default_step_ms)
        if found.whole:
            return self.engine.instant(text, at_ms, options.lookback_ms)
        return instant(_View(self, locality), text, at_ms, options, found.expression)

    def ranged(
        self, text: str, start_ms: int, end_ms: int, step_ms: int, options: Options = _OPTIONS
    ) -> Answer:
        """As `db.promql.engine.ranged`."""
        locality = self.locality()
        found = route(parse(text), locality, start_ms, end_ms, options.default_step_ms)
        if found.whole and step_ms > 0 and end_ms >= start_ms:
            Budget(options.limits).check_steps((end_ms - start_ms) // step_ms + 1)
            return self.engine.ranged(text, start_ms, end_ms, step_ms, options.lookback_ms)
        view = _View(self, locality)
        return ranged(view, text, start_ms, end_ms, step_ms, options, found.expression)

    def moved_gpu_labels(self, now_ms: int) -> dict[str, str]:
        """What our expressions call a label of GPU metrics -> what the engine calls it, where Kubernetes'
        scraping has moved it; see `db.promql.kubernetes_labels`. Raises QueryError."""
        gpu = [Matcher(METRIC_NAME, "=~", "DCGM_FI_DEV_GPU_UTIL|DCGM_FI_PROF_GR_ENGINE_ACTIVE")]
        names = self.engine.label_names(gpu, start_ms=now_ms - _RECENT_MS, end_ms=now_ms)
        return moved_labels(names)

    def locality(self) -> Locality:
        """What is where just now."""
        return Locality(frozenset(self.store.label_values(METRIC_NAME)), self._writes)

    def rectangles(
        self, matchers: Sequence[Matcher], start_ms: int, end_ms: int
    ) -> tuple[SeriesSet, list[Rectangle]]:
        return _View(self, self.locality()).rectangles(matchers, start_ms, end_ms)

    def at_steps(
        self, matchers: Sequence[Matcher], start_ms: int, end_ms: int, step_ms: int, lookback_ms: int
    ) -> Steps:
        return _View(self, self.locality()).at_steps(matchers, start_ms, end_ms, step_ms, lookback_ms)

    def latest_columns(self, matchers: Sequence[Matcher], at_ms: int, lookback_ms: int) -> Latest:
        return _View(self, self.locality()).latest_columns(matchers, at_ms, lookback_ms)

    def select(self, matchers: Sequence[Matcher], start_ms: int, end_ms: int) -> list[Series]:
        """As `SampleStore.select`, for pages, StoreError included. An engine gives no staleness markers."""
        try:
            found, rectangles = self.rectangles(matchers, start_ms, end_ms)
        except QueryError as error:
            raise StoreUnreachable(str(error)) from error
        series = []
        for one in rectangles:
            for row, values in zip(one.rows.tolist(), one.values, strict=True):
                there = ~is_absent(values)
                if there.any():
                    series.append(Series(found[row], one.timestamps[there], values[there]))
        return sorted(series, key=lambda item: item.labels)

    def sources(self) -> list[SourceReport]:
        """What the collector process reports; see `SampleStore.sources`."""
        return self.store.sources()

    def generation(self) -> int:
        """Changes with the store; nobody tells us of the engine's samples. For cache keys that have the time
        in them, too."""
        return self.store.generation()

    def series_of(self, key: object, labels: Sequence[Labels]) -> SeriesSet:
        """The same object for the same series of the same selection."""
        return self._memory.of(key, labels)


class _View:
    """What one query sees: where metrics are does not change while it runs."""

    def __init__(self, joined: JoinedSource, locality: Locality) -> None:
        self._joined = joined
        self._locality = locality

    def rectangles(
        self, matchers: Sequence[Matcher], start_ms: int, end_ms: int
    ) -> tuple[SeriesSet, list[Rectangle]]:
        found = [source.rectangles(asked, start_ms, end_ms) for source, asked in self._sources(matchers)]
        if len(found) == 1:
            return found[0]
        rows: dict[Labels, int] = {}
        twice: dict[int, list[Rectangle]] = {}
        rectangles: list[Rectangle] = []
        for series, some in found:
            known = len(rows)
            places = np.array([rows.setdefault(labels, len(rows)) for labels in series], dtype=np.int64)
            for one in some:
                at = places[one.rows]
                for row in np.flatnonzero(at < known).tolist() if known else ():
                    twice.setdefault(int(at[row]), []).append(_row(one, row, int(at[row])))
                fresh = at >= known
                if fresh.any():
                    rectangles.append(Rectangle(at[fresh], one.timestamps, one.values[fresh]))
        if twice:
            rectangles = _merged(rectangles, twice)
        return self._joined.series_of(("raw", tuple(matchers)), list(rows)), rectangles

    def at_steps(
        self, matchers: Sequence[Matcher], start_ms: int, end_ms: int, step_ms: int, lookback_ms: int
    ) -> Steps:
        text = aside(matchers)
        if text is not None:
            return self._joined.engine.steps_of(text, start_ms, end_ms, step_ms, lookback_ms)
        found = [
            source.at_steps(asked, start_ms, end_ms, step_ms, lookback_ms)
            for source, asked in self._sources(matchers)
        ]
        if len(found) == 1:
            return found[0]
        rows: dict[Labels, int] = {}
        places = [[rows.setdefault(labels, len(rows)) for labels in part.series] for part in found]
        values = np.full((len(rows), len(found[0].timestamps)), ABSENT)
        for part, at in zip(reversed(found), reversed(places), strict=True):  # what is local counts
            values[at] = np.where(is_absent(part.values), values[at], part.values)
        return Steps(self._joined.series_of(tuple(matchers), list(rows)), found[0].timestamps, values)

    def latest_columns(self, matchers: Sequence[Matcher], at_ms: int, lookback_ms: int) -> Latest:
        text = aside(matchers)
        if text is not None:
            return self._joined.engine.latest_of(text, at_ms, lookback_ms)
        found = [
            source.latest_columns(asked, at_ms, lookback_ms) for source, asked in self._sources(matchers)
        ]
        if len(found) == 1:
            return found[0]
        rows: dict[Labels, tuple[int, float]] = {}
        for part in found:
            for labels, time, value in zip(
                part.series, part.timestamps.tolist(), part.values.tolist(), strict=True
            ):
                if labels not in rows or time > rows[labels][0]:
                    rows[labels] = (time, value)
        series = self._joined.series_of(("latest", tuple(matchers)), list(rows))
        times = np.array([time for time, _ in rows.values()], dtype=np.int64)
        return Latest(series, times, np.array([value for _, value in rows.values()], dtype=np.float64))

    def _sources(self, matchers: Sequence[Matcher]) -> list[tuple[Source, Sequence[Matcher]]]:
        """Who is asked, and for what."""
        place = self._locality.place(matchers)
        found: list[tuple[Source, Sequence[Matcher]]] = []
        if place != "remote":
            found.append((self._joined.store, self._locality.here(matchers)))
        if place != "local":
            found.append((self._joined.engine, matchers))
        return found


def _row(rectangle: Rectangle, row: int, place: int) -> Rectangle:
    there = ~is_absent(rectangle.values[row])
    values: FloatArray = rectangle.values[row : row + 1, there]
    return Rectangle(np.array([place], dtype=np.int64), rectangle.timestamps[there], values)


def _merged(rectangles: Sequence[Rectangle], twice: dict[int, list[Rectangle]]) -> list[Rectangle]:
    """Series that both have become rectangles of their own; of equal times the local sample counts."""
    merged = []
    for one in rectangles:
        again = np.isin(one.rows, list(twice))
        for row in np.flatnonzero(again).tolist():
            twice[int(one.rows[row])].insert(0, _row(one, row, int(one.rows[row])))
        if not again.all():
            merged.append(Rectangle(one.rows[~again], one.timestamps, one.values[~again]))
    for held in twice.values():
        times, first = np.unique(np.concatenate([one.timestamps for one in held]), return_index=True)
        values = np.concatenate([one.values[0] for one in held])[first]
        merged.append(Rectangle(held[0].rows, times, values[None]))
    return merged
