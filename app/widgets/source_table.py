"""The table of targets and collectors, with its filters and its count line."""

from collections import Counter
from collections.abc import Sequence
from datetime import tzinfo

import pandas as pd
import streamlit as st

from app.summaries.targets import SourceStatus, source_job, source_status
from app.widgets.numbers import ago, clock_time
from app.widgets.status import SOURCE_SIGNS, short
from db.records import SourceReport

# What the URL holds is what the filter shows.
_ALL = "All"
_ALL_JOBS = "All jobs"
# Worst first, in the table and in the filter.
_ORDER: tuple[SourceStatus, ...] = ("down", "stale", "waiting", "up", "suppressed", "unsupported")
_HEIGHT = 560
_ROWS_AT_ONCE = 18
_PROBLEMS = 5


def choose_sources(reports: Sequence[SourceReport], now_ms: int) -> list[tuple[SourceStatus, SourceReport]]:
    """Draw count line and filters; the sources that pass them, worst first. The choice is in the URL."""
    judged = [(source_status(report, now_ms), report) for report in reports]
    st.header("Targets and collectors", anchor=False)
    st.markdown(count_line([status for status, _ in judged]))
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        state = st.segmented_control(
            "State",
            [_ALL, *(SOURCE_SIGNS[status].word for status in _ORDER)],
            default=_ALL,
            required=True,
            wrap=True,
            key="state",
            bind="query-params",
            label_visibility="collapsed",
        )
        # Job names come from configuration files and discovery: only ever plain text.
        jobs = sorted({source_job(report) for report in reports})
        job = st.selectbox(
            "Job",
            [_ALL_JOBS, *jobs],
            key="job",
            bind="query-params",
            label_visibility="collapsed",
            width=220,
        )
    chosen = [
        (status, report)
        for status, report in judged
        if state in (_ALL, SOURCE_SIGNS[status].word) and job in (_ALL_JOBS, source_job(report))
    ]
    return sorted(
        chosen, key=lambda item: (_ORDER.index(item[0]), item[1].kind, source_job(item[1]), item[1].instance)
    )


def count_line(statuses: Sequence[SourceStatus]) -> str:
    """The worst first: "3 of 1,000 down · 997 up". Markdown of ours."""
    counts = Counter(statuses)
    parts = [
        f":{SOURCE_SIGNS[status].colour}[{SOURCE_SIGNS[status].shape}] "
        f"**{counts[status]:,}**{f' of {len(statuses):,}' if first else ''} "
        f"{SOURCE_SIGNS[status].word.lower()}"
        for first, status in zip(
            [True] + [False] * len(_ORDER), [one for one in _ORDER if counts[one]], strict=False
        )
    ]
    return " · ".join(parts)


def draw_sources(rows: Sequence[tuple[SourceStatus, SourceReport]], now_ms: int, zone: tzinfo) -> None:
    if not rows:
        st.caption("No source matches; choose another state or job.")
        return
    _draw_problems([report for status, report in rows if status == "down"])
    frame = source_frame(rows, now_ms, zone)
    st.dataframe(
        frame,
        hide_index=True,
        # A column of nothing would push the others out of sight.
        column_order=[name for name in _COLUMNS if name not in _TEXTS or frame[name].any()],
        column_config=_COLUMNS,
        height="content" if len(rows) <= _ROWS_AT_ONCE else _HEIGHT,
        placeholder="",
        alt=f"{len(rows)} sources with state, last success, duration, samples and error",
    )


def _draw_problems(down: Sequence[SourceReport]) -> None:
    """The reasons in full: a table's cell cuts them off."""
    if not down:
        return
    with st.container(border=True, gap="xxsmall"):
        for report in down[:_PROBLEMS]:
            with st.container(horizontal=True, gap="xsmall"):
                st.markdown(f"**{SOURCE_SIGNS['down'].markdown}**", width="content")
                st.text(short(f"{source_job(report)} · {report.instance}: {report.error}", 400))
        if len(down) > _PROBLEMS:
            st.caption(f"and {len(down) - _PROBLEMS:,} more, at the top of the table")


def source_frame(
    rows: Sequence[tuple[SourceStatus, SourceReport]], now_ms: int, zone: tzinfo
) -> pd.DataFrame:
    """One row for each source. Cells are drawn as plain text, so that labels cannot be markup."""
    return pd.DataFrame(
        {
            "state": [SOURCE_SIGNS[status].plain for status, _ in rows],
            "job": [short(source_job(report)) for _, report in rows],
            "instance": [short(report.instance) for _, report in rows],
            "error": [short(report.error, 500) for _, report in rows],
            "success": [ago(report.last_success_ms, now_ms) for _, report in rows],
            "duration": [_milliseconds(report.duration_seconds) for _, report in rows],
            "samples": [report.samples for _, report in rows],
            "interval": [f"{report.interval_seconds:g} s" for _, report in rows],
            "note": [short(report.note, 500) for _, report in rows],
            "url": [short(report.url, 500) for _, report in rows],
            "kind": [report.kind for _, report in rows],
            "success_at": [
                "" if report.last_success_ms is None else clock_time(report.last_success_ms, zone)
                for _, report in rows
            ],
        }
    )


def _milliseconds(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds * 1000, 1)


_TEXTS = ("error", "note", "url")
_COLUMNS = {
    "state": st.column_config.TextColumn("State", width=110),
    "job": st.column_config.TextColumn("Job", width="small"),
    "instance": st.column_config.TextColumn("Instance", width="medium"),
    "error": st.column_config.TextColumn("Error", width="large"),
    "success": st.column_config.TextColumn("Last success", width="small", alignment="right"),
    "duration": st.column_config.NumberColumn("Duration", format="%.1f ms", width="small"),
    "samples": st.column_config.NumberColumn("Samples", format="localized", width="small"),
    "interval": st.column_config.TextColumn("Interval", width="small", alignment="right"),
    "note": st.column_config.TextColumn("Note", width="large"),
    "url": st.column_config.TextColumn("URL", width="medium"),
    "kind": st.column_config.TextColumn("Kind", width="small"),
    "success_at": st.column_config.TextColumn("Last success at"),
}
