"""Queries with a fixed `@`."""

import pytest

from db.promql.parse import parse
from tests.promql.pinned import asked_from, pinned, variants


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("a", "a @ 300"),
        ("a @ 7", "a @ 7"),
        ("a @ end() offset 1m", "a @ end() offset 1m"),
        ("rate(a[5m] offset 1m)", "rate(a[5m] @ 300 offset 1m)"),
        ("sum_over_time((a + b)[5m:1m])", "sum_over_time((a + b)[5m:1m] @ 300)"),
        ("-a / on(x) topk(scalar(c), b)", "-(a @ 300) / on(x) topk(scalar(c @ 300), b @ 300)"),
        ("1 + 2", "1 + 2"),
    ],
)
def test_every_selector_outside_of_a_subquery_gets_a_time(query: str, expected: str):
    assert pinned(parse(query), 300_000) == parse(expected)


@pytest.mark.parametrize("query", ["time()", "predict_linear(a[5m], 1)", "sum(timestamp(a))", "-hour(a) + 1"])
def test_what_depends_on_the_time_is_not_asked_from_elsewhere(query: str):
    assert variants(query, 300_000) == []


def test_a_function_of_time_inside_of_a_subquery_is_fixed_with_it():
    assert len(variants("max_over_time(vector(time())[5m:1m])", 300_000)) == 5


def test_the_times_are_far_apart():
    assert asked_from(300_000) == [-3_000_000, 0, 60_000, 300_000, 3_000_000]
    assert asked_from(0) == [-1000, 0, 1000]
