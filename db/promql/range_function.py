"""The form of functions over ranges: rate, avg_over_time and their like."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from db.nan import BoolArray, FloatArray
from db.promql.context import Notes
from db.promql.windows import WindowPart

Kernel = Callable[[WindowPart, Sequence[FloatArray], Notes], tuple[FloatArray, BoolArray]]


@dataclass(frozen=True, slots=True)
class RangeFunction:
    """kernel: gives for each series and step a value, float64[series, steps], and where it is one,
    bool[series or 1, steps]; it gets the scalar arguments, float64[steps] each, in the call's order."""

    kernel: Kernel
    keeps_name: bool = False
