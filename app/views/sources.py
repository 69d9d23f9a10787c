"""Every target and collector: does it answer, and if not, why; and Strata's own processes."""

from collections.abc import Sequence

import streamlit as st

from app import queries
from app.widgets import notices
from app.widgets.coverage_table import draw_coverage
from app.widgets.finding_list import KINDS, draw_findings
from app.widgets.process_band import draw_processes
from app.widgets.source_table import choose_sources, draw_sources
from app.widgets.toolbar import toolbar
from db.errors import StoreError
from db.processes import Process
from db.promql.errors import QueryError

view = toolbar("Sources", queries.now_ms(), with_range=False)


def page() -> None:
    now = view.paused_at_ms or queries.now_ms()
    held = queries.held()
    if held is not None:  # first: what is read below may fail for the same reason
        notices.held_samples(held, now, queries.zone())
    processes: Sequence[Process] = ()
    try:
        processes = queries.processes()
        draw_processes(processes, now)
    except StoreError as error:
        notices.unreadable_processes(error)
    try:
        reports = queries.sources()
    except StoreError as error:
        notices.unreachable(error)
        return
    sources = [report for report in reports if report.kind not in KINDS]
    if sources:
        draw_sources(choose_sources(sources, now), now, queries.zone())
    else:
        notices.empty(processes, now)
    draw_findings([report for report in reports if report.kind in KINDS])


def gaps() -> None:
    """Apart: it is read far less often."""
    try:
        draw_coverage(queries.coverage(view.paused_at_ms or queries.now_ms()))
    except StoreError:
        return  # said above
    except QueryError as error:
        notices.unanswered(error)


st.fragment(page, run_every=view.every(queries.tick_seconds()))()
st.fragment(gaps, run_every=view.every(queries.COVERAGE_TICK_SECONDS))()
