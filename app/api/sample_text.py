"""Numbers and times as Prometheus writes them in JSON, for whole arrays: a Python step for each of a million
samples would take seconds. (PromQL itself, in count_values, writes no exponents: `db.promql.numbers`.)"""

from collections.abc import Sequence
from math import isinf

import numpy as np
import orjson

from db.nan import FloatArray

# prometheus/prometheus, util/jsonutil (MarshalFloat): digits alone from 1e-6 up to below 1e21.
_MOST_EXPONENT = 20
_MINUS = ord("-")
# Below it orjson writes no exponent for a whole number.
_DIGITS_ALONE = 1e15
_ZEROS = {b"6": b"0.00000", b"5": b"0.0000"}


def number_text(value: float) -> str:
    """Go's shortest text: `1`, `0.00001`, `1e+21`, `NaN`, `+Inf`."""
    return number_texts(np.array([value]))[0].decode()


def number_texts(values: FloatArray) -> list[bytes]:
    """The same of float64[n], in ASCII."""
    if len(values) == 0:
        return []
    text = orjson.dumps(np.ascontiguousarray(values), option=orjson.OPT_SERIALIZE_NUMPY)[1:-1]
    # Whole numbers end in ".0" there, and what JSON has no number for is null.
    parts = (text + b",").replace(b".0,", b",").replace(b"null", b"NaN")[:-1].split(b",")
    if b"e-" in text:
        parts = [_small(part) if b"e-" in part else part for part in parts]
    size = np.abs(values)
    for place in np.flatnonzero(size >= _DIGITS_ALONE).tolist():
        parts[place] = _large(float(values[place]), parts[place])
    return parts


def _small(text: bytes) -> bytes:
    """A number with a negative exponent as Go writes it: with all its zeros, or with two digits there."""
    mantissa, _, power = text.removeprefix(b"-").partition(b"e-")
    sign = b"-" if text[0] == _MINUS else b""
    zeros = _ZEROS.get(power)
    if zeros is None:
        return sign + mantissa + (b"e-0" if len(power) == 1 else b"e-") + power
    return sign + zeros + mantissa.removesuffix(b".0").replace(b".", b"")


def _large(value: float, text: bytes) -> bytes:
    """As Go writes it: with all its zeros, from 1e21 on with an exponent."""
    if isinf(value):
        return b"+Inf" if value > 0 else b"-Inf"
    if b"e" not in text:
        return text
    mantissa, _, power = text.partition(b"e")
    exponent = int(power)
    if exponent > _MOST_EXPONENT:
        return mantissa.removesuffix(b".0") + b"e+%d" % exponent
    whole, _, digits = mantissa.partition(b".")
    return whole + digits.rstrip(b"0").ljust(exponent, b"0")


def time_text(timestamp_ms: int) -> str:
    """Seconds; three decimals unless they are zero."""
    sign = "-" if timestamp_ms < 0 else ""
    seconds, rest = divmod(abs(timestamp_ms), 1000)
    return f"{sign}{seconds}.{rest:03d}" if rest else f"{sign}{seconds}"


def time_texts(timestamps_ms: Sequence[int]) -> list[bytes]:
    """`time_text` of each, in ASCII."""
    return [time_text(timestamp_ms).encode() for timestamp_ms in timestamps_ms]
