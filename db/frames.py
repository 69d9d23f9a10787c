"""Answers as pandas DataFrames. The label columns of a selection are made once: turning strings into a column
takes longer than reading the samples."""

from collections.abc import Collection, Mapping
from weakref import WeakKeyDictionary

import numpy as np
import pandas as pd

from db.nan import BoolArray, FloatArray, IntArray
from db.promql.answer import Answer
from db.promql.table import SeriesTable
from db.records import Latest, Series, Steps
from db.series_set import Column, SeriesSet

# The columns of the samples; a label of that name gets a prefix, as Prometheus gives it to a scraped label.
_OF_SAMPLES = ("timestamp", "value")
_PREFIX = "exported_"

_label_frames: "WeakKeyDictionary[SeriesSet | SeriesTable, pd.DataFrame]" = WeakKeyDictionary()


def label_frame(series: SeriesSet | SeriesTable) -> pd.DataFrame:
    """A row for each series, a column for each label name that one of them has, as categories in the order of
    their text; missing where a series has no such label."""
    named: Mapping[str, Column] = series.columns() if isinstance(series, SeriesSet) else series.columns
    columns = {name: _categorical(column) for name, column in named.items() if (column.codes >= 0).any()}
    return pd.DataFrame(columns, index=pd.RangeIndex(len(series)))


def _categorical(column: Column) -> pd.Categorical:
    """Without the texts of other series, which a column may have, too."""
    used = np.unique(column.codes[column.codes >= 0]).tolist()
    in_order = sorted(used, key=column.texts.__getitem__)
    rank = np.full(len(column.texts) + 1, -1, dtype=np.int32)  # the last place is that of -1
    rank[in_order] = np.arange(len(in_order))
    categories = pd.Index([column.texts[code] for code in in_order])
    return pd.Categorical.from_codes(rank[column.codes], categories=categories)


def latest_frame(latest: Latest) -> pd.DataFrame:
    """The label columns, then `timestamp` (datetime64[ms], UTC) and `value`; a row for each series. A label
    with one of these two names is in a column `exported_timestamp` or `exported_value`."""
    return _with_values(latest.series, latest.timestamps, latest.values)


def vector_frame(answer: Answer) -> pd.DataFrame:
    """An instant vector: as `latest_frame`, with the query's time for every series."""
    times = np.full(len(answer.table), answer.timestamps[0])
    return _with_values(answer.table, times, answer.values[:, 0])


def matrix_frame(answer: Answer) -> pd.DataFrame:
    """A range query's series: float64, a row for each step (datetime64[ms], UTC), a column for each series,
    numbered as in `answer.table`; missing where a series has no value."""
    return _steps(answer.timestamps, answer.values, answer.there)


def steps_frame(steps: Steps) -> pd.DataFrame:
    """float64, a row for each step (datetime64[ms], UTC), a column for each series, numbered as in
    `steps.series`."""
    return _steps(steps.timestamps, steps.values, None)


def series_frame(series: Series) -> pd.DataFrame:
    """One column `value`, a row for each sample (datetime64[ms], UTC)."""
    index = pd.DatetimeIndex(series.timestamps.view("M8[ms]"))
    return pd.DataFrame({"value": series.values}, index=index, copy=False)


def _with_values(series: SeriesSet | SeriesTable, times: IntArray, values: FloatArray) -> pd.DataFrame:
    timestamps = np.ascontiguousarray(times).view("M8[ms]")
    held = _label_frames.get(series)
    if held is None:
        held = label_frame(series)
        held = held.rename(columns={name: _free(name, held.columns) for name in _OF_SAMPLES})
        held["timestamp"] = timestamps
        held["value"] = values
        _label_frames[series] = held
    # The two last columns are exchanged, which is much quicker than adding columns.
    frame = held.copy(deep=False)
    frame.isetitem(frame.shape[1] - 2, timestamps)
    frame.isetitem(frame.shape[1] - 1, values)
    return frame


def _free(name: str, taken: Collection[str]) -> str:
    found = _PREFIX + name
    while found in taken:
        found = _PREFIX + found
    return found


def _steps(timestamps: IntArray, values: FloatArray, there: BoolArray | None) -> pd.DataFrame:
    held = values if there is None else np.where(there, values, np.nan)
    return pd.DataFrame(held.T, index=pd.DatetimeIndex(timestamps.view("M8[ms]")))
