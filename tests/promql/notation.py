"""The series notation of Prometheus's test scripts: `metric{label="value"} 1 2+3x4 _ stale {{schema:0}}`.

Written from the format's documentation and its lexer's rules, apart from the parser under test.
"""

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum

from db.labels import METRIC_NAME, Labels, labels_from
from db.nan import STALE


class Native(Enum):
    """A native histogram: recognised, never stored or compared."""

    SAMPLE = "native histogram"


# One place in a sequence: a value, a native histogram, or None where there is no sample.
Item = float | Native | None


class BadNotation(Exception):
    """One sentence that says what is wrong with a line."""


@dataclass(frozen=True, slots=True)
class Sequence:
    """A series and what it is at each step."""

    labels: Labels
    items: tuple[Item, ...]


_IDENTIFIER = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*")
_NUMBER = r"(?:[iI][nN][fF]|[nN][aA][nN]|(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)"
_SIGNED = rf"[+-]?{_NUMBER}"
# A step must have its sign, or `1x5` would be read as 1 and 5.
_FLOATS = re.compile(rf"(?P<value>stale|{_SIGNED})(?:(?P<step>[+-]{_NUMBER})?x(?P<times>\d+))?\Z")
_OMITTED = re.compile(r"_(?:x(?P<times>\d+))?\Z")
_NATIVES = re.compile(r"\{\{.*?\}\}(?:(?:[+-]\{\{.*?\}\})?x(?P<times>\d+))?\Z", re.DOTALL)
# Spaces inside of {{...}} separate nothing.
_ITEM = re.compile(r"(?:\{\{.*?\}\}|[^\s{])+", re.DOTALL)
_QUOTED = re.compile(r'"(?:[^"\\]|\\.)*"|\'(?:[^\'\\]|\\.)*\'|`[^`]*`', re.DOTALL)
_ESCAPE = re.compile(r"\\(?:x([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|([0-7]{3})|(.))", re.DOTALL)
_PLAIN = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}


def series(line: str) -> Sequence:
    """A series with its sequence of values. Raises BadNotation."""
    labels, rest = metric(line)
    return Sequence(labels, tuple(values(rest)))


def metric(line: str) -> tuple[Labels, str]:
    """The labels at the beginning of a line, and what follows them. Raises BadNotation."""
    found = _IDENTIFIER.match(line)
    pairs: dict[str, str] = {METRIC_NAME: found.group()} if found else {}
    at = found.end() if found else 0
    if line[at : at + 1] == "{" and line[at : at + 2] != "{{":
        at = _label_list(line, at + 1, pairs)
    elif not found:
        raise BadNotation(f"a series must begin with a metric name or {{: {line}")
    return labels_from(pairs), line[at:]


def _label_list(line: str, at: int, pairs: dict[str, str]) -> int:
    """Read up to behind the closing brace."""
    while True:
        at = _spaces(line, at)
        if line[at : at + 1] == "}":
            return at + 1
        found = _IDENTIFIER.match(line, at)
        name, at = (found.group(), found.end()) if found else _string(line, at)
        at = _spaces(line, at)
        if line[at : at + 1] == "=":
            value, at = _string(line, _spaces(line, at + 1))
            pairs[name] = value
        elif found:
            raise BadNotation(f"a label needs a value at column {at + 1}: {line}")
        else:  # a quoted metric name
            pairs[METRIC_NAME] = name
        at = _spaces(line, at)
        if line[at : at + 1] == ",":
            at += 1
        elif line[at : at + 1] != "}":
            raise BadNotation(f"a label list must go on with , or }} at column {at + 1}: {line}")


def _spaces(line: str, at: int) -> int:
    while line[at : at + 1].isspace():
        at += 1
    return at


def _string(line: str, at: int) -> tuple[str, int]:
    found = _QUOTED.match(line, at)
    if found is None:
        raise BadNotation(f"a quoted string was expected at column {at + 1}: {line}")
    return unquoted(found.group()), found.end()


def unquoted(text: str) -> str:
    """What a quoted string stands for, with Go's escapes. Raises BadNotation."""
    if not _QUOTED.fullmatch(text):
        raise BadNotation(f"not a quoted string: {text}")
    if text[0] == "`":
        return text[1:-1]

    def byte_or_rune(found: re.Match[str]) -> bytes:
        byte, short, long, octal, other = found.groups()
        if byte is not None:
            return bytes([int(byte, 16)])
        if octal is not None:
            return bytes([int(octal, 8) & 0xFF])
        if short is not None or long is not None:
            return chr(int(short or long, 16)).encode("utf-8", "surrogatepass")
        return _PLAIN.get(other, other).encode()

    parts: list[bytes] = []
    at = 0
    inner = text[1:-1]
    for found in _ESCAPE.finditer(inner):
        parts += [inner[at : found.start()].encode("utf-8", "surrogateescape"), byte_or_rune(found)]
        at = found.end()
    parts.append(inner[at:].encode("utf-8", "surrogateescape"))
    return b"".join(parts).decode("utf-8", "surrogateescape")


def values(text: str) -> Iterator[Item]:
    """The items of a sequence, repetitions written out. Raises BadNotation."""
    at = 0
    while at < len(text):
        if text[at].isspace():
            at += 1
            continue
        found = _ITEM.match(text, at)
        if found is None:
            raise BadNotation(f"not a value: {text[at:]}")
        yield from _item(found.group())
        at = found.end()


def _item(text: str) -> Iterator[Item]:
    if found := _OMITTED.match(text):
        yield from [None] * int(found["times"] or 1)
    elif found := _NATIVES.match(text):
        yield from [Native.SAMPLE] * (int(found["times"] or 0) + 1)
    elif found := _FLOATS.match(text):
        value = float(STALE) if found["value"] == "stale" else float(found["value"])
        step = float(found["step"] or 0)
        for _ in range(int(found["times"] or 0) + 1):
            yield value
            # Added again and again, as Prometheus does; multiplied, the last bits would differ. A marker
            # plus zero would be another NaN.
            value = value if math.isnan(value) else value + step
    else:
        raise BadNotation(f"not a value: {text}")


_DURATION = re.compile(
    r"(?:(\d+)y)?(?:(\d+)w)?(?:(\d+)d)?(?:(\d+)h)?(?:(\d+)m(?!s))?(?:(\d+)s)?(?:(\d+)ms)?\Z"
)
_UNITS_MS = (31_536_000_000, 604_800_000, 86_400_000, 3_600_000, 60_000, 1_000, 1)


def duration_ms(text: str) -> int:
    """A Prometheus duration, as `1h30m`, in milliseconds; 0 needs no unit. Raises BadNotation."""
    if text == "0":
        return 0
    found = _DURATION.match(text)
    if not text or found is None:
        raise BadNotation(f"not a duration: {text!r}")
    return sum(int(count or 0) * unit for count, unit in zip(found.groups(), _UNITS_MS, strict=True))
