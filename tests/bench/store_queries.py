"""The five questions asked of Strata's store by its public interface, each ending in a labelled DataFrame.

The store hands out samples; what PromQL makes of them is done here with NumPy, by Prometheus 2's rules: a
range includes both its ends, rate() extrapolates to the range's ends and follows counter resets. Every answer
is compared with the one that Prometheus gives in the same run.
"""

from collections.abc import Callable, Sequence

import numpy as np
import pandas as pd

from db.frames import latest_frame
from db.labels import METRIC_NAME, Labels
from db.nan import FloatArray, IntArray, is_absent, is_stale
from db.records import Matcher, Slab, named
from db.store import LOOKBACK_MS, SampleStore
from tests.bench.store_clients import (
    EVERY_JOB,
    FIRST_200_GPUS,
    HISTOGRAM,
    RESOLUTION_MS,
    Question,
    columns,
    one_series,
)
from tests.bench.store_data import BUCKET_METRIC, START_MS, Dataset

RATE_WINDOW_MS = 300_000
# Prometheus extrapolates to the range's end only where the gap is less than this many average intervals.
_EXTRAPOLATION_THRESHOLD = 1.1
_ALLOWED_RELATIVE_ERROR = 1e-6


def reader(store: SampleStore, data: Dataset, question: Question) -> Callable[[], pd.DataFrame]:
    """Answers one of the questions."""
    uuid = dict(data.series[one_series(data)])["UUID"]
    one = [named("util"), Matcher("UUID", "=", uuid)]
    counters = [named("pcie"), Matcher("UUID", "=~", FIRST_200_GPUS)]
    buckets = [named(BUCKET_METRIC), Matcher("instance", "=", HISTOGRAM)]
    everything = [Matcher("job", "=~", EVERY_JOB)]
    grid = np.arange(question.start_ms, question.end_ms + 1, RESOLUTION_MS)
    answers: dict[str, Callable[[], pd.DataFrame]] = {
        "q1": lambda: raw(store, one, START_MS, question.end_ms),
        "q2": lambda: mean_by(store, [named("util")], "node", grid),
        "q3": lambda: rate_of(store, counters, grid),
        "q4": lambda: quantile_of(store, buckets, 0.95, grid),
        "q5": lambda: latest(store, everything, question.end_ms),
    }
    return answers[question.name]


def raw(store: SampleStore, matchers: Sequence[Matcher], start_ms: int, end_ms: int) -> pd.DataFrame:
    """Every sample of one series."""
    [series] = store.select(matchers, start_ms, end_ms)
    return pd.DataFrame(
        series.values[:, None], pd.DatetimeIndex(series.timestamps.view("M8[ms]")), columns([series.labels])
    )


def mean_by(store: SampleStore, matchers: Sequence[Matcher], label: str, grid: IntArray) -> pd.DataFrame:
    """avg by (label) of what each series holds at each step."""
    steps = store.at_steps(matchers, int(grid[0]), int(grid[-1]), RESOLUTION_MS, LOOKBACK_MS)
    names, groups = _grouped(steps.series, label)
    means = _sums(steps.values, groups) / np.bincount(groups)[:, None]
    if np.isnan(means).any():  # some series has no value at some step
        present = ~is_absent(steps.values)
        filled = np.where(present, steps.values, 0.0)
        with np.errstate(invalid="ignore"):
            means = _sums(filled, groups) / _sums(present.astype(np.float64), groups)
    return _frame(means, grid, [((label, name),) for name in names])


def rate_of(store: SampleStore, matchers: Sequence[Matcher], grid: IntArray) -> pd.DataFrame:
    """rate(...[5m]) of every series."""
    slabs = store.slabs(matchers, int(grid[0]) - RATE_WINDOW_MS, int(grid[-1]))
    named_so = [
        tuple(pair for pair in labels if pair[0] != METRIC_NAME) for slab in slabs for labels in slab.series
    ]
    return _frame(_rates(slabs, grid), grid, named_so)


def quantile_of(
    store: SampleStore, matchers: Sequence[Matcher], quantile: float, grid: IntArray
) -> pd.DataFrame:
    """histogram_quantile(quantile, sum by (le) (rate(...[5m])))."""
    slabs = store.slabs(matchers, int(grid[0]) - RATE_WINDOW_MS, int(grid[-1]))
    bounds, groups = _grouped([labels for slab in slabs for labels in slab.series], "le")
    rates = _sums(_rates(slabs, grid), groups)
    upper = np.array([float(bound) for bound in bounds])
    order = np.argsort(upper)
    return _frame(histogram_quantile(quantile, upper[order], rates[order])[None], grid, [()])


def latest(store: SampleStore, matchers: Sequence[Matcher], at_ms: int) -> pd.DataFrame:
    """The value of every series at one time, a column for each label."""
    return latest_frame(store.latest_columns(matchers, at_ms, LOOKBACK_MS))


def rate(timestamps: IntArray, values: FloatArray, grid: IntArray, window_ms: int) -> FloatArray:
    """Prometheus's rate() of counters that share their timestamps: float64[series, steps]; NaN where fewer
    than two samples lie in the window, whose both ends belong to it."""
    first = np.searchsorted(timestamps, grid - window_ms, side="left")
    last = np.searchsorted(timestamps, grid, side="right") - 1
    enough = last > first
    first, last = np.where(enough, first, 0), np.where(enough, last, 1)
    if values.shape[1] < 2:
        return np.full((len(values), len(grid)), np.nan)
    begin = values.take(first, axis=1)
    increase = values.take(last, axis=1) - begin
    for series, place in zip(*np.nonzero(values[:, 1:] < values[:, :-1]), strict=True):
        increase[series] += values[series, place] * ((first <= place) & (place < last))
    sampled = (timestamps[last] - timestamps[first]) / 1000
    average = sampled / np.maximum(last - first, 1)
    limit = average * _EXTRAPOLATION_THRESHOLD
    before = (timestamps[first] - (grid - window_ms)) / 1000
    after = (grid - timestamps[last]) / 1000
    covered = sampled + np.where(before < limit, before, average / 2)
    covered += np.where(after < limit, after, average / 2)
    rates: FloatArray = increase * (covered / (sampled * window_ms / 1000))
    # A counter is not extrapolated below zero: this one started within the window.
    born = (begin >= 0) & (begin * sampled < increase * before)
    for series, step in zip(*np.nonzero(born), strict=True):
        to_zero = sampled[step] * begin[series, step] / increase[series, step]
        longer = to_zero if to_zero < limit[step] else average[step] / 2
        shorter = before[step] if before[step] < limit[step] else average[step] / 2
        rates[series, step] *= (covered[step] - shorter + longer) / covered[step]
    rates[:, ~enough] = np.nan
    return rates


def histogram_quantile(quantile: float, upper: FloatArray, rates: FloatArray) -> FloatArray:
    """Prometheus's interpolation: upper: float64[buckets], ascending, +Inf last; rates: float64[buckets,
    steps], cumulative."""
    counts = np.maximum.accumulate(rates, axis=0)
    rank = quantile * counts[-1]
    bucket = (counts >= rank).argmax(axis=0)
    step = np.arange(rates.shape[1])
    below = np.maximum(bucket - 1, 0)
    lower = np.where(bucket > 0, upper[below], 0.0)
    under = np.where(bucket > 0, counts[below, step], 0.0)
    with np.errstate(all="ignore"):
        inside = lower + (upper[bucket] - lower) * (rank - under) / (counts[bucket, step] - under)
        found: FloatArray = np.where(np.isinf(upper[bucket]), upper[-2], inside)
    return np.where(counts[-1] > 0, found, np.nan)


def differs(ours: pd.DataFrame, theirs: pd.DataFrame) -> str:
    """What is not the same in two answers up to one part in a million; empty when nothing."""
    if "timestamp" in ours:
        ours = by_labels(ours)
    if len(ours) != len(theirs) or set(ours.columns) != set(theirs.columns):
        return f"shape {ours.shape} against {theirs.shape}, or other columns"
    if isinstance(theirs.index, pd.DatetimeIndex):
        if not (ours.index == theirs.index).all():
            return "other timestamps"
    elif set(ours.index) != set(theirs.index):
        return "other series"
    aligned = ours[theirs.columns].reindex(theirs.index)
    left, right = aligned.to_numpy(), theirs.to_numpy()
    if (np.isnan(left) != np.isnan(right)).any():
        return "values where the other has none"
    error = np.abs(left - right) / np.maximum(np.abs(right), 1e-9)
    worst = float(np.nanmax(error, initial=0.0))
    return "" if worst < _ALLOWED_RELATIVE_ERROR else f"relative error {worst:.2g}"


def by_labels(frame: pd.DataFrame) -> pd.DataFrame:
    """A table with a column for each label, as the peers' answers have it."""
    names = [name for name in frame.columns if name not in ("timestamp", "value")]
    rows = frame[names].astype(object).where(frame[names].notna(), "").to_numpy()
    labels = [
        tuple(sorted(pair for pair in zip(names, row, strict=True) if pair[1])) for row in rows.tolist()
    ]
    return pd.DataFrame({"value": frame["value"].to_numpy()}, columns(labels))


def _rates(slabs: Sequence[Slab], grid: IntArray) -> FloatArray:
    """float64[series, steps], the slabs' series one below the other."""
    parts = []
    for slab in slabs:
        if np.isnan(slab.values).any():
            parts += [_rate_of_one(slab.timestamps, values, grid) for values in slab.values]
        else:
            parts.append(rate(slab.timestamps, slab.values, grid, RATE_WINDOW_MS))
    return np.concatenate(parts)


def _rate_of_one(timestamps: IntArray, values: FloatArray, grid: IntArray) -> FloatArray:
    held = ~(is_absent(values) | is_stale(values))
    return rate(timestamps[held], values[None, held], grid, RATE_WINDOW_MS)


def _grouped(series: Sequence[Labels], label: str) -> tuple[list[str], IntArray]:
    """The label's values in the order of their first series, and int64[series]: which of them each has."""
    places: dict[str, int] = {}
    groups = [places.setdefault(dict(labels).get(label, ""), len(places)) for labels in series]
    return list(places), np.array(groups)


def _sums(values: FloatArray, groups: IntArray) -> FloatArray:
    """float64[groups, steps]: the sums of the rows of each group."""
    order = np.argsort(groups, kind="stable")
    if (order[1:] < order[:-1]).any():
        values, groups = values[order], groups[order]
    starts = np.flatnonzero(np.concatenate([[True], groups[1:] != groups[:-1]]))
    sums: FloatArray = np.add.reduceat(values, starts, axis=0)
    return sums


def _frame(values: FloatArray, grid: IntArray, names: list[Labels]) -> pd.DataFrame:
    return pd.DataFrame(values.T, pd.DatetimeIndex(grid.view("M8[ms]")), columns(names))
