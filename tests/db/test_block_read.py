"""What is remembered of a block's rows belongs to those who asked for them."""

import numpy as np
import pytest

from db.block_cache import BlockCache
from db.block_format import BadBlock, PackRows, pack
from db.block_read import Fetched, Membership, decode
from db.codec import encode_values
from db.nan import FloatArray, IntArray

TIMES = {0: np.arange(0, 500, 10), 1: np.arange(5, 400, 10)}


def a_block() -> bytes:
    """Six rows, the even ones with the times of lane 0, each of its place's numbers."""
    parts = []
    for lane, times in TIMES.items():
        places = np.arange(lane, 6, 2)
        coded, special = encode_values(numbers(places, times), None)
        parts.append(PackRows(places, np.full(len(places), lane), coded, special))
    return pack(parts, 1)


def numbers(places: IntArray, times: IntArray) -> FloatArray:
    return places[:, None] * 1000.0 + np.arange(len(times))


def fetched(
    cache: BlockCache, member: Membership, times: dict[int, IntArray], data: bytes | None = None
) -> Fetched:
    held = cache._blocks.find([1]).get(1) or data or a_block()
    vectors = {(7, lane): vector for lane, vector in times.items()}
    return Fetched({3: member}, [(1, 3, 1, 7)], {1: held}, [], vectors, {7: 3}, cache)


def members(places: list[int], first_id: int) -> Membership:
    return Membership(3, np.array(places), np.array(places) + first_id)


def test_each_member_gets_its_own_rows_of_a_block_that_is_held() -> None:
    cache = BlockCache()
    one, other, none = members([0, 3, 4], 10), members([1, 3], 20), members([9], 30)
    for member in (one, one, other, one, none, other):
        held = {}
        for piece in decode(fetched(cache, member, TIMES).rows()):
            for series_id, row in zip(piece.ids.tolist(), piece.values, strict=True):
                held[series_id] = (piece.timestamps.tolist(), row.tolist())
        wanted = {}
        for place, series_id in zip(member.places.tolist(), member.ids.tolist(), strict=True):
            if place < 6:
                times = TIMES[place % 2]
                wanted[series_id] = (times.tolist(), numbers(np.array([place]), times)[0].tolist())
        assert held == wanted


@pytest.mark.parametrize("times", [{0: TIMES[0]}, {0: TIMES[0], 1: TIMES[1][:-1]}, {}])
def test_times_that_do_not_fit_are_damage_however_often_they_are_read(times: dict[int, IntArray]) -> None:
    cache = BlockCache()
    member = members([0, 1], 10)
    assert fetched(cache, member, TIMES).rows()
    for _ in range(2):
        with pytest.raises(BadBlock, match="timestamps are missing"):
            fetched(cache, member, times).rows()


def test_rows_of_one_target_with_different_lengths_are_damage() -> None:
    parts = []
    for place, count in enumerate((50, 40)):
        coded, special = encode_values(numbers(np.array([place]), TIMES[0][:count]), None)
        parts.append(PackRows(np.array([place]), np.zeros(1, dtype=np.int64), coded, special))
    data = pack(parts, 1)
    for count in (50, 40):
        found = fetched(BlockCache(), members([0, 1], 10), {0: TIMES[0][:count]}, data)
        with pytest.raises(BadBlock, match="timestamps are missing"):
            found.rows()
