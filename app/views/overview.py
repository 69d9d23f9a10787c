"""Everything at one glance: hosts, GPUs, scraped targets, and one chart of what is chosen."""

import streamlit as st

from app import queries
from app.summaries.history import offered
from app.widgets import notices
from app.widgets.gpu_band import draw_gpus
from app.widgets.history_band import choose_chart, draw_history
from app.widgets.host_band import draw_hosts
from app.widgets.numbers import counted
from app.widgets.summary_line import draw_summary, summary_sign, target_count
from app.widgets.target_band import draw_targets
from app.widgets.toolbar import toolbar
from db.errors import StoreError

view = toolbar("Overview", queries.now_ms())
tick = queries.tick_seconds()


def bands() -> None:
    now = view.paused_at_ms or queries.now_ms()
    with view.summary:
        # Written in every run: later a fragment may write only where it wrote in the page's full run, and
        # a page that is opened before the first sample has no line to show yet.
        line = st.empty()
    try:
        reports = queries.sources()
        moment = queries.moment(reports, now)
        if moment.newest_ms is None:
            notices.empty(queries.processes(), now)
            return
        span = queries.trend_seconds(reports, view.span_seconds)
        window = queries.trend_window(moment.shown_ms, span, tick)
        hosts, gpus, targets = queries.hosts(window), queries.gpus(window), queries.targets(window)
        problems = queries.unanswered(window)
        processes = queries.processes() if moment.stale else []
    except StoreError as error:
        notices.unreachable(error)
        return
    sign = summary_sign(moment.freshness, live=view.live)
    counts = [counted(len(hosts), "host"), counted(len(gpus), "GPU"), target_count(reports, now)]
    with line:
        draw_summary(sign, moment.newest_ms, now, counts)
    if moment.stale:
        notices.stale(moment.newest_ms, processes, now)
    if problems:
        notices.unread_signals(problems)
    draw_hosts(hosts, now)
    draw_gpus(gpus, now, no_driver=queries.no_gpu_driver(reports))
    draw_targets(targets, now)


def chart() -> None:
    # Closed, it costs nothing: the browser takes seconds to load what draws charts, and the tiles come first.
    place = st.expander("History", key="history", bind="query-params", on_change="rerun")
    if not place.open:
        return
    now = view.paused_at_ms or queries.now_ms()
    try:
        reports = queries.sources()
        moment = queries.moment(reports, now)
        span = queries.trend_seconds(reports, view.span_seconds)
        recent = queries.trend_window(moment.shown_ms, span, queries.CHART_TICK_SECONDS)
        charts = offered(queries.hosts(recent), queries.gpus(recent), queries.targets(recent))
        with place:
            if not charts:
                st.caption("Nothing to draw yet.")
                return
            chosen = choose_chart(charts)
            window = queries.chart_window(moment.shown_ms, view.span_seconds, moment.pace_seconds)
            lines = queries.history(chosen.key, recent, window)
            draw_history(chosen, lines, window.start_ms, window.end_ms, queries.zone())
    except StoreError as error:
        with place:
            notices.unreachable(error)


st.fragment(bands, run_every=view.every(tick))()
st.fragment(chart, run_every=view.every(queries.CHART_TICK_SECONDS))()
