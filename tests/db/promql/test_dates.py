from datetime import UTC, date, datetime, timedelta

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from db.promql.dates import DATES
from db.promql.vector import Scalar
from tests.db.promql.function_calls import called, labels, shown, vector

NAN, INF = float("nan"), float("inf")


def field(name, seconds):
    [[found]] = shown(called(name, vector({labels("m"): [seconds]}))[0]).values()
    return found


def expected(seconds: int) -> dict[str, float]:
    """The calendar repeats after 400 years."""
    days, second = divmod(seconds, 86_400)
    periods, days = divmod(days, 146_097)
    day = date(1970, 1, 1) + timedelta(days)
    next_month = date(day.year + day.month // 12, day.month % 12 + 1, 1)
    return {
        "minute": second // 60 % 60,
        "hour": second // 3600,
        "day_of_week": day.isoweekday() % 7,
        "day_of_month": day.day,
        "day_of_year": day.timetuple().tm_yday,
        "days_in_month": (next_month - date(day.year, day.month, 1)).days,
        "month": day.month,
        "year": day.year + 400 * periods,
    }


# Go's seconds without a sign begin anew before the year -292277022399, beyond what is drawn here.
@given(st.integers(-9_223_371_966_579_724_800, 2**63 - 1).map(float).filter(lambda value: value < 2.0**63))
def test_every_field_of_every_date(seconds):
    assert {name: field(name, seconds) for name in DATES} == expected(int(seconds))


@given(st.datetimes(datetime(1, 1, 1), datetime(9999, 12, 31)))  # noqa: DTZ001  the zone comes below
def test_dates_are_those_of_python(moment):
    moment = moment.replace(microsecond=0, tzinfo=UTC)
    seconds = (moment - datetime(1970, 1, 1, tzinfo=UTC)).total_seconds()
    found = [field(name, seconds) for name in ("year", "month", "day_of_month", "hour", "minute")]
    assert found == [moment.year, moment.month, moment.day, moment.hour, moment.minute]


# What Prometheus on amd64 answers.
@pytest.mark.parametrize(
    ("name", "seconds", "value"),
    [
        ("year", NAN, 292277026596),
        ("minute", NAN, 30),
        ("day_of_week", INF, 0),
        ("day_of_month", -1e30, 4),
        ("year", 9.2e18, 291536396232),
        ("days_in_month", -1e18, 31),
        ("day_of_year", -1e18, 69),
        ("day_of_week", -9.2e18, 2),
        ("day_of_week", 9.2e18, 5),
        ("hour", -1.0, 23),
        ("hour", -0.5, 0),
        ("days_in_month", 1454284800.0, 29),
        ("days_in_month", 1485907200.0, 28),
        ("day_of_year", 1483191420.0, 366),
        ("year", 1230767999.0, 2008),
    ],
)
def test_what_is_no_date_is_what_go_makes_of_it(name, seconds, value):
    assert field(name, seconds) == value


def test_without_an_argument_it_is_the_time_of_evaluation():
    value, _ = called("minute", grid=(59_999, 60_000, 3_600_000))
    assert shown(value) == {(): [0.0, 1.0, 0.0]}


def test_the_name_goes_and_gaps_stay():
    value, _ = called("hour", vector({labels("m", a="x"): [3600.0, None]}), grid=(0, 1000))
    assert shown(value) == {labels(a="x"): [1.0, None]}


def test_garbage_where_nothing_is_makes_no_warning():
    given_vector = vector({labels("m"): [1.0, None]})
    given_vector.values[0, 1] = NAN
    value, _ = called("year", given_vector, grid=(0, 1000))
    assert shown(value) == {(): [1970.0, None]}
    assert not isinstance(value, Scalar)
    assert np.isfinite(value.values).all()
