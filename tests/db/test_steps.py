"""The value at each step is that of the newest sample within the lookback, wherever samples are stored."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from db.block_format import Block, PackRows, pack
from db.block_read import FoundRows, decode
from db.codec import encode_values
from db.nan import ABSENT, ABSENT_BITS, STALE, IntArray, is_absent
from db.pieces import Piece, assemble
from db.steps import at_steps
from tests.db.store_model import EVERYTHING, KINDS, StoreModel, bits_of, some_values

IDS = np.arange(1, 9)


def a_block(
    random: np.random.Generator, number: int, ids: IntArray, lanes: dict[int, IntArray], kind: str
) -> FoundRows:
    lane_of = random.choice(list(lanes), len(ids))
    rows = []
    for lane in np.unique(lane_of).tolist():
        mine = np.flatnonzero(lane_of == lane)
        values = some_values(kind, random, (len(mine), len(lanes[lane])))
        if random.random() < 0.4:
            values = np.where(random.random(values.shape) < 0.3, ABSENT, values)
        absent = is_absent(values)
        coded, special = encode_values(values, absent if absent.any() else None)
        rows.append(PackRows(ids[mine], np.full(len(mine), lane), coded, special))
    block = Block(pack(rows, 1))
    used = {lane: times for lane, times in lanes.items() if lane in block.lanes}
    return FoundRows(block, np.arange(block.rows), block.places.astype(np.int64), number, number, used)


def some_source(random: np.random.Generator, number: int) -> Piece | FoundRows:
    ids = IDS[random.random(len(IDS)) < 0.5]
    ids = ids if len(ids) else IDS[:1]
    kind = str(random.choice(KINDS))
    begin = int(random.integers(0, 1_000))

    def times() -> IntArray:
        return begin + np.cumsum(random.integers(1, 40, int(random.integers(1, 40))))

    if random.random() < 0.5:
        return a_block(random, number, ids, {lane: times() for lane in range(3)}, kind)
    at = times()
    values = some_values(kind, random, (len(ids), len(at)))
    values = np.where(random.random(values.shape) < random.choice((0.0, 0.3)), ABSENT, values)
    return Piece(ids, at, values, np.full(len(at), number))


def check(sources: list[Piece | FoundRows], grid: IntArray, lookback: int) -> None:
    pieces = [source for source in sources if isinstance(source, Piece)]
    found = [source for source in sources if isinstance(source, FoundRows)]
    model = StoreModel()
    for whole in assemble([*pieces, *decode(found)]):
        for series_id, values in zip(whole.ids.tolist(), whole.values, strict=True):
            points = zip(whole.timestamps.tolist(), bits_of(values), strict=True)
            key = (("id", str(series_id)),)
            model.samples[key] = {at: bits for at, bits in points if bits != ABSENT_BITS}
    step = int(grid[1] - grid[0]) if len(grid) > 1 else 1
    expected = model.at_steps(EVERYTHING, int(grid[0]), int(grid[-1]), step, lookback)
    values = at_steps(IDS, pieces, found, grid, lookback)
    for series_id, row in zip(IDS.tolist(), values, strict=True):
        assert bits_of(row) == expected.get((("id", str(series_id)),), [ABSENT_BITS] * len(grid))


@settings(max_examples=300, deadline=None)
@given(st.integers(0, 1 << 30), st.integers(0, 6), st.integers(1, 90), st.sampled_from((1, 30, 200, 5_000)))
def test_any_mix_of_head_and_blocks(seed: int, count: int, step: int, lookback: int) -> None:
    random = np.random.default_rng(seed)
    sources = [some_source(random, number + 1) for number in range(count)]
    begin = int(random.integers(-100, 1_500))
    check(sources, begin + np.arange(int(random.integers(1, 60))) * step, lookback)


def test_series_without_samples_do_not_hide_that_others_overlap() -> None:
    random = np.random.default_rng(1)
    early = a_block(random, 1, np.array([1]), {0: np.array([0, 100])}, "small")
    late = a_block(random, 2, np.array([1]), {0: np.array([50])}, "small")
    check([early, late], np.arange(0, 200, 10), 1_000)


def test_blocks_whose_lanes_begin_at_different_times() -> None:
    random = np.random.default_rng(2)
    # The first block begins earlier, but not for the series that the second holds too.
    values = some_values("small", random, (2, 2))
    rows = [
        PackRows(np.array([lane + 1]), np.array([lane]), *encode_values(values[lane : lane + 1], None))
        for lane in range(2)
    ]
    block = Block(pack(rows, 1))
    lanes = {0: np.array([100, 110]), 1: np.array([0, 10])}
    first = FoundRows(block, np.arange(2), block.places.astype(np.int64), 1, 1, lanes)
    second = a_block(random, 2, np.array([1]), {0: np.array([50, 60])}, "small")
    check([first, second], np.arange(0, 200, 5), 1_000)


def test_a_series_that_ended_has_no_value_until_it_comes_back() -> None:
    piece = Piece(np.array([1]), np.array([0, 10, 30]), np.array([[1.0, STALE, 2.0]]), np.arange(3))
    values = at_steps(np.array([1]), [piece], [], np.arange(0, 50, 10), 1_000)
    assert is_absent(values).tolist() == [[False, True, True, False, False]]


def test_the_lookback_is_open_at_its_far_end() -> None:
    piece = Piece(np.array([1]), np.array([0]), np.array([[1.0]]), np.arange(1))
    values = at_steps(np.array([1]), [piece], [], np.array([0, 99, 100]), 100)
    assert is_absent(values).tolist() == [[False, False, True]]
