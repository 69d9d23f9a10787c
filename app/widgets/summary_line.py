"""The line under the title: is it live, how old is the newest sample, and how much of everything is up."""

from collections.abc import Sequence

import streamlit as st

from app.analysis.freshness import Freshness
from app.summaries.targets import source_status
from app.widgets.numbers import ago
from app.widgets.status import FRESHNESS_SIGNS, LIVE, PAUSED, Sign
from db.records import SourceReport


def summary_sign(arrival: Freshness, *, live: bool) -> Sign:
    """What leads the line: a paused page says so before it says that all is well."""
    sign = FRESHNESS_SIGNS[arrival]
    return PAUSED if sign is LIVE and not live else sign


def draw_summary(sign: Sign, newest_ms: int | None, now_ms: int, counts: Sequence[str]) -> None:
    """counts: our own words, such as "1 host"."""
    st.markdown(" · ".join([f"**{sign.markdown}**", f"newest sample {ago(newest_ms, now_ms)}", *counts]))


def target_count(reports: Sequence[SourceReport], now_ms: int) -> str:
    """The worst first: "3 of 1,000 targets down". Markdown of ours."""
    scraped = [source_status(report, now_ms) for report in reports if report.kind == "scrape"]
    if not scraped:
        return "no targets"
    of_all = f"of {len(scraped):,} {'target' if len(scraped) == 1 else 'targets'}"
    for status, colour, shape in (("down", "red", "■"), ("stale", "orange", "▲")):
        if status in scraped:
            return f":{colour}[{shape}] {scraped.count(status):,} {of_all} {status}"
    return f"{scraped.count('up'):,} {of_all} up"
