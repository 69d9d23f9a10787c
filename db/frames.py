"""Answers of the store as pandas DataFrames. The label columns of a selection are made once: turning strings
into a column takes longer than reading the samples."""

from weakref import WeakKeyDictionary

import pandas as pd

from db.records import Latest, Series, Steps
from db.series_set import SeriesSet

_latest_frames: "WeakKeyDictionary[SeriesSet, pd.DataFrame]" = WeakKeyDictionary()


def label_frame(series: SeriesSet) -> pd.DataFrame:
    """A row for each series, a column for each label name, as categories; missing where a series has no such
    label."""
    columns = {name: pd.Categorical(values) for name, values in series.columns().items()}
    return pd.DataFrame(columns, index=pd.RangeIndex(len(series)))


def latest_frame(latest: Latest) -> pd.DataFrame:
    """The label columns, then `timestamp` (datetime64[ms], UTC) and `value`; a row for each series."""
    held = _latest_frames.get(latest.series)
    if held is None:
        held = label_frame(latest.series)
        held["timestamp"] = latest.timestamps.view("M8[ms]")
        held["value"] = latest.values
        _latest_frames[latest.series] = held
    # The two last columns are exchanged, which is much quicker than adding columns.
    frame = held.copy(deep=False)
    frame.isetitem(frame.shape[1] - 2, latest.timestamps.view("M8[ms]"))
    frame.isetitem(frame.shape[1] - 1, latest.values)
    return frame


def steps_frame(steps: Steps) -> pd.DataFrame:
    """float64, a row for each step (datetime64[ms], UTC), a column for each series, numbered as in
    `steps.series`."""
    return pd.DataFrame(steps.values.T, index=pd.DatetimeIndex(steps.timestamps.view("M8[ms]")))


def series_frame(series: Series) -> pd.DataFrame:
    """One column `value`, a row for each sample (datetime64[ms], UTC)."""
    index = pd.DatetimeIndex(series.timestamps.view("M8[ms]"))
    return pd.DataFrame({"value": series.values}, index=index, copy=False)
