"""The label sets of many series, by column: what PromQL does with labels (group, drop, match) is then done
for all series at once, and for a selection that is asked again it is remembered."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar, cast
from weakref import WeakKeyDictionary, ref

import numpy as np

from db.labels import METRIC_NAME, Labels
from db.nan import IntArray
from db.series_set import CodeArray, Column, SeriesSet, stacked

__all__ = ["CodeArray", "Column", "Groups", "SeriesTable", "numbered"]

Found = TypeVar("Found")
# Combined codes stay below this; beyond it they are numbered anew.
_LARGEST_KEY = 1 << 62
_REMEMBERED = 64
_ITSELF = object()
# What no longer holds of a value that was computed.
_OF_THE_METRIC = (METRIC_NAME, "__type__", "__unit__")


@dataclass(frozen=True, slots=True, eq=False)
class Groups:
    """Which series belong together. number: int64[series], 0 <= number < count, in the order of first
    appearance. first: int64[count], a series of each group."""

    number: IntArray
    first: IntArray

    @property
    def count(self) -> int:
        return len(self.first)


class SeriesTable:
    """Immutable: every operation gives a new table. A label that no series has may be a column or not."""

    def __init__(self, count: int, columns: dict[str, Column]) -> None:
        self.count = count
        self.columns = columns
        self._memory: dict[object, object] = {}
        self._taken: tuple[IntArray, SeriesTable] | None = None

    def __len__(self) -> int:
        return self.count

    @classmethod
    def of(cls, series: Sequence[Labels]) -> "SeriesTable":
        """The table of a SeriesSet is made once."""
        if not isinstance(series, SeriesSet):
            series = SeriesSet(series)
        held = _tables.get(series)
        if held is None:
            held = _tables[series] = cls(len(series), series.columns())
        return held

    @classmethod
    def single(cls) -> "SeriesTable":
        """One series without labels."""
        return cls(1, {})

    @classmethod
    def joined(cls, tables: Sequence["SeriesTable"]) -> "SeriesTable":
        """The series of all tables, one below the other."""
        if len(tables) == 1:
            return tables[0]
        names = dict.fromkeys(name for table in tables for name in table.columns)
        return cls(
            sum(map(len, tables)),
            {name: stacked([(table.columns.get(name), len(table)) for table in tables]) for name in names},
        )

    def take(self, rows: IntArray) -> "SeriesTable":
        """Some of the series, in the order of rows; the same object when the same are taken again."""
        if len(rows) == self.count and bool((rows == np.arange(self.count)).all()):
            return self
        held = self._taken
        if held is not None and np.array_equal(held[0], rows):
            return held[1]
        some = SeriesTable(len(rows), {name: column.take(rows) for name, column in self.columns.items()})
        self._taken = (rows, some)
        return some

    def keep(self, names: Sequence[str]) -> "SeriesTable":
        """Only these labels."""
        chosen = frozenset(names)
        return self._only(("keep", chosen), lambda name: name in chosen)

    def drop(self, names: Sequence[str]) -> "SeriesTable":
        """All labels but these."""
        dropped = frozenset(names)
        if dropped.isdisjoint(self.columns):
            return self
        return self._only(("drop", dropped), lambda name: name not in dropped)

    def nameless(self) -> "SeriesTable":
        """Without the metric's name, and what OpenMetrics says of it."""
        return self.drop(_OF_THE_METRIC)

    def with_column(self, name: str, column: Column) -> "SeriesTable":
        """With this label instead of what it was."""
        return SeriesTable(self.count, {**self.columns, name: column})

    def column(self, name: str) -> Column:
        """A label's column; all absent where no series has it."""
        found = self.columns.get(name)
        return Column(np.full(self.count, -1, dtype=np.int32), ()) if found is None else found

    def groups(self) -> Groups:
        """Series with equal labels."""
        return self.remembered("groups", self._groups)

    def distinct(self) -> bool:
        """Has every series labels of its own?"""
        return self.groups().count == self.count

    def labels(self, row: int) -> Labels:
        """One series' labels, sorted."""
        pairs = [
            (name, column.texts[column.codes[row]])
            for name, column in self.columns.items()
            if column.codes[row] >= 0
        ]
        return tuple(sorted(pairs))

    def rows(self) -> Iterator[Labels]:
        """All series' labels, each sorted by name."""
        texts = {name: self.columns[name].get() for name in sorted(self.columns)}
        for row in range(self.count):
            yield tuple((name, column[row]) for name, column in texts.items() if column[row])

    def remembered(self, key: object, make: Callable[[], Found]) -> Found:
        """What was made of this table before, or made now and kept with it. key: a tuple with weak references
        to other tables where it was made of these, too: it is kept no longer than they are."""
        # Other threads may clear it at any moment. A table that held itself would outlive its use.
        found = self._memory.get(key)
        if found is None:
            for one in [one for one in list(self._memory) if _of_the_dead(one)]:
                self._memory.pop(one, None)
            if len(self._memory) >= _REMEMBERED:
                self._memory.clear()
            found = make()
            self._memory[key] = _ITSELF if found is self else found
        return cast(Found, self if found is _ITSELF else found)

    def _only(self, key: object, wanted: Callable[[str], bool]) -> "SeriesTable":
        def make() -> SeriesTable:
            columns = {name: column for name, column in self.columns.items() if wanted(name)}
            return SeriesTable(self.count, columns)

        return self.remembered(key, make)

    def __reduce__(self) -> tuple[type["SeriesTable"], tuple[int, dict[str, Column]]]:
        """As it is sent to another process: without what it remembers or texts that it does not use."""
        return SeriesTable, (self.count, {name: _used(column) for name, column in self.columns.items()})

    def _groups(self) -> Groups:
        return numbered([(column.codes, len(column.texts)) for column in self.columns.values()], self.count)


def _of_the_dead(key: object) -> bool:
    return isinstance(key, tuple) and any(isinstance(part, ref) and part() is None for part in key)


_tables: "WeakKeyDictionary[SeriesSet, SeriesTable]" = WeakKeyDictionary()


def _used(column: Column) -> Column:
    """A few series of many still have the texts of all."""
    if len(column.texts) <= len(column.codes):
        return column
    used, codes = np.unique(column.codes, return_inverse=True)
    absent = np.count_nonzero(used < 0)
    texts = [column.texts[code] for code in used[absent:].tolist()]
    return Column((codes.reshape(-1) - absent).astype(np.int32), texts)


def numbered(columns: Sequence[tuple[CodeArray, int]], count: int) -> Groups:
    """Groups of rows with the same codes in every column. columns: codes (int32[count], -1 <= code < size)
    and size."""
    key, span = np.zeros(count, dtype=np.int64), 1
    for codes, size in columns:
        if span * (size + 1) >= _LARGEST_KEY:
            key = np.unique(key, return_inverse=True)[1].reshape(-1)
            span = count + 1
        key, span = key * (size + 1) + (codes + 1), span * (size + 1)
    _, first, number = np.unique(key, return_index=True, return_inverse=True)
    order = np.argsort(first)
    rank = np.empty(len(order), dtype=np.int64)
    rank[order] = np.arange(len(order))
    return Groups(rank[number.reshape(-1)], first[order])
