import math

import numpy as np
import pytest

from db.promql.ast import Binary, Call, MatrixSelector, Number, Subquery, VectorSelector
from db.promql.errors import ExecutionError
from db.promql.functions import SPECIAL
from db.promql.table import SeriesTable
from db.promql.vector import Scalar, empty
from db.promql.windows import Windows, parts_of
from db.records import Matcher, named
from tests.db.promql.function_calls import called, evaluated, labels, numbers, shown, vector

NAN, INF = math.nan, math.inf


def selector(*matchers):
    return VectorSelector((named("m"), *(Matcher(*one) for one in matchers)), "m")


def test_all_special_functions_are_there():
    expected = """absent absent_over_time clamp clamp_max clamp_min pi scalar sort sort_desc time timestamp
        vector minute hour day_of_week day_of_month day_of_year days_in_month month year label_replace
        label_join histogram_quantile histogram_fraction histogram_avg histogram_count histogram_sum
        histogram_stddev histogram_stdvar"""
    assert set(SPECIAL) == set(expected.split())


# Prometheus's functions.test; the matchers of one label twice take it away.
@pytest.mark.parametrize(
    ("matchers", "expected"),
    [
        ((), {}),
        ((("job", "=", "a"), ("instance", "=", "b"), ("method", "=~", ".x")), {"job": "a", "instance": "b"}),
        ((("job", "=", "a"), ("job", "=", "b"), ("foo", "=", "bar")), {"foo": "bar"}),
        ((("job", "=", "a"), ("job", "=", "b"), ("job", "=", "c"), ("foo", "=", "bar")), {"foo": "bar"}),
        ((("job", "=", "a"), ("job", "=~", "b"), ("foo", "=", "bar")), {"foo": "bar"}),
        ((("job", "!=", "a"),), {}),
        ((("a", "=~", "x"), ("a", "=", "y")), {"a": "y"}),
        ((("a", "=", ""), ("b", "=", "x")), {"b": "x"}),
    ],
)
def test_absent_has_the_labels_that_were_asked_for(matchers, expected):
    asked = selector(*matchers)
    value, _ = evaluated(Call("absent", (asked,)), {asked: empty(2)}, (0, 1))
    assert shown(value) == {labels(**expected): [1.0, 1.0]}


def test_absent_is_where_no_series_is():
    asked = selector(("job", "=", "a"))
    some = vector({labels("m", i="1"): [NAN, None, None, 1.0], labels("m", i="2"): [None, None, None, 2.0]})
    value, _ = evaluated(Call("absent", (asked,)), {asked: some}, (0, 1, 2, 3))
    assert shown(value) == {labels(job="a"): [None, 1.0, 1.0, None]}
    value, _ = evaluated(Call("absent", (asked,)), {asked: vector({labels("m"): [1.0, 1.0]})}, (0, 1))
    assert shown(value) == {}


def test_absent_of_an_expression_has_no_labels():
    asked = Binary(">", selector(("job", "=", "a")), Number(1.0))
    value, _ = evaluated(Call("absent", (asked,)), {asked: empty(1)}, (0,))
    assert shown(value) == {(): [1.0]}


def windows(there):
    """Samples at 0, 10, 20 ms, in windows of 10 ms that end at 0, 10, 20, 30."""
    ends = np.array([0, 10, 20, 30])
    mask = np.array(there, dtype=bool)
    rows = np.arange(len(mask))
    table = SeriesTable.of([labels("m", i=str(row)) for row in rows])
    parts = parts_of(rows, np.array([0, 10, 20]), np.ones(mask.shape), mask, ends - 10, ends, ends)
    return Windows(table, 4, parts)


def test_absent_over_time_is_where_no_window_has_a_sample():
    grid = (0, 10, 20, 30)
    asked = MatrixSelector(selector(("job", "=", "a")), 10)
    value, _ = evaluated(Call("absent_over_time", (asked,)), {asked: windows([[1, 0, 0], [1, 1, 0]])}, grid)
    assert shown(value) == {labels(job="a"): [None, None, 1.0, 1.0]}
    value, _ = evaluated(Call("absent_over_time", (asked,)), {asked: windows([[1, 1, 1], [1, 0, 0]])}, grid)
    assert shown(value) == {labels(job="a"): [None, None, None, 1.0]}
    nothing = Windows(SeriesTable(0, {}), 4, [])
    value, _ = evaluated(Call("absent_over_time", (asked,)), {asked: nothing}, grid)
    assert shown(value) == {labels(job="a"): [1.0] * 4}
    inner = Subquery(selector(("job", "=", "a")), 10)
    value, _ = evaluated(Call("absent_over_time", (inner,)), {inner: nothing}, grid)
    assert shown(value) == {(): [1.0] * 4}


def test_scalar_is_the_only_value():
    some = vector({labels("m", i="1"): [1.0, None, 3.0, -0.0], labels("m", i="2"): [2.0, None, None, None]})
    found = numbers(called("scalar", some, grid=range(4))[0])
    assert repr(found) == repr([NAN, NAN, 3.0, -0.0])
    assert repr(numbers(called("scalar", empty(1))[0])) == repr([NAN])


def test_vector_time_and_pi():
    assert shown(called("vector", Scalar(np.array([1.0, NAN])), grid=(0, 1))[0]).keys() == {()}
    assert shown(called("vector", 2.0, grid=(0, 1))[0]) == {(): [2.0, 2.0]}
    assert numbers(called("time", grid=(-1, 1, 60_000))[0]) == [-0.001, 0.001, 60.0]
    assert numbers(called("pi", grid=(0, 1))[0]) == [math.pi, math.pi]


def test_timestamp_of_an_expression_is_the_time_of_evaluation():
    some = vector({labels("m", i="1"): [7.0, None]})
    assert shown(called("timestamp", some, grid=(1500, 3000))[0]) == {labels(i="1"): [1.5, None]}


CLAMPED = {labels("m", i="a"): [-50.0], labels("m", i="b"): [0.0], labels("m", i="c"): [100.0]}


# Prometheus's functions.test, and what a real Prometheus answers at the edges.
@pytest.mark.parametrize(
    ("function", "limits", "expected"),
    [
        ("clamp_max", (75,), [-50.0, 0.0, 75.0]),
        ("clamp_min", (-25,), [-25.0, 0.0, 100.0]),
        ("clamp", (-25, 75), [-25.0, 0.0, 75.0]),
        ("clamp", (0, NAN), [NAN, NAN, NAN]),
        ("clamp", (NAN, 0), [NAN, NAN, NAN]),
        ("clamp", (3, 3), [3.0, 3.0, 3.0]),
        ("clamp_max", (-INF,), [-INF, -INF, -INF]),
    ],
)
def test_clamp(function, limits, expected):
    found = shown(called(function, vector(CLAMPED), *limits)[0])
    assert list(found) == [labels(i="a"), labels(i="b"), labels(i="c")]
    assert repr([one for [one] in found.values()]) == repr(expected)


@pytest.mark.parametrize(
    ("function", "value", "limits", "expected"),
    [
        ("clamp", NAN, (INF, INF), INF),
        ("clamp", NAN, (0, 1), NAN),
        ("clamp_min", -0.0, (0.0,), 0.0),
        ("clamp_max", 0.0, (-0.0,), -0.0),
        ("clamp_min", -0.0, (-0.0,), -0.0),
        ("clamp_max", NAN, (-INF,), -INF),
    ],
)
def test_clamp_at_the_edges_is_gos(function, value, limits, expected):
    [[found]] = shown(called(function, vector({labels("m"): [value]}), *limits)[0]).values()
    assert repr(found) == repr(expected)


def test_clamp_gives_nothing_at_steps_where_the_limits_cross():
    assert shown(called("clamp", vector(CLAMPED), 5, -5)[0]) == {}
    some = vector({labels("m"): [1.0, 1.0, None]})
    high = Scalar(np.array([9.0, 1.0, 9.0]))
    assert shown(called("clamp", some, 2, high, grid=range(3))[0]) == {(): [2.0, None, None]}


def test_what_drops_the_name_refuses_series_that_become_equal():
    same = {labels("a", i="1"): [1.0], labels("b", i="1"): [2.0]}
    for function, *limits in (("clamp_min", 0), ("timestamp",), ("hour",)):
        with pytest.raises(ExecutionError, match="same labelset"):
            called(function, vector(same), *limits)


ORDERED = {
    labels("m", i="a"): [2.0],
    labels("m", i="b"): [NAN],
    labels("m", i="c"): [-INF],
    labels("m", i="d"): [None],
    labels("m", i="e"): [3.0],
    labels("m", i="f"): [2.0],
}


@pytest.mark.parametrize(("function", "expected"), [("sort", "cafeb"), ("sort_desc", "eafcb")])
def test_sort_orders_the_rows_with_nan_last(function, expected):
    value, notes = called(function, vector(ORDERED))
    assert "".join(dict(row)["i"] for row in shown(value)) == expected
    assert {dict(row)["__name__"] for row in shown(value)} == {"m"}
    assert not notes.warnings


def test_sort_of_several_steps_is_left_and_said():
    some = vector({labels("m", i="a"): [2.0, 2.0], labels("m", i="b"): [1.0, 1.0]})
    value, notes = called("sort", some, grid=(0, 1))
    assert list(shown(value)) == [labels("m", i="a"), labels("m", i="b")]
    assert list(notes.warnings) == [
        "PromQL warning: sort is ineffective for range queries since results are always ordered by labels"
    ]


@pytest.mark.parametrize("name", ["count", "sum", "avg", "stddev", "stdvar"])
def test_functions_of_native_histograms_leave_floats_out(name):
    assert shown(called(f"histogram_{name}", vector(CLAMPED))[0]) == {}
