"""The small frozen types that cross the store's border; everything else about it is private to db."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from db.labels import METRIC_NAME, Labels
from db.nan import FloatArray, IntArray
from db.series_set import SeriesSet

MatchOperator = Literal["=", "!=", "=~", "!~"]
SourceState = Literal["up", "down", "unsupported", "suppressed", "waiting"]


@dataclass(frozen=True, slots=True)
class Matcher:
    """One label condition, with Prometheus's meaning: regular expressions are RE2 and anchored at both
    ends, and a condition that matches "" also matches series without the label."""

    name: str
    operator: MatchOperator
    value: str


def named(metric: str) -> Matcher:
    """The commonest matcher: the metric's name."""
    return Matcher(METRIC_NAME, "=", metric)


@dataclass(frozen=True, slots=True)
class Series:
    """One series over a window.

    timestamps: int64[n], milliseconds UTC, strictly increasing. values: float64[n]; staleness markers
    are kept (`db.nan.is_stale`), since rate() and lookback need to see where a series ended.
    """

    labels: Labels
    timestamps: IntArray
    values: FloatArray


@dataclass(frozen=True, slots=True)
class Latest:
    """The newest sample of every series that has not ended. timestamps: int64[series], values:
    float64[series]."""

    series: SeriesSet
    timestamps: IntArray
    values: FloatArray


@dataclass(frozen=True, slots=True)
class LatestSample:
    """The newest sample of a series that has not ended."""

    labels: Labels
    timestamp_ms: int
    value: float


# Farther from 1970 no sample is stored: half of int64, so that no arithmetic on timestamps can overflow.
FIRST_MS, LAST_MS = -(1 << 62), 1 << 62


@dataclass(frozen=True, slots=True)
class DenseAppend:
    """One scrape of one target: a value for each slot of the target's fixed series order.

    layout_key: names the order, the same text for every scrape of a target; a new text starts a new order.
    new_series: the series that this append adds at the end of the order. Appends of one key are written in
    the order in which they were made, none left out.
    values: float64[slots], slots = all series of the order so far; `db.nan.ABSENT` where there is no sample.
    ends: no further append will name this order, so that the writer may forget it.
    """

    layout_key: str
    new_series: Sequence[Labels]
    timestamp_ms: int
    values: FloatArray
    ends: bool = False


@dataclass(frozen=True, slots=True)
class SparseAppend:
    """Samples with timestamps of their own: page timestamps, remote-write, probes, runs.

    Parallel columns: timestamps int64[n] (ms UTC) and values float64[n]. index: int64[n], which of `series`
    each sample belongs to; without it, sample i belongs to series[i].
    """

    series: Sequence[Labels]
    timestamps: IntArray
    values: FloatArray
    index: IntArray | None = None


@dataclass(frozen=True, slots=True)
class Slab:
    """A rectangle of samples: series that share their timestamps.

    timestamps: int64[n], ms UTC, strictly increasing. values: float64[series, n]; `db.nan.ABSENT` where a
    series has no sample at that time, staleness markers kept.
    """

    series: Sequence[Labels]
    timestamps: IntArray
    values: FloatArray


@dataclass(frozen=True, slots=True)
class Rectangle:
    """As Slab, with rows: int64[series], the series' places in a SeriesSet."""

    rows: IntArray
    timestamps: IntArray
    values: FloatArray


@dataclass(frozen=True, slots=True)
class Steps:
    """What a selector gives at every step of a grid.

    timestamps: int64[steps], ms UTC. values: float64[series, steps]; `db.nan.ABSENT` where a series has no
    sample within the lookback or has ended. whole: known to be nowhere absent.
    """

    series: SeriesSet
    timestamps: IntArray
    values: FloatArray
    whole: bool = False


@dataclass(frozen=True, slots=True)
class MetricMetadata:
    """TYPE, HELP and UNIT of a metric family as some source declared it."""

    metric: str
    type: str
    help: str
    unit: str


@dataclass(frozen=True, slots=True)
class SourceReport:
    """What became of the last attempt on one target or collector; written with its samples.

    kind: a scrape target, a collector of this machine, or a discovery or a configuration that something is
    wrong with. pool: the job_name, or the collector's name. state: `up`, `down` (error says why),
    `unsupported` (this machine cannot), `suppressed` (nothing to report, note says why: a scraped exporter
    already does), `waiting` (not tried yet). note: what the operator should know that is not an error.
    """

    kind: Literal["scrape", "collector", "discovery", "config"]
    pool: str
    instance: str
    url: str
    state: SourceState
    interval_seconds: float
    last_attempt_ms: int | None = None
    last_success_ms: int | None = None
    duration_seconds: float | None = None
    samples: int | None = None
    error: str = ""
    note: str = ""
    labels: Labels = ()
