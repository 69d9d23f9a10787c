"""Strata's own processes: which runs, which is down, how often it had to be brought back."""

from collections.abc import Sequence

import streamlit as st

from app.widgets.numbers import ago, counted
from app.widgets.status import RUNNING, process_sign, short
from db.processes import Process

COLLECTORS = "collect"
TITLES = {
    COLLECTORS: "Collectors",
    "maintain": "Storage",
    "alert": "Alerts",
    "web": "Web",
    "demo": "Simulator",
}
CARD_WIDTH = 220


def draw_processes(processes: Sequence[Process], now_ms: int) -> None:
    st.header("Processes", anchor=False)
    if not processes:
        st.caption("No process has reported yet.")
        return
    order = list(TITLES)
    known = sorted(processes, key=lambda one: order.index(one.name) if one.name in order else len(order))
    with st.grid("auto", min_column_width=CARD_WIDTH, gap="xsmall") as grid:
        for process in known:
            with grid.cell(), st.container(border=True, gap="xxsmall", height="stretch"):
                with st.container(horizontal=True, vertical_alignment="center", gap="xsmall"):
                    st.markdown(f"**{process_sign(process, now_ms).markdown}**", width="content")
                    st.text(process_title(process))
                st.text(process_story(process, now_ms))


def process_title(process: Process) -> str:
    return TITLES.get(process.name, short(process.name, 40))


def process_story(process: Process, now_ms: int) -> str:
    """One plain line: how alive, how often restarted, why it last ended."""
    parts = []
    if process_sign(process, now_ms) is RUNNING:
        if process.pid is not None:
            parts.append(f"pid {process.pid}")
        if process.started_ms is not None:
            parts.append(f"started {ago(process.started_ms, now_ms)}")
    else:
        parts.append(f"last heard {ago(process.beat_ms, now_ms)}")
    if process.restarts:
        parts.append(f"restarted {counted(process.restarts, 'time')}")
    if process.detail:
        parts.append(process.detail)
    return short(" · ".join(parts))
