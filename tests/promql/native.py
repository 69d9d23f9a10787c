"""Which reads of a query touch native histograms, which Strata does not have.

The store of a test holds float samples only. Series that have native histograms are in a second store, too,
with 1 where a sample is a native histogram and 0 where it is a float: asking it the same question as the
first tells whether the answer would have held one.
"""

from collections.abc import Collection, Sequence

import numpy as np

from db.labels import METRIC_NAME, Labels, labels_from
from db.nan import FloatArray, IntArray
from db.promql.source import Rectangle, Source
from db.records import Latest, Matcher, Steps
from db.series_set import SeriesSet
from tests.promql.notation import Native
from tests.promql.results import shown
from tests.promql.script import Load

NATIVE, FLOAT = 1.0, 0.0


class Watched:
    """A source that notes the native histograms that were asked for. shadow: the second store, None when
    nothing has native histograms. touched: the first such series. started: were there ranges of series with
    start timestamps, those in start_times?"""

    def __init__(self, source: Source, shadow: Source | None, start_times: Collection[Labels]) -> None:
        self._source, self._shadow, self._start_times = source, shadow, start_times
        self.touched: str | None = None
        self.started = False

    def rectangles(
        self, matchers: Sequence[Matcher], start_ms: int, end_ms: int
    ) -> tuple[SeriesSet, list[Rectangle]]:
        if self._shadow is not None:
            series, found = self._shadow.rectangles(matchers, start_ms, end_ms)
            for rectangle in found:
                self._note(series.take(rectangle.rows), rectangle.values)
        answer = self._source.rectangles(matchers, start_ms, end_ms)
        self.started |= any(labels in self._start_times for labels in answer[0])
        return answer

    def at_steps(
        self, matchers: Sequence[Matcher], start_ms: int, end_ms: int, step_ms: int, lookback_ms: int
    ) -> Steps:
        if self._shadow is not None:
            found = self._shadow.at_steps(matchers, start_ms, end_ms, step_ms, lookback_ms)
            self._note(found.series, found.values)
        return self._source.at_steps(matchers, start_ms, end_ms, step_ms, lookback_ms)

    def latest_columns(self, matchers: Sequence[Matcher], at_ms: int, lookback_ms: int) -> Latest:
        if self._shadow is not None:
            found = self._shadow.latest_columns(matchers, at_ms, lookback_ms)
            self._note(found.series, found.values[:, None])
        return self._source.latest_columns(matchers, at_ms, lookback_ms)

    def _note(self, series: Sequence[Labels], values: FloatArray) -> None:
        rows = np.flatnonzero((values == NATIVE).any(axis=1)).tolist()
        if rows and self.touched is None:
            self.touched = min(shown(series[row]) for row in rows)


def marks(load: Load) -> list[tuple[Labels, IntArray, FloatArray]]:
    """What a load adds to the second store: series, timestamps, marks."""
    found = []
    for sequence in load.series:
        if Native.SAMPLE in sequence.items:
            places = [place for place, item in enumerate(sequence.items) if item is not None]
            values = [
                FLOAT if isinstance(item, float) else NATIVE for item in sequence.items if item is not None
            ]
            found.append((sequence.labels, load.step_ms * np.array(places, np.int64), np.array(values)))
    if load.with_nhcb:
        found += _converted(load)
    return found


def _converted(load: Load) -> list[tuple[Labels, IntArray, FloatArray]]:
    """load_with_nhcb makes of x_bucket, x_count and x_sum a native histogram x wherever any has a sample."""
    times: dict[Labels, set[int]] = {}
    for sequence in load.series:
        pairs = dict(sequence.labels)
        name = pairs.get(METRIC_NAME, "")
        base, _, kind = name.rpartition("_")
        if kind in ("bucket", "count", "sum") and base:
            if kind == "bucket" and not _is_bound(pairs.pop("le", "")):
                continue
            places = {place for place, item in enumerate(sequence.items) if isinstance(item, float)}
            times.setdefault(labels_from(pairs, base), set()).update(places)
    return [
        (labels, load.step_ms * np.array(sorted(places), np.int64), np.full(len(places), NATIVE))
        for labels, places in times.items()
        if places
    ]


def _is_bound(text: str) -> bool:
    try:
        return float(text) == float(text)
    except ValueError:
        return False
