"""Binary operators against what Prometheus's loop over samples gives, step by step."""

import math
import warnings
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from db.labels import METRIC_NAME, Labels, labels_from
from db.promql.ast import Binary, Matching, Number
from db.promql.binary import binary
from db.promql.errors import ExecutionError, LimitExceeded
from db.promql.matching import MANY_MATCHES, NOT_UNIQUE
from db.promql.vector import SAME_LABELS, Scalar, Vector
from tests.db.promql.operands import (
    INF,
    NAN,
    Row,
    Step,
    assert_same,
    at_step,
    context_of,
    row_lists,
    same,
    selector,
    steps_of,
    vector_of,
)

VALUES = [0.0, -0.0, 1.0, 2.0, -3.0, 0.5, NAN, INF, -INF]
COMPARISONS = ("==", "!=", ">", "<", ">=", "<=")
ARITHMETIC = ("+", "-", "*", "/", "%", "^", "atan2")


def arithmetic(op: str, left: float, right: float) -> float:
    """By IEEE 754, which raises nothing."""
    match op:
        case "+":
            return left + right
        case "-":
            return left - right
        case "*":
            return left * right
        case "/":
            if right == 0:
                sign = math.copysign(1, left) * math.copysign(1, right)
                return NAN if left == 0 or math.isnan(left) else sign * INF
            return left / right
        case "%":
            if right == 0 or math.isinf(left):
                return NAN
            return math.fmod(left, right)
        case "^":
            try:
                return math.pow(left, right)
            except ValueError:
                # Of a negative number to a fraction, or of zero to a negative number.
                odd = right % 2 == 1
                return (math.copysign(INF, left) if odd else INF) if left == 0 else NAN
        case _:
            return math.atan2(left, right)


def compare(op: str, left: float, right: float) -> bool:
    operations: dict[str, Callable[[float, float], bool]] = {
        "==": float.__eq__,
        "!=": float.__ne__,
        ">": float.__gt__,
        "<": float.__lt__,
        ">=": float.__ge__,
        "<=": float.__le__,
    }
    return operations[op](left, right)


def apply(node: Binary, left: float, right: float) -> tuple[float, bool]:
    """A value, and whether it is kept."""
    if node.op in ARITHMETIC:
        return arithmetic(node.op, left, right), True
    kept = compare(node.op, left, right)
    return (float(kept), True) if node.returns_bool else (left, kept)


def signature(labels: Labels, matching: Matching) -> Labels:
    if matching.on:
        return tuple(pair for pair in labels if pair[0] in matching.labels)
    return tuple(pair for pair in labels if pair[0] not in (*matching.labels, METRIC_NAME))


def result_labels(many: Labels, one: Labels, node: Binary) -> Labels:
    matching = node.matching
    held = dict(many)
    if node.op in ARITHMETIC:
        held.pop(METRIC_NAME, None)
    if matching.cardinality == "one-to-one":
        held = {name: value for name, value in held.items() if (name in matching.labels) == matching.on}
    for name in matching.include:
        held[name] = dict(one).get(name, "")
    if node.returns_bool:
        held.pop(METRIC_NAME, None)
    return labels_from(held)


def shown(labels: Labels) -> str:
    return "{" + ", ".join(f'{name}="{value}"' for name, value in labels) + "}"


def vectors(node: Binary, left: Step, right: Step) -> dict[Labels, float]:
    """Raises ExecutionError."""
    swapped = node.matching.cardinality == "one-to-many"
    if not left or not right:
        return {}
    many, one = (right, left) if swapped else (left, right)
    ones: dict[Labels, tuple[Labels, float]] = {}
    for labels, value in one:
        key = signature(labels, node.matching)
        if key in ones:
            raise ExecutionError(
                f"found duplicate series for the match group {shown(key)} on the "
                f"{'left' if swapped else 'right'} hand-side of the operation: [{shown(labels)}, "
                f"{shown(ones[key][0])}];many-to-many matching not allowed: matching labels must be unique "
                "on one side"
            )
        ones[key] = (labels, value)
    seen: dict[Labels, set[Labels]] = {}
    found: list[tuple[Labels, float]] = []
    for labels, value in many:
        key = signature(labels, node.matching)
        if key not in ones:
            continue
        other, theirs = ones[key]
        result, kept = apply(node, theirs, value) if swapped else apply(node, value, theirs)
        if not kept:
            continue
        metric = result_labels(labels, other, node)
        if node.matching.cardinality == "one-to-one":
            if key in seen:
                raise ExecutionError(MANY_MATCHES)
            seen[key] = set()
        elif metric in seen.setdefault(key, set()):
            raise ExecutionError(NOT_UNIQUE)
        seen[key].add(metric)
        found.append((metric, result))
    if len(dict(found)) < len(found):
        raise ExecutionError(SAME_LABELS)
    return dict(found)


def sets(node: Binary, left: Step, right: Step) -> dict[Labels, float]:
    ours = {signature(labels, node.matching) for labels, _ in left}
    theirs = {signature(labels, node.matching) for labels, _ in right}
    match node.op:
        case "and":
            return {labels: value for labels, value in left if signature(labels, node.matching) in theirs}
        case "unless":
            return {labels: value for labels, value in left if signature(labels, node.matching) not in theirs}
    more = {labels: value for labels, value in right if signature(labels, node.matching) not in ours}
    return {**dict(left), **more}


def run(node: Binary, left: list[Row], right: list[Row], steps: int) -> Vector:
    context = context_of(steps, {"l": vector_of(left, steps), "r": vector_of(right, steps)})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = binary(context, node)
    assert isinstance(found, Vector)
    return found


def pair(op: str, returns_bool: bool = False, matching: Matching | None = None) -> Binary:
    return Binary(op, selector("l"), selector("r"), returns_bool, matching or Matching())


labels_on = st.tuples(st.booleans(), st.lists(st.sampled_from(["a", "b", METRIC_NAME]), unique=True))
sides = st.sampled_from(["one-to-one", "many-to-one", "one-to-many"])


@given(
    st.data(),
    st.sampled_from(ARITHMETIC + COMPARISONS),
    st.booleans(),
    sides,
    labels_on,
    st.lists(st.sampled_from(["c", "b", METRIC_NAME]), unique=True),
)
def test_vectors_meet_as_in_the_loop_over_samples(data, op, returns_bool, cardinality, by, include):
    on, names = by
    if cardinality == "one-to-one":
        include = []
    matching = Matching(
        cardinality, on, tuple(names), tuple(name for name in include if not (on and name in names))
    )
    node = pair(op, returns_bool and op in COMPARISONS, matching)
    left, right = data.draw(row_lists(2, VALUES)), data.draw(row_lists(2, VALUES))
    wanted, errors = [], []
    for step in range(2):
        try:
            wanted.append(vectors(node, at_step(left, step), at_step(right, step)))
        except ExecutionError as error:
            errors.append(str(error))
    if not errors:
        assert_same(steps_of(run(node, left, right, 2)), wanted)
        return
    with pytest.raises(ExecutionError) as raised:
        run(node, left, right, 2)
    # What is wrong at several steps is told in this order.
    order = ["found duplicate", MANY_MATCHES, NOT_UNIQUE, SAME_LABELS]
    errors.sort(key=lambda text: next(place for place, start in enumerate(order) if text.startswith(start)))
    assert str(raised.value) == errors[0]


@given(st.data(), st.sampled_from(["and", "or", "unless"]), labels_on)
def test_set_operators_look_at_each_step(data, op, by):
    node = pair(op, matching=Matching("many-to-many", by[0], tuple(by[1])))
    left, right = data.draw(row_lists(2, VALUES)), data.draw(row_lists(2, VALUES))
    wanted = [sets(node, at_step(left, step), at_step(right, step)) for step in range(2)]
    assert_same(steps_of(run(node, left, right, 2)), wanted)


@given(
    st.data(),
    st.sampled_from(ARITHMETIC + COMPARISONS),
    st.booleans(),
    st.lists(st.sampled_from(VALUES), min_size=2, max_size=2),
    st.booleans(),
)
def test_vector_and_scalar(data, op, returns_bool, scalar, scalar_first):
    returns_bool = returns_bool and op in COMPARISONS
    rows = data.draw(row_lists(2, VALUES))
    context = context_of(2, {"v": vector_of(rows, 2), "s": scalar})
    operands = (selector("s"), selector("v")) if scalar_first else (selector("v"), selector("s"))
    node = Binary(op, *operands, returns_bool)
    wanted, clash = [], False
    for step in range(2):
        found: dict[Labels, float] = {}
        for labels, value in at_step(rows, step):
            left, right = (scalar[step], value) if scalar_first else (value, scalar[step])
            result, kept = apply(node, left, right)
            if op in COMPARISONS and not returns_bool:
                result = value
            else:
                labels = tuple(item for item in labels if item[0] != METRIC_NAME)
            if kept:
                clash = clash or labels in found
                found[labels] = result
        wanted.append(found)
    if clash:
        with pytest.raises(ExecutionError, match=SAME_LABELS):
            binary(context, node)
        return
    result = binary(context, node)
    assert isinstance(result, Vector)
    assert_same(steps_of(result), wanted)


@given(st.sampled_from(ARITHMETIC + COMPARISONS), st.sampled_from(VALUES), st.sampled_from(VALUES))
def test_scalars(op, left, right):
    node = Binary(op, Number(left), Number(right), op in COMPARISONS)
    found = binary(context_of(3, {}), node)
    assert isinstance(found, Scalar)
    assert len(found.values) == 3
    assert all(same(value, apply(node, left, right)[0]) for value in found.values.tolist())


@pytest.mark.parametrize(
    ("op", "left", "right", "wanted"),
    [
        ("%", -7, 3, -1),
        ("%", 7, -3, 1),
        ("%", 5, INF, 5),
        ("%", 5, 0, NAN),
        ("^", NAN, 0, 1),
        ("^", 1, NAN, 1),
        ("^", -1, INF, 1),
        ("^", -8, 1 / 3, NAN),
        ("/", 1, -0.0, -INF),
        ("/", 0, 0, NAN),
        ("atan2", 0, -1, math.pi),
    ],
)
def test_corners_of_arithmetic(op, left, right, wanted):
    found = run(pair(op), [({"a": "x"}, [left])], [({"a": "x"}, [right])], 1)
    assert same(steps_of(found)[0][(("a", "x"),)], wanted)


def test_a_pod_that_was_restarted_is_no_duplicate():
    left: list[Row] = [({"node": "1"}, [10, 10, 10])]
    right: list[Row] = [
        ({"node": "1", "pod": "a"}, [1, None, None]),
        ({"node": "1", "pod": "b"}, [None, 2, None]),
    ]
    found = run(pair("*", matching=Matching("one-to-one", True, ("node",))), left, right, 3)
    node = (("node", "1"),)
    assert steps_of(found) == [{node: 10}, {node: 20}, {}]
    assert len(found.table) == 1


def test_labels_taken_over_are_those_of_the_step():
    left: list[Row] = [({"node": "1"}, [10, 10])]
    right: list[Row] = [({"node": "1", "pod": "a"}, [1, None]), ({"node": "1", "pod": "b"}, [None, 2])]
    matching = Matching("many-to-one", True, ("node",), ("pod",))
    found = run(pair("*", matching=matching), left, right, 2)
    assert steps_of(found) == [{(("node", "1"), ("pod", "a")): 10}, {(("node", "1"), ("pod", "b")): 20}]


def test_a_label_that_the_one_side_lacks_is_removed():
    matching = Matching("many-to-one", True, ("a",), ("b",))
    found = run(pair("+", matching=matching), [({"a": "x", "b": "y"}, [1])], [({"a": "x"}, [2])], 1)
    assert steps_of(found) == [{(("a", "x"),): 3}]


def test_duplicates_are_named_with_their_labels():
    right: list[Row] = [
        ({METRIC_NAME: "m", "a": "x", "b": 'q"'}, [1]),
        ({METRIC_NAME: "m", "a": "x", "b.c": "2"}, [1]),
    ]
    with pytest.raises(ExecutionError) as error:
        run(pair("+", matching=Matching("one-to-one", True, ("a",))), [({"a": "x"}, [1])], right, 1)
    assert str(error.value) == (
        'found duplicate series for the match group {a="x"} on the right hand-side of the operation: '
        '[{__name__="m", a="x", "b.c"="2"}, {__name__="m", a="x", b="q\\""}];many-to-many matching not '
        "allowed: matching labels must be unique on one side"
    )


def test_duplicates_do_not_matter_where_the_other_side_is_empty():
    left: list[Row] = [({"a": "x"}, [None, 1])]
    right: list[Row] = [({"a": "x", "b": "1"}, [1, 1]), ({"a": "x", "b": "2"}, [1, None])]
    found = run(pair("+", matching=Matching("one-to-one", True, ("a",))), left, right, 2)
    assert steps_of(found) == [{}, {(("a", "x"),): 2}]


def test_a_second_match_that_the_filter_takes_away_is_none():
    left: list[Row] = [({"a": "x", "b": "1"}, [1]), ({"a": "x", "b": "2"}, [5])]
    right: list[Row] = [({"a": "x"}, [3])]
    matching = Matching("one-to-one", True, ("a",))
    assert steps_of(run(pair(">", matching=matching), left, right, 1)) == [{(("a", "x"),): 5}]
    with pytest.raises(ExecutionError, match="many-to-one matching must be explicit"):
        run(pair(">", True, matching), left, right, 1)


def test_filters_keep_the_name_and_bool_drops_it():
    left: list[Row] = [({METRIC_NAME: "m", "a": "x"}, [1])]
    right: list[Row] = [({METRIC_NAME: "n", "a": "x"}, [0])]
    assert steps_of(run(pair(">"), left, right, 1)) == [{((METRIC_NAME, "m"), ("a", "x")): 1}]
    assert steps_of(run(pair(">", True), left, right, 1)) == [{(("a", "x"),): 1}]


@pytest.mark.parametrize("op", ["and", "or", "unless", "+", ">"])
def test_empty_sides(op):
    matching = Matching("many-to-many" if op in ("and", "or", "unless") else "one-to-one")
    rows: list[Row] = [({"a": "x"}, [1, None])]
    held = [{(("a", "x"),): 1}, {}]
    nothing: list[dict] = [{}, {}]
    assert steps_of(run(pair(op, matching=matching), rows, [], 2)) == (
        held if op in ("or", "unless") else nothing
    )
    assert steps_of(run(pair(op, matching=matching), [], rows, 2)) == (held if op == "or" else nothing)
    assert steps_of(run(pair(op, matching=matching), [], [], 2)) == nothing


def test_matches_are_found_once_for_the_same_selections():
    vectors = {"l": vector_of([({"a": "x"}, [1])], 1), "r": vector_of([({"a": "x"}, [2])], 1)}
    context = context_of(1, vectors)
    tables = []
    for _ in range(2):
        found = binary(context, pair("+"))
        assert isinstance(found, Vector)
        tables.append(found.table)
    assert tables[0] is tables[1]


def test_pairs_of_series_that_replace_each_other_are_counted_against_the_budget():
    left: list[Row] = [
        ({"a": str(row)}, [1.0 if step == row else None for step in range(20)]) for row in range(20)
    ]
    right: list[Row] = [({"b": labels["a"]}, values) for labels, values in left]
    node = pair("*", matching=Matching("many-to-one", True, (), ("b",)))
    found = run(node, left, right, 20)
    assert steps_of(found) == [{(("a", str(step)), ("b", str(step))): 1.0} for step in range(20)]
    context = context_of(20, {"l": vector_of(left, 20), "r": vector_of(right, 20)}, samples=20 * 400 - 1)
    with pytest.raises(LimitExceeded):
        binary(context, node)


def test_matched_series_that_replace_each_other_become_one():
    left: list[Row] = [({"node": "1", "pod": "a"}, [1, None]), ({"node": "1", "pod": "b"}, [None, 2])]
    matching = Matching("one-to-one", True, ("node",))
    found = run(pair("*", matching=matching), left, [({"node": "1"}, [10, 10])], 2)
    assert list(found.table.rows()) == [(("node", "1"),)]
    assert steps_of(found) == [{(("node", "1"),): 10}, {(("node", "1"),): 20}]


def test_results_of_different_matches_with_equal_labels_are_refused():
    rows: list[Row] = [({METRIC_NAME: "m"}, [1]), ({METRIC_NAME: "n"}, [2])]
    with pytest.raises(ExecutionError, match=SAME_LABELS):
        run(pair("*", matching=Matching("one-to-one", True, (METRIC_NAME,))), rows, rows, 1)
