"""One chart below the tiles, chosen by name, with the same numbers as a table for who cannot see it."""

from collections.abc import Sequence
from datetime import datetime, tzinfo

import numpy as np
import pandas as pd
import streamlit as st

from app.charts.series import AXES, Trace, time_series
from app.summaries.history import Chart, History, Line
from app.widgets.numbers import clock_time
from app.widgets.status import short

TABLE_ROWS = 200


def choose_chart(charts: Sequence[Chart]) -> Chart:
    """At least one chart. The choice is in the URL."""
    titles = {chart.title: chart for chart in charts}
    chosen = st.pills(
        "Chart",
        list(titles),
        default=charts[0].title,
        required=True,
        key="chart",
        bind="query-params",
        label_visibility="collapsed",
    )
    return titles.get(str(chosen), charts[0])


def draw_history(chart: Chart, history: History, start_ms: int, end_ms: int, zone: tzinfo) -> None:
    if not history.lines:
        st.caption(f"{chart.title}: no value in this time range.")
        return
    clock = f"times in {datetime.fromtimestamp(end_ms / 1000, zone):%Z}"
    if history.total > len(history.lines):
        clock = f"{len(history.lines)} of {history.total:,} lines, the highest now · {clock}"
    st.caption(clock)
    traces = [Trace(line.name, line.timestamps, line.values) for line in history.lines]
    drawn, table = st.tabs(["Chart", "Table"])
    with drawn:
        st.plotly_chart(
            time_series(traces, chart.unit, start_ms, end_ms, zone),
            key=f"figure_{chart.key}",
            config={"displaylogo": False, "modeBarButtonsToRemove": ["select2d", "lasso2d"]},
            alt=_takeaway(chart, history.lines),
        )
    with table:
        st.dataframe(_table(chart, history.lines, zone), hide_index=True)


def _takeaway(chart: Chart, lines: Sequence[Line]) -> str:
    axis = AXES[chart.unit]
    parts = []
    for line in lines[:3]:
        known = line.values[~np.isnan(line.values)] * axis.factor
        if len(known):
            parts.append(
                f"{short(line.name, 60)} now {known[-1]:,.1f}{axis.suffix}, between {known.min():,.1f} "
                f"and {known.max():,.1f}"
            )
    return f"{chart.title}: " + "; ".join(parts)


def _table(chart: Chart, lines: Sequence[Line], zone: tzinfo) -> pd.DataFrame:
    axis = AXES[chart.unit]
    rows = [
        {
            "line": short(line.name),
            "time": clock_time(int(at), zone),
            f"value{axis.suffix}": float(value) * axis.factor,
        }
        for line in lines
        for at, value in list(zip(line.timestamps, line.values, strict=True))[-TABLE_ROWS // len(lines) :]
        if not np.isnan(value)
    ]
    return pd.DataFrame(rows[::-1])
