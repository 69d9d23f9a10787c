"""Cached reads for the pages, by name: views hold no query text, and nobody else uses st.cache_*.

A read is keyed by the store it comes from, the window aligned to the tick, and the store's generation:
viewers who look at the same moment share one read, and a commit makes the next look a fresh one.
"""

import re
from collections.abc import Callable, Sequence, Set
from dataclasses import dataclass
from datetime import tzinfo

import streamlit as st

from app.analysis.freshness import Freshness, freshness
from app.analysis.grid import time_grid
from app.context import current
from app.summaries import hosts as host_summaries
from app.summaries.coverage import TargetCoverage, cover_targets
from app.summaries.gpus import Gpu, read_gpus
from app.summaries.history import CHARTS, Band, History, Summary, draw_lines, highest
from app.summaries.hosts import Host, summarise_hosts
from app.summaries.signal_reader import SignalReader
from app.summaries.signals import SignalNow, read_signals
from app.summaries.targets import Target, read_targets
from db.catalog.presence import metric_names, series_finder
from db.catalog.signal import Layer
from db.errors import StoreError, StoreUnreachable
from db.held_samples import Held
from db.labels import METRIC_NAME
from db.nan import IntArray
from db.processes import Process
from db.promql.errors import QueryError
from db.records import Matcher, Series, SourceReport, named

TICK_SECONDS = 2.0
# A table of hundreds of rows with sparklines is a megabyte: it ticks slower than a handful of tiles.
TABLE_TICK_SECONDS = 10.0
CHART_TICK_SECONDS = 15.0
# A layer is dozens of queries; and which metrics a target shows changes when somebody changes the target.
SIGNAL_TICK_SECONDS = 15.0
COVERAGE_TICK_SECONDS = 300.0
# Where there are many, tables replace tiles, and their sparklines stay short: reading a day of 1,000
# targets takes half a minute.
MANY_SOURCES = 50
MANY_SPAN_SECONDS = 900.0
TREND_POINTS = 60
# A day at ten seconds; charts that hold more lose points before they are decimated.
CHART_POINTS = 8_640
# A rate at the window's first point looks back this far.
_LEAD_MS = 300_000
_ENTRIES = 32


@dataclass(frozen=True, slots=True)
class Window:
    """What a read covers: (end_ms - span_ms, end_ms] on a grid of points; part of every cache key."""

    end_ms: int
    span_ms: int
    points: int
    generation: int
    identity: int

    @property
    def start_ms(self) -> int:
        return self.end_ms - self.span_ms

    def grid(self) -> IntArray:
        return time_grid(self.end_ms, self.span_ms, self.points)


@dataclass(frozen=True, slots=True)
class Moment:
    """The time a page is drawn for, and whether data still arrives then.

    newest_ms: when any source last brought data, None when none ever did. pace_seconds: how often the
    fastest source brings some.
    """

    at_ms: int
    newest_ms: int | None
    freshness: Freshness
    pace_seconds: float

    @property
    def stale(self) -> bool:
        return self.freshness == "stale"

    @property
    def shown_ms(self) -> int:
        """Up to when to read: what stopped is shown as it last was, not as emptiness."""
        return self.newest_ms if self.stale and self.newest_ms is not None else self.at_ms


def trend_window(at_ms: int, span_seconds: float, tick_seconds: float = TICK_SECONDS) -> Window:
    """For tiles: ends at at_ms's tick. Raises StoreError when the store cannot be read."""
    return _window(at_ms, span_seconds, tick_seconds, TREND_POINTS)


def chart_window(at_ms: int, span_seconds: float, pace_seconds: float) -> Window:
    """For charts: a point for every scrape, as far as CHART_POINTS go. Raises StoreError."""
    points = int(span_seconds / max(pace_seconds, 1.0))
    return _window(at_ms, span_seconds, CHART_TICK_SECONDS, min(max(points, TREND_POINTS), CHART_POINTS))


def now_ms() -> int:
    return current().now_ms()


def zone() -> tzinfo:
    """In which times are shown."""
    return current().zone


def hosts(window: Window) -> list[Host]:
    """Every host that reports node_exporter's metrics in the window. Raises StoreError."""
    return _hosts(window)


def gpus(window: Window) -> list[Gpu]:
    """Every GPU that any exporter reports in the window. Raises StoreError."""
    return _gpus(window)[0]


def targets(window: Window) -> list[Target]:
    """Every scraped target, with its serving engine's numbers. Raises StoreError."""
    return _targets(window)[0]


def unanswered(window: Window) -> list[str]:
    """Why signals of GPUs and targets could not be read; they are shown without them. Raises StoreError."""
    return list(dict.fromkeys([*_gpus(window)[1], *_targets(window)[1]]))


def history(chart: str, recent: Window, window: Window) -> History:
    """The lines of the chart with that key over `window`: those that are highest now, as `recent` has it.
    Raises StoreError."""
    return _history(chart, recent, window)


def signals(layer: Layer, at_ms: int) -> list[SignalNow]:
    """What the signals of a layer are at the tick that at_ms is in; one value over everything each where
    there are many sources. Raises StoreError, QueryError."""
    context = current()
    tick_ms = int(SIGNAL_TICK_SECONDS * 1000)
    together = len(sources()) > MANY_SOURCES
    return _signals(layer, at_ms // tick_ms * tick_ms + tick_ms, together, context.identity)


def coverage(at_ms: int) -> list[TargetCoverage]:
    """What targets lack of what their exporters could say. Raises StoreError, QueryError."""
    context = current()
    tick_ms = int(COVERAGE_TICK_SECONDS * 1000)
    return _coverage(at_ms // tick_ms * tick_ms + tick_ms, len(sources()), context.identity)


def sources() -> list[SourceReport]:
    """The last attempt on every target and collector. Raises StoreError."""
    context = current()
    return _sources(context.store().generation(), context.identity)


def processes() -> list[Process]:
    """What Strata's own processes say about themselves. Raises StoreError."""
    return current().processes()


def held() -> Held | None:
    """What the collector process keeps in memory because the store refuses it."""
    return current().held()


def tick_seconds() -> float:
    """How often the tiles are drawn anew: slower where they are tables of hundreds of rows."""
    try:
        return TABLE_TICK_SECONDS if len(sources()) > MANY_SOURCES else TICK_SECONDS
    except StoreError:
        return TICK_SECONDS


def trend_seconds(reports: Sequence[SourceReport], span_seconds: float) -> float:
    """How far back tiles and tables look."""
    return min(span_seconds, MANY_SPAN_SECONDS) if len(reports) > MANY_SOURCES else span_seconds


def moment(reports: Sequence[SourceReport], at_ms: int) -> Moment:
    """Is data arriving? By the pace of the fastest source that ever brought some."""
    arrived = [item for item in reports if item.last_success_ms is not None]
    newest = max((item.last_success_ms or 0 for item in arrived), default=None)
    pace = min((item.interval_seconds for item in arrived), default=0.0)
    return Moment(at_ms, newest, freshness(newest, pace, at_ms), pace)


def no_gpu_driver(reports: Sequence[SourceReport]) -> bool:
    """Has the GPU collector said that this machine has none?"""
    return any(
        item.kind == "collector" and item.pool == "nvml" and item.state == "unsupported" for item in reports
    )


def _window(at_ms: int, span_seconds: float, tick_seconds: float, points: int) -> Window:
    context = current()
    tick_ms = int(tick_seconds * 1000)
    # The tick's end: the newest samples of the tick under way are inside.
    end = (at_ms // tick_ms + 1) * tick_ms
    return Window(end, int(span_seconds * 1000), points, context.store().generation(), context.identity)


def _any_of(metrics: Sequence[str]) -> Matcher:
    return Matcher(METRIC_NAME, "=~", "|".join(re.escape(name) for name in metrics))


def _select(window: Window, *matchers: Matcher) -> list[Series]:
    start = window.end_ms - window.span_ms - _LEAD_MS
    return current().store().select(matchers, start, window.end_ms)


@st.cache_data(ttl=TICK_SECONDS, max_entries=_ENTRIES, show_spinner=False)
def _sources(generation: int, identity: int) -> list[SourceReport]:  # noqa: ARG001 - the cache's key
    return current().store().sources()


@st.cache_data(ttl=TABLE_TICK_SECONDS, max_entries=_ENTRIES, show_spinner=False)
def _hosts(window: Window) -> list[Host]:
    return _read_hosts(window)


@st.cache_data(ttl=TABLE_TICK_SECONDS, max_entries=_ENTRIES, show_spinner=False)
def _gpus(window: Window) -> tuple[list[Gpu], list[str]]:
    reader = _reader(window)
    return read_gpus(reader), reader.problems


@st.cache_data(ttl=TABLE_TICK_SECONDS, max_entries=_ENTRIES, show_spinner=False)
def _targets(window: Window) -> tuple[list[Target], list[str]]:
    reader = _reader(window)
    return read_targets(reader, current().store().sources(), current().now_ms()), reader.problems


@st.cache_data(ttl=TABLE_TICK_SECONDS, max_entries=_ENTRIES, show_spinner=False)
def _names(end_ms: int, generation: int, identity: int) -> Set[str]:  # noqa: ARG001
    try:
        return metric_names(current().store(), end_ms)
    except QueryError as error:
        raise StoreUnreachable(str(error)) from error


@st.cache_data(ttl=CHART_TICK_SECONDS, max_entries=_ENTRIES, show_spinner=False)
def _history(key: str, recent: Window, window: Window) -> History:
    chart = CHARTS[key]
    choice = highest(chart, _RECENT[chart.band](recent))
    # A day of a thousand targets takes half a minute to read; a day of a dozen does not.
    one_of = "|".join(re.escape(name) for name in choice.instances)
    chosen = [Matcher("instance", "=~", one_of)] if choice.instances else []
    return draw_lines(chart, choice, _READ[chart.band](window, *chosen), window.grid())


@st.cache_data(ttl=SIGNAL_TICK_SECONDS, max_entries=_ENTRIES, show_spinner=False)
def _signals(layer: Layer, at_ms: int, together: bool, identity: int) -> list[SignalNow]:  # noqa: ARG001
    context = current()
    source = context.store()
    names = metric_names(source, at_ms)
    finder = series_finder(source, at_ms)
    return read_signals(context.catalog(), source, names, finder, layer, at_ms, together=together)


@st.cache_data(ttl=COVERAGE_TICK_SECONDS, max_entries=_ENTRIES, show_spinner=False)
def _coverage(at_ms: int, targets: int, identity: int) -> list[TargetCoverage]:  # noqa: ARG001
    context = current()
    source = context.store()
    return cover_targets(context.catalog(), source, source.sources(), at_ms)


def _read_hosts(window: Window, *chosen: Matcher) -> list[Host]:
    idle = _select(window, named(host_summaries.CPU), Matcher("mode", "=", "idle"), *chosen)
    rest = _select(window, _any_of(host_summaries.METRICS), *chosen)
    return summarise_hosts([*idle, *rest], window.grid())


def _read_gpus(window: Window, *chosen: Matcher) -> list[Gpu]:
    return read_gpus(_reader(window, *chosen))


def _read_targets(window: Window, *chosen: Matcher) -> list[Target]:
    return read_targets(_reader(window, *chosen), current().store().sources(), current().now_ms())


def _reader(window: Window, *chosen: Matcher) -> SignalReader:
    context = current()
    names = _names(window.end_ms, window.generation, window.identity)
    return SignalReader(context.catalog(), context.store(), names, window.grid(), chosen)


_RECENT: dict[Band, Callable[[Window], Sequence[Summary]]] = {
    "hosts": hosts,
    "gpus": gpus,
    "targets": targets,
}
_READ: dict[Band, Callable[..., Sequence[Summary]]] = {
    "hosts": _read_hosts,
    "gpus": _read_gpus,
    "targets": _read_targets,
}
