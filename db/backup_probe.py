"""Reads a few series straight from the rows of a samples file, by a way that shares nothing with the store's
own reading but the format of its bytes: what both agree on is what was stored."""

import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from db.backup_counts import tables
from db.block_decode import decode_integers, decode_values
from db.block_format import Block
from db.index import decode_labels
from db.labels import Labels
from db.nan import ABSENT_BITS

_VALUE_BYTES = 8
_HOUR_MS = 3_600_000
# (order of writing, position in the row, timestamp, bits of the value)
_Sample = tuple[int, int, int, int]


@dataclass(frozen=True, slots=True)
class Probe:
    """One series over one hour, both ends included. points: timestamp (ms) -> bits of the value."""

    labels: Labels
    start_ms: int
    end_ms: int
    points: dict[int, int]


def probe_series(database: sqlite3.Connection, count: int) -> list[Probe]:
    """Up to `count` series, spread evenly over all there are: the last hour in which each has samples, and an
    hour from where a block in the middle of its time begins. Series without samples are left out."""
    present = tables(database)
    ids = [row[0] for row in database.execute("SELECT id FROM series ORDER BY id")]
    chosen = (
        [ids[at] for at in sorted({int(at) for at in np.linspace(0, len(ids) - 1, count)})] if ids else []
    )
    sparse = _sparse(database, chosen)
    probes = []
    for series_id in chosen:
        (text,) = database.execute("SELECT labels FROM series WHERE id = ?", (series_id,)).fetchone()
        for end in _hours(database, series_id, sparse[series_id], present):
            start = end - _HOUR_MS
            found = sorted(_samples(database, series_id, start, end, sparse[series_id], present))
            points = {at: bits for _, _, at, bits in found}  # of one timestamp, the one written last stays
            probes.append(Probe(decode_labels(text), start, end, points))
    return probes


def _hours(
    database: sqlite3.Connection, series_id: int, sparse: list[_Sample], present: set[str]
) -> list[int]:
    """Where the hours to be read end."""
    starts, ends = [], [at for _, _, at, _ in sparse]
    query = (
        "SELECT max(ts) FROM layout_slot JOIN head_dense USING (layout_id) WHERE series_id = ? "
        "GROUP BY layout_id"
    )
    ends += [row[0] for row in database.execute(query, (series_id,))]
    if "block" in present:
        query = (
            "SELECT start_ms, end_ms FROM bundle_member JOIN block USING (bundle_id) "
            "WHERE series_id = ? ORDER BY start_ms"
        )
        for start, end in database.execute(query, (series_id,)):
            starts.append(start)
            ends.append(end)
    if not ends:
        return []
    return [max(ends), *(start + _HOUR_MS for start in starts[len(starts) // 2 :][:1])]


def _samples(
    database: sqlite3.Connection,
    series_id: int,
    start: int,
    end: int,
    sparse: list[_Sample],
    present: set[str],
) -> Iterator[_Sample]:
    sealed, sealing = 0, None
    if "store_state" in present:
        sealed, sealing = database.execute("SELECT sealed_seq, sealing_seq FROM store_state").fetchone()
    for sample in (*_dense(database, series_id, start, end), *sparse):
        if sample[0] > sealed and start <= sample[2] <= end:
            yield sample
    if "block" in present:
        yield from _blocks(database, series_id, start, end, sealing)


def _dense(database: sqlite3.Connection, series_id: int, start: int, end: int) -> Iterator[_Sample]:
    rows = database.execute(
        "SELECT seq, ts, substr(data, slot * 8 + 1, 8) FROM layout_slot JOIN head_dense USING (layout_id) "
        "WHERE series_id = ? AND ts BETWEEN ? AND ?",
        (series_id, start, end),
    )
    for order, at, value in rows:
        bits = int.from_bytes(value, "little")
        if len(value) == _VALUE_BYTES and bits != ABSENT_BITS:
            yield order, 0, at, bits


def _sparse(database: sqlite3.Connection, series: list[int]) -> dict[int, list[_Sample]]:
    """All of the series in sparse rows, in one pass: each row holds many series."""
    found: dict[int, list[_Sample]] = {series_id: [] for series_id in series}
    rows = database.execute("SELECT seq, series_ids, timestamps, data FROM head_sparse")
    for order, series_ids, timestamps, data in rows:
        ids, times = np.frombuffer(series_ids, "<i8"), np.frombuffer(timestamps, "<i8")
        bits = np.frombuffer(data, "<u8")
        for position in np.flatnonzero(np.isin(ids, series)).tolist():
            sample = order, position, int(times[position]), int(bits[position])
            found[int(ids[position])].append(sample)
    return found


def _blocks(
    database: sqlite3.Connection, series_id: int, start: int, end: int, sealing: int | None
) -> Iterator[_Sample]:
    rows = database.execute(
        "SELECT place, ord, timeline_id, data FROM bundle_member JOIN block USING (bundle_id) "
        "WHERE series_id = ? AND end_ms >= ? AND start_ms <= ?",
        (series_id, start, end),
    )
    for place, order, timeline_id, data in rows.fetchall():
        block = Block(data)
        mine = np.flatnonzero(block.places == place)
        if order == sealing or not len(mine):
            continue
        times = _timeline(database, timeline_id, int(block.lanes[mine[0]]))
        row = decode_values([block], [mine], 0, block.columns)[0]
        values = np.ascontiguousarray(row[: len(times)]).view(np.uint64)
        for at, bits in zip(times, values.tolist(), strict=True):
            if start <= at <= end and bits != ABSENT_BITS:
                yield order, 0, at, bits


def _timeline(database: sqlite3.Connection, timeline_id: int, lane: int) -> list[int]:
    for (data,) in database.execute("SELECT data FROM timeline WHERE id = ?", (timeline_id,)):
        block = Block(data)
        mine = np.flatnonzero(block.places == lane)
        if len(mine):
            integers, _ = decode_integers([block], [mine], 0, block.columns)
            times: list[int] = integers[0, : block.lengths[mine[0]]].tolist()
            return times
    raise ValueError(f"timeline {timeline_id} has no lane {lane}")
