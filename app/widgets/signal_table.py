"""The signals of a layer: those that are there with their values, and what would bring the others."""

from collections.abc import Sequence

import pandas as pd
import streamlit as st

from app.summaries.signals import SignalNow
from app.widgets.signal_values import now_text, reading_text
from app.widgets.status import short
from db.catalog.signal import Layer

LAYERS: dict[str, Layer] = {
    "Client": "client",
    "Application": "application",
    "Model": "model",
    "Infrastructure": "infrastructure",
    "Training": "training",
    "Cost": "cost",
}
_ROWS = 500
# What to switch on is a sentence, often with a line of a file in it. Streamlit breaks lines in rows of twice
# its own height.
_THREE_LINES = 72


def choose_layer() -> Layer:
    """The choice is in the URL."""
    chosen = st.segmented_control(
        "Layer",
        list(LAYERS),
        default="Application",
        required=True,
        wrap=True,
        key="layer",
        bind="query-params",
        label_visibility="collapsed",
    )
    return LAYERS[str(chosen or "Application")]


def draw_signals(signals: Sequence[SignalNow]) -> None:
    there = [signal for signal in signals if signal.there]
    missing = [signal for signal in signals if not signal.there]
    st.markdown(f"**{len(there)}** of {len(signals)} signals have a source")
    if there:
        _draw_there(there)
    if missing:
        st.header("What would bring the others", anchor=False)
        st.dataframe(
            missing_frame(missing),
            hide_index=True,
            column_config=_MISSING_COLUMNS,
            height="content",
            row_height=_THREE_LINES,
            alt=f"{len(missing)} signals without a source, and what to install or switch on",
        )


def _draw_there(there: Sequence[SignalNow]) -> None:
    event = st.dataframe(
        signal_frame(there),
        hide_index=True,
        column_config=_COLUMNS,
        height="content",
        on_select="rerun",
        selection_mode="single-row",
        key="signals",
        alt=f"{len(there)} signals with their values and the exporters they come from",
    )
    chosen = [row for row in event.selection.rows if row < len(there)]
    if chosen:
        _draw_details(there[chosen[0]])
    else:
        st.caption("Choose a row to see its PromQL and every series.")


def _draw_details(now: SignalNow) -> None:
    with st.container(border=True, gap="xsmall"):
        st.text(short(f"{now.signal.title}: {now.signal.means}", 500))  # a user's file may have written it
        st.code(now.promql, language="promql", wrap_lines=True)
        if now.error:
            st.text(short(now.error, 500))
        if now.readings:
            st.dataframe(
                reading_frame(now), hide_index=True, height="content" if len(now.readings) < 15 else 400
            )
            if len(now.readings) > _ROWS:
                st.caption(f"the first {_ROWS} of {len(now.readings):,} series")


def signal_frame(there: Sequence[SignalNow]) -> pd.DataFrame:
    """One row for each signal; plain text, since users write titles and exporters write labels."""
    return pd.DataFrame(
        {
            "title": [short(now.signal.title) for now in there],
            "now": [now_text(now) for now in there],
            "series": [len(now.readings) for now in there],
            "exporters": [short(", ".join(now.exporters)) for now in there],
            "means": [short(now.signal.means, 500) for now in there],
            "id": [now.signal.id for now in there],
        }
    )


def missing_frame(missing: Sequence[SignalNow]) -> pd.DataFrame:
    return pd.DataFrame(
        {
            "title": [short(now.signal.title) for now in missing],
            "way": [short(now.ways[0], 1000) if now.ways else "nothing known yields it" for now in missing],
            "others": [short(" · ".join(now.ways[1:]), 1000) for now in missing],
            "id": [now.signal.id for now in missing],
        }
    )


def reading_frame(now: SignalNow) -> pd.DataFrame:
    """A column for each label, then the value and of quantiles the number of observations."""
    shown = now.readings[:_ROWS]
    labels = dict.fromkeys(name for reading in shown for name, _ in reading.labels)
    columns: dict[str, list[object]] = {
        name: [short(dict(reading.labels).get(name, "")) for reading in shown] for name in labels
    }
    columns["value"] = [reading_text(reading, now.signal.unit) for reading in shown]
    if any(reading.observations is not None for reading in shown):
        columns["observations"] = [reading.observations for reading in shown]
    return pd.DataFrame(columns)


_COLUMNS = {
    "title": st.column_config.TextColumn("Signal", width="medium"),
    "now": st.column_config.TextColumn("Now", width="medium"),
    "series": st.column_config.NumberColumn("Series", width="small"),
    "exporters": st.column_config.TextColumn("From", width="medium"),
    "means": st.column_config.TextColumn("What it means", width="large"),
    "id": st.column_config.TextColumn("Id", width="medium"),
}
_MISSING_COLUMNS = {
    "title": st.column_config.TextColumn("Signal", width="medium"),
    "way": st.column_config.TextColumn("What to install or switch on", width=560),
    "others": st.column_config.TextColumn("Other ways", width="large"),
    "id": st.column_config.TextColumn("Id", width="medium"),
}
