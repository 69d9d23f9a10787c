"""The fleet of GPUs: a heat map of one signal over time, and a table to sort by."""

import math
from collections.abc import Sequence, Set
from datetime import tzinfo

import pandas as pd
import streamlit as st

from app.charts.layers import axis_of, heat_map
from app.summaries.fleet import FleetGpu, Heat
from app.summaries.infrastructure_panels import HEAT_SIGNALS
from app.summaries.layer_history import NoSource
from app.widgets.layer_tiles import NO_SOURCE, way_lines
from app.widgets.numbers import bytes_text, counted
from app.widgets.status import short
from db.catalog.xid import Severity, Xid

_SHAPES: dict[Severity, str] = {"info": "●", "warning": "▲", "critical": "■"}
_CAUSES = 3
_OWNERS = 3
_ROWS_AT_ONCE = 16
_HEIGHT = 560


def choose_heat() -> str:
    """The title of what the heat map shows. The choice is in the URL."""
    chosen = st.segmented_control(
        "Heat map of",
        list(HEAT_SIGNALS),
        default="Utilisation",
        required=True,
        wrap=True,
        key="heat",
        bind="query-params",
        label_visibility="collapsed",
    )
    return str(chosen) if chosen in HEAT_SIGNALS else "Utilisation"


def draw_heat(title: str, unit: str, heat: Heat | NoSource, zone: tzinfo) -> None:
    if isinstance(heat, NoSource):
        with st.container(border=True, gap="xxsmall"):
            st.markdown(f"{NO_SOURCE.markdown} · what to install or switch on")
            for line in way_lines([(title, heat)]):
                st.text(line)
        return
    if not heat.names:
        st.caption(f"{title}: no GPU reports it in this time range.")
        return
    st.plotly_chart(
        heat_map(heat.times, heat.names, heat.values, unit, zone),
        key="fleet_heat",
        config={"displaylogo": False},
        alt=heat_takeaway(title, unit, heat),
    )
    words = [counted(heat.gpus, "GPU")]
    if heat.together > 1:
        words.append(f"a row is the {heat.by} of up to {heat.together} neighbours")
    st.caption(" · ".join(words))


def heat_takeaway(title: str, unit: str, heat: Heat) -> str:
    axis = axis_of(unit)
    known = heat.values[~pd.isna(heat.values)] * axis.factor
    span = f"{known.min():.3g} and {known.max():.3g}{axis.suffix}"
    return f"{title} of {counted(heat.gpus, 'GPU')}: between {span}"


def draw_fleet(gpus: Sequence[FleetGpu], sources: Set[str]) -> None:
    """sources: the signals that something yields. What nothing yields has no column: an empty cell says that
    nothing happened."""
    if not gpus:
        return
    st.dataframe(
        fleet_frame(gpus),
        hide_index=True,
        column_config=_COLUMNS,
        column_order=[name for name in _COLUMNS if not _FROM[name] or _FROM[name] & sources],
        placeholder="",
        height="content" if len(gpus) <= _ROWS_AT_ONCE else _HEIGHT,
        key="fleet_table",
        alt=f"{len(gpus)} GPUs with utilisation, memory, power, temperature, throttling, XID and owner",
    )


def fleet_frame(gpus: Sequence[FleetGpu]) -> pd.DataFrame:
    """A row for each GPU; texts are anybody's and shown as cells only."""
    return pd.DataFrame(
        {
            "node": [short(gpu.node) for gpu in gpus],
            "gpu": [short(gpu.gpu) for gpu in gpus],
            "utilisation": [_percent(gpu, "gpu_utilization") for gpu in gpus],
            "memory": [_percent(gpu, "gpu_memory_used_ratio") for gpu in gpus],
            "memory_used": [bytes_text(gpu.values.get("gpu_memory_used_bytes")) for gpu in gpus],
            "power": [gpu.values.get("gpu_power_watts") for gpu in gpus],
            "power_limit": [gpu.values.get("gpu_power_limit_watts") for gpu in gpus],
            "temperature": [gpu.values.get("gpu_temperature_celsius") for gpu in gpus],
            "throttled": [throttle_text(gpu) for gpu in gpus],
            "xid": [xid_text(gpu.xid) for gpu in gpus],
            "owner": [_owners(gpu) for gpu in gpus],
            "uuid": [short(gpu.uuid) for gpu in gpus],
        }
    )


def throttle_text(gpu: FleetGpu) -> str:
    """ "thermal 6 %, power 12 %" of the time range, the largest share first; untrusted text."""
    ranked = sorted(gpu.throttled.items(), key=lambda item: -1.0 if math.isnan(item[1]) else -item[1])
    parts = [cause if math.isnan(share) else f"{cause} {share:.0%}" for cause, share in ranked]
    return short(", ".join(parts[:_CAUSES]) + (f" +{len(parts) - _CAUSES}" if len(parts) > _CAUSES else ""))


def xid_text(xid: Xid | None) -> str:
    """ "■ 79 GPU has fallen off the bus: what to do"."""
    if xid is None:
        return ""
    return short(f"{_SHAPES[xid.severity]} {xid.code} {xid.description}: {xid.action}", 400)


def _owners(gpu: FleetGpu) -> str:
    more = len(gpu.owners) - _OWNERS
    return short(", ".join(gpu.owners[:_OWNERS]) + (f" and {more} more" if more > 0 else ""))


def _percent(gpu: FleetGpu, signal: str) -> float | None:
    value = gpu.values.get(signal)
    return None if value is None else round(value * 100, 1)


# Column -> signals, any of which it is made of; those of none are always there.
_FROM: dict[str, frozenset[str]] = {
    "node": frozenset(),
    "gpu": frozenset(),
    "utilisation": frozenset({"gpu_utilization"}),
    "memory": frozenset({"gpu_memory_used_ratio"}),
    "memory_used": frozenset({"gpu_memory_used_bytes"}),
    "power": frozenset({"gpu_power_watts"}),
    "power_limit": frozenset({"gpu_power_limit_watts"}),
    "temperature": frozenset({"gpu_temperature_celsius"}),
    "throttled": frozenset({"gpu_throttle_reason", "gpu_throttled_ratio"}),
    "xid": frozenset({"gpu_xid"}),
    "owner": frozenset({"gpu_owner"}),
    "uuid": frozenset(),
}
_COLUMNS = {
    "node": st.column_config.TextColumn("Node", pinned=True),
    "gpu": st.column_config.TextColumn("GPU", width="small", pinned=True),
    "utilisation": st.column_config.ProgressColumn(
        "Utilisation", format="%.0f %%", min_value=0, max_value=100
    ),
    "memory": st.column_config.ProgressColumn("Memory", format="%.0f %%", min_value=0, max_value=100),
    "memory_used": st.column_config.TextColumn("Memory used", alignment="right"),
    "power": st.column_config.NumberColumn("Power", format="%.0f W"),
    "power_limit": st.column_config.NumberColumn("Power limit", format="%.0f W"),
    "temperature": st.column_config.NumberColumn("Temperature", format="%.0f °C"),
    "throttled": st.column_config.TextColumn("Throttled by", width="medium"),
    "xid": st.column_config.TextColumn("XID in this range", width="large"),
    "owner": st.column_config.TextColumn("Owner", width="medium"),
    "uuid": st.column_config.TextColumn("UUID", width="medium"),
}
