"""Durations and timestamps in the text of a query, to whole milliseconds as Prometheus rounds them."""

import math
from typing import Literal

from db.promql.names import EXPERIMENTAL_IN_DURATIONS
from db.promql.scan import Cursor, Kind

# Prometheus's durations are int64 nanoseconds.
_MAX_DURATION_SECONDS = (2**63 - 1) / 1e9
# Prometheus allows all of int64 milliseconds, but there the times of windows would leave it.
_MAX_AT_SECONDS = 2**62 / 1000


def read_duration(cursor: Cursor, where: str, positive: bool = True) -> int:
    """A duration or a number of seconds, with signs; milliseconds. Raises BadQuery."""
    first, sign = cursor.now, 1
    while cursor.now.text in ("+", "-"):
        sign = -sign if cursor.take().text == "-" else sign
    if cursor.now.kind not in (Kind.NUMBER, Kind.DURATION):
        refuse_arithmetic(cursor)
        cursor.unexpected(where, "number or duration")
    token = cursor.take()
    seconds = sign * token.number
    if not abs(seconds) <= _MAX_DURATION_SECONDS:
        cursor.fail(first, "duration out of range")
    if positive and seconds <= 0:
        cursor.fail(first, "duration must be greater than 0")
    if token.kind is Kind.DURATION:
        return sign * _rounded(token.number * 1000)
    # To whole nanoseconds, then the whole milliseconds of them.
    milliseconds = _rounded(token.number * 1e9) // 1_000_000
    if positive and milliseconds < 1:
        cursor.fail(first, "duration must be at least 1ms")
    return sign * milliseconds


def refuse_arithmetic(cursor: Cursor) -> None:
    """Raises BadQuery if here a duration is calculated, which only a feature flag of Prometheus allows."""
    called = cursor.word in EXPERIMENTAL_IN_DURATIONS and cursor.after.text == "("
    if called or cursor.now.text in ("(", "+", "-", "*", "/", "%", "^"):
        cursor.refuse("a duration that is calculated")


def read_timestamp(cursor: Cursor) -> int | Literal["start", "end"]:
    """What stands behind "@", a time in milliseconds. Raises BadQuery."""
    if cursor.word in ("start", "end"):
        end = cursor.take().text.lower() == "end"
        for expected in ("(", ")"):
            if cursor.now.text != expected:
                cursor.unexpected("@", "timestamp")
            cursor.take()
        return "end" if end else "start"
    first, sign = cursor.now, 1
    if first.text in ("+", "-"):
        sign = -1 if cursor.take().text == "-" else 1
    if cursor.now.kind not in (Kind.NUMBER, Kind.DURATION):
        cursor.unexpected("@", "timestamp")
    seconds = sign * cursor.take().number
    if not abs(seconds) < _MAX_AT_SECONDS:
        cursor.fail(first, f"timestamp out of bounds for @ modifier: {seconds:f}")
    return _rounded(seconds * 1000)


def _rounded(value: float) -> int:
    """To the nearest, halves away from zero."""
    whole = math.trunc(value)
    return whole + int(math.copysign(1, value)) if abs(value - whole) >= 0.5 else whole
