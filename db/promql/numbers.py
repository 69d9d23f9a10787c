"""Floats as text, as Prometheus writes them."""

import math
from decimal import Decimal

import numpy as np
import orjson

from db.nan import FloatArray

# orjson writes these without an exponent.
_PLAIN_FROM, _PLAIN_BELOW = 1e-5, 1e16


def format_value(value: float) -> str:
    """The shortest digits that give this float again, never with an exponent: 1000000, 0.1, NaN, +Inf, -0."""
    if not math.isfinite(value):
        return _odd(value)
    text = repr(float(value))
    if "e" in text:
        text = format(Decimal(text), "f")
    return text.removesuffix(".0")


def format_values(values: FloatArray) -> list[str]:
    """The same for many, float64[n]; much faster than one by one."""
    if not len(values):
        return []
    held = np.ascontiguousarray(values, dtype=np.float64)
    text = orjson.dumps(held, option=orjson.OPT_SERIALIZE_NUMPY)[1:-1].decode()
    found = f"{text},".replace(".0,", ",").split(",")
    found.pop()
    size = np.abs(held)
    plain = ((size >= _PLAIN_FROM) & (size < _PLAIN_BELOW)) | (size == 0)
    for place in np.flatnonzero(~plain).tolist():
        found[place] = format_value(float(held[place]))
    return found


def _odd(value: float) -> str:
    if math.isnan(value):
        return "NaN"
    return "+Inf" if value > 0 else "-Inf"
