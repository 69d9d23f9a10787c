"""The three NaNs that must never be confused, by exact bit pattern.

STALE   Prometheus's staleness marker: the series ended here.
NORMAL  the NaN a page prints as "NaN"; Prometheus stores this pattern for every NaN it parses.
ABSENT  ours, only inside a dense head row: this slot has no sample in this scrape.
Source of the first two: prometheus/prometheus, model/value/value.go.
"""

import numpy as np
import numpy.typing as npt

STALE_BITS = 0x7FF0000000000002
NORMAL_BITS = 0x7FF8000000000001
ABSENT_BITS = 0x7FF4535452415441

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]
BoolArray = npt.NDArray[np.bool_]


def _with_bits(bits: int) -> np.float64:
    value: np.float64 = np.array([bits], dtype=np.uint64).view(np.float64)[0]
    return value


STALE = _with_bits(STALE_BITS)
NORMAL = _with_bits(NORMAL_BITS)
ABSENT = _with_bits(ABSENT_BITS)


def has_bits(values: FloatArray, bits: int) -> BoolArray:
    """Elementwise: is this float exactly that bit pattern? (NaN never equals NaN.)"""
    found: BoolArray = np.ascontiguousarray(values).view(np.uint64) == np.uint64(bits)
    return found


def is_stale(values: FloatArray) -> BoolArray:
    return has_bits(values, STALE_BITS)


def is_absent(values: FloatArray) -> BoolArray:
    return has_bits(values, ABSENT_BITS)
