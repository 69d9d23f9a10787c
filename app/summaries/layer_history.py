"""What a panel of a layer page draws: the series of its signals over the steps, those that matter most first.

Pure: what was read goes in, lines come out.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from app.summaries.layer_page import First
from app.summaries.reading import natural
from db.catalog.read import LabelPairs
from db.catalog.read_range import SignalSteps
from db.catalog.signal import Missing, Signal
from db.nan import FloatArray, IntArray

# More lines than that cannot be told apart.
MAX_LINES = 12


@dataclass(frozen=True, slots=True, eq=False)
class SignalRead:
    """name: the word for it in a panel of several signals. error: why it could not be read."""

    signal: Signal
    name: str
    series: tuple[SignalSteps, ...] = ()
    error: str = ""


@dataclass(frozen=True, slots=True, eq=False)
class PanelLine:
    """name: untrusted text. values: float64[steps], NaN where the line breaks. bounds: int8[steps], -1 where
    the value is only known to be at most that, 1 where at least. observations: in the rate window before the
    last value, None where unknown."""

    name: str
    values: FloatArray
    bounds: IntArray
    observations: float | None

    @property
    def last(self) -> int | None:
        """The step of the last value; None of an empty line."""
        known = np.flatnonzero(~np.isnan(self.values))
        return int(known[-1]) if len(known) else None

    @property
    def never_exact(self) -> bool:
        """Is no value of the line more than a bound?"""
        known = ~np.isnan(self.values)
        return bool(known.any() and (self.bounds[known] != 0).all())


@dataclass(frozen=True, slots=True)
class NoSource:
    """A signal that nothing yields. title: a user's file may have written it, as the ways."""

    title: str
    ways: tuple[str, ...]


@dataclass(frozen=True, slots=True, eq=False)
class PanelHistory:
    """times: int64[steps], ms. unit: the signals'. lines: at most MAX_LINES, of `total`. sources: how many of
    the panel's signals something yields. narrowed: could the page's filter be applied?"""

    times: IntArray
    unit: str
    lines: tuple[PanelLine, ...]
    total: int
    sources: int
    missing: tuple[NoSource, ...]
    error: str
    narrowed: bool = True


def panel_history(
    times: IntArray,
    reads: Sequence[SignalRead],
    missing: Sequence[Missing],
    by: Sequence[str],
    first: First,
    *,
    narrowed: bool = True,
) -> PanelHistory:
    """The lines of the things whose values are highest (or lowest) now, all signals of a thing together."""
    owners: dict[LabelPairs, list[PanelLine]] = {}
    for read in reads:
        for one in read.series:
            if not np.isnan(one.values).all():
                owners.setdefault(one.labels, []).append(_line(one, read.name, by))
    ranked = sorted(owners.values(), key=lambda lines: _rank(lines, first))
    lines = [line for lines in ranked[: max(MAX_LINES // max(len(reads), 1), 1)] for line in lines]
    signals = [read.signal for read in reads] or [item.signal for item in missing]
    return PanelHistory(
        times,
        signals[0].unit,
        tuple(lines),
        sum(len(lines) for lines in ranked),
        len(reads),
        tuple(no_source(item) for item in missing),
        next((read.error for read in reads if read.error), ""),
        narrowed,
    )


def no_source(missing: Missing) -> NoSource:
    return NoSource(missing.signal.title, tuple(f"{way.title}: {way.text}" for way in missing.ways))


def series_name(labels: LabelPairs, by: Sequence[str]) -> str:
    """ "node1 GPU 3", "llama · 10.0.0.1:8000": untrusted text."""
    values = dict(labels)
    text = ""
    for label in by:
        value = values.get(label, "")
        if value and label == "gpu":
            text += f" GPU {value}"
        elif value:
            text += f" · {value}" if text else value
    return text.strip() or (f"no {by[0]}" if by else "all")


def chosen_only(series: Sequence[SignalSteps], label: str, chosen: str) -> tuple[SignalSteps, ...]:
    """Those with that value of the label; all of them where nothing is chosen."""
    return tuple(one for one in series if not chosen or (label, chosen) in one.labels)


def _line(one: SignalSteps, name: str, by: Sequence[str]) -> PanelLine:
    title = f"{series_name(one.labels, by)} {name}".rstrip()
    bounds = np.zeros(len(one.values), dtype=np.int64) if one.bounds is None else one.bounds.astype(np.int64)
    line = PanelLine(title, one.values, bounds, None)
    if one.observations is None or line.last is None:
        return line
    return PanelLine(title, one.values, bounds, float(one.observations[line.last]))


def _rank(lines: Sequence[PanelLine], first: First) -> tuple[float, tuple[tuple[int, str], ...]]:
    """Those without a value now come last."""
    now = [float(line.values[-1]) for line in lines if not np.isnan(line.values[-1])]
    sign = -1.0 if first == "highest" else 1.0
    return min((sign * value for value in now), default=np.inf), natural(lines[0].name)
