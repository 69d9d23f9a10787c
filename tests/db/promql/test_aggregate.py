"""Aggregations against what Prometheus's loop over samples gives, and its own test cases."""

import math
from collections.abc import Sequence
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from db.labels import METRIC_NAME, Labels, labels_from
from db.promql import grouping
from db.promql.aggregate import aggregate
from db.promql.ast import Aggregate, Number
from db.promql.errors import ExecutionError, LimitExceeded
from db.promql.table import SeriesTable
from db.promql.vector import Vector
from tests.db.promql.heap_reference import chosen
from tests.db.promql.operands import (
    INF,
    NAN,
    Row,
    assert_same,
    at_step,
    context_of,
    row_lists,
    selector,
    steps_of,
    text,
    vector_of,
)

VALUES = [0.0, 1.0, 2.0, -1.0, 0.1, 0.3, 7.25, NAN, INF, -INF, 1e100, -1e100, 1e308, 1.5e308, -1e308, 1e-300]
TAME = [0.0, 1.0, 2.0, -1.0, 0.1, 0.3, 7.25, 1e6, NAN, INF, -INF]
SIMPLE = ("sum", "avg", "count", "group", "min", "max")


def plus(inc: float, total: float, rest: float) -> tuple[float, float]:
    new = total + inc
    if math.isinf(new):
        return new, 0.0
    if abs(total) >= abs(inc):
        return new, rest + ((total - new) + inc)
    return new, rest + ((inc - new) + total)


def one(op: str, values: list[float], q: float = 0.0) -> float:
    """One group at one step, value after value."""
    match op:
        case "sum":
            total, rest = values[0], 0.0
            for value in values[1:]:
                total, rest = plus(value, total, rest)
            return total + rest
        case "avg":
            return average(values)
        case "count":
            return float(len(values))
        case "group":
            return 1.0
        case "min" | "max":
            numbers = [value for value in values if not math.isnan(value)]
            return (min if op == "min" else max)(numbers) if numbers else NAN
        case "stdvar" | "stddev":
            if not all(map(math.isfinite, values)):
                return NAN
            middle, squares = values[0], 0.0
            for count, value in enumerate(values[1:], 2):
                delta = value - middle
                middle += delta / count
                squares += delta * (value - middle)
            return squares / len(values) if op == "stdvar" else math.sqrt(squares / len(values))
        case "quantile":
            return quantile(q, values)
    raise AssertionError(op)


def average(values: list[float]) -> float:
    total, rest, middle, stepwise = values[0], 0.0, values[0], False
    for count, value in enumerate(values[1:], 2):
        if not stepwise:
            new, new_rest = plus(value, total, rest)
            if not math.isinf(new):
                total, rest = new, new_rest
                continue
            stepwise, middle, rest = True, total / (count - 1), rest / (count - 1)
        ratio = (count - 1) / count
        middle, rest = plus(value / count, ratio * middle, ratio * rest)
    return middle + rest if stepwise else total / len(values) + rest / len(values)


def quantile(q: float, values: list[float]) -> float:
    if math.isnan(q):
        return NAN
    if not 0 <= q <= 1:
        return INF if q > 1 else -INF
    ordered = sorted(values, key=lambda value: (not math.isnan(value), 0 if math.isnan(value) else value))
    rank = q * (len(values) - 1)
    low = max(0, math.floor(rank))
    high = min(len(values) - 1, low + 1)
    weight = rank - math.floor(rank)
    return ordered[low] * (1 - weight) + ordered[high] * weight


def group_of(labels: Labels, names: Sequence[str], without: bool) -> Labels:
    if without:
        return tuple(pair for pair in labels if pair[0] not in (*names, METRIC_NAME))
    return tuple(pair for pair in labels if pair[0] in names)


def groups_at(rows: list[Row], step: int, names: Sequence[str], without: bool) -> dict[Labels, list]:
    found: dict[Labels, list] = {}
    for labels, value in at_step(rows, step):
        found.setdefault(group_of(labels, names, without), []).append((labels, value))
    return found


def run(
    op: str, rows: list[Row], steps: int, names: Sequence[str] = (), without: bool = False, parameter=None
):
    """parameter: a number, a text or a value for each step."""
    named: dict = {"x": vector_of(rows, steps)}
    match parameter:
        case str():
            parameter = text(parameter)
        case list():
            named["p"] = parameter
            parameter = selector("p")
        case float() | int():
            parameter = Number(float(parameter))
    context = context_of(steps, named)
    found = aggregate(context, Aggregate(op, selector("x"), parameter, tuple(names), without))
    return found, context.notes


names_and_without = st.tuples(st.lists(st.sampled_from(["a", "b", METRIC_NAME]), unique=True), st.booleans())


@given(st.data(), st.sampled_from(SIMPLE), names_and_without)
def test_simple_aggregations_are_those_of_the_loop_over_samples(data, op, by):
    rows = data.draw(row_lists(3, VALUES))
    found, _ = run(op, rows, 3, *by)
    wanted = [
        {key: one(op, [value for _, value in group]) for key, group in groups_at(rows, step, *by).items()}
        for step in range(3)
    ]
    assert_same(steps_of(found), wanted)


@given(st.data(), st.sampled_from(["stdvar", "stddev"]), names_and_without)
def test_deviations_are_those_of_the_loop_over_samples(data, op, by):
    rows = data.draw(row_lists(3, TAME))
    found, _ = run(op, rows, 3, *by)
    wanted = [
        {key: one(op, [value for _, value in group]) for key, group in groups_at(rows, step, *by).items()}
        for step in range(3)
    ]
    assert_same(steps_of(found), wanted, relative=1e-9)


@given(
    st.data(),
    names_and_without,
    st.lists(st.sampled_from([0, 0.3, 0.5, 1, -1, 2, NAN]), min_size=3, max_size=3),
)
def test_quantiles_are_those_of_the_loop_over_samples(data, by, q):
    rows = data.draw(row_lists(3, TAME))
    found, notes = run("quantile", rows, 3, *by, parameter=q)
    wanted = [
        {
            key: one("quantile", [value for _, value in group], q[step])
            for key, group in groups_at(rows, step, *by).items()
        }
        for step in range(3)
    ]
    assert_same(steps_of(found), wanted)
    assert bool(notes.warnings) == any(not 0 <= value <= 1 for value in q)


@given(
    st.data(),
    st.sampled_from(["topk", "bottomk"]),
    names_and_without,
    st.lists(st.sampled_from([-1, 0, 1, 1.9, 2, 3, 100]), min_size=3, max_size=3),
)
def test_topk_and_bottomk_choose_at_each_step_what_prometheus_heap_chooses(data, op, by, k):
    rows = data.draw(st.one_of(row_lists(3, TAME), row_lists(3, [0.0, 1.0, 2.0, NAN], most=14)))
    found, _ = run(op, rows, 3, *by, parameter=k)
    wanted = []
    for step in range(3):
        held: dict[Labels, float] = {}
        for group in groups_at(rows, step, *by).values():
            held |= dict(chosen(op, int(k[step]), sorted(group, key=lambda pair: pair[0])))
        wanted.append(held)
    assert_same(steps_of(found), wanted)


@given(st.data(), names_and_without, st.sampled_from(["a", "value", METRIC_NAME]))
def test_count_values_counts_texts(data, by, label):
    names, without = by
    rows = data.draw(row_lists(3, [0.0, 1.0, -0.0, 0.1, 1e20, NAN, INF]))
    texts = {0.0: "0", 1.0: "1", 0.1: "0.1", 1e20: "100000000000000000000", INF: "+Inf"}
    found, _ = run("count_values", rows, 3, names, without, parameter=label)
    wanted: list[dict[Labels, float]] = []
    for step in range(3):
        counted: dict[Labels, float] = {}
        for labels, value in at_step(rows, step):
            shown = "NaN" if math.isnan(value) else texts[value]
            if value == 0 and math.copysign(1, value) < 0:
                shown = "-0"
            labelled = labels_from({**dict(labels), label: shown})
            key = group_of(labelled, names if without else (*names, label), without)
            counted[key] = counted.get(key, 0) + 1
        wanted.append(counted)
    assert_same(steps_of(found), wanted)


def series(values: Sequence[float | None], **labels: str) -> list[Row]:
    return [({"point": str(number), **labels}, [value]) for number, value in enumerate(values)]


@pytest.mark.parametrize(
    ("values", "total", "mean"),
    [
        ([2, 8, 1e100, -1e100], 10, 2.5),
        ([1e100, 1, -1e100, 1], 2, 0.5),
        ([0.1] * 10, 1, 0.1),
        ([52] * 12, 624, 52),
        ([1, 1e16, 1, -1e16] * 50, 100, 0.5),
        ([INF, 2], INF, INF),
        ([2, -INF], -INF, -INF),
        ([INF, -INF], NAN, NAN),
        ([NAN, 2], NAN, NAN),
        ([9.988465674311579e307] * 4, INF, 9.988465674311579e307),
        ([-9.988465674311579e307] * 4, -INF, -9.988465674311579e307),
        ([-9.988465674311579e307] * 2 + [9.988465674311579e307] * 2, -INF, 0),
        ([5e-324, 5e-324], 1e-323, 5e-324),
    ],
)
def test_sums_and_means_are_compensated(values, total, mean):
    for op, wanted in (("sum", total), ("avg", mean)):
        found, _ = run(op, series(values), 1)
        got = steps_of(found)[0][()]
        assert got == wanted or (math.isnan(got) and math.isnan(wanted)), (op, got)


@pytest.mark.parametrize("steps", [1, 20])
def test_large_groups_are_summed_exactly_though_they_are_cut_into_blocks(steps, monkeypatch):
    monkeypatch.setattr(grouping, "BLOCK", 64)
    rng = np.random.default_rng(steps)
    values = rng.random((400, steps)) * 10.0 ** rng.integers(-6, 6, (400, 1))
    there = rng.random(values.shape) > 0.2
    table = SeriesTable.of([(("g", str(row % 3 and 1)), ("row", str(row))) for row in range(400)])
    context = context_of(steps, {"x": Vector(table, values, there)})
    for op in ("sum", "avg", "max", "count", "stddev"):
        found = aggregate(context, Aggregate(op, selector("x"), None, ("g",)))
        for group, held in zip(found.table.rows(), found.values, strict=True):
            rows = np.array([str(row % 3 and 1) == group[0][1] for row in range(400)])
            for step in range(steps):
                some = values[rows & there[:, step], step].tolist()
                wanted = {
                    "sum": math.fsum(some),
                    "avg": math.fsum(some) / len(some),
                    "max": max(some),
                    "count": len(some),
                    "stddev": np.std(some),
                }[op]
                assert held[step] == pytest.approx(wanted, rel=1e-9 if op == "stddev" else 4e-16)


def test_equal_values_have_no_deviation():
    for op in ("stddev", "stdvar"):
        found, _ = run(op, series([13.3, 13.3, 13.3]), 1)
        assert steps_of(found) == [{(): 0.0}]


def test_a_deviation_far_from_zero_keeps_its_digits():
    found, _ = run("stdvar", series([1e9, 1e9 + 1, 1e9 + 2]), 1)
    assert steps_of(found)[0][()] == pytest.approx(2 / 3, rel=1e-12)


@pytest.mark.parametrize("offset", [0.0, -1.7e9, 1.7e9, 1e15])
def test_a_deviation_far_from_zero_is_nearer_the_truth_than_one_pass(offset: float):
    """Of `stdvar(temperature - time())` too the variance is that of the values that the subtraction left.
    Prometheus's running mean of them is wrong by some parts in 10^9."""
    random = np.random.default_rng(4)
    for count in (2, 7, 100, 3000):
        values = (offset + random.normal(20, 16, count)).tolist()
        exact = exact_variance(values)
        [held] = steps_of(run("stdvar", series(values), 1)[0])[0].values()
        assert abs(Fraction(held) - exact) <= exact * Fraction(1e-14)
        assert abs(Fraction(held) - exact) <= abs(Fraction(one("stdvar", values)) - exact) + exact * Fraction(
            1e-15
        )
        [root] = steps_of(run("stddev", series(values), 1)[0])[0].values()
        assert abs(Fraction(root) ** 2 - exact) <= exact * Fraction(2e-14)


def exact_variance(values: Sequence[float]) -> Fraction:
    exact = [Fraction(value) for value in values]
    middle = sum(exact) / len(exact)
    return sum((value - middle) ** 2 for value in exact) / len(exact)


def test_by_name_keeps_the_name_and_without_drops_it():
    rows: list[Row] = [({METRIC_NAME: "m", "a": "x"}, [1]), ({METRIC_NAME: "n", "a": "x"}, [2])]
    assert steps_of(run("sum", rows, 1, (METRIC_NAME,))[0]) == [
        {((METRIC_NAME, "m"),): 1, ((METRIC_NAME, "n"),): 2}
    ]
    assert steps_of(run("sum", rows, 1, (), without=True)[0]) == [{(("a", "x"),): 3}]


def test_instant_topk_is_in_the_order_of_groups_and_values():
    rows: list[Row] = [
        ({"g": "1", "i": "0"}, [5]),
        ({"g": "2", "i": "1"}, [9]),
        ({"g": "1", "i": "2"}, [NAN]),
        ({"g": "1", "i": "3"}, [7]),
        ({"g": "2", "i": "4"}, [1]),
    ]
    found, _ = run("topk", rows, 1, ("g",), parameter=10)
    assert [dict(labels)["i"] for labels in found.table.rows()] == ["3", "0", "2", "1", "4"]
    found, _ = run("bottomk", rows, 1, ("g",), parameter=10)
    assert [dict(labels)["i"] for labels in found.table.rows()] == ["0", "3", "2", "4", "1"]


@pytest.mark.parametrize(
    ("k", "message"),
    [
        (NAN, "Parameter value is NaN"),
        (1e30, "Scalar value 1e+30 overflows int64"),
        (INF, "Scalar value +Inf overflows int64"),
        ([1, -INF], "Scalar value -Inf underflows int64"),
        ([2, -1.25e19], "Scalar value -1.25e+19 underflows int64"),
        ([0, NAN], "Parameter value is NaN"),
    ],
)
def test_a_limit_that_is_no_whole_number_is_refused_even_without_series(k, message):
    with pytest.raises(ExecutionError) as error:
        run("topk", [], len(k) if isinstance(k, list) else 1, parameter=k)
    assert str(error.value) == message


def test_limits_below_one_give_nothing():
    found, _ = run("bottomk", series([1, 2]), 1, parameter=-1e30)
    assert len(found.table) == 0


def test_quantiles_out_of_range_are_said():
    _, notes = run("quantile", series([1, 2]), 1, parameter=1.5)
    assert list(notes.warnings) == ["PromQL warning: quantile value should be between 0 and 1, got 1.5"]
    _, notes = run("quantile", series([1]), 1, parameter=NAN)
    assert list(notes.warnings) == ["PromQL warning: quantile value should be between 0 and 1, got NaN"]
    _, notes = run("quantile", series([1]), 1, parameter=1.0)
    assert not notes.warnings


@pytest.mark.parametrize(("label", "shown"), [("", '""'), ("a\udcc5z", r'"a\xc5z"')])
def test_an_impossible_label_for_values_is_refused(label, shown):
    with pytest.raises(ExecutionError) as error:
        run("count_values", series([1]), 1, parameter=label)
    assert str(error.value) == f"invalid label name {shown}"


def test_values_that_are_all_different_are_counted_against_the_budget():
    rows = [({"i": str(row)}, [row + 0.5, row + 0.25]) for row in range(100)]
    context = context_of(2, {"x": vector_of(rows, 2)}, samples=399)
    with pytest.raises(LimitExceeded):
        aggregate(context, Aggregate("count_values", selector("x"), text("v")))


def test_the_groups_of_a_selection_are_found_once():
    vector = vector_of([({"a": "x", "i": "1"}, [1]), ({"a": "x", "i": "2"}, [2])], 1)
    context = context_of(1, {"x": vector})
    tables = [aggregate(context, Aggregate(op, selector("x"), None, ("a",))).table for op in ("sum", "max")]
    assert tables[0] is tables[1]


def test_sums_of_many_values_are_rounded_once():
    values = np.random.default_rng(7).random(5000).tolist()
    found, _ = run("sum", series(values), 1)
    assert steps_of(found)[0][()] == math.fsum(values)


def test_all_nans_are_one_value():
    vector = vector_of(series([NAN, NAN]), 1)
    vector.values.view(np.uint64)[1] ^= np.uint64(1 << 63)
    found = aggregate(context_of(1, {"x": vector}), Aggregate("count_values", selector("x"), text("v")))
    assert steps_of(found) == [{(("v", "NaN"),): 2}]
