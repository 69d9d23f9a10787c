"""What a layer page is made of: tiles, and bands of panels that each draw a few signals by some labels.

A page names signals only, so an engine that a user's file describes is on it without a line of code.
"""

from dataclasses import dataclass
from typing import Literal

FilterLabel = Literal["model", "node"]
First = Literal["highest", "lowest"]

MODEL_LABELS = ("model",)
REPLICA_LABELS = ("model", "instance")
GPU_LABELS = ("node", "gpu")


@dataclass(frozen=True, slots=True)
class Panel:
    """key: of its widgets. signals: ids, drawn on one axis. by: the labels of its lines; chosen_by: those
    where the page's filter is set (by default the same). first: which lines are shown where there are too
    many. none: what it means that no series has a value. unit: of the axis where not the signals' own.
    names: of several signals, the word after the line's labels."""

    key: str
    title: str
    signals: tuple[str, ...]
    by: tuple[str, ...]
    chosen_by: tuple[str, ...] = ()
    first: First = "highest"
    none: str = "No traffic in this time range."
    unit: str = ""
    names: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class TileSignal:
    """none: the words for a signal that resolves and has no series now. comes_and_goes: it has one only while
    something happens."""

    signal: str
    title: str
    none: str = "No data"
    comes_and_goes: bool = False


@dataclass(frozen=True, slots=True)
class PanelBand:
    """opened: drawn at once; the others are read when somebody opens them."""

    key: str
    title: str
    panels: tuple[Panel, ...]
    opened: bool = True


@dataclass(frozen=True, slots=True)
class LayerPage:
    """filter_label: what the page can be narrowed to. filter_signals: those whose series tell which values
    that label has."""

    key: str
    title: str
    filter_label: FilterLabel
    filter_signals: tuple[str, ...]
    tiles: tuple[TileSignal, ...]
    bands: tuple[PanelBand, ...]


def quantiles(key: str, title: str, *, none: str = "No traffic in this time range.") -> Panel:
    """p50, p95 and p99 of a distribution by model; of a chosen model by replica."""
    statistics = ("p50", "p95", "p99")
    signals = tuple(f"{key}_{statistic}" for statistic in statistics)
    return Panel(key, title, signals, MODEL_LABELS, REPLICA_LABELS, none=none, names=statistics)


def by_model(signal: str, title: str, **more: str) -> Panel:
    return Panel(signal, title, (signal,), MODEL_LABELS, REPLICA_LABELS, **more)  # type: ignore[arg-type]


def by_gpu(signal: str, title: str, **more: str) -> Panel:
    """Means, sums or extremes of nodes; of a chosen node every GPU."""
    return Panel(signal, title, (signal,), ("node",), GPU_LABELS, **more)  # type: ignore[arg-type]
