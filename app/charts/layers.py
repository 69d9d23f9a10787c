"""Lines and heat maps of signals, as plotly figures; what is only a bound is drawn as one.

Colours are the theme's: lines name Streamlit's placeholders, which its client replaces by those of the light
or dark theme, since the two traces of one line (what is known, what is a bound) must have one colour.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Any

import numpy as np
import numpy.typing as npt
import plotly.graph_objects as go

from app.charts.series import Axis, label
from db.nan import FloatArray, IntArray

HEIGHT = 210
# The legend comes on top of that, so that long names never squeeze the chart: rows of a panel of usual width.
_LEGEND_ROW_PIXELS = 19
_LEGEND_WIDTH = 590
_LETTER_PIXELS, _SWATCH_PIXELS = 5.2, 45
_AXIS_PIXELS = 42
# The heat map of a few GPUs is low; of very many a row is a pixel.
_ROW_PIXELS = 18
_LEAST, _MOST = 120, 460
_NAMED_ROWS = 24
# streamlit/elements/lib/streamlit_plotly_theme.py: CATEGORY_0 to CATEGORY_9.
_COLOURS = tuple(f"#{number:06d}" for number in range(1, 11))
# Reads in both themes and without colour sight; plotly's Cividis, its darkest end lightened.
_SCALE = [[0.0, "#2B4C7E"], [0.35, "#6C7080"], [0.7, "#B9AC6B"], [1.0, "#FDE737"]]

_DAY = 86_400.0
AXES: dict[str, Axis] = {
    "ratio": Axis(100.0, ".3~r", " %"),
    "seconds": Axis(1.0, ".3~s", "s"),
    "days": Axis(1 / _DAY, ".3~r", " d"),
    "bytes": Axis(1.0, ".3~s", "B"),
    "bytes/s": Axis(1.0, ".3~s", "B/s"),
    "watts": Axis(1.0, ".3~s", "W"),
    "celsius": Axis(1.0, ".0f", " °C", from_zero=False),
    "tokens/s": Axis(1.0, ",.3~r", " /s"),
    "requests/s": Axis(1.0, ",.3~r", " /s"),
    "1/s": Axis(1.0, ",.3~r", " /s"),
}
_OTHER = Axis(1.0, ",.3~r", "")


@dataclass(frozen=True, slots=True, eq=False)
class LayerTrace:
    """name: untrusted text. values: float64[steps], NaN where the line breaks. bounds: int[steps], -1 where
    the value is at most that, 1 where at least that, 0 where it is known."""

    name: str
    values: FloatArray
    bounds: IntArray


def axis_of(unit: str) -> Axis:
    """How a signal's unit is drawn."""
    return AXES.get(unit, _OTHER)


def layer_lines(
    times: IntArray, traces: Sequence[LayerTrace], unit: str, start_ms: int, end_ms: int, zone: tzinfo = UTC
) -> go.Figure:
    """A line for each trace over [start_ms, end_ms]; bounds are dashed steps. times: int64[steps], ms."""
    axis = axis_of(unit)
    shift = _shift_ms(end_ms, zone)
    figure = go.Figure()
    for number, trace in enumerate(traces):
        colour = _COLOURS[number % len(_COLOURS)]
        bound = trace.bounds != 0
        known = np.where(bound, np.nan, trace.values)
        name = label(trace.name)
        only_bounds = bool(np.isnan(known).all())
        if not only_bounds:
            figure.add_trace(_line(times + shift, known * axis.factor, name, colour, axis))
        if bound.any():
            # With the neighbours, so that the line does not break where it stops being known.
            beside = bound.copy()
            beside[1:] |= bound[:-1]
            beside[:-1] |= bound[1:]
            values = np.where(beside, trace.values, np.nan) * axis.factor
            dashed = _line(times + shift, values, name, colour, axis)
            dashed.update(
                line={"width": 1.5, "color": colour, "dash": "dash", "shape": "hv"},
                legendgroup=name,
                showlegend=only_bounds,
                customdata=[_SIGNS[int(sign)] for sign in trace.bounds],
                hovertemplate=f"%{{customdata}}%{{y:{axis.format}}}{axis.suffix}",
            )
            figure.add_trace(dashed)
    legend = _legend_pixels([trace.name for trace in traces])
    figure.update_layout(
        height=HEIGHT + legend,
        margin={"l": 8, "r": 8, "t": 8, "b": _AXIS_PIXELS + legend},
        hovermode="x unified",
        showlegend=legend > 0,
        legend={
            "orientation": "h",
            "tracegroupgap": 0,
            "xref": "container",
            "yref": "container",
            "y": 0,
            "yanchor": "bottom",
            "x": 0,
            "font": {"size": 11},
            "maxheight": max(legend, 1),
        },
        xaxis={"type": "date", "range": [start_ms + shift, end_ms + shift], "nticks": 6},
        yaxis={
            "tickformat": axis.format,
            "ticksuffix": axis.suffix,
            "rangemode": "tozero" if axis.from_zero else "normal",
            "automargin": True,
            "nticks": 5,
        },
    )
    return figure


def _legend_pixels(names: Sequence[str]) -> int:
    """The height of a legend of these names; 0 where one line needs none. A narrower one scrolls."""
    if len(names) < 2:
        return 0
    widest = max(len(label(name)) for name in names) * _LETTER_PIXELS + _SWATCH_PIXELS
    columns = max(int(_LEGEND_WIDTH // widest), 1)
    return -(-len(names) // columns) * _LEGEND_ROW_PIXELS + 14


_SIGNS = {-1: "at most ", 0: "", 1: "at least "}


def _line(times: IntArray, values: FloatArray, name: str, colour: str, axis: Axis) -> Any:
    """A point between two gaps has no line: it is drawn as a dot."""
    known = ~np.isnan(values)
    alone = known.copy()
    alone[1:] &= ~known[:-1]
    alone[:-1] &= ~known[1:]
    line = go.Scatter(
        x=times,
        y=values,
        name=name,
        mode="lines",
        line={"width": 1.5, "color": colour},
        legendgroup=name,
        connectgaps=False,
        hovertemplate=f"%{{y:{axis.format}}}{axis.suffix}",
    )
    if alone.any():
        line.update(mode="lines+markers", marker={"size": np.where(alone, 5, 0), "color": colour})
    return line


def heat_map(
    times: IntArray,
    names: Sequence[str],
    values: npt.NDArray[np.float32],
    unit: str,
    zone: tzinfo = UTC,
) -> go.Figure:
    """A row for each name (untrusted text), a column for each time; gaps stay empty. Shares are drawn
    from 0 to 100 %, so that colours mean the same tomorrow."""
    axis = axis_of(unit)
    shift = _shift_ms(int(times[-1]), zone)
    rows = _told_apart([label(name) for name in names])
    highest = {"zmin": 0.0, "zmax": 100.0} if unit == "ratio" else {}
    figure = go.Figure(
        go.Heatmap(
            x=times + shift,
            y=rows,
            z=values * np.float32(axis.factor),
            colorscale=_SCALE,
            hoverongaps=False,
            hovertemplate=f"%{{y}}<br>%{{x|%H:%M:%S}}: %{{z:{axis.format}}}{axis.suffix}<extra></extra>",
            colorbar={"thickness": 10, "tickformat": axis.format, "ticksuffix": axis.suffix, "nticks": 5},
            **highest,
        )
    )
    every = max(len(rows) // _NAMED_ROWS, 1)
    figure.update_layout(
        height=min(max(len(rows) * _ROW_PIXELS + 40, _LEAST), _MOST),
        margin={"l": 8, "r": 8, "t": 8, "b": 8},
        xaxis={"type": "date", "showgrid": False, "nticks": 6, "tickangle": 0},
        yaxis={
            "type": "category",
            "autorange": "reversed",
            "automargin": True,
            "showgrid": False,
            "tickvals": rows[::every],
        },
    )
    return figure


def _told_apart(labels: Sequence[str]) -> list[str]:
    """Long names are cut, and plotly draws rows of one name over each other."""
    seen: dict[str, int] = {}
    found = []
    for text in labels:
        seen[text] = seen.get(text, 0) + 1
        found.append(text if seen[text] == 1 else f"{text} ({seen[text]})")
    return found


def _shift_ms(at_ms: int, zone: tzinfo) -> int:
    """plotly itself only knows UTC: the zone's offset at that time."""
    offset = datetime.fromtimestamp(at_ms / 1000, zone).utcoffset() or timedelta()
    return int(offset.total_seconds() * 1000)
