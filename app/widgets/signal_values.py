"""A signal's values as people read them, by its unit; a bound is shown as a bound."""

import math

from app.summaries.signals import SignalNow
from app.widgets.numbers import byte_rate_text, bytes_text, count_text, ratio_text, seconds_text
from db.catalog.read import Reading

_SCALES = ((1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))
_SCALED = {"hertz": "Hz", "flop/s": "FLOP/s"}
_BESIDE = {
    "watts": "W",
    "celsius": "°C",
    "usd/h": "$/h",
    "usd/Mtoken": "$/M tokens",
    "joules/token": "J/token",
}
_SIGNS = {"": "", "below": "< ", "above": "> "}
_TEXTS = {
    "seconds": seconds_text,
    "ratio": ratio_text,
    "bytes": bytes_text,
    "bytes/s": byte_rate_text,
}


def now_text(now: SignalNow) -> str:
    """ "4.3 ms"; "12.0 % – 97.5 %" of several series; why there is nothing."""
    if now.error:
        return "not readable"
    if not now.readings:
        return "no series now"
    span = now.span
    if span is None:
        return "no traffic"  # a ratio of nothing to nothing
    low, high = (reading_text(reading, now.signal.unit) for reading in span)
    return low if low == high else f"{low} – {high}"


def reading_text(reading: Reading, unit: str) -> str:
    """ "< 300.0 ms" where the quantile lies in the first bucket."""
    return f"{_SIGNS[reading.bound]}{value_text(reading.value, unit)}"


def value_text(value: float, unit: str) -> str:
    if math.isnan(value):
        return "—"
    if unit in _TEXTS:
        return _TEXTS[unit](value)
    if unit in _SCALED:
        for size, letter in _SCALES:
            if abs(value) >= size:
                return f"{value / size:.3g} {letter}{_SCALED[unit]}"
        return f"{value:.3g} {_SCALED[unit]}"
    digits = count_text(value) if abs(value) >= 10 or value == round(value) else f"{value:.3g}"
    return f"{digits}/s" if unit == "1/s" else f"{digits} {_BESIDE.get(unit, unit)}"
