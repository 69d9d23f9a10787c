"""Many short pieces as one row of samples: the same as when they are put together one by one."""

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from db.nan import ABSENT, STALE
from db.pieces import Piece, assemble, without_gaps
from db.ragged import ragged

IDS = np.array([2, 3, 5, 7, 11, 13])


def reference(pieces: Sequence[Piece]) -> dict[int, list[tuple[int, bytes]]]:
    found = {}
    for whole in (part for item in assemble(pieces) for part in without_gaps(item)):
        for series_id, values in zip(whole.ids.tolist(), whole.values, strict=True):
            found[series_id] = [
                (at, value.tobytes()) for at, value in zip(whole.timestamps.tolist(), values, strict=True)
            ]
    return found


def random_pieces(seed: int) -> list[Piece]:
    """A turn for each piece, so that they mostly follow each other; in some lists a few have the same."""
    random = np.random.default_rng(seed)
    values_there_are = np.array([1.0, 2.0, ABSENT, STALE, np.nan])
    again = random.choice([0.0, 0.03])
    pieces = []
    for turn in random.permutation(70).tolist():
        if random.random() < again:
            turn = 0
        ids = np.sort(random.choice(IDS, random.integers(1, 4), replace=False))
        width = int(random.integers(1, 4))
        times = turn * 10 + np.arange(width) * random.integers(1, 4)
        values = random.choice(values_there_are, (len(ids), width))
        pieces.append(Piece(ids, times, values, np.arange(width) + turn * 10))
    return pieces


# From one number: to draw each value would take hypothesis longer than it allows.
@settings(max_examples=60, deadline=None)
@given(st.integers(0, 1 << 32).map(random_pieces))
def test_the_same_samples_as_in_rectangles(pieces: list[Piece]) -> None:
    found = ragged(IDS, pieces)
    if found is None:  # overlapping: rectangles then say which sample counts
        spans = [(int(i), int(p.timestamps[0]), int(p.timestamps[-1])) for p in pieces for i in p.ids]
        spans.sort()
        assert any(a[0] == b[0] and b[1] <= a[2] for a, b in pairwise(spans))
        return
    ours = {
        int(IDS[row]): [
            (int(at), value.tobytes())
            for at, value in zip(found.timestamps[a:b], found.values[a:b], strict=True)
        ]
        for row, a, b in zip(found.rows, found.begin, found.begin[1:], strict=False)
    }
    assert {key: samples for key, samples in ours.items() if samples} == reference(pieces)


def test_few_or_long_pieces_stay_rectangles() -> None:
    one = Piece(IDS[:1], np.arange(3), np.ones((1, 3)), np.arange(3))
    assert ragged(IDS, [one]) is None
    long = [Piece(IDS[:1], np.arange(300) + 1_000 * n, np.ones((1, 300)), np.arange(300)) for n in range(100)]
    assert ragged(IDS, long) is None
