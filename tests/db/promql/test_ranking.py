"""Which of many equal series topk and bottomk choose."""

import numpy as np
import pytest

from db.labels import labels_from
from db.promql import heaps, ranking
from db.promql.aggregate import aggregate
from db.promql.ast import Aggregate, Number
from db.promql.table import SeriesTable
from db.promql.vector import Vector
from tests.db.promql.heap_reference import chosen
from tests.db.promql.operands import NAN, Row, assert_same, at_step, context_of, selector, steps_of, vector_of

STEPS = 30


def tied(seed: int, share: float) -> list[Row]:
    """Series of three groups, not in the order of their labels, with few different values."""
    rng = np.random.default_rng(seed)
    rows: list[Row] = []
    for number in rng.permutation(45).tolist():
        values = rng.choice([0.0, -0.0, 1.0, 2.0, 3.0, NAN], STEPS).tolist()
        there = rng.random(STEPS) < share
        held = [value if here else None for value, here in zip(values, there, strict=True)]
        rows.append(({"__name__": "m", "g": "xyz"[min(number // 6, 2)], "i": f"{number * 7 % 45:02}"}, held))
    return rows


@pytest.mark.parametrize("op", ["topk", "bottomk"])
@pytest.mark.parametrize("share", [1.0, 0.7])
@pytest.mark.parametrize(("at_once", "cells"), [(1, 1 << 13), (1 << 22, 7)])
def test_of_equal_ones_those_of_prometheus_heap_in_the_order_of_labels(
    op, share, at_once, cells, monkeypatch
):
    monkeypatch.setattr(ranking, "_AT_ONCE", at_once)
    monkeypatch.setattr(ranking, "_CELLS", cells)
    rows = tied(3, share)
    limits = np.resize([2.0, 5.0, 0.0, 1.0, 7.0, 4.0], STEPS)
    context = context_of(STEPS, {"x": vector_of(rows, STEPS), "k": limits.tolist()})
    found = aggregate(context, Aggregate(op, selector("x"), selector("k"), ("g",), False))
    wanted = []
    for step, k in enumerate(limits.astype(int).tolist()):
        held: dict = {}
        for group in "xyz":
            samples = sorted(pair for pair in at_step(rows, step) if ("g", group) in pair[0])
            held |= dict(chosen(op, k, samples))
        wanted.append(held)
    assert_same(steps_of(found), wanted)


def test_without_a_tie_at_the_border_no_heap_is_asked(monkeypatch):
    def kept(*_: object) -> None:
        raise AssertionError("a heap for a choice that is clear")

    monkeypatch.setattr(ranking, "kept", kept)
    for values, k in (([3, 3, 2, 1], 2), ([3, 2, NAN, NAN], 2), ([5, 5], 2), ([5, None, 5], 2)):
        rows: list[Row] = [({"i": str(i)}, [value]) for i, value in enumerate(values)]
        context = context_of(1, {"x": vector_of(rows, 1)})
        found = aggregate(context, Aggregate("topk", selector("x"), Number(float(k)), (), False))
        assert len(found.table) == 2


def test_a_heap_is_only_asked_where_the_choice_is_open(monkeypatch):
    cells = []

    def kept(keys, there, k):
        cells.append(len(keys))
        return heaps.kept(keys, there, k)

    monkeypatch.setattr(ranking, "kept", kept)
    values = np.array([[1.0, 1.0, 1.0], [1.0, 2.0, 1.0], [1.0, 3.0, NAN]])
    table = SeriesTable.of([labels_from({"i": text}) for text in "cba"])
    context = context_of(3, {"x": Vector(table, values)})
    found = aggregate(context, Aggregate("topk", selector("x"), Number(2.0), (), False))
    assert cells == [1]
    kept_there = [{dict(labels)["i"] for labels in step} for step in steps_of(found)]
    assert kept_there == [{"a", "b"}, {"a", "b"}, {"b", "c"}]
