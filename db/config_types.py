"""The types of configuration fields, shared by strata.yaml and prometheus.yml.

A plain YAML scalar arrives as text (`db.yaml_lines.Plain`); each type here decides what it is, the way
Prometheus's loader does. Values of a wrong type raise ValueError with one clause that says what is wanted.
"""

import difflib
import re
from collections.abc import Iterable
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, PlainSerializer, model_validator
from pydantic_core import PydanticCustomError

from db.yaml_lines import Plain

# prometheus/common, model/time.go: a year is 365 days, a week 7 days.
_UNITS_MS = (
    ("y", 365 * 86_400_000),
    ("w", 7 * 86_400_000),
    ("d", 86_400_000),
    ("h", 3_600_000),
    ("m", 60_000),
    ("s", 1_000),
    ("ms", 1),
)
_DURATION = re.compile("".join(rf"(?:([0-9]+){unit})?" for unit, _ in _UNITS_MS))
_MAX_DURATION_MS = (2**63 - 1) // 1_000_000  # Go counts nanoseconds in 64 bits

_BYTE_UNITS = {"B": 1} | {
    f"{letter}{suffix}": 1024**power  # Prometheus's "KB" is 1024 bytes too
    for power, letter in enumerate("KMGTPE", start=1)
    for suffix in ("B", "iB")
}
_BYTES = re.compile(r"([0-9]+(?:\.[0-9]*)?|\.[0-9]+)([A-Za-z]+)")
_MAX_BYTES = 2**63 - 1

_TRUE = frozenset({"y", "yes", "on", "true"})
_FALSE = frozenset({"n", "no", "off", "false"})
_COUNT = re.compile(r"[0-9][0-9_]*(?:e[0-9]{1,2})?", re.IGNORECASE)


def parse_duration(text: str) -> float:
    """Seconds of a Prometheus duration: `1h30m`, `15s`, `500ms`, `0`. Raises ValueError."""
    if text == "0":
        return 0.0
    match = _DURATION.fullmatch(text)
    if match is None or not text:
        raise ValueError(f"{text!r} is not a duration; write it like 15s, 1m30s or 500ms")
    total = sum(
        int(count) * unit
        for count, (_, unit) in zip(match.groups(), _UNITS_MS, strict=True)
        if count is not None
    )
    if total > _MAX_DURATION_MS:
        raise ValueError(f"{text!r} is longer than 292 years")
    return total / 1000


def format_duration(seconds: float) -> str:
    """The duration as Prometheus prints it: 90 -> `1m30s`, 0.5 -> `500ms`, 0 -> `0s`."""
    left = round(seconds * 1000)
    if left == 0:
        return "0s"
    parts = []
    for unit, size in _UNITS_MS:
        if unit in ("y", "w") and left % size:
            continue  # Prometheus prints 90d, not 12w6d
        count, left = divmod(left, size)
        if count:
            parts.append(f"{count}{unit}")
    return "".join(parts)


def parse_bytes(text: str) -> int:
    """Bytes of `16MB`, `1.5GiB`, `512KB256B`, `0` (K is 1024, with or without the i). Raises ValueError."""
    if text == "0":
        return 0
    parts = _BYTES.findall(text)
    if not parts or "".join(number + unit for number, unit in parts) != text:
        raise ValueError(f"{text!r} is not a size; write it like 16MB or 512KB")
    unknown = next((unit for _, unit in parts if unit not in _BYTE_UNITS), None)
    if unknown is not None:
        raise ValueError(f"{text!r} has the unknown unit {unknown!r}; use B, KB, MB, GB or TB")
    total = int(sum(float(number) * _BYTE_UNITS[unit] for number, unit in parts))
    if total > _MAX_BYTES:
        raise ValueError(f"{text!r} is too large")
    return total


def suggest(name: str, known: Iterable[str]) -> str:
    """`; did you mean 'x'?`, or nothing when no known name is close."""
    close = difflib.get_close_matches(name, sorted(known), n=1, cutoff=0.7)
    return f"; did you mean '{close[0]}'?" if close else ""


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError("has to be text")
    text = str(value)
    try:
        text.encode()
    except UnicodeEncodeError:
        raise ValueError("is not valid Unicode text") from None
    return text


def _non_empty(text: str) -> str:
    if not text:
        raise ValueError("is empty")
    return text


def _switch(value: Any) -> bool:
    if isinstance(value, bool):
        return value
    if isinstance(value, Plain) and value.lower() in _TRUE:
        return True
    if isinstance(value, Plain) and value.lower() in _FALSE:
        return False
    raise ValueError("has to be true or false" + _quoted(value))


def _count(value: Any) -> int:
    if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
        return value
    if isinstance(value, Plain) and _COUNT.fullmatch(value):
        digits, _, exponent = value.lower().replace("_", "").partition("e")
        number: int = int(digits) * 10 ** int(exponent or 0)
        if number < 2**64:
            return number
    raise ValueError("has to be a whole number of 0 or more" + _quoted(value))


def _quoted(value: Any) -> str:
    return ", without quotes" if type(value) is str else ""


def _duration(value: Any) -> float:
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return float(value)
    return parse_duration(_text(value))


def _bytes(value: Any) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) else parse_bytes(_text(value))


Text = Annotated[str, BeforeValidator(_text)]
Name = Annotated[str, BeforeValidator(lambda value: _non_empty(_text(value)))]
Switch = Annotated[bool, BeforeValidator(_switch)]
Count = Annotated[int, BeforeValidator(_count)]
# Seconds as a float; text in Prometheus's duration syntax.
Duration = Annotated[float, BeforeValidator(_duration), PlainSerializer(format_duration)]
# Bytes as an int; text with a unit.
ByteSize = Annotated[int, BeforeValidator(_bytes)]


class Section(BaseModel):
    """A mapping of known keys; an empty value (`key:`) means its default, as in Prometheus."""

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True)

    @model_validator(mode="before")
    @classmethod
    def _known_keys(cls, data: Any) -> Any:
        if data is None:
            raise PydanticCustomError("section", "is empty; fill it or remove it")
        if not isinstance(data, dict):
            raise PydanticCustomError("section", "has to be a section of 'key: value' lines")
        known = {field.alias or name for name, field in cls.model_fields.items()} | set(cls.model_fields)
        for key in data:
            if key not in known:
                public = {field.alias or name for name, field in cls.model_fields.items()}
                raise PydanticCustomError(
                    "unknown_key",
                    "unknown key '{key}'{hint}",
                    {"key": str(key), "hint": suggest(str(key), public)},
                )
        return {key: value for key, value in data.items() if value is not None}
