"""The labels of many series, as a sequence and by column: the columns are what a table of them needs, and
making them takes longer than reading the samples, so that they are made once."""

from collections.abc import Iterator, Sequence
from typing import Any, overload

import numpy as np
import numpy.typing as npt

from db.labels import Labels
from db.nan import IntArray


class SeriesSet(Sequence[Labels]):
    """Labels of series, in a fixed order."""

    def __init__(self, labels: Sequence[Labels]) -> None:
        self._labels = labels
        self._columns: dict[str, npt.NDArray[np.object_]] | None = None

    def __len__(self) -> int:
        return len(self._labels)

    @overload
    def __getitem__(self, index: int) -> Labels: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Labels]: ...
    def __getitem__(self, index: Any) -> Any:
        return self._labels[index]

    def __iter__(self) -> Iterator[Labels]:
        return iter(self._labels)

    def take(self, rows: IntArray) -> "SeriesSet":
        """Some of the series; what was made of the columns goes along."""
        if len(rows) == len(self._labels) and bool((rows == np.arange(len(rows))).all()):
            return self
        some = SeriesSet([self._labels[row] for row in rows.tolist()])
        if self._columns is not None:
            some._columns = {name: values[rows] for name, values in self._columns.items()}
        return some

    def columns(self) -> dict[str, npt.NDArray[np.object_]]:
        """Label name -> object[series], None where a series has no such label; names in order of first
        appearance. Not to be changed by the caller."""
        if self._columns is None:
            columns: dict[str, npt.NDArray[np.object_]] = {}
            for row, labels in enumerate(self._labels):
                for name, value in labels:
                    if name not in columns:
                        columns[name] = np.full(len(self._labels), None, dtype=object)
                    columns[name][row] = value
            self._columns = columns
        return self._columns
