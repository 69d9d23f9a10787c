"""The panels of a layer page: charts with their words and tables, and what would bring the missing ones."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import tzinfo

import numpy as np
import pandas as pd
import streamlit as st

from app.charts.layers import LayerTrace, axis_of, layer_lines
from app.summaries.layer_history import PanelHistory, PanelLine
from app.summaries.layer_page import Panel, PanelBand
from app.widgets.layer_tiles import NO_SOURCE, way_lines
from app.widgets.numbers import clock_time
from app.widgets.signal_values import value_text
from app.widgets.status import short

PANEL_WIDTH = 440
# More sentences than that under a chart are not read; the table has them all.
_SENTENCES = 3
_CONFIG = {"displaylogo": False, "modeBarButtonsToRemove": ["select2d", "lasso2d"]}
_EDGES = {-1: "below {}, the first bucket's edge", 1: "above {}, the last bucket's edge"}


@contextmanager
def opened_band(band: PanelBand) -> Iterator[bool]:
    """The band's place; whether anything in it is to be read. What is closed costs nothing."""
    if band.opened:
        st.header(band.title, anchor=False)
        yield True
        return
    place = st.expander(band.title, key=f"band_{band.key}", bind="query-params", on_change="rerun")
    with place:
        yield bool(place.open)


def draw_panels(
    panels: Sequence[Panel], histories: Sequence[PanelHistory], window: str, zone: tzinfo
) -> None:
    """What has a source as charts, then a table of what has none. window: of rates, in words."""
    pairs = list(zip(panels, histories, strict=True))
    there = [(panel, history) for panel, history in pairs if history.sources]
    if there:
        with st.grid("auto", min_column_width=PANEL_WIDTH, gap="xsmall") as grid:
            for panel, history in there:
                with grid.cell(), st.container(border=True, gap="xxsmall", height="stretch"):
                    _draw_panel(panel, history, window, zone)
    missing = [
        (panel.title if not history.sources else f"{panel.title}: {item.title}", item)
        for panel, history in pairs
        for item in (history.missing if history.sources else history.missing[:1])
    ]
    if missing:
        with st.container(border=True, gap="xxsmall"):
            st.markdown(f"{NO_SOURCE.markdown} · what to install or switch on")
            for line in way_lines(missing):
                st.text(line)


def _draw_panel(panel: Panel, history: PanelHistory, window: str, zone: tzinfo) -> None:
    with st.container(horizontal=True, horizontal_alignment="distribute", vertical_alignment="center"):
        st.markdown(f"**{panel.title}**", width="content")
        table = None
        if history.lines:
            table = st.popover(
                "Table", type="tertiary", icon=":material/table:", key=f"table_{panel.key}", on_change="rerun"
            )
    if history.error:
        st.markdown(":red[■] Not answered")
        st.text(short(history.error, 300))
    if not history.lines:
        if not history.error:
            st.caption(panel.none)
        return
    unit = panel.unit or history.unit
    traces = [LayerTrace(line.name, line.values, line.bounds) for line in history.lines]
    start, end = int(history.times[0]), int(history.times[-1])
    st.plotly_chart(
        layer_lines(history.times, traces, unit, start, end, zone),
        key=f"panel_{panel.key}",
        config=_CONFIG,
        alt=takeaway(panel, history),
    )
    words = captions(panel, history)
    if words:
        st.caption(" · ".join(words))
    for sentence in bound_sentences(history, window):
        st.text(sentence)
    if table is not None and table.open:
        with table:
            st.dataframe(history_frame(history, zone), hide_index=True, height=300)


def captions(panel: Panel, history: PanelHistory) -> list[str]:
    """Our own words: which lines these are."""
    parts = []
    if history.total > len(history.lines):
        parts.append(f"{len(history.lines)} of {history.total:,} lines, the {panel.first} now")
    if any(line.bounds.any() and not line.never_exact for line in history.lines):
        parts.append("dashed: only a bound is known")
    if not history.narrowed:
        parts.append("not narrowed: these have no such label")
    return parts


def bound_sentences(history: PanelHistory, window: str) -> list[str]:
    """Of each line that is never more than a bound; foreign text, to be shown as text only."""
    bounded = [line for line in history.lines if line.never_exact]
    found = [_bound_sentence(line, history.unit, window) for line in bounded[:_SENTENCES]]
    if len(bounded) > _SENTENCES:
        found.append(f"and {len(bounded) - _SENTENCES} lines more, dashed")
    return found


def _bound_sentence(line: PanelLine, unit: str, window: str) -> str:
    last = line.last
    assert last is not None  # noqa: S101  it has a bound
    edge = _EDGES[int(line.bounds[last])].format(value_text(float(line.values[last]), unit))
    counted = "" if line.observations is None else f"; {line.observations:,.0f} observations in {window}"
    return short(f"{line.name} is {edge}{counted}", 300)


def takeaway(panel: Panel, history: PanelHistory) -> str:
    axis = axis_of(panel.unit or history.unit)
    parts = []
    for line in history.lines[:3]:
        known = line.values[~np.isnan(line.values)] * axis.factor
        parts.append(
            f"{short(line.name, 60)} last {known[-1]:.3g}{axis.suffix}, between {known.min():.3g} "
            f"and {known.max():.3g}"
        )
    return f"{panel.title}: " + "; ".join(parts)


def history_frame(history: PanelHistory, zone: tzinfo) -> pd.DataFrame:
    """A row for each value, the newest first; plain text."""
    lines: list[str] = []
    times: list[str] = []
    values: list[float] = []
    bounds: list[str] = []
    for at in range(len(history.times) - 1, -1, -1):
        moment = clock_time(int(history.times[at]), zone)
        for line in history.lines:
            if not np.isnan(line.values[at]):
                lines.append(short(line.name))
                times.append(moment)
                values.append(float(line.values[at]))
                bounds.append({-1: "at most", 0: "", 1: "at least"}[int(line.bounds[at])])
    columns: dict[str, list[str] | list[float]] = {"line": lines, "time": times, "value": values}
    if any(bounds):
        columns["bound"] = bounds
    return pd.DataFrame(columns).rename(columns={"value": f"value in {short(history.unit, 20)}"})
