"""Which series a list of matchers means, remembered while no series are added or forgotten."""

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field
from threading import Lock

import numpy as np
from sqlalchemy import Connection

from db.block_read import Membership, find_members
from db.head import SlotPlan, wanted_slots
from db.index import load_labels, match_series
from db.labels import Labels
from db.nan import IntArray
from db.records import Matcher
from db.series_set import SeriesSet
from db.store_state import StoreState

# Labels take some 1 kB a series: the cache stays within a reader's budget of memory.
_SERIES_REMEMBERED = 60_000
_SELECTIONS = 256


@dataclass(slots=True)
class Selection:
    """ids: int64[series], ascending; series: their labels in that order."""

    ids: IntArray
    series: SeriesSet
    _places: "tuple[int, SlotPlan, list[Membership]] | None" = field(default=None)

    def slots(self, connection: Connection, state: StoreState) -> SlotPlan:
        """Where the series are in dense rows."""
        return self._placed(connection, state)[1]

    def members(self, connection: Connection, state: StoreState) -> list[Membership]:
        """Which bundles the series are in."""
        return self._placed(connection, state)[2]

    def _placed(self, connection: Connection, state: StoreState) -> tuple[int, SlotPlan, list[Membership]]:
        held = self._places
        if held is None or held[0] != state.places_version:
            plan = SlotPlan.of(wanted_slots(connection, self.ids))
            held = self._places = (state.places_version, plan, find_members(connection, self.ids))
        return held


class Selections:
    """Remembers selections and labels; safe for threads."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._version = (-1, -1)
        self._selections: OrderedDict[tuple[Matcher, ...], Selection] = OrderedDict()
        self._series = 0
        self._labels: dict[int, Labels] = {}

    def find(self, connection: Connection, state: StoreState, matchers: Sequence[Matcher]) -> Selection:
        """The series that satisfy every matcher as of the connection's snapshot. Raises BadMatcher."""
        version = (state.series_epoch, state.next_series_id)
        key = tuple(matchers)
        with self._lock:
            if version == self._version and (held := self._selections.get(key)) is not None:
                self._selections.move_to_end(key)
                return held
        ids = match_series(connection, matchers)
        found = Selection(ids, SeriesSet(self.labels(connection, ids)))
        with self._lock:
            if version > self._version:
                self._version = version
                self._selections.clear()
                self._series = 0
            if version == self._version and len(ids) <= _SERIES_REMEMBERED:
                self._selections[key] = found
                self._series += len(ids)
                while self._series > _SERIES_REMEMBERED or len(self._selections) > _SELECTIONS:
                    _, dropped = self._selections.popitem(last=False)
                    self._series -= len(dropped.ids)
        return found

    def labels(self, connection: Connection, ids: IntArray) -> list[Labels]:
        """Labels of the series; an id never gets other labels, so that what is known stays true."""
        held = self._labels  # other threads may swap in another dict at any moment
        wanted = ids.tolist()
        missing = [series_id for series_id in wanted if series_id not in held]
        if missing:
            if len(held) + len(missing) > _SERIES_REMEMBERED:
                held = {}
                missing = wanted
            loaded = load_labels(connection, np.array(missing, dtype=np.int64))
            held = {**held, **loaded}
            if len(held) <= _SERIES_REMEMBERED:
                self._labels = held
        return [held[series_id] for series_id in wanted]
