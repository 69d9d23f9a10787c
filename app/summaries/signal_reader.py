"""Signals of the catalogue over a page's grid: the only place where tiles and sparklines meet PromQL."""

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from db.catalog.catalog import WINDOW, Catalog, UnknownSignal
from db.catalog.newest import newest_promql
from db.catalog.presence import series_finder
from db.catalog.read import read_signal
from db.catalog.read_range import read_steps
from db.catalog.signal import Resolved
from db.errors import StoreUnreachable
from db.nan import FloatArray, IntArray
from db.promql.engine import instant
from db.promql.errors import QueryError, SourceUnavailable
from db.promql.narrow import narrowed
from db.records import Matcher

if TYPE_CHECKING:
    from db.joined_source import JoinedSource
    from db.store import SampleStore

LabelPairs = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True, eq=False)
class Trend:
    """One series of a signal. labels: canonical, empty ones left out. values: float64[grid], NaN for gaps."""

    labels: Mapping[str, str]
    values: FloatArray


@dataclass(frozen=True, slots=True)
class SignalReader:
    """Reads one store for one look at it.

    names: the metrics that the store has. at: int64[points], ms: a grid of `app.analysis.grid.time_grid`,
    whose last point is the time that the page is drawn for, off the step of the others. chosen: conditions on
    raw labels, for a few of very many targets. problems: why signals could not be read, a line each; they are
    shown as absent then. Every method raises StoreError where the store or the engine does not answer.
    """

    catalog: Catalog
    source: "SampleStore | JoinedSource"
    names: Set[str]
    at: IntArray
    chosen: Sequence[Matcher] = ()
    problems: list[str] = field(default_factory=list)

    def trends(self, signal: str, by: Sequence[str], window: str = WINDOW) -> list[Trend]:
        """Every series of the signal by these labels; none where no exporter yields it."""
        first, last, step = int(self.at[0]), int(self.at[-2]), int(self.at[1] - self.at[0])
        try:
            resolved = self._resolved(signal, by, window)
            if resolved is None:
                return []
            _, steps = read_steps(self.source, resolved, first, last, step)
            now = read_signal(self.source, resolved, int(self.at[-1]))
        except (QueryError, UnknownSignal) as error:
            self._note(signal, error)
            return []
        return self._joined({one.labels: one.values for one in steps}, {one.labels: one.value for one in now})

    def now(self, signal: str, by: Sequence[str]) -> list[tuple[Mapping[str, str], float]]:
        """The signal's values at the grid's end."""
        try:
            resolved = self._resolved(signal, by, WINDOW)
            if resolved is None:
                return []
            readings = read_signal(self.source, resolved, int(self.at[-1]))
        except (QueryError, UnknownSignal) as error:
            self._note(signal, error)
            return []
        return [(dict(one.labels), one.value) for one in readings]

    def newest_ms(self, signals: Sequence[str], by: Sequence[str]) -> list[tuple[Mapping[str, str], int]]:
        """When the newest samples behind these signals were taken, for what has some at the grid's end."""
        try:
            text = newest_promql(self.catalog, signals, self.names, by)
            if not text:
                return []
            answer = instant(self.source, narrowed(text, self.chosen), int(self.at[-1]))
        except (QueryError, UnknownSignal) as error:
            self._note("newest samples", error)
            return []
        seconds = answer.values[:, 0].tolist()
        return [
            (dict(labels), round(value * 1000))
            for labels, value in zip(answer.table.rows(), seconds, strict=True)
        ]

    def _resolved(self, signal: str, by: Sequence[str], window: str) -> Resolved | None:
        finder = series_finder(self.source, int(self.at[-1]))
        found = self.catalog.resolve(signal, self.names, by=by, window=window, has_series=finder)
        if not isinstance(found, Resolved):
            return None
        return replace(found, promql=narrowed(found.promql, self.chosen)) if self.chosen else found

    def _joined(self, steps: Mapping[LabelPairs, FloatArray], now: Mapping[LabelPairs, float]) -> list[Trend]:
        found = []
        for labels in {**steps, **now}:
            values = np.full(len(self.at), np.nan)
            if labels in steps:
                values[:-1] = steps[labels]
            values[-1] = now.get(labels, np.nan)
            found.append(Trend(dict(labels), values))
        return found

    def _note(self, what: str, error: QueryError | UnknownSignal) -> None:
        if isinstance(error, SourceUnavailable):
            raise StoreUnreachable(str(error)) from error
        self.problems.append(f"{what}: {error}")
