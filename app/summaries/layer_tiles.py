"""One signal as a tile: what it is now, and how it changed against the same time before. Pure."""

import math
from dataclasses import dataclass
from typing import Literal

from app.summaries.layer_history import NoSource
from db.catalog.read import Reading
from db.catalog.signal import Signal

# A change to more than that many times the former value is told by the former value.
_TELLABLE = 10.0

TileState = Literal["value", "no traffic", "none", "stale", "no source", "unread"]


@dataclass(frozen=True, slots=True)
class TileNow:
    """now, before: None where there was no series. missing: where nothing yields the signal. error: why it
    could not be read. comes_and_goes: it has a series only while something happens."""

    signal: Signal
    now: Reading | None = None
    before: Reading | None = None
    missing: NoSource | None = None
    error: str = ""
    comes_and_goes: bool = False

    @property
    def state(self) -> TileState:
        """Nothing to show has five reasons, and each is another."""
        if self.missing is not None:
            return "no source"
        if self.error:
            return "unread"
        if self.now is None:
            return "none" if self.before is None or self.comes_and_goes else "stale"
        # A ratio of nothing to nothing, a quantile of no observations.
        return "no traffic" if math.isnan(self.now.value) else "value"


@dataclass(frozen=True, slots=True)
class Change:
    """amount: of a ratio in its own unit, of others as a share of the former value."""

    amount: float
    relative: bool


def change(tile: TileNow) -> Change | None:
    """None where it cannot be told: no value, only a bound, a former value of nothing or a leap."""
    now, before = tile.now, tile.before
    if now is None or before is None or now.bound or before.bound:
        return None
    if not math.isfinite(now.value) or not math.isfinite(before.value):
        return None
    if tile.signal.unit == "ratio":
        return Change(now.value - before.value, relative=False)
    if now.value == before.value:
        return Change(0.0, relative=True)
    if before.value == 0 or abs(now.value / before.value) > _TELLABLE:
        return None
    return Change((now.value - before.value) / abs(before.value), relative=True)
