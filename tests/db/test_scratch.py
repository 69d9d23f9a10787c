"""Memory is used again only when nothing shares it any more."""

import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import chain
from typing import Any

import numpy as np
import pandas as pd
import pytest

from db.scratch import Scratch

SHAPE = (1_000, 1_000)


class Own(np.ndarray):
    """numpy does not make the owner the base of what is seen through another class."""


def iterator_of(values: np.ndarray) -> Any:
    rows = iter(values)
    next(rows)
    return rows


def traceback_of(values: np.ndarray) -> Any:
    try:
        raise ValueError(len(values))
    except ValueError as error:
        return error


HOLDERS: dict[str, Callable[[np.ndarray], Any]] = {
    "a scalar view": lambda values: values[3, 4, ...],
    "a memoryview": lambda values: memoryview(values)[2:3],
    "bytes of a memoryview": lambda values: np.frombuffer(memoryview(values).cast("B"), dtype=np.uint64),
    "broadcast": lambda values: np.broadcast_to(values[:1], SHAPE),
    "a subclass": lambda values: values.view(Own)[5:].T,
    "a masked array": lambda values: np.ma.masked_less(values, 0.0, copy=False)[2:],
    "another dtype": lambda values: values.view(np.uint64)[::3],
    "the interface": lambda values: np.asarray(memoryview(values.T)),
    "a flat iterator": lambda values: values.flat,
    "an iterator of rows": iterator_of,
    "out=": lambda values: np.add(values, 0.0, out=values),
    "a DataFrame": lambda values: pd.DataFrame(values.T, copy=False),
    "part of a DataFrame": lambda values: pd.DataFrame(values.T, copy=False).iloc[3:5],
    "a list of views": lambda values: list(values[:3]),
    "a cycle": lambda values: (held := [values], held.append(held)),
    "an error": traceback_of,
}


def address(values: np.ndarray) -> int:
    return values.__array_interface__["data"][0]


def test_memory_is_used_again_when_its_holder_is_gone() -> None:
    scratch = Scratch()
    first = scratch.empty(SHAPE)
    where = address(first)
    del first
    assert address(scratch.empty((500, 1_500))) == where


def test_what_still_has_a_view_is_left_alone() -> None:
    scratch = Scratch()
    first = scratch.empty(SHAPE)
    first.fill(1.0)
    some = first[3:7].T[::2]
    del first
    second = scratch.empty(SHAPE)
    second.fill(2.0)
    assert (some == 1.0).all()
    assert not np.shares_memory(some, second)


def test_two_at_a_time_are_two() -> None:
    scratch = Scratch()
    one, other = scratch.empty(SHAPE), scratch.empty(SHAPE)
    assert not np.shares_memory(one, other)


def test_no_more_is_kept_than_allowed() -> None:
    scratch = Scratch(kept_bytes=20_000_000)
    held = [scratch.empty(SHAPE) for _ in range(5)]
    assert len({address(one) for one in held}) == 5
    held.clear()
    scratch.empty((1_100, 1_000))
    assert sum(one.nbytes for one in scratch._kept) <= 20_000_000
    assert scratch.empty((10_000, 1_000)).base is None  # too large to be kept at all


def test_small_arrays_are_not_kept() -> None:
    scratch = Scratch()
    scratch.empty((10, 10))
    assert scratch._kept == []


@pytest.mark.parametrize("holder", HOLDERS)
def test_what_is_held_in_any_way_is_left_alone(holder: str) -> None:
    scratch = Scratch()
    first = scratch.empty(SHAPE)
    first.fill(1.0)
    where = address(first)
    held = HOLDERS[holder](first)
    del first
    assert address(scratch.empty(SHAPE)) != where
    del held


def test_what_a_pickle_or_a_copy_took_along_is_free_again() -> None:
    scratch = Scratch()
    first = scratch.empty(SHAPE)
    where = address(first)
    taken = first.tobytes(), first.copy(), first + 1
    del first
    assert address(scratch.empty(SHAPE)) == where
    assert len(taken) == 3


def test_threads_never_share_an_array() -> None:
    scratch = Scratch(kept_bytes=8_000_000)
    before = sys.getswitchinterval()
    sys.setswitchinterval(before / 100)

    def work(number: int) -> list[int]:
        spoilt = []
        for turn in range(150):
            mine = scratch.empty((100 + number, 400 + turn))
            mine.fill(number)
            part = mine[turn % 100 :, ::3]
            del mine
            if not (part == number).all():
                spoilt.append(turn)
        return spoilt

    try:
        with ThreadPoolExecutor(6) as pool:
            spoilt = list(chain.from_iterable(pool.map(work, range(6))))
    finally:
        sys.setswitchinterval(before)
    assert spoilt == []
    assert sum(one.nbytes for one in scratch._kept) <= 8_000_000
