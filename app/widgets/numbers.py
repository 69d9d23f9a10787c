"""Numbers as people read them: three significant digits, a unit, and the exact value for the tooltip."""

import math
from datetime import datetime, tzinfo

_BINARY = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")
_NONE = "—"


def bytes_text(value: float | None) -> str:
    """12693245952 -> "11.8 GiB"."""
    if value is None or math.isnan(value):
        return _NONE
    magnitude, unit = abs(value), _BINARY[0]
    for larger in _BINARY[1:]:
        if magnitude < 1023.95:
            break
        magnitude, unit = magnitude / 1024, larger
    return f"{'-' if value < 0 else ''}{_significant(magnitude)} {unit}"


def byte_rate_text(value: float | None) -> str:
    text = bytes_text(value)
    return text if text == _NONE else f"{text}/s"


def ratio_text(value: float | None) -> str:
    """0.1234 -> "12.3 %"."""
    return _NONE if value is None or math.isnan(value) else f"{value * 100:.1f} %"


def seconds_text(value: float | None) -> str:
    """0.0043 -> "4.3 ms", 75 -> "75.0 s"."""
    if value is None or math.isnan(value):
        return _NONE
    return f"{value * 1000:.1f} ms" if abs(value) < 1 else f"{value:.2f} s"


def count_text(value: float | None) -> str:
    """1204 -> "1,204"; a fraction below a thousand keeps one digit."""
    if value is None or math.isnan(value):
        return _NONE
    return f"{value:,.0f}" if abs(value) >= 1000 or value == round(value) else f"{value:,.1f}"


def unit_text(value: float | None, unit: str, digits: int = 0) -> str:
    return _NONE if value is None or math.isnan(value) else f"{value:,.{digits}f} {unit}"


def exact(value: float | None, unit: str) -> str:
    """Every digit, for the tooltip of a rounded number."""
    if value is None or math.isnan(value):
        return "no value now"
    if math.isinf(value):
        return f"exactly {value:+} {unit}"
    return f"exactly {value:,.0f} {unit}" if value == round(value) else f"exactly {value!r} {unit}"


def counted(number: int, noun: str) -> str:
    """1 -> "1 host", 1200 -> "1,200 hosts"."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def ago(moment_ms: int | None, now_ms: int) -> str:
    """Age in the largest whole unit: "3 s ago"; "never" for None."""
    return "never" if moment_ms is None else f"{lapse(now_ms - moment_ms)} ago"


def clock_time(moment_ms: int, zone: tzinfo) -> str:
    """ "2026-11-21 13:05:07", as text: browsers do not know every zone that a machine may be set to."""
    return datetime.fromtimestamp(moment_ms / 1000, zone).strftime("%Y-%m-%d %H:%M:%S")


def zone_name(moment_ms: int, zone: tzinfo) -> str:
    """ "CET", as charts' times are in it at that moment."""
    return f"{datetime.fromtimestamp(moment_ms / 1000, zone):%Z}"


def lapse(milliseconds: int) -> str:
    """A duration in its largest whole unit: "3 s", "4 min", "2 h", "5 days"."""
    seconds = max(milliseconds, 0) // 1000
    for size, unit in ((86_400, "day"), (3_600, "h"), (60, "min")):
        if seconds >= size * (2 if unit == "day" else 1):
            amount = seconds // size
            return f"{amount} {unit}s" if unit == "day" else f"{amount} {unit}"
    return f"{seconds} s"


def _significant(value: float) -> str:
    if value >= 99.95:
        return f"{value:.0f}"
    return f"{value:.1f}" if value >= 9.995 else f"{value:.2f}"
