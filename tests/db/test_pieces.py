"""Pieces of a series from several places make one: of equal timestamps the sample written last."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from db.nan import ABSENT, ABSENT_BITS
from db.pieces import Piece, assemble, columns_of, layers, without_gaps
from tests.db.store_model import bits_of, some_values


def as_samples(pieces) -> dict[int, dict[int, int]]:
    """Id -> timestamp -> bits; fails where a series is in two of them."""
    found: dict[int, dict[int, int]] = {}
    for piece in pieces:
        times = piece.timestamps.tolist()
        assert times == sorted(set(times))
        for series_id, values in zip(piece.ids.tolist(), piece.values, strict=True):
            assert series_id not in found
            points = zip(times, bits_of(values), strict=True)
            found[series_id] = {at: bits for at, bits in points if bits != ABSENT_BITS}
    return {series_id: points for series_id, points in found.items() if points}


def expected(pieces: list[Piece]) -> dict[int, dict[int, int]]:
    samples = [
        (order, series_id, at, bits)
        for piece in pieces
        for series_id, values in zip(piece.ids.tolist(), piece.values, strict=True)
        for order, at, bits in zip(
            piece.order.tolist(), piece.timestamps.tolist(), bits_of(values), strict=True
        )
    ]
    found: dict[int, dict[int, int]] = {}
    for _, series_id, at, bits in sorted(samples):
        if bits != ABSENT_BITS:
            found.setdefault(series_id, {})[at] = bits
    return found


def some_piece(random: np.random.Generator, number: int) -> Piece:
    ids = np.flatnonzero(random.random(8) < 0.5) + 1
    ids = ids if len(ids) else np.array([1])
    times = np.flatnonzero(random.random(12) < random.choice((0.2, 0.9))) + int(random.integers(0, 20))
    times = times if len(times) else np.array([5])
    values = some_values("some odd", random, (len(ids), len(times)))
    if random.random() < 0.5:
        values = np.where(random.random(values.shape) < 0.4, ABSENT, values)
    return Piece(random.permutation(ids), times, values, np.arange(len(times)) + number * 100)


@settings(max_examples=300, deadline=None)
@given(st.integers(0, 1 << 30), st.integers(0, 9))
def test_assembled_series_are_whole_and_the_last_write_wins(seed: int, count: int) -> None:
    random = np.random.default_rng(seed)
    pieces = [some_piece(random, number) for number in range(count)]
    wholes = assemble([pieces[place] for place in random.permutation(count)])
    assert as_samples(wholes) == expected(pieces)
    apart = [part for whole in wholes for part in without_gaps(whole)]
    assert as_samples(apart) == expected(pieces)
    assert ABSENT_BITS not in [bits for part in apart for bits in bits_of(part.values.reshape(-1))]


@settings(max_examples=200, deadline=None)
@given(st.integers(0, 1 << 30), st.integers(1, 30))
def test_columns_in_any_order_become_layers(seed: int, count: int) -> None:
    random = np.random.default_rng(seed)
    times = random.integers(0, 10, count)
    values = some_values("odd", random, (3, count))
    order = random.permutation(count)
    ids = np.array([1, 2, 3])
    found = layers(ids, times, values, order)
    assert all(bool((np.diff(piece.timestamps) > 0).all()) for piece in found)
    assert sum(len(piece.timestamps) for piece in found) == count
    single = [Piece(ids, times[[i]], values[:, [i]], order[[i]]) for i in range(count)]
    assert as_samples(assemble(found)) == expected(single)


@settings(max_examples=200, deadline=None)
@given(st.integers(0, 1 << 30), st.integers(1, 60))
def test_single_samples_become_pieces(seed: int, count: int) -> None:
    random = np.random.default_rng(seed)
    ids, times = random.integers(1, 6, count), random.integers(0, 8, count)
    values = some_values("odd", random, (count,))
    # One row: what comes later in it wins.
    found = columns_of(ids, times, values, np.full(count, 7))
    kept = {(i, t): b for i, t, b in zip(ids.tolist(), times.tolist(), bits_of(values), strict=True)}
    assert {(i, t): b for i, points in as_samples(found).items() for t, b in points.items()} == kept


def test_a_piece_is_cut_with_both_ends() -> None:
    piece = Piece(np.array([1]), np.array([10, 20, 30]), np.array([[1.0, 2.0, 3.0]]), np.array([1, 2, 3]))
    assert piece.between(31, 99) is None
    assert piece.between(0, 9) is None
    assert piece.between(0, 99) is piece
    inside = piece.between(20, 30)
    assert inside is not None
    assert inside.timestamps.tolist() == [20, 30]
    assert inside.values.tolist() == [[2.0, 3.0]]
    assert inside.order.tolist() == [2, 3]
