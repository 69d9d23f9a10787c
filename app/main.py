"""The entry script that Streamlit runs for every session: page configuration and navigation, nothing else."""

from pathlib import Path

import streamlit as st

_VIEWS = Path(__file__).parent / "views"
# Drawn here: Streamlit fetches emoji and Material icons of the browser's tab from another host.
_ICON = (
    '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 32 32">'
    '<rect width="32" height="32" rx="7" fill="#2457C5"/>'
    '<path d="M6 11h20M6 16h14M6 21h17" stroke="#fff" stroke-width="3" stroke-linecap="round"/></svg>'
)

st.set_page_config(page_title="Strata", page_icon=_ICON, layout="wide")
st.navigation(
    [
        st.Page(_VIEWS / "overview.py", title="Overview", icon=":material/dashboard:", default=True),
        st.Page(_VIEWS / "client.py", title="Client", icon=":material/person:", url_path="client"),
        st.Page(
            _VIEWS / "application.py", title="Application", icon=":material/lan:", url_path="application"
        ),
        st.Page(_VIEWS / "model.py", title="Model", icon=":material/neurology:", url_path="model"),
        st.Page(
            _VIEWS / "infrastructure.py",
            title="Infrastructure",
            icon=":material/memory:",
            url_path="infrastructure",
        ),
        st.Page(_VIEWS / "signals.py", title="Signals", icon=":material/list_alt:", url_path="signals"),
        st.Page(_VIEWS / "sources.py", title="Sources", icon=":material/sensors:", url_path="sources"),
    ],
    position="top",
).run()
