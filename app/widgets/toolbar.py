"""The page's title line: time range and Live/Paused switch, both in the URL, so that a link shows the
same view."""

from dataclasses import dataclass

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from app import context

RANGES = {"5m": 300.0, "15m": 900.0, "1h": 3_600.0, "6h": 21_600.0, "24h": 86_400.0}
DEFAULT_RANGE = "15m"
_PAUSED_AT = "paused_at_ms"


@dataclass(frozen=True, slots=True)
class View:
    """What the viewer asked for. paused_at_ms: the moment the page is held at, None while live.

    summary: the place beside the title, for one line of what the page is about.
    """

    span_seconds: float
    paused_at_ms: int | None
    summary: DeltaGenerator

    @property
    def live(self) -> bool:
        return self.paused_at_ms is None

    def every(self, seconds: float) -> float | None:
        """A fragment's `run_every`."""
        return seconds if self.live else None


def demo_mark() -> None:
    """Said by a word and a shape, not by colour alone."""
    st.badge("DEMO", icon=":material/science:", color="orange", width="content")


def toolbar(title: str, now_ms: int, *, with_range: bool = True) -> View:
    """Draw the line; `title` is trusted text."""
    span = RANGES[DEFAULT_RANGE]
    with st.container(
        horizontal=True, horizontal_alignment="distribute", vertical_alignment="center", gap="small"
    ):
        with st.container(horizontal=True, vertical_alignment="center", gap="small", width="content"):
            st.title(title, anchor=False, width="content")
            if context.current().demo:
                demo_mark()
            summary = st.container(width="content")
        with st.container(horizontal=True, vertical_alignment="center", gap="small", width="content"):
            if with_range:
                chosen = st.segmented_control(
                    "Time range",
                    list(RANGES),
                    default=DEFAULT_RANGE,
                    required=True,
                    key="range",
                    bind="query-params",
                    label_visibility="collapsed",
                )
                span = RANGES[str(chosen or DEFAULT_RANGE)]
            live = st.toggle("Live", value=True, key="live", bind="query-params")
    if live:
        st.session_state.pop(_PAUSED_AT, None)
        return View(span, None, summary)
    # Held from the moment of pausing: choosing another range must not move it.
    return View(span, int(st.session_state.setdefault(_PAUSED_AT, now_ms)), summary)
