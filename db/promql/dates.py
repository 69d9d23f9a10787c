"""The functions of the calendar: what a time in seconds since 1970 is in UTC.

Go counts the seconds of a date in 64 bits without a sign, from a year far in the past on. What that makes of
numbers that are no time (NaN is in the year 292277026596) is kept.
"""

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from db.nan import FloatArray, IntArray
from db.promql.ast import Call
from db.promql.context import Context
from db.promql.table import SeriesTable
from db.promql.vector import Vector

Days = npt.NDArray[np.datetime64]

_DAY = 86_400
# From the first of January of the year -292277022399, Go's first, to 1970: periods of 400 years up to the
# year 1, then 1,969 years. Source: golang/go, time/time.go, absoluteZeroYear.
_DAYS_BEFORE_1970 = 730_692_556 * 146_097 + 719_162
_SECONDS_BEFORE_1970 = np.uint64(_DAYS_BEFORE_1970 * _DAY)
# Go on amd64 turns NaN and what does not fit into int64 into this.
_NO_NUMBER = -(1 << 63)


def _since_first_year(seconds: FloatArray) -> npt.NDArray[np.uint64]:
    """Whole seconds, cut off towards zero, since Go's first year; beyond 64 bits they begin anew."""
    fits = (seconds >= -(2.0**63)) & (seconds < 2.0**63)
    whole = np.where(fits, np.where(fits, seconds, 0.0).astype(np.int64), _NO_NUMBER)
    return whole.view(np.uint64) + _SECONDS_BEFORE_1970


def _days(seconds: FloatArray) -> IntArray:
    """Days since 1970-01-01."""
    days: IntArray = (_since_first_year(seconds) // np.uint64(_DAY)).astype(np.int64) - _DAYS_BEFORE_1970
    return days


def _second_of_day(seconds: FloatArray) -> IntArray:
    return (_since_first_year(seconds) % np.uint64(_DAY)).astype(np.int64)


def _date(seconds: FloatArray) -> tuple[Days, Days, Days]:
    """The day, the first day of its month, of the month after it."""
    day = _days(seconds).astype("datetime64[D]")
    month = day.astype("datetime64[M]")
    return day, month.astype("datetime64[D]"), (month + 1).astype("datetime64[D]")


def _minute(seconds: FloatArray) -> IntArray:
    return _second_of_day(seconds) // 60 % 60


def _hour(seconds: FloatArray) -> IntArray:
    return _second_of_day(seconds) // 3600


def _day_of_week(seconds: FloatArray) -> IntArray:
    """0 is Sunday; 1970 began on a Thursday."""
    return (_days(seconds) + 4) % 7


def _day_of_month(seconds: FloatArray) -> IntArray:
    day, first, _ = _date(seconds)
    return (day - first).astype(np.int64) + 1


def _day_of_year(seconds: FloatArray) -> IntArray:
    day, first, _ = _date(seconds)
    days: IntArray = (day - first.astype("datetime64[Y]").astype("datetime64[D]")).astype(np.int64)
    return days + 1


def _days_in_month(seconds: FloatArray) -> IntArray:
    _, first, next_first = _date(seconds)
    days: IntArray = (next_first - first).astype(np.int64)
    return days


def _month(seconds: FloatArray) -> IntArray:
    months: IntArray = _date(seconds)[1].astype("datetime64[M]").astype(np.int64)
    return months % 12 + 1


def _year(seconds: FloatArray) -> IntArray:
    return _date(seconds)[0].astype("datetime64[Y]").astype(np.int64) + 1970


def _function(field: Callable[[FloatArray], IntArray]) -> Callable[[Context, Call], Vector]:
    def evaluate(context: Context, call: Call) -> Vector:
        """Of the argument's values; without an argument, of the evaluation time."""
        if not call.arguments:
            return Vector(SeriesTable.single(), field(context.grid[None] / 1000).astype(np.float64))
        vector = context.vector(call.arguments[0])
        values = field(vector.values).astype(np.float64)
        return Vector(vector.table.nameless(), values, vector.there).merged()

    return evaluate


DATES = {
    "minute": _function(_minute),
    "hour": _function(_hour),
    "day_of_week": _function(_day_of_week),
    "day_of_month": _function(_day_of_month),
    "day_of_year": _function(_day_of_year),
    "days_in_month": _function(_days_in_month),
    "month": _function(_month),
    "year": _function(_year),
}
