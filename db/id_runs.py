"""Sets of series ids as runs of consecutive ids: a condition that a million series meet is a handful of runs.

Set operations cost what the runs cost, not the ids, and never sort ids.
"""

from dataclasses import dataclass

import numpy as np

from db.nan import IntArray

# Runs longer than this on average are filled one by one, which is what memory costs; shorter ones together.
_LONG_RUN = 64
_LEAST, _MOST = np.iinfo(np.int64).min, np.iinfo(np.int64).max


@dataclass(frozen=True, slots=True)
class Runs:
    """int64[n] each: run i is first[i]..last[i], both included; ascending, and never touching one another."""

    first: IntArray
    last: IntArray

    @property
    def size(self) -> int:
        """How many ids."""
        return int((self.last - self.first).sum()) + len(self.first)

    def ids(self) -> IntArray:
        """Every id, ascending: int64[size]."""
        total = self.size
        if len(self.first) == 1:
            return np.arange(self.first[0], self.last[0] + 1)
        ends = np.cumsum(self.last - self.first + 1)
        if total >= _LONG_RUN * len(ends):
            ids = np.empty(total, dtype=np.int64)
            at = 0
            for first, last, end in zip(self.first.tolist(), self.last.tolist(), ends.tolist(), strict=True):
                ids[at:end] = np.arange(first, last + 1)
                at = end
            return ids
        ids = np.ones(total, dtype=np.int64)
        ids[0] = self.first[0]
        ids[ends[:-1]] = self.first[1:] - self.last[:-1]
        return np.cumsum(ids, out=ids)

    def intersect(self, other: "Runs") -> "Runs":
        if len(other.first) < len(self.first):
            return other.intersect(self)
        begin = np.searchsorted(other.last, self.first, side="left")
        counts = np.searchsorted(other.first, self.last, side="right") - begin
        np.maximum(counts, 0, out=counts)
        mine = np.repeat(np.arange(len(counts)), counts)
        theirs = np.arange(len(mine)) + (begin - (np.cumsum(counts) - counts))[mine]
        return Runs(
            np.maximum(self.first[mine], other.first[theirs]), np.minimum(self.last[mine], other.last[theirs])
        )

    def subtract(self, other: "Runs") -> "Runs":
        if len(other.first) == 0:
            return self
        gaps = Runs(np.append(_LEAST, other.last + 1), np.append(other.first - 1, _MOST))
        return self.intersect(gaps)


NOTHING = Runs(np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64))


def runs_of(ids: IntArray) -> Runs:
    """The runs of ids in any order, repeated or not."""
    ids = _ascending(ids)
    return _joined(ids, ids)


def united(first: IntArray, last: IntArray) -> Runs:
    """The union of runs in any order, overlapping or not."""
    return _joined(_ascending(first), _ascending(last))


def _ascending(numbers: IntArray) -> IntArray:
    in_order = len(numbers) < 2 or bool(np.all(numbers[1:] > numbers[:-1]))
    return numbers if in_order else np.sort(numbers)


def _joined(first: IntArray, last: IntArray) -> Runs:
    """Sorted apart: what began before first[i + 1] has all ended when the i-th end lies before it."""
    if len(first) == 0:
        return NOTHING
    apart = np.flatnonzero(first[1:] > last[:-1] + 1)
    return Runs(first[np.append(0, apart + 1)], last[np.append(apart, len(last) - 1)])
