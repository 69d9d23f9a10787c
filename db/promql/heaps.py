"""Which of equal values topk and bottomk keep: that depends on how Prometheus's heap comes to lie (it is Go's
container/heap), so here are the same heaps, of many groups and steps at once.

A cell is one group at one step. A heap has the usual order: the children of place i are at 2 i + 1 and
2 i + 2, and the root, at 0, is what a better key replaces. All heaps lie in one matrix with a row for each
place, and NumPy reads that twice as fast by one index, place * cells + cell, as by two.
"""

import numpy as np

from db.nan import BoolArray, FloatArray, IntArray

# Members of all cells that are compared with the roots at once: a better root spares the rest the comparison.
_COMPARED, _FEWEST = 1 << 14, 8


def kept(keys: FloatArray, there: BoolArray | None, k: int) -> IntArray:
    """int64[cells, k]: the members that are in the heap at the end, when they come in their order. The
    smallest keys are kept, NaN as the last choice. keys: float64[cells, members]; there: bool of the same
    shape, more than k of them in each cell."""
    # Values that tie are mostly such as do not change from step to step.
    new = np.ones(len(keys), dtype=np.bool_)
    new[1:] = (keys[1:] != keys[:-1]).any(axis=1)
    if there is not None:
        new[1:] |= (there[1:] != there[:-1]).any(axis=1)
    if new.all():
        return _kept(keys, there, k)
    once = _kept(keys[new], None if there is None else there[new], k)
    found: IntArray = once[np.cumsum(new) - 1]
    return found


def _kept(keys: FloatArray, there: BoolArray | None, k: int) -> IntArray:
    cells, members = keys.shape
    if there is None:
        places = np.broadcast_to(np.arange(k), (cells, k))
    else:
        places = np.nonzero(there & (np.cumsum(there, axis=1) <= k))[1].reshape(cells, k)
    heaps = _Heaps(k, cells)
    every = np.arange(cells)
    for size in range(k):
        heaps.push(size, keys[every, places[:, size]], places[:, size])
    # What comes after the k-th one; NaN replaces nothing.
    left = ~np.isnan(keys)
    if there is not None:
        left &= there
    left &= np.arange(members) > places[:, -1:]
    width = max(_FEWEST, _COMPARED // cells)
    for start in range(k, members, width):
        some = slice(start, start + width)
        heaps.offer(keys[:, some], left[:, some], start)
    return heaps.members.reshape(k, cells).T


class _Heaps:
    """keys: float64[k * cells]. members: int64[k * cells], whose they are."""

    def __init__(self, k: int, cells: int) -> None:
        self.keys = np.empty(k * cells)
        self.members = np.empty(k * cells, dtype=np.int64)
        self._k, self._cells = k, cells

    def push(self, size: int, keys: FloatArray, members: IntArray) -> None:
        """Into heaps of this size, one member each."""
        child = np.arange(size * self._cells, (size + 1) * self._cells)
        self.keys[child], self.members[child] = keys, members
        while size:
            above = (size - 1) // 2
            parent = child - (size - above) * self._cells
            held = self.keys[parent]
            rises = np.flatnonzero(_above(keys, held))
            if not len(rises):
                return
            child, parent, keys, members = child[rises], parent[rises], keys[rises], members[rises]
            self.keys[child], self.keys[parent] = held[rises], keys
            self.members[child], self.members[parent] = self.members[parent], members
            child, size = parent, above

    def offer(self, keys: FloatArray, left: BoolArray, start: int) -> None:
        """Full heaps take what is better than their root. keys: float64[cells, some members], of which the
        first is member `start`; left: which of them may come. A root only gets better: what it has refused
        once need not be asked again."""
        cells = np.arange(self._cells)
        while True:
            wanted = left & ~(keys >= self.keys[cells, None])  # any number is better than NaN
            first = wanted.argmax(axis=1)
            some = np.flatnonzero(wanted[np.arange(len(cells)), first])
            if not len(some):
                return
            if len(some) < len(cells):
                cells, keys, first = cells[some], keys[some], first[some]
            left = wanted[some]
            index = np.arange(len(cells))
            left[index, first] = False
            self._replace(cells, keys[index, first], first + start)

    def _replace(self, cells: IntArray, keys: FloatArray, members: IntArray) -> None:
        """The roots of these heaps by others, which sink to where they belong."""
        self.keys[cells], self.members[cells] = keys, members
        last = (self._k - 1) * self._cells + cells
        parent = cells
        while True:
            # Of place * cells + cell, twice the place plus one.
            child = 2 * parent - cells + self._cells
            inside = np.flatnonzero(child <= last)
            if not len(inside):
                return
            if len(inside) < len(cells):
                cells, keys, members = cells[inside], keys[inside], members[inside]
                parent, child, last = parent[inside], child[inside], last[inside]
            other = np.minimum(child + self._cells, last)
            rising, further = self.keys[child], self.keys[other]
            second = _above(further, rising)
            child, rising = np.where(second, other, child), np.where(second, further, rising)
            sinks = np.flatnonzero(_above(rising, keys))
            if len(sinks) < len(cells):
                cells, keys, members = cells[sinks], keys[sinks], members[sinks]
                parent, child, last, rising = parent[sinks], child[sinks], last[sinks], rising[sinks]
            self.keys[parent], self.keys[child] = rising, keys
            self.members[parent], self.members[child] = self.members[child], members
            parent = child


def _above(keys: FloatArray, others: FloatArray) -> BoolArray:
    """Is a key nearer to the root than another? NaN is, even than NaN: so Prometheus has it."""
    return (keys > others) | np.isnan(keys)
