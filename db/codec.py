"""Turns rows of float64 into small integers and back, exactly: the arithmetic under every block.

A row is scaled to integers where all its values are decimals with few digits, else its bit patterns are the
integers. Of a row or of its differences, whichever spans less, the smallest is taken away, and what remains
is cut into as many byte planes as its span needs. Planes of one width compress well together.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from db.nan import BoolArray, FloatArray, IntArray

RAW = -1
"""The exponent that says: these integers are the bits of the floats."""

# Most exporters print whole numbers, then thousandths (W, V) and millionths (ratios): tried in this order.
_EXPONENTS = (0, 3, 6, 1, 2, 4, 5, 9)
EXPONENTS = 10
POWERS = 10.0 ** np.arange(EXPONENTS)
# Beyond it not every integer is a float64, so that a scaled value might not come back.
_EXACT = float(2**53)
# So many columns tell which way of coding a row suits.
_LOOKED_AT = 512
# A row whose first values do not fit an exponent need not be tried with it as a whole.
_TRIED_FIRST = 16
_SIGN_BIT = np.uint64(1 << 63)

Bytes = npt.NDArray[np.uint8]
Words = npt.NDArray[np.uint64]


@dataclass(frozen=True, slots=True)
class Coded:
    """Rows of one length as residuals. All arrays are [rows], residuals is uint64[rows, length].

    integers = base + residuals, or where delta is set, their running sum after `first`.
    values = integers / 10**exponent, or the bits themselves where exponent is RAW.
    """

    exponent: npt.NDArray[np.int8]
    delta: BoolArray
    width: Bytes
    base: IntArray
    first: IntArray
    residuals: Words

    @property
    def length(self) -> int:
        return int(self.residuals.shape[1])

    def take(self, rows: IntArray) -> "Coded":
        """The same for some of the rows."""
        return Coded(
            self.exponent[rows],
            self.delta[rows],
            self.width[rows],
            self.base[rows],
            self.first[rows],
            self.residuals[rows],
        )


@dataclass(frozen=True, slots=True)
class Special:
    """What does not fit among a row's numbers. holes: bool[rows, n] or None, where there is no sample.
    rows, columns, bits: single values kept by bit pattern (staleness markers, NaN, infinities, -0.0)."""

    holes: BoolArray | None
    rows: IntArray
    columns: IntArray
    bits: Words


NOTHING_SPECIAL = Special(None, np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0, np.uint64))


def encode_values(values: FloatArray, absent: BoolArray | None) -> tuple[Coded, Special]:
    """Code float64[rows, n], n >= 1. absent: bool of the same shape, where there is no sample."""
    bits = values.view(np.uint64)
    odd = ~np.isfinite(values) | (bits == _SIGN_BIT)
    if absent is not None:
        odd &= ~absent
    if absent is None and not odd.any():
        exponent, integers = _scale(values, np.zeros(len(values), dtype=np.bool_))
        return _plan(exponent, integers), NOTHING_SPECIAL
    # A row that is odd in many places is cheaper as bit patterns than as exceptions.
    raw = odd.sum(axis=1) * 4 > values.shape[1]
    odd[raw] = False
    gaps = odd if absent is None else odd | absent
    exponent, integers = _scale(_filled(values, gaps), raw)
    rows, columns = np.nonzero(odd)
    special = Special(absent, rows, columns, np.ascontiguousarray(bits[rows, columns]))
    return _plan(exponent, integers), special


def encode_integers(integers: IntArray) -> Coded:
    """Code int64[rows, n], n >= 1: timestamps."""
    return _plan(np.zeros(len(integers), dtype=np.int8), integers)


def _filled(values: FloatArray, gaps: BoolArray) -> FloatArray:
    """The rows with each gap holding its predecessor's value, which costs least to store."""
    filled = values.copy()
    some = np.flatnonzero(gaps.any(axis=1))
    columns = np.arange(values.shape[1])
    present = ~gaps[some]
    last = np.maximum.accumulate(np.where(present, columns, -1), axis=1)
    last = np.where(last < 0, present.argmax(axis=1)[:, None], last)
    filled[some] = np.take_along_axis(values[some], last, axis=1)
    filled[some[~present.any(axis=1)]] = 0.0
    return filled


def _scale(values: FloatArray, raw: BoolArray) -> tuple[npt.NDArray[np.int8], IntArray]:
    exponent = np.full(len(values), RAW, dtype=np.int8)
    integers = np.empty(values.shape, dtype=np.int64)
    left = np.flatnonzero(~raw)
    for digits in _EXPONENTS:
        if not len(left):
            break
        fits, _ = _fitting(values[left, :_TRIED_FIRST], digits)
        tried = left[fits]
        if not len(tried):
            continue
        fits, rounded = _fitting(values if len(tried) == len(values) else values[tried], digits)
        good = tried[fits]
        integers[good] = rounded if len(good) == len(rounded) else rounded[fits]
        exponent[good] = digits
        left = np.flatnonzero((exponent == RAW) & ~raw)
    rest = exponent == RAW
    integers[rest] = values[rest].view(np.int64)
    return exponent, integers


def _fitting(values: FloatArray, digits: int) -> tuple[BoolArray, FloatArray]:
    """Which rows are whole numbers after scaling, and the scaled rows."""
    with np.errstate(over="ignore", invalid="ignore"):
        rounded = np.rint(values * POWERS[digits]) if digits else np.rint(values)
        # Comparing floats is comparing bits here: neither NaN nor -0.0 gets this far.
        back = rounded / POWERS[digits] if digits else rounded
        fits: BoolArray = (back == values).all(axis=1)
        fits &= (rounded.max(axis=1) < _EXACT) & (rounded.min(axis=1) > -_EXACT)
    return fits, rounded


def _plan(exponent: npt.NDArray[np.int8], integers: IntArray) -> Coded:
    rows, length = integers.shape
    low = integers.min(axis=1)
    span = (integers.max(axis=1) - low).view(np.uint64)
    delta = np.zeros(rows, dtype=np.bool_)
    base, first = low.copy(), integers[:, 0].copy()
    residuals = (integers - low[:, None]).view(np.uint64)
    if length > 1:
        # Wraps around for wild bit patterns; the running sum wraps back.
        steps = integers[:, 1:] - integers[:, :-1]
        step_low = steps.min(axis=1)
        step_span = (steps.max(axis=1) - step_low).view(np.uint64)
        delta = step_span < span // 16
        unclear = np.flatnonzero(~delta & (step_span < span))
        delta[unclear] = _steps_are_smaller(residuals[unclear], steps[unclear])
        chosen = np.flatnonzero(delta)
        base[chosen], span[chosen] = step_low[chosen], step_span[chosen]
        residuals[chosen, 0] = 0
        residuals[chosen, 1:] = (steps[chosen] - step_low[chosen, None]).view(np.uint64)
    width = _bytes_needed(span)
    _align(base, span, width, delta, residuals)
    return Coded(exponent, delta, width, base, first, residuals)


def _align(base: IntArray, span: Words, width: Bytes, delta: BoolArray, residuals: Words) -> None:
    """Lower the base of differences to a round number where no more bytes are needed for it.

    One reset of a counter makes its base an arbitrary number; added to every small difference, it would
    scatter their low bytes over two values of the next one.
    """
    unit = np.int64(1) << (8 * (np.clip(width, 1, 7).astype(np.int64) - 1))
    lowered = base & -unit
    more = (base - lowered).view(np.uint64)
    room = np.where(width < 8, np.uint64(1) << (8 * np.minimum(width, 7)).astype(np.uint64), 0)
    rows = np.flatnonzero(delta & (width > 1) & (width < 8) & (more > 0) & (span + more < room))
    if len(rows):
        base[rows] = lowered[rows]
        residuals[rows] += more[rows, None]
        residuals[rows, 0] = 0


def _steps_are_smaller(residuals: Words, steps: IntArray) -> BoolArray:
    """Are the differences more alike than the values? By mean size against standard deviation, of some."""
    every = max(1, steps.shape[1] // _LOOKED_AT)
    size = np.abs(steps[:, ::every].astype(np.float64)).mean(axis=1)
    smaller: BoolArray = size < 1.5 * residuals[:, ::every].astype(np.float64).std(axis=1)
    return smaller


def _bytes_needed(span: Words) -> Bytes:
    limits = np.array([1 << (8 * count) for count in range(8)], dtype=np.uint64)
    return np.searchsorted(limits, span, side="right").astype(np.uint8)


def to_planes(residuals: Words, width: int) -> list[bytes]:
    """The low `width` bytes of uint64[rows, n], as one plane uint8[rows, n] each, the lowest first."""
    rows, length = residuals.shape
    octets = np.ascontiguousarray(residuals, dtype="<u8").view(np.uint8).reshape(rows, length, 8)
    return [octets[:, :, plane].tobytes() for plane in range(width)]


def from_planes(planes: Sequence[Bytes]) -> Words:
    """uint64[rows, n] of planes uint8[rows, n], the lowest first; at least one."""
    rows, length = planes[0].shape
    # Not np.zeros: it takes fresh pages from the system each time, which costs more than the decoding.
    octets = np.empty((rows, length, 8), dtype=np.uint8)
    octets.fill(0)
    for number, plane in enumerate(planes):
        octets[:, :, number] = plane
    return octets.view("<u8")[:, :, 0]


def sum_of_planes(planes: Sequence[Bytes]) -> Words:
    """uint64[rows]: the sum of each row, modulo 2**64."""
    total = np.zeros(len(planes[0]), dtype=np.uint64)
    for number, plane in enumerate(planes):
        total += plane.sum(axis=1, dtype=np.uint64) << np.uint64(8 * number)
    return total


def to_floats(integers: IntArray, exponent: npt.NDArray[np.int8]) -> FloatArray:
    """float64[rows, n]: undoes `_scale`."""
    values = integers.astype(np.float64)
    scaled = np.flatnonzero(exponent > 0)
    if len(scaled) == len(values):
        values /= POWERS[exponent][:, None]
    elif len(scaled):
        values[scaled] /= POWERS[exponent[scaled]][:, None]
    raw = np.flatnonzero(exponent == RAW)
    if len(raw):
        values[raw] = integers[raw].view(np.float64)
    return values
