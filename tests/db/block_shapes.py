"""Blocks of any shape for tests, and their numbers back."""

from collections.abc import Sequence

import numpy as np
from hypothesis import strategies as st

from db.block_decode import decode_integers, decode_values
from db.block_format import Block, PackRows, pack
from db.codec import NOTHING_SPECIAL, Coded, Special
from db.nan import FloatArray, IntArray
from tests.db.store_model import KINDS, some_values


@st.composite
def floats(draw, max_rows: int = 64, max_columns: int = 600) -> FloatArray:
    """float64[rows, columns] whose rows are of several kinds."""
    rows, columns = draw(st.integers(1, max_rows)), draw(st.integers(1, max_columns))
    random = np.random.default_rng(draw(st.integers(0, 1 << 30)))
    kinds = draw(st.lists(st.sampled_from(KINDS), min_size=1, max_size=4))
    parts = [some_values(kinds[row % len(kinds)], random, (1, columns)) for row in range(rows)]
    return np.concatenate(parts)


def packed(parts: Sequence[tuple[np.ndarray, Coded, Special | None]], level: int = 1) -> bytes:
    """A block of the parts, their rows at places 0, 1, ... and in a lane of their own each."""
    rows, place = [], 0
    for lane, (values, coded, special) in enumerate(parts):
        places = np.arange(place, place + len(values))
        rows.append(PackRows(places, np.full(len(values), lane), coded, special or NOTHING_SPECIAL))
        place += len(values)
    return pack(rows, level)


def decoded(data: bytes, places: IntArray, *, whole: bool = False, first: int = 0, end: int | None = None):
    """The values at these places, in their order; whole: the integers. [first, end): of these columns."""
    block = Block(data)
    rows = np.flatnonzero(np.isin(block.places, places))
    until = block.columns if end is None else end
    if whole:
        found = decode_integers([block], [rows], first, until)[0]
    else:
        found = decode_values([block], [rows], first, until)
    return found[np.argsort(block.places[rows])[np.argsort(np.argsort(places))]]
