"""A remote engine that is a store: its answers are known to be right, and what it was asked is kept."""

import numpy as np

from db.lookups import find_series, label_names, label_values
from db.nan import ABSENT
from db.promql.engine import Options, instant, ranged
from db.records import Latest, Steps
from db.series_set import SeriesSet
from db.store import SampleStore


class StoredEngine:
    """An engine whose samples are in a store; its own answers come out of it."""

    def __init__(self, store: SampleStore) -> None:
        self.store = store
        self.rectangles = store.rectangles
        self.at_steps = store.at_steps
        self.latest_columns = store.latest_columns
        self.asked: list[str] = []

    def instant(self, text, at_ms, lookback_ms):
        self.asked.append(text)
        return instant(self.store, text, at_ms, Options(lookback_ms))

    def ranged(self, text, start_ms, end_ms, step_ms, lookback_ms):
        self.asked.append(text)
        return ranged(self.store, text, start_ms, end_ms, step_ms, Options(lookback_ms))

    def latest_of(self, text, at_ms, lookback_ms):
        answer = self.instant(text, at_ms, lookback_ms)
        series = SeriesSet(list(answer.table.rows()))
        return Latest(series, np.full(len(series), at_ms), answer.values[:, 0])

    def steps_of(self, text, start_ms, end_ms, step_ms, lookback_ms):
        answer = self.ranged(text, start_ms, end_ms, step_ms, lookback_ms)
        values = answer.values
        if answer.there is not None:
            values = np.where(answer.there, values, ABSENT)
        return Steps(SeriesSet(list(answer.table.rows())), answer.timestamps, values)

    def series(self, *selectors, start_ms, end_ms):
        return find_series(self.store, selectors, start_ms, end_ms)

    def label_names(self, *selectors, start_ms, end_ms):
        return label_names(self.store, selectors, start_ms, end_ms)

    def label_values(self, name, *selectors, start_ms, end_ms):
        return label_values(self.store, name, selectors, start_ms, end_ms)

    def metadata(self):
        return self.store.metadata()

    def targets(self):
        return [{"scrapePool": "p"}]

    def close(self):
        pass
