"""Every target and collector: does it answer, and if not, why; and Strata's own processes."""

import streamlit as st

from app import queries
from app.widgets import notices
from app.widgets.process_band import draw_processes
from app.widgets.source_table import choose_sources, draw_sources
from app.widgets.toolbar import toolbar
from db.errors import StoreError

view = toolbar("Sources", queries.now_ms(), with_range=False)


def page() -> None:
    now = view.paused_at_ms or queries.now_ms()
    try:
        processes, reports = queries.processes(), queries.sources()
    except StoreError as error:
        notices.unreachable(error)
        return
    draw_processes(processes, now)
    if not reports:
        notices.empty(processes, now)
        return
    draw_sources(choose_sources(reports, now), now, queries.zone())


st.fragment(page, run_every=view.every(queries.tick_seconds()))()
