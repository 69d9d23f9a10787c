"""Times and durations as Prometheus's HTTP API takes them, and as it says that one is wrong."""

import json
import re
from datetime import datetime
from math import copysign, floor, isfinite

from db.config_types import parse_duration

# A hundred million years: what is farther (clients send Go's largest times for "always") counts as this.
FIRST_MS, LAST_MS = -(1 << 62), 1 << 62
_NUMBER = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?|[+-]?(?:inf|infinity)|nan", re.I)
_RFC3339 = re.compile(
    r"([0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2})(?:[.,]([0-9]+))?(Z|[+-][0-9]{2}:[0-9]{2})"
)
# prometheus/prometheus, web/api/v1/api.go (MinTime, MaxTime): no parser of four-digit years takes them.
_ALWAYS = {
    "-292273086-05-16T16:47:06Z": FIRST_MS,
    "292277025-08-18T07:12:54.999999999Z": LAST_MS,
}
_LONGEST_SECONDS = float(2**63) / 1e9  # Go counts nanoseconds in 64 bits


def quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def number(text: str) -> float | None:
    """A float as Go's strconv.ParseFloat reads it (without hexadecimal); None for everything else."""
    return float(text) if _NUMBER.fullmatch(text) else None


def parse_time(text: str) -> int:
    """Milliseconds UTC of a Unix time in seconds or of RFC 3339. Raises ValueError, in Prometheus's words."""
    seconds = number(text)
    if seconds is not None and isfinite(seconds):
        if abs(seconds) > 1e15:
            return FIRST_MS if seconds < 0 else LAST_MS
        whole = int(seconds)
        rest = seconds - whole
        return whole * 1000 + int(copysign(floor(abs(rest) * 1000 + 0.5), rest))
    if text in _ALWAYS:
        return _ALWAYS[text]
    match = _RFC3339.fullmatch(text)
    if match is not None:
        try:
            moment = datetime.fromisoformat(match[1] + match[3].replace("Z", "+00:00"))
        except ValueError:  # the 30th of February
            match = None
        else:
            fraction_ms = int((match[2] or "0").ljust(3, "0")[:3])
            return int(moment.timestamp()) * 1000 + fraction_ms
    raise ValueError(f"cannot parse {quoted(text)} to a valid timestamp")


def parse_seconds(text: str) -> float:
    """Seconds of `15`, `0.5`, `1m30s`. Raises ValueError, in Prometheus's words."""
    seconds = number(text)
    if seconds is not None:
        if abs(seconds) > _LONGEST_SECONDS:
            raise ValueError(f"cannot parse {quoted(text)} to a valid duration. It overflows int64")
        if isfinite(seconds):
            return seconds
    try:
        return parse_duration(text)
    except ValueError as error:
        raise ValueError(f"cannot parse {quoted(text)} to a valid duration") from error


def parse_milliseconds(text: str) -> int:
    """The same in whole milliseconds, the rest cut off as Prometheus cuts it: it counts nanoseconds, and of
    1.001 seconds it has 1,000,999,999. Raises ValueError."""
    seconds = parse_seconds(text)
    return round(seconds * 1000) if number(text) is None else int(int(seconds * 1e9) / 1_000_000)
