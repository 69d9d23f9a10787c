"""Cached reads of signals for the layer pages; like `app.queries`, and apart from it since those pages read
the catalogue and nothing else.

A chart's steps are multiples of a step that follows from the time range: viewers share one read, and until
the next step the same chart is byte for byte the same, so that a zoom survives. Tiles are read at the tick.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import streamlit as st

from app.context import current
from app.summaries.fleet import (
    EVENTS,
    OVER_RANGE,
    TABLE_SIGNALS,
    FleetGpu,
    Heat,
    fleet,
    heat,
    newest_readings,
)
from app.summaries.layer_history import (
    NoSource,
    PanelHistory,
    SignalRead,
    chosen_only,
    no_source,
    panel_history,
)
from app.summaries.layer_page import LayerPage, Panel, TileSignal
from app.summaries.layer_tiles import TileNow
from app.summaries.reading import natural
from db.catalog.catalog import WINDOW
from db.catalog.presence import metric_names, series_finder
from db.catalog.read import Reading, read_signal
from db.catalog.read_range import SignalSteps, read_steps
from db.catalog.signal import Missing, Resolved
from db.config_types import parse_duration
from db.nan import IntArray
from db.promql.engine import Options
from db.promql.errors import QueryError
from db.promql.limits import Limits

TICK_SECONDS = 15.0
# A screen has some 700 columns for a chart of half its width; of a day this is a step of five minutes.
_STEPS = 288
_STEP_SECONDS = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1_800, 3_600, 7_200, 14_400, 43_200, 86_400)
_RATE_SECONDS = 300
# Rates need two samples, and scrapes are missed.
_SCRAPES = 4
_TTL = 60.0
_ENTRIES = 512
# A fleet's matrix is megabytes.
_FLEETS = 8
_OPTIONS = Options(limits=Limits(seconds=10.0))


@dataclass(frozen=True, slots=True)
class Steps:
    """What charts and tiles are read for; part of every cache key. at_ms: of tiles, the tick's beginning.
    start_ms, end_ms, step_ms: of charts; tiles are compared with start_ms. window: of rates."""

    at_ms: int
    start_ms: int
    end_ms: int
    step_ms: int
    window: str
    identity: int

    @property
    def window_ms(self) -> int:
        return int(parse_duration(self.window) * 1000)

    @property
    def span_ms(self) -> int:
        return self.end_ms - self.start_ms


@dataclass(frozen=True, slots=True)
class _Read:
    """One signal by labels at the steps or, with step_ms 0, at end_ms."""

    signal: str
    by: tuple[str, ...]
    window: str
    start_ms: int
    end_ms: int
    step_ms: int
    identity: int


def steps(at_ms: int, span_seconds: float, pace_seconds: float) -> Steps:
    """Up to at_ms, at most some 300 steps and none shorter than the scrapes' pace."""
    least = max(span_seconds / _STEPS, pace_seconds)
    step = next((size for size in _STEP_SECONDS if size >= least), _STEP_SECONDS[-1])
    end = at_ms // (step * 1000) * step * 1000
    start = end - int(span_seconds // step) * step * 1000
    tick = int(TICK_SECONDS * 1000)
    # A rate over less than a step would miss what lies between two of them.
    seconds = int(max(_RATE_SECONDS, step, _SCRAPES * pace_seconds))
    window = WINDOW if seconds == _RATE_SECONDS else f"{seconds}s"
    return Steps(at_ms // tick * tick, start, end, step * 1000, window, current().identity)


def choices(page: LayerPage, at: Steps) -> list[str]:
    """What the page can be narrowed to: the values that its label had in the time range. Untrusted text.
    Raises StoreError, QueryError."""
    return _choices(page.filter_signals, page.filter_label, _over(at))


def tile(item: TileSignal, label: str, chosen: str, at: Steps) -> TileNow:
    """A signal now and one time range before, over everything or over what is chosen, where the signal has
    that label. Raises StoreError, QueryError."""
    by = (label,) if chosen and label in current().catalog().signal(item.signal).entity else ()
    now = _Read(item.signal, by, at.window, 0, at.at_ms, 0, at.identity)
    before = _Read(item.signal, by, at.window, 0, at.start_ms, 0, at.identity)
    return _tile(now, before, chosen if by else "", item.comes_and_goes)


def panel(item: Panel, label: str, chosen: str, at: Steps) -> PanelHistory:
    """The panel's lines; a signal that cannot be read is said in it. Raises StoreError, QueryError."""
    by = item.chosen_by if chosen and item.chosen_by else item.by
    return _panel(item, by, label, chosen, _over(at))


def fleet_heat(signal: str, chosen: str, at: Steps) -> Heat | NoSource:
    """The signal of every GPU, or of the chosen node's, over the steps. Raises StoreError, QueryError."""
    return _heat(signal, chosen, _over(at))


def fleet_table(chosen: str, at: Steps) -> tuple[list[FleetGpu], frozenset[str]]:
    """Every GPU now, or the chosen node's; and which of the table's signals have a source. Raises StoreError,
    QueryError."""
    return _fleet(chosen, at)


def unit_of(signal: str) -> str:
    return current().catalog().signal(signal).unit


def any_metric() -> bool:
    """Is there any metric, by a collector of ours or in an engine that is only read? Raises StoreError,
    QueryError."""
    context = current()
    return bool(_names(_tick(), context.identity))


def _tick() -> int:
    return current().now_ms() // int(TICK_SECONDS * 1000)


def _over_steps(signal: str, by: tuple[str, ...], at: Steps) -> _Read:
    return _Read(signal, by, at.window, at.start_ms, at.end_ms, at.step_ms, at.identity)


def _over(at: Steps) -> Steps:
    """Without the tick: charts are the same until their next step."""
    return Steps(at.end_ms, at.start_ms, at.end_ms, at.step_ms, at.window, at.identity)


@st.cache_data(ttl=_TTL, max_entries=4, show_spinner=False)
def _names(tick: int, identity: int) -> frozenset[str]:  # noqa: ARG001 - the cache's key
    context = current()
    return metric_names(context.store(), context.now_ms())


def _resolve(signal: str, by: tuple[str, ...], window: str, identity: int) -> Resolved | Missing:
    """By the metrics that are there now, wherever in the past is looked at."""
    return _resolved(signal, by, window, _tick(), identity)


@st.cache_data(ttl=_TTL, max_entries=_ENTRIES, show_spinner=False)
def _resolved(signal: str, by: tuple[str, ...], window: str, tick: int, identity: int) -> Resolved | Missing:
    context = current()
    finder = series_finder(context.store(), context.now_ms())
    names = _names(tick, identity)
    return context.catalog().resolve(signal, names, by=by, window=window, has_series=finder)


def _series(read: _Read) -> tuple[IntArray, list[SignalSteps]] | Missing:
    resolved = _resolve(read.signal, read.by, read.window, read.identity)
    if isinstance(resolved, Missing):
        return resolved
    span = (read.start_ms, read.end_ms, read.step_ms)
    return read_steps(current().store(), resolved, *span, _OPTIONS)


def _readings(read: _Read) -> list[Reading] | Missing:
    resolved = _resolve(read.signal, read.by, read.window, read.identity)
    if isinstance(resolved, Missing):
        return resolved
    return read_signal(current().store(), resolved, read.end_ms, _OPTIONS)


@st.cache_data(ttl=_TTL, max_entries=_ENTRIES, show_spinner=False)
def _tile(now: _Read, before: _Read, chosen: str, comes_and_goes: bool) -> TileNow:
    signal = current().catalog().signal(now.signal)
    try:
        found, former = _readings(now), _readings(before)
    except QueryError as error:
        return TileNow(signal, error=str(error))
    if isinstance(found, Missing) or isinstance(former, Missing):
        missing = found if isinstance(found, Missing) else former
        assert isinstance(missing, Missing)  # noqa: S101  one of them is
        return TileNow(signal, missing=no_source(missing))
    return TileNow(
        signal,
        _of_chosen(found, now.by, chosen),
        _of_chosen(former, now.by, chosen),
        comes_and_goes=comes_and_goes,
    )


def _of_chosen(readings: Sequence[Reading], by: tuple[str, ...], chosen: str) -> Reading | None:
    wanted = {(by[0], chosen)} if by else set()
    return next((one for one in readings if wanted <= set(one.labels)), None)


@st.cache_data(ttl=_TTL, max_entries=_ENTRIES, show_spinner=False)
def _panel(item: Panel, by: tuple[str, ...], label: str, chosen: str, at: Steps) -> PanelHistory:
    catalog = current().catalog()
    times: IntArray | None = None
    reads, missing = [], []
    narrowed = not chosen
    for number, name in enumerate(item.signals):
        signal = catalog.signal(name)
        word = item.names[number] if item.names else ""
        wanted = by
        # Read by the filter's label, too, where only that narrows it.
        inside = bool(chosen) and label in signal.entity
        if inside and label not in wanted:
            wanted = (label, *wanted)
        narrowed = narrowed or inside
        try:
            found = _series(_over_steps(name, wanted, at))
        except QueryError as error:
            reads.append(SignalRead(signal, word, error=str(error)))
            continue
        if isinstance(found, Missing):
            missing.append(found)
            continue
        times, series = found
        reads.append(SignalRead(signal, word, chosen_only(series, label, chosen if inside else "")))
    grid = times if times is not None else _grid(at)
    return panel_history(grid, reads, missing, by, item.first, narrowed=narrowed)


@st.cache_data(ttl=_TTL, max_entries=_FLEETS, show_spinner=False)
def _heat(signal: str, chosen: str, at: Steps) -> Heat | NoSource:
    found = _series(_over_steps(signal, ("node", "gpu"), at))
    if isinstance(found, Missing):
        return no_source(found)
    times, series = found
    return heat(times, chosen_only(series, "node", chosen), current().catalog().signal(signal).good)


@st.cache_data(ttl=_TTL, max_entries=_FLEETS, show_spinner=False)
def _fleet(chosen: str, at: Steps) -> tuple[list[FleetGpu], frozenset[str]]:
    readings: dict[str, list[Reading]] = {}
    for signal, by in TABLE_SIGNALS.items():
        if signal in EVENTS:
            over = _series(_over_steps(signal, by, at))
            if not isinstance(over, Missing):
                readings[signal] = newest_readings(over[1])
            continue
        window = f"{at.span_ms // 1000}s" if signal in OVER_RANGE else at.window
        found = _readings(_Read(signal, by, window, 0, at.at_ms, 0, at.identity))
        if not isinstance(found, Missing):
            readings[signal] = found
    gpus = [one for one in fleet(readings) if not chosen or one.node == chosen]
    return gpus, frozenset(readings)


@st.cache_data(ttl=_TTL, max_entries=_ENTRIES, show_spinner=False)
def _choices(signals: tuple[str, ...], label: str, at: Steps) -> list[str]:
    values: set[str] = set()
    for signal in signals:
        found = _series(_over_steps(signal, (label,), at))
        if not isinstance(found, Missing):
            values.update(dict(one.labels).get(label, "") for one in found[1])
    return sorted(values - {""}, key=natural)


def _grid(at: Steps) -> IntArray:
    return np.arange(at.start_ms, at.end_ms + 1, at.step_ms, dtype=np.int64)
