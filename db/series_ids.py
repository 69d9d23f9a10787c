"""The ids of series that this process writes again and again, so that only the first time costs a look-up."""

from collections.abc import Sequence

import numpy as np
from sqlalchemy import Connection

from db.index import intern_series
from db.labels import Labels
from db.nan import IntArray
from db.store_state import read_state

# Some 300 bytes each where the labels are also held by who writes them; beyond it all are looked up again.
_KNOWN = 100_000


class SeriesIds:
    """Ids are remembered once the transaction that gave them has committed: `begin`, `of` ..., `keep`."""

    def __init__(self, known: int = _KNOWN) -> None:
        self._limit = known
        self._known: dict[Labels, int] = {}
        self._given: dict[Labels, int] = {}
        self._epoch = -1

    def begin(self) -> None:
        """A new transaction; what the last one gave counts no more unless it was kept."""
        self._given.clear()

    def of(self, connection: Connection, series: Sequence[Labels]) -> IntArray:
        """Ids of the series, int64[len(series)], inside the caller's write transaction."""
        epoch = read_state(connection).series_epoch
        if epoch != self._epoch:  # some were forgotten, and their ids mean nothing any more
            self._known.clear()
            self._given.clear()
            self._epoch = epoch
        found = list(map(self._known.get, series))
        if None in found:
            missing = [place for place, series_id in enumerate(found) if series_id is None]
            given = intern_series(connection, [series[place] for place in missing]).tolist()
            for place, series_id in zip(missing, given, strict=True):
                found[place] = self._given[series[place]] = series_id
        return np.array(found, dtype=np.int64)

    def keep(self) -> None:
        """The transaction has committed."""
        if len(self._known) + len(self._given) > self._limit:
            self._known.clear()
        if len(self._given) <= self._limit:
            self._known.update(self._given)
        self._given.clear()
