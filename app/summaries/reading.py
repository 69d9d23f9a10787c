"""One number on a tile: its value now and its recent past; and how a host's stored series become one.

The only place where stored series meet the pure statistics in `app.analysis`; what is read as a signal comes
through `app.summaries.signal_reader`.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from app.analysis.grid import last_value, mean_rows, sample_at, sum_rows
from app.analysis.rates import rate_at
from db.labels import METRIC_NAME
from db.nan import FloatArray, IntArray
from db.records import Series

# Prometheus's lookback: a gauge without a sample for this long has no current value.
LOOKBACK_MS = 300_000
_RUNS = re.compile(r"[0-9]{1,18}|[^0-9]+")


@dataclass(frozen=True, slots=True, eq=False)
class Reading:
    """value: at the window's end, None when there is none. trend: float64[points] over the window, NaN for
    gaps; its last point is the value."""

    value: float | None
    trend: FloatArray


def reading(trend: FloatArray) -> Reading:
    return Reading(last_value(trend), trend)


Labelled = tuple[Mapping[str, str], Series]
ByMetric = Mapping[str, Sequence[Labelled]]


def by_owner(
    series: Iterable[Series], owner: Callable[[Mapping[str, str]], tuple[str, ...]]
) -> dict[tuple[str, ...], dict[str, list[Labelled]]]:
    """Group by what owns the series (a host, a GPU, a target), then by metric name."""
    grouped: dict[tuple[str, ...], dict[str, list[Labelled]]] = {}
    for item in series:
        labels = dict(item.labels)
        metrics = grouped.setdefault(owner(labels), {})
        metrics.setdefault(labels.get(METRIC_NAME, ""), []).append((labels, item))
    return grouped


def natural(text: str) -> tuple[tuple[int, str], ...]:
    """A sort key that puts "gpu-9" before "gpu-10"."""
    return tuple(
        (int(part), "") if part.isdecimal() and part.isascii() else (-1, part) for part in _RUNS.findall(text)
    )


def job_and_instance(labels: Mapping[str, str]) -> tuple[str, str]:
    return labels.get("job", ""), labels.get("instance", "")


def gauge(item: Series, at: IntArray) -> FloatArray:
    return sample_at(item.timestamps, item.values, at, LOOKBACK_MS)


def gauge_any(items: Sequence[Labelled], at: IntArray) -> FloatArray:
    """One gauge that several series carry in turn (an exporter that changed its labels): the greatest."""
    found = np.full(len(at), np.nan)
    for _, item in items:
        found = np.fmax(found, gauge(item, at))
    return found


def rate_sum(items: Sequence[Labelled], at: IntArray) -> FloatArray:
    """Summed growth per second."""
    return sum_rows([rate_at(item.timestamps, item.values, at) for _, item in items], len(at))


def rate_mean(items: Sequence[Labelled], at: IntArray) -> FloatArray:
    return mean_rows([rate_at(item.timestamps, item.values, at) for _, item in items], len(at))


def all_ended(items: Iterable[Labelled]) -> bool:
    """Is the last thing that every one of these series said that it ended?"""
    return all(bool(np.isnan(item.values[-1])) for _, item in items)


def newest_ms(items: Iterable[Labelled]) -> int | None:
    """When the newest sample that is a value arrived."""
    newest: int | None = None
    for _, item in items:
        known = item.timestamps[~np.isnan(item.values)]
        if len(known) and (newest is None or int(known[-1]) > newest):
            newest = int(known[-1])
    return newest
