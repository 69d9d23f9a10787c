"""Narrows a layer page to one model or node; the choice is in the URL."""

from collections.abc import Sequence

import streamlit as st

from app.widgets.notices import notice
from app.widgets.status import NO_DATA, short

WIDTH = 340


def choose_one(label: str, found: Sequence[str]) -> str:
    """One of what was found, or "" for everything. What a link names stays chosen where nothing of that name
    reports: a page that silently showed everything instead would mislead."""
    everything = f"All {label}s"
    names = {short(name): name for name in found}
    asked = str(st.session_state.get(label) or st.query_params.get(label, ""))
    options = list(dict.fromkeys([everything, *names, *([asked] if asked else [])]))
    chosen = st.selectbox(
        label.capitalize(),
        options,
        key=label,
        bind="query-params",
        label_visibility="collapsed",
        width=WIDTH,
    )
    return "" if chosen in (None, everything) else names.get(str(chosen), str(chosen))


def said_of_nothing(label: str, chosen: str) -> None:
    """Nothing of that name reports."""
    notice(NO_DATA, f"no {label} of this name reported in this time range.", [chosen])
