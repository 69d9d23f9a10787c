"""What the configuration and the search for targets have to say. No sources: not in their table or counts."""

from collections.abc import Sequence

import streamlit as st

from app.widgets.status import SOURCE_SIGNS, STALE, Sign, short
from db.records import SourceReport

KINDS = ("config", "discovery")
_SHOWN = 20
_NOT_USED = Sign(STALE.shape, "Not used", STALE.colour)


def draw_findings(findings: Sequence[SourceReport]) -> None:
    """A line each: a field that is not supported, a discovery that fails, a service without metrics."""
    if not findings:
        return
    st.header("Configuration and discovery", anchor=False)
    with st.container(border=True, gap="xxsmall"):
        for finding in findings[:_SHOWN]:
            with st.container(horizontal=True, gap="xsmall"):
                st.markdown(f"**{finding_sign(finding).markdown}**", width="content")
                st.text(finding_text(finding))
        if len(findings) > _SHOWN:
            st.caption(f"and {len(findings) - _SHOWN:,} more, in the log of the collector process")


def finding_sign(finding: SourceReport) -> Sign:
    return _NOT_USED if finding.kind == "config" else SOURCE_SIGNS[finding.state]


def finding_text(finding: SourceReport) -> str:
    """Foreign text (paths, job names, addresses): to be shown as text only."""
    if finding.kind == "config":
        return short(finding.note, 400)
    where = " · ".join(part for part in (finding.pool, finding.instance) if part)
    return short(f"{where}: {finding.error or finding.note}", 400)
