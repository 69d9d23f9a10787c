"""Memory for large results, used again when nobody holds the former result any more.

The system gives fresh pages of zeros, and to touch them takes as long as to decode into them: a third of the
time of a query over thousands of series.
"""

import sys
from threading import Lock

import numpy as np

from db.nan import FloatArray

# Smaller arrays the C library keeps by itself.
_LEAST_BYTES = 1 << 18
# What is kept beyond what is in use; a reader has to stay under 300 MB.
_KEPT_BYTES = 96 << 20
# How much larger than what is wanted a kept array may be.
_ROOM = 4
# References to an array that nobody else holds: the list's, and the one that getrefcount makes.
_UNUSED = 2


class Scratch:
    """Safe for threads. An array that it gave is free again when it and everything that shares its memory
    (slices, views) are gone."""

    def __init__(self, kept_bytes: int = _KEPT_BYTES) -> None:
        self._kept_bytes = kept_bytes
        self._kept: list[FloatArray] = []
        self._lock = Lock()

    def empty(self, shape: tuple[int, int]) -> FloatArray:
        """float64[shape]; what is in it means nothing."""
        size = shape[0] * shape[1]
        if not _LEAST_BYTES <= size * 8 <= self._kept_bytes:
            return np.empty(shape)
        with self._lock:
            fitting = [at for at in self._unused() if size <= self._kept[at].size <= size * _ROOM]
            if not fitting:
                self._kept.append(np.empty(size))
                self._forget()
                fitting = [len(self._kept) - 1]
            # numpy makes the owner the base of every view of a view, too.
            return self._kept[fitting[-1]][:size].reshape(shape)

    def _unused(self) -> list[int]:
        return [at for at in range(len(self._kept)) if sys.getrefcount(self._kept[at]) == _UNUSED]

    def _forget(self) -> None:
        """Of all but the newest: the oldest that are not in use, until the rest is within bounds."""
        unused = self._unused()[:-1]
        while unused and sum(owner.nbytes for owner in self._kept) > self._kept_bytes:
            del self._kept[unused.pop(0)]
            unused = [at - 1 for at in unused]
