"""Ties of topk and bottomk against a plain heap, member after member."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from db.promql import heaps
from db.promql.heaps import kept
from tests.db.promql.heap_reference import chosen
from tests.db.promql.operands import INF, NAN

FEW = [0.0, -0.0, 1.0, 2.0, 3.0, NAN, INF, -INF]


@st.composite
def cells(draw: st.DrawFn) -> tuple[int, np.ndarray, np.ndarray | None]:
    """k, keys, there: more than k in each cell."""
    k = draw(st.integers(1, 6))
    members = draw(st.integers(k + 1, 40))
    count = draw(st.integers(1, 4))
    values = st.lists(st.sampled_from(FEW), min_size=members, max_size=members)
    keys = np.array(draw(st.lists(values, min_size=count, max_size=count)))
    if draw(st.booleans()):
        return k, keys, None
    there = np.zeros(keys.shape, dtype=bool)
    for row in there:
        present = draw(st.lists(st.integers(0, members - 1), min_size=k + 1, unique=True))
        row[present] = True
    return k, keys, there


@given(cells())
def test_the_heaps_hold_what_one_heap_after_the_other_holds(case):
    k, keys, there = case
    found = kept(keys, there, k)
    for cell, row in enumerate(keys.tolist()):
        group = [(place, value) for place, value in enumerate(row) if there is None or there[cell, place]]
        assert sorted(found[cell].tolist()) == sorted(place for place, _ in chosen("bottomk", k, group))


def test_large_heaps_over_many_blocks(monkeypatch):
    monkeypatch.setattr(heaps, "_COMPARED", 1)
    rng = np.random.default_rng(5)
    keys = rng.integers(0, 12, (3, 400)).astype(float)
    keys[rng.random(keys.shape) < 0.1] = NAN
    for k in (1, 2, 37, 100, 399):
        found = kept(keys, None, k)
        for cell, row in enumerate(keys.tolist()):
            wanted = sorted(place for place, _ in chosen("bottomk", k, list(enumerate(row))))
            assert sorted(found[cell].tolist()) == wanted


def test_a_better_one_puts_out_the_first_of_two_equal_ones():
    assert sorted(kept(np.array([[-1.0, -1.0, -3.0]]), None, 2)[0].tolist()) == [1, 2]
