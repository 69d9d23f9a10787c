"""Every signal of the catalogue: what it is now, which exporter it comes from, or what would bring it."""

import streamlit as st

from app import queries
from app.widgets import notices
from app.widgets.signal_table import choose_layer, draw_signals
from app.widgets.toolbar import toolbar
from db.errors import StoreError
from db.promql.errors import QueryError

view = toolbar("Signals", queries.now_ms(), with_range=False)
layer = choose_layer()


def page() -> None:
    try:
        signals = queries.signals(layer, view.paused_at_ms or queries.now_ms())
    except StoreError as error:
        notices.unreachable(error)
        return
    except QueryError as error:
        notices.unanswered(error)
        return
    draw_signals(signals)


st.fragment(page, run_every=view.every(queries.SIGNAL_TICK_SECONDS))()
