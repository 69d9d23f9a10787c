"""Whatever numbers go in, the same bits come out."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from db.codec import RAW, encode_integers, encode_values, from_planes, to_planes
from db.nan import NORMAL, STALE, is_absent
from tests.db.block_shapes import decoded, floats, packed
from tests.db.store_model import KINDS, bits_of, some_values


@settings(max_examples=150, deadline=None)
@given(st.sampled_from(KINDS), st.integers(1, 64), st.integers(1, 600), st.integers(0, 1 << 30))
def test_every_kind_of_values_comes_back_bit_for_bit(kind: str, rows: int, columns: int, seed: int) -> None:
    values = some_values(kind, np.random.default_rng(seed), (rows, columns))
    coded, special = encode_values(values, None)
    back = decoded(packed([(values, coded, special)]), np.arange(rows))
    assert bits_of(back) == bits_of(values)


@settings(max_examples=150, deadline=None)
@given(floats(), st.integers(0, 1 << 30))
def test_holes_stay_holes_and_the_rest_stays(values: np.ndarray, seed: int) -> None:
    random = np.random.default_rng(seed)
    absent = random.random(values.shape) < random.choice((0.05, 0.5, 0.98))
    holed = values.copy()
    holed.view(np.uint64)[absent] = 0x7FF4535452415441
    coded, special = encode_values(holed, absent if absent.any() else None)
    back = decoded(packed([(holed, coded, special)]), np.arange(len(values)))
    assert is_absent(back).tolist() == absent.tolist()
    assert bits_of(back) == bits_of(holed)


@settings(max_examples=100, deadline=None)
@given(st.integers(1, 64), st.integers(1, 300), st.integers(0, 1 << 30), st.integers(0, 63))
def test_integers_of_any_size_come_back(rows: int, columns: int, seed: int, bits: int) -> None:
    random = np.random.default_rng(seed)
    integers = random.integers(-(1 << bits), (1 << bits) - 1, (rows, columns), endpoint=True)
    integers[random.random(rows) < 0.3] = np.sort(integers[0])
    coded = encode_integers(integers)
    assert (
        decoded(packed([(integers, coded, None)]), np.arange(rows), whole=True).tolist() == integers.tolist()
    )


def test_both_ends_of_int64_in_one_row() -> None:
    ends = np.iinfo(np.int64)
    integers = np.array([[ends.min, ends.max, 0, -1, ends.max, ends.min]])
    coded = encode_integers(integers)
    assert decoded(packed([(integers, coded, None)]), np.arange(1), whole=True).tolist() == integers.tolist()


@given(st.integers(1, 8), st.integers(1, 20), st.integers(1, 50), st.integers(0, 1 << 30))
def test_planes_are_undone(width: int, rows: int, columns: int, seed: int) -> None:
    limit = (1 << (8 * width)) - 1
    residuals = np.random.default_rng(seed).integers(0, limit, (rows, columns), np.uint64, endpoint=True)
    planes = [np.frombuffer(plane, np.uint8).reshape(rows, columns) for plane in to_planes(residuals, width)]
    assert from_planes(planes).tolist() == residuals.tolist()


@pytest.mark.parametrize(
    ("values", "bytes_each"),
    [
        (np.full(240, 7.0), 0),  # nothing but the row's head
        (np.arange(240.0) * 15 + 1e9, 0),  # a steady counter is its first value and its pace
        (np.arange(240.0) % 200, 1),
        (61.0 + (np.arange(240) * 7 % 200) / 1000, 1),  # thousandths of a volt
        (np.where(np.arange(240) == 100, STALE, 5.0), 0),  # an exception costs nothing elsewhere
    ],
)
def test_what_exporters_send_takes_few_bytes(values: np.ndarray, bytes_each: int) -> None:
    coded, _ = encode_values(values[None, :], None)
    assert coded.exponent[0] != RAW
    assert coded.width[0] == bytes_each


def test_a_row_of_nans_is_kept_as_bits_not_as_exceptions() -> None:
    coded, special = encode_values(np.full((1, 100), NORMAL), None)
    assert coded.exponent[0] == RAW
    assert len(special.rows) == 0


def test_a_decimal_that_would_not_come_back_is_kept_as_bits() -> None:
    # 0.1 + 0.2 prints as 0.30000000000000004: no power of ten makes an integer of it.
    coded, _ = encode_values(np.array([[0.1 + 0.2, 0.3]]), None)
    assert coded.exponent[0] == RAW
