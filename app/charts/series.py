"""Lines over time, as plotly figures; the only importer of plotly.

The same lines give a byte-identical figure, so that "nothing new" redraws nothing and a zoom survives.
Times go as epoch milliseconds (typed arrays, a tenth of ISO text) and gaps stay gaps.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from html import escape

import plotly.graph_objects as go

from db.nan import FloatArray, IntArray

HEIGHT = 300
_NAME_LENGTH = 60


@dataclass(frozen=True, slots=True)
class Axis:
    """How a unit is drawn. factor: stored value -> shown value. format: d3's. suffix: after the number."""

    factor: float
    format: str
    suffix: str
    from_zero: bool = True
    highest: float | None = None


AXES: dict[str, Axis] = {
    "ratio": Axis(100.0, ".1f", " %"),
    "bytes": Axis(1.0, ".4s", "B"),
    "bytes_per_second": Axis(1.0, ".3s", "B/s"),
    "watts": Axis(1.0, ".0f", " W"),
    "celsius": Axis(1.0, ".0f", " °C", from_zero=False),
    "seconds": Axis(1000.0, ".2f", " ms"),
    "requests": Axis(1.0, ",.0f", ""),
    "per_second": Axis(1.0, ",.1f", " /s"),
}


@dataclass(frozen=True, slots=True, eq=False)
class Trace:
    """name: untrusted text. timestamps: int64[n], ms UTC. values: float64[n], NaN where the line breaks."""

    name: str
    timestamps: IntArray
    values: FloatArray


def time_series(
    traces: Sequence[Trace], unit: str, start_ms: int, end_ms: int, zone: tzinfo = UTC
) -> go.Figure:
    """One SVG line for each trace over [start_ms, end_ms]. unit: a key of AXES.

    zone: of the clock on the axis, by its offset at end_ms (plotly itself only knows UTC).
    """
    axis = AXES[unit]
    end = datetime.fromtimestamp(end_ms / 1000, zone)
    shift_ms = int((end.utcoffset() or timedelta()).total_seconds() * 1000)
    figure = go.Figure()
    for trace in traces:
        figure.add_trace(
            go.Scatter(
                x=trace.timestamps + shift_ms,
                y=trace.values * axis.factor,
                name=label(trace.name),
                mode="lines",
                line={"width": 1.5},
                connectgaps=False,
                hovertemplate=f"%{{y:{axis.format}}}{axis.suffix}",
            )
        )
    figure.update_layout(
        height=HEIGHT,
        margin={"l": 8, "r": 8, "t": 8, "b": 8},
        hovermode="x unified",
        showlegend=len(traces) > 1,
        legend={"orientation": "h", "y": -0.15, "yanchor": "top", "x": 0},
        xaxis={"type": "date", "range": [start_ms + shift_ms, end_ms + shift_ms]},
        yaxis={
            "tickformat": axis.format,
            "ticksuffix": axis.suffix,
            "rangemode": "tozero" if axis.from_zero else "normal",
            "automargin": True,
        },
    )
    return figure


def label(name: str) -> str:
    """A name as plotly shows it letter by letter: it reads a few HTML tags in labels."""
    shown = name if len(name) <= _NAME_LENGTH else f"{name[: _NAME_LENGTH - 1]}…"
    return escape(shown, quote=False)  # plotly shows an escaped quote as it is written
