"""Which series a list of matchers means, remembered while no series are forgotten."""

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field
from threading import Lock

import numpy as np
from sqlalchemy import Connection

from db.block_read import Membership, find_members
from db.head import SlotPlan, wanted_slots
from db.labels import Labels
from db.nan import IntArray
from db.records import Matcher
from db.series_match import match_series, satisfies
from db.series_set import SeriesSet
from db.series_text import load_labels, load_series
from db.store_state import StoreState

# Labels and places take some 150 bytes a series: the cache stays within a reader's budget of memory.
_SERIES_REMEMBERED = 500_000
_SELECTIONS = 256
# So many new series are looked at one by one; for more all series are matched again.
_FEW_NEW = 4_096


@dataclass(slots=True)
class Selection:
    """ids: int64[series], ascending; series: their labels in that order. known_to: the id that the next new
    series had when it was made."""

    ids: IntArray
    series: SeriesSet
    known_to: int
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
    """Remembers selections, and adds to them the series that are new; safe for threads."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._epoch = -1
        self._selections: OrderedDict[tuple[Matcher, ...], Selection] = OrderedDict()
        self._series = 0
        self._new: tuple[tuple[int, int], dict[int, Labels]] = ((0, 0), {})

    def find(self, connection: Connection, state: StoreState, matchers: Sequence[Matcher]) -> Selection:
        """The series that satisfy every matcher as of the connection's snapshot. Raises BadMatcher."""
        key = tuple(matchers)
        with self._lock:
            held = self._selections.get(key) if state.series_epoch == self._epoch else None
            if held is not None:
                self._selections.move_to_end(key)
        if held is not None and held.known_to >= state.next_series_id:
            return held
        if held is not None and state.next_series_id - held.known_to <= _FEW_NEW:
            found = self._with_new(connection, state, matchers, held)
        else:
            ids = match_series(connection, matchers)
            found = Selection(ids, load_series(connection, ids), state.next_series_id)
        self._keep(key, found, state.series_epoch)
        return found

    def _with_new(
        self, connection: Connection, state: StoreState, matchers: Sequence[Matcher], held: Selection
    ) -> Selection:
        span = held.known_to, state.next_series_id
        remembered = self._new  # other threads may put another in its place at any moment
        if remembered[0] != span:
            remembered = self._new = span, load_labels(connection, np.arange(*span, dtype=np.int64))
        recent = remembered[1]
        new = [series_id for series_id, labels in sorted(recent.items()) if satisfies(labels, matchers)]
        if not new:  # the same object: what others remember of it stays true
            held.known_to = state.next_series_id
            return held
        series = held.series.extended([recent[series_id] for series_id in new])
        ids = np.concatenate([held.ids, np.array(new, dtype=np.int64)])
        return Selection(ids, series, state.next_series_id)

    def _keep(self, key: tuple[Matcher, ...], found: Selection, epoch: int) -> None:
        with self._lock:
            if epoch > self._epoch:
                self._epoch = epoch
                self._selections.clear()
                self._series = 0
            if epoch != self._epoch:
                return
            before = self._selections.pop(key, None)
            if before is not None:
                self._series -= len(before.ids)
                if before.known_to > found.known_to:  # by a reader of a later snapshot
                    found = before
            if len(found.ids) > _SERIES_REMEMBERED:
                return
            self._series += len(found.ids)
            self._selections[key] = found
            while self._series > _SERIES_REMEMBERED or len(self._selections) > _SELECTIONS:
                _, dropped = self._selections.popitem(last=False)
                self._series -= len(dropped.ids)
