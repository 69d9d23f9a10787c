"""The labels of many series, by column: some 40 bytes a series, where a tuple of texts takes a thousand, and
what a table or a query needs of labels is then done for all series at once."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, overload

import numpy as np
import numpy.typing as npt

from db.labels import Labels
from db.nan import IntArray

CodeArray = npt.NDArray[np.int32]


@dataclass(frozen=True, slots=True, eq=False)
class Column:
    """One label of many series. codes: int32[series], places in `texts`, -1 where a series lacks the label.
    texts: without repetitions and without "", which means that the label is absent."""

    codes: CodeArray
    texts: Sequence[str]

    @classmethod
    def of(cls, texts: Sequence[str | None]) -> "Column":
        """One text a series; None or "" where the label is absent."""
        places: dict[str, int] = {}
        codes = [places.setdefault(text, len(places)) if text else -1 for text in texts]
        return cls(np.array(codes, dtype=np.int32), list(places))

    def take(self, rows: IntArray) -> "Column":
        return Column(self.codes[rows], self.texts)

    def get(self) -> list[str]:
        """The text of each series, "" where the label is absent."""
        texts = [*self.texts, ""]
        return [texts[code] for code in self.codes.tolist()]


class SeriesSet(Sequence[Labels]):
    """Labels of series, in a fixed order."""

    def __init__(self, labels: Sequence[Sequence[Sequence[str]]]) -> None:
        """labels: of each series the pairs of name and text."""
        self._count = len(labels)
        self._columns = _columns_of(labels)
        self._taken: tuple[IntArray, SeriesSet] | None = None

    def __len__(self) -> int:
        return self._count

    @overload
    def __getitem__(self, index: int) -> Labels: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Labels]: ...
    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return [self[row] for row in range(*index.indices(self._count))]
        if not -self._count <= index < self._count:
            raise IndexError(index)
        codes = ((name, column, column.codes[index]) for name, column in self._columns.items())
        return tuple(sorted((name, column.texts[code]) for name, column, code in codes if code >= 0))

    def __iter__(self) -> Iterator[Labels]:
        texts = [(name, self._columns[name].get()) for name in sorted(self._columns)]
        for row in range(self._count):
            yield tuple([(name, column[row]) for name, column in texts if column[row]])

    def take(self, rows: IntArray) -> "SeriesSet":
        """Some of the series; the same object when the same are taken again, so that what others remember of
        it stays true."""
        if len(rows) == self._count and bool((rows == np.arange(self._count)).all()):
            return self
        held = self._taken
        if held is not None and np.array_equal(held[0], rows):
            return held[1]
        some = SeriesSet(())
        some._count = len(rows)
        some._columns = {name: column.take(rows) for name, column in self._columns.items()}
        self._taken = (rows, some)
        return some

    def extended(self, labels: Sequence[Labels]) -> "SeriesSet":
        """With further series behind the last."""
        more = SeriesSet(labels)
        names = dict.fromkeys([*self._columns, *more._columns])
        found = SeriesSet(())
        found._count = self._count + len(labels)
        found._columns = {
            name: stacked([(one._columns.get(name), one._count) for one in (self, more)]) for name in names
        }
        return found

    def columns(self) -> dict[str, Column]:
        """Label name -> its column; names in order of first appearance. Not to be changed by the caller."""
        return self._columns


def _columns_of(labels: Sequence[Sequence[Sequence[str]]]) -> dict[str, Column]:
    # Most series of a metric have the same label names: then each is a column of texts at once.
    shapes: dict[tuple[str, ...], list[int]] = {}
    for row, pairs in enumerate(labels):
        shapes.setdefault(tuple([pair[0] for pair in pairs]), []).append(row)
    places: dict[str, dict[str, int]] = {}
    codes: dict[str, CodeArray] = {}
    for names, rows in shapes.items():
        for number, name in enumerate(names):
            if name not in places:
                places[name], codes[name] = {}, np.full(len(labels), -1, dtype=np.int32)
            known = places[name]
            codes[name][rows] = [known.setdefault(labels[row][number][1], len(known)) for row in rows]
    return {name: Column(codes[name], list(known)) for name, known in places.items()}


def stacked(columns: Sequence[tuple[Column | None, int]]) -> Column:
    """Columns of one label with their numbers of series, one below the other; None where no series has it."""
    places: dict[str, int] = {}
    codes = []
    for column, count in columns:
        if column is None:
            codes.append(np.full(count, -1, dtype=np.int32))
            continue
        known = [places.setdefault(text, len(places)) for text in column.texts]
        # One place more for -1, which is a place from the end.
        codes.append(np.array([*known, -1], dtype=np.int32)[column.codes])
    return Column(np.concatenate(codes), list(places))
