"""Packed postings hold what was put in, in the shortest of their forms; runs are sets."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from db.id_runs import runs_of, united
from db.nan import IntArray
from db.postings import pack, unpack

# (first, step, how many): arrays, runs and bitmaps come of them.
RANGES = st.tuples(st.integers(0, 65_535), st.integers(1, 9), st.sampled_from([1, 2, 50, 3_000, 65_536]))


def drawn(ranges: list[tuple[int, int, int]]) -> IntArray:
    parts = [np.arange(first, min(first + step * count, 65_536), step) for first, step, count in ranges]
    return np.unique(np.concatenate([np.empty(0, dtype=np.int64), *parts]))


@settings(deadline=None)
@given(st.dictionaries(st.integers(0, 5), st.lists(RANGES, max_size=3), max_size=3))
def test_blobs_give_back_the_ids_of_every_group(ranges: dict[int, list[tuple[int, int, int]]]) -> None:
    groups = {group: drawn(ranges[group]) for group in sorted(ranges)}
    keys = runs_of(np.concatenate([drawn([]), *(group << 17 | ids for group, ids in groups.items())]))
    places, blobs = pack(keys)
    assert places.tolist() == [group for group, ids in groups.items() if len(ids)]
    for place, blob in zip(places.tolist(), blobs, strict=True):
        assert np.array_equal(united(*unpack([blob], np.array([0]))).ids(), groups[place])
    if blobs:
        together = united(*unpack(blobs, places << 17))
        assert np.array_equal(together.first, keys.first)
        assert np.array_equal(together.last, keys.last)


@pytest.mark.parametrize(
    ("ids", "kind", "size"),
    [
        ([7], 1, 3),
        (range(0, 600, 3), 1, 401),
        (range(65_536), 2, 5),
        ([*range(100), *range(200, 300)], 2, 9),
        (range(0, 65_536, 2), 3, 8_193),
        ([number for number in range(65_536) if number % 7], 3, 8_193),
    ],
)
def test_the_shortest_form_is_chosen(ids, kind: int, size: int) -> None:
    _, (blob,) = pack(runs_of(np.array(ids)))
    assert (blob[0], len(blob)) == (kind, size)


SMALL = st.sets(st.integers(0, 40))


@given(SMALL, SMALL)
def test_runs_are_sets(one: set[int], other: set[int]) -> None:
    first, second = (runs_of(np.array(list(ids), dtype=np.int64)) for ids in (one, other))
    assert first.size == len(one)
    assert first.ids().tolist() == sorted(one)
    assert first.intersect(second).ids().tolist() == sorted(one & other)
    assert first.subtract(second).ids().tolist() == sorted(one - other)
    both = united(np.append(first.first, second.first), np.append(first.last, second.last))
    assert both.ids().tolist() == sorted(one | other)
    assert (both.first[1:] > both.last[:-1] + 1).all()


def test_long_runs_and_short_ones_give_the_same_ids() -> None:
    long = runs_of(np.r_[5:1_005, 2_000:9_000])
    assert long.ids().tolist() == [*range(5, 1_005), *range(2_000, 9_000)]
