"""A block gives back any part of what went in; damaged bytes are told or give wrong numbers, and no more."""

import struct
from contextlib import suppress

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from db.block_decode import decode_values
from db.block_format import VERSION, BadBlock, Block
from db.codec import encode_values
from db.nan import ABSENT_BITS
from tests.db.block_shapes import decoded, floats, packed
from tests.db.store_model import bits_of, some_values


def part(values: np.ndarray, absent: np.ndarray | None = None):
    return (values, *encode_values(values, absent))


@settings(max_examples=120, deadline=None)
@given(st.lists(floats(20, 200), min_size=1, max_size=3), st.data())
def test_any_rows_and_columns_of_ragged_parts(parts: list[np.ndarray], data: st.DataObject) -> None:
    random = np.random.default_rng(data.draw(st.integers(0, 1 << 30)))
    block = []
    for values in parts:
        absent = random.random(values.shape) < 0.2
        holed = values.copy()
        holed.view(np.uint64)[absent] = ABSENT_BITS
        block.append(part(holed, absent) if random.random() < 0.5 and absent.any() else part(values))
    stored = packed(block, level=data.draw(st.sampled_from((1, 3))))
    lengths = [values.shape[1] for values in parts for _ in values]
    wanted = np.flatnonzero(random.random(len(lengths)) < random.choice((0.1, 0.6, 1.0)))
    first = int(random.integers(0, max(lengths)))
    end = int(random.integers(first, max(lengths))) + 1
    if not len(wanted):
        return
    back = decoded(stored, wanted, first=first, end=end)
    expected = [row for values, _, _ in block for row in values]
    for row, place in zip(back, wanted.tolist(), strict=True):
        until = max(0, min(end, lengths[place]) - first)
        assert bits_of(row[:until]) == bits_of(expected[place][first:end])


def test_several_blocks_are_decoded_together() -> None:
    random = np.random.default_rng(1)
    kinds = ("counter", "decimals", "some odd", "constant", "bits")
    blocks = [np.concatenate([some_values(kind, random, (3, 50)) for kind in kinds]) for _ in range(4)]
    stored = [Block(packed([part(values)])) for values in blocks]
    rows = [np.flatnonzero(np.isin(block.places, [0, 4, 7, 13])) for block in stored]
    found = decode_values(stored, rows, 10, 40)
    expected = np.concatenate(
        [values[block.places[mine]] for block, values, mine in zip(stored, blocks, rows, strict=True)]
    )
    assert bits_of(found) == bits_of(expected[:, 10:40])


SAMPLE = [
    part(np.arange(2_000.0).reshape(20, 100)),
    part(some_values("some odd", np.random.default_rng(3), (20, 60))),
    part(
        some_values("decimals", np.random.default_rng(4), (10, 60)), np.arange(600).reshape(10, 60) % 7 == 0
    ),
]


def read_all(data: bytes) -> None:
    block = Block(data)
    assert block.rows * block.columns <= 1 << 20, "a damaged block would take this much memory"
    decode_values([block], [np.arange(block.rows)], 0, block.columns)


@settings(max_examples=400, deadline=None)
@given(st.data())
def test_damaged_bytes_do_no_harm(data: st.DataObject) -> None:
    stored = bytearray(packed(SAMPLE))
    for _ in range(data.draw(st.integers(1, 4))):
        # The head, where damage could do most, as often as the rest.
        at = data.draw(st.one_of(st.integers(0, 80), st.integers(0, len(stored) - 1)))
        stored[at] = data.draw(st.integers(0, 255))
    if data.draw(st.booleans()):
        del stored[data.draw(st.integers(0, len(stored))) :]
    with suppress(BadBlock):
        read_all(bytes(stored))


@settings(max_examples=100, deadline=None)
@given(st.binary(max_size=300))
def test_bytes_that_were_never_a_block(data: bytes) -> None:
    with suppress(BadBlock):
        read_all(bytes([VERSION]) + data)


@pytest.mark.parametrize("field", [4, 8, 12, 16])
def test_no_size_in_the_head_is_believed(field: int) -> None:
    stored = bytearray(packed(SAMPLE))
    struct.pack_into("<I", stored, field, 0xFFFFFFF0)
    with pytest.raises(BadBlock):
        read_all(bytes(stored))


def test_a_later_format_is_refused_with_a_sentence() -> None:
    stored = bytearray(packed(SAMPLE))
    stored[0] = VERSION + 1
    with pytest.raises(BadBlock, match=f"its format is {VERSION + 1}, this version reads {VERSION}"):
        Block(bytes(stored))
