"""Decides which series are stored together, for good: a bundle is up to 64 series of one metric, a group the
bundles of some targets, which therefore share their timestamps.

A series keeps its place as long as it lives, so that its blocks are found by one lookup; places of series
that ended are not given to others.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from sqlalchemy import Connection, Engine

from db.engine import driver, reading, writing
from db.index import load_labels
from db.labels import METRIC_NAME
from db.nan import IntArray
from db.store_state import places_changed

BUNDLE_SERIES = 64  # as many as a set of places has bits
# Targets of some hundred metrics with a few series each have to come together by the dozen to fill bundles.
GROUP_SERIES = 32_768
_GROUP_UNITS = 64
# Inserting this many members takes some ten milliseconds: as long as a scrape's commit may wait.
_ASSIGNED_AT_ONCE = 2_048

_PLACES = (
    "SELECT m.series_id, m.bundle_id, m.place, b.group_id FROM bundle_member AS m "
    "JOIN bundle AS b ON b.id = m.bundle_id "
    "WHERE m.series_id IN (SELECT value FROM json_each(?)) ORDER BY m.series_id, m.bundle_id"
)
_COUNT_PLACED = (
    "SELECT count(DISTINCT series_id) FROM bundle_member WHERE series_id IN (SELECT value FROM json_each(?))"
)
_NEXT_GROUP = "SELECT coalesce(max(group_id), 0) + 1 FROM bundle"
_OF_GROUP = "SELECT metric, id, size FROM bundle WHERE group_id = ? ORDER BY id"
_NEXT_BUNDLE = "SELECT coalesce(max(id), 0) + 1 FROM bundle"
_PUT_BUNDLE = "INSERT OR REPLACE INTO bundle (id, group_id, metric, size) VALUES (?, ?, ?, ?)"
_ADD_MEMBER = "INSERT OR IGNORE INTO bundle_member (series_id, bundle_id, place) VALUES (?, ?, ?)"


@dataclass(frozen=True, slots=True)
class Places:
    """Where series are stored; all int64[series], in the order of the ids that were asked for."""

    bundle: IntArray
    place: IntArray
    group: IntArray


@dataclass(slots=True)
class _OpenGroup:
    group_id: int
    series: int = 0
    units: int = 0


@dataclass(slots=True)
class Placer:
    """Gives series their places; one for each process that writes blocks.

    open: by pace, the group that takes new series. Targets of very different pace do not share one.
    """

    open: dict[int, _OpenGroup] = field(default_factory=dict)

    def place(self, engine: Engine, units: Sequence[tuple[IntArray, int]]) -> Places:
        """Places of all series of the units, one after another; series that have none get one.

        units: (sorted ids of series that share their timestamps, number of timestamps).
        """
        ids = np.concatenate([unit for unit, _ in units])
        with reading(engine) as connection:
            known = _find(connection, ids)
        missing = known.bundle < 0
        if not missing.any():
            return known
        at, todo = 0, []
        for unit, length in units:
            mine = slice(at, at + len(unit))
            at += len(unit)
            if missing[mine].any():
                groups = known.group[mine][~missing[mine]]
                home = int(np.bincount(groups).argmax()) if len(groups) else None
                todo.append((unit[missing[mine]], length, home))
        self._assign(engine, todo)
        with reading(engine) as connection:
            return _find(connection, ids)

    def _assign(self, engine: Engine, todo: Sequence[tuple[IntArray, int, int | None]]) -> None:
        parts = [
            (ids[first : first + _ASSIGNED_AT_ONCE], length, home)
            for ids, length, home in todo
            for first in range(0, len(ids), _ASSIGNED_AT_ONCE)
        ]
        while parts:
            with writing(engine) as connection:
                joining: dict[int, list[IntArray]] = {}
                series = 0
                while parts and series + len(parts[0][0]) <= _ASSIGNED_AT_ONCE:
                    ids, length, home = parts.pop(0)
                    series += len(ids)
                    group_id = self._open_group(connection, len(ids), length) if home is None else home
                    joining.setdefault(group_id, []).append(ids)
                for group_id, members in joining.items():
                    _join(connection, group_id, np.concatenate(members))

    def _open_group(self, connection: Connection, series: int, length: int) -> int:
        pace = length.bit_length()
        group = self.open.get(pace)
        full = group is None or group.units >= _GROUP_UNITS or group.series + series > GROUP_SERIES
        if group is None or (full and group.series):
            # Other open groups may not have a bundle yet, so that the table alone does not know them.
            stored = int(connection.exec_driver_sql(_NEXT_GROUP).scalar_one())
            held = max((item.group_id for item in self.open.values()), default=0)
            group = self.open[pace] = _OpenGroup(max(stored, held + 1))
        group.series += series
        group.units += 1
        return group.group_id


def _find(connection: Connection, ids: IntArray) -> Places:
    """-1 where a series has no place; of several the newest."""
    rows = driver(connection).execute(_PLACES, (json.dumps(np.unique(ids).tolist()),)).fetchall()
    if not rows:
        return Places(*np.full((3, len(ids)), -1, dtype=np.int64))
    table = np.array(rows, dtype=np.int64)
    table = table[np.append(table[1:, 0] != table[:-1, 0], True)]  # the last of each series
    at = np.minimum(np.searchsorted(table[:, 0], ids), len(table) - 1)
    known = table[at, 0] == ids
    return Places(*(np.where(known, table[at, column], -1) for column in (1, 2, 3)))


def places_kept(connection: Connection, ids: IntArray) -> bool:
    """Do all these series (distinct) still have a place? Retention takes it from those without samples."""
    found = connection.exec_driver_sql(_COUNT_PLACED, (json.dumps(ids.tolist()),))
    return int(found.scalar_one()) == len(ids)


def _join(connection: Connection, group_id: int, ids: IntArray) -> None:
    """Give each of the series a place in a bundle of its metric, unless another process did so meanwhile."""
    labels = load_labels(connection, ids)
    placed = {row[0] for row in connection.exec_driver_sql(_PLACES, (json.dumps(ids.tolist()),))}
    newest = {row[0]: [row[1], row[2]] for row in connection.exec_driver_sql(_OF_GROUP, (group_id,))}
    next_bundle = int(connection.exec_driver_sql(_NEXT_BUNDLE).scalar_one())
    bundles: dict[int, tuple[int, int, str, int]] = {}
    members = []
    for series_id in ids.tolist():
        if series_id in placed or series_id not in labels:  # the latter: retention has forgotten it
            continue
        metric = dict(labels[series_id]).get(METRIC_NAME, "")
        held = newest.get(metric)
        if held is None or held[1] == BUNDLE_SERIES:
            held = newest[metric] = [next_bundle, 0]
            next_bundle += 1
        members.append((series_id, held[0], held[1]))
        held[1] += 1
        bundles[held[0]] = (held[0], group_id, metric, held[1])
    if not members:
        return
    connection.exec_driver_sql(_PUT_BUNDLE, list(bundles.values()))
    connection.exec_driver_sql(_ADD_MEMBER, members)
    places_changed(connection)
