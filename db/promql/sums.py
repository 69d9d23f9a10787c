"""Sums as Prometheus adds: with Kahan's and Neumaier's compensation, and over one window's samples only.

Source: prometheus/prometheus, util/kahansum. What an addition lost is found without a comparison (Knuth's
TwoSum); it is the same number.
"""

from collections.abc import Callable, Sequence

import numpy as np

from db.nan import FloatArray, IntArray
from db.promql.blocks import CELLS, Block

# Terms of sums: of the samples at `places` (int64[k], or a slice of so many), which belong to `windows` (so
# many, or one). Each float64[series or 1, k].
Terms = Callable[[IntArray | slice, slice], Sequence[FloatArray]]
# Shorter windows are always added in the order of time, which gives the very bits that Prometheus has.
_LONG = 256
_FOLDS = 16  # calls that a window costs beside its samples when it is summed on its own


class Sum:
    """Sums that run side by side. total: float64[series or 1, k]; lost: what it lacks, of the same shape."""

    def __init__(self, shape: tuple[int, ...]) -> None:
        self.total = np.zeros(shape)
        self.lost = np.zeros(shape)
        self._next = np.empty(shape)
        self._part = np.empty(shape)

    def add(self, values: FloatArray) -> None:
        """values: float64[series or 1, some], for the first so many sums."""
        width = values.shape[-1]
        total, following, part = (held[..., :width] for held in (self.total, self._next, self._part))
        np.add(total, values, out=following)
        np.subtract(following, total, out=part)  # what of the values arrived
        missing = values - part
        np.subtract(following, part, out=part)  # what of the total is still there
        np.subtract(total, part, out=part)
        part += missing
        self.lost[..., :width] += part
        if width == self.total.shape[-1]:
            self.total, self._next = self._next, self.total
        else:
            total[...] = following

    def folded(self) -> "Sum":
        """All of a row as one sum."""
        total, lost = self.total, self.lost
        while (width := total.shape[-1]) > 1:
            half = (width + 1) // 2
            kept = Sum((*total.shape[:-1], half))
            kept.total[...], kept.lost[...] = total[..., :half], lost[..., :half]
            kept.add(total[..., half:])
            kept.lost[..., : width - half] += lost[..., half:]
            total, lost = kept.total, kept.lost
        folded = Sum(total.shape)
        folded.total, folded.lost = total, lost
        return folded

    def value(self) -> FloatArray:
        """The sums; where one is infinite, nothing is known of what it lost."""
        return np.where(np.isinf(self.total), self.total, self.total + self.lost)


def increased(total: FloatArray, lost: FloatArray, values: FloatArray) -> tuple[FloatArray, FloatArray]:
    """One addition to running sums whose value is needed each time."""
    following, missing = two_sum(total, values)
    missing += lost
    missing[np.isinf(following)] = 0.0
    return following, missing


def two_sum(one: FloatArray, other: FloatArray) -> tuple[FloatArray, FloatArray]:
    """The sum and what it lacks: NaN where the sum is infinite."""
    total = one + other
    arrived = total - one
    return total, (one - (total - arrived)) + (other - arrived)


def is_long(block: Block) -> bool:
    """Are its windows few and long, so that each is better worked on for itself?"""
    longest = int(block.count.max(initial=0))
    return longest > _LONG and longest > len(block.count) * (longest // _lanes(block) + _FOLDS)


def sums(block: Block, terms: Terms) -> list[Sum]:
    """The sums of each term over every window, the windows with the longest first; each for (series or 1,
    windows)."""
    if is_long(block):
        return _one_by_one(block, terms)
    found: list[Sum] = []
    for places in block.rounds():
        _add(found, terms(places, slice(0, len(places))))
    return found


def sum_of_values(block: Block) -> Sum:
    """The sum over every window, the windows with the longest first; for (series, windows)."""
    values = block.values
    longest = int(block.count.max(initial=0))
    if longest > _LONG and int(block.count.sum()) > 2 * longest.bit_length() * values.shape[1]:
        return _of_shared_pieces(block)

    def terms(places: IntArray | slice, _: slice) -> Sequence[FloatArray]:
        return (values[:, places] if isinstance(places, slice) else values.take(places, axis=1),)

    return sums(block, terms)[0]


def _of_shared_pieces(block: Block) -> Sum:
    """Long windows that overlap are put together from the sums of 1, 2, 4, ... samples that they share."""
    found = Sum(block.shape)
    total, lost = block.values, np.zeros(block.values.shape)
    place, size, longest = block.first.copy(), 1, int(block.count.max())
    while True:
        windows = np.flatnonzero(block.count & size)
        found.total[:, windows], missing = two_sum(
            found.total[:, windows], total.take(place[windows], axis=1)
        )
        found.lost[:, windows] += missing + lost.take(place[windows], axis=1)
        place[windows] += size
        if longest < 2 * size:
            return found
        total, missing = two_sum(total[:, :-size], total[:, size:])
        missing += lost[:, :-size]
        missing += lost[:, size:]
        lost, size = missing, 2 * size


def _one_by_one(block: Block, terms: Terms) -> list[Sum]:
    lanes = _lanes(block)
    rows = []
    for window, (first, count) in enumerate(zip(block.first.tolist(), block.count.tolist(), strict=True)):
        row: list[Sum] = []
        for start in range(first, first + count, lanes):
            places = slice(start, min(start + lanes, first + count))
            _add(row, terms(places, slice(window, window + 1)))
        rows.append([one.folded() for one in row])
    found = []
    for several in zip(*rows, strict=True):
        whole = Sum((several[0].total.shape[0], len(several)))
        whole.total = np.concatenate([one.total for one in several], axis=-1)
        whole.lost = np.concatenate([one.lost for one in several], axis=-1)
        found.append(whole)
    return found


def _lanes(block: Block) -> int:
    return max(1, CELLS // len(block.values))


def _add(found: list[Sum], terms: Sequence[FloatArray]) -> None:
    if not found:
        found += [Sum(term.shape) for term in terms]
    for one, term in zip(found, terms, strict=True):
        one.add(term)
