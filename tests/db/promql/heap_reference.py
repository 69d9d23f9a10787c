"""topk and bottomk as Prometheus has them: one sample after another, over the heap of Go's container/heap."""

import math
from collections.abc import Sequence
from typing import Any


class Heap:
    """Of pairs, a member and its value. The root is what goes next: of topk the smallest, of bottomk the
    largest."""

    def __init__(self, op: str) -> None:
        self.op = op
        self.held: list[tuple[Any, float]] = []

    def less(self, i: int, j: int) -> bool:
        one, other = self.held[i][1], self.held[j][1]
        if math.isnan(one):
            return True
        return one < other if self.op == "topk" else one > other

    def swap(self, i: int, j: int) -> None:
        self.held[i], self.held[j] = self.held[j], self.held[i]

    def up(self, j: int) -> None:
        while True:
            i = (j - 1) // 2 if j else 0
            if i == j or not self.less(j, i):
                return
            self.swap(i, j)
            j = i

    def down(self, i: int, n: int) -> None:
        while 2 * i + 1 < n:
            j = 2 * i + 1
            if j + 1 < n and self.less(j + 1, j):
                j += 1
            if not self.less(j, i):
                return
            self.swap(i, j)
            i = j

    def push(self, pair: tuple[Any, float]) -> None:
        self.held.append(pair)
        self.up(len(self.held) - 1)

    def pop(self) -> None:
        self.swap(0, len(self.held) - 1)
        self.down(0, len(self.held) - 1)
        self.held.pop()


def chosen(
    op: str, k: int, group: Sequence[tuple[Any, float]], *, old: bool = False
) -> list[tuple[Any, float]]:
    """What is left of a group's samples, which are given in the order of their series; in no order. old: by
    Prometheus before 2.44, which took the root out before it put the next one in, and replaced NaN by NaN."""
    if k < 1:
        return []
    heap = Heap(op)
    for pair in group:
        if len(heap.held) < k:
            heap.push(pair)
            continue
        root, value = heap.held[0][1], pair[1]
        better = root < value if op == "topk" else root > value
        if not better and not (math.isnan(root) and (old or not math.isnan(value))):
            continue
        if old and k > 1:
            heap.pop()
            heap.push(pair)
        else:
            heap.held[0] = pair
            heap.down(0, k)
    return heap.held
