"""Bulk loading: samples of any age straight into blocks, past the head."""

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
from sqlalchemy import Engine

from db.block_read import DAY_MS, HOUR_MS
from db.block_write import BlockWriter, NewBlock, encode
from db.bundles import BUNDLE_SERIES, GROUP_SERIES, Placer, Places, places_kept
from db.engine import place, reading, writing
from db.errors import Unstorable, WriteRefused
from db.index import intern_series
from db.labels import Labels
from db.nan import IntArray
from db.pieces import Assembled, Piece, assemble
from db.records import FIRST_MS, LAST_MS, Slab
from db.seal import SPANS_MS, TRANSACTION_BYTES, windows
from db.store_state import begin_load, read_state

# Interning so many new series takes some ten milliseconds: as long as a scrape's commit may wait.
_INTERNED_AT_ONCE = 2_048
# Longer stretches of a day become a day's block at once, shorter ones wait for being merged.
_DAY_BLOCK_MS = 6 * HOUR_MS
_HOURS_BLOCK_MS = HOUR_MS // 2
# Some ten copies of so many float64 are in use while they are encoded.
_SAMPLES_AT_ONCE = 1 << 18
# Retention forgets series once a minute at most, and only those without samples.
_ATTEMPTS = 5
# Encoding is numpy and zstd, which let other threads run; more of them would only take more memory.
_THREADS = 2


def load_slabs(engine: Engine, placer: Placer, slabs: Sequence[Slab]) -> None:
    """Store the slabs; durable when it returns. Of equal series and timestamp the last slab's sample stays.

    Raises WriteRefused, after which a part of it may be stored and the call may be repeated, and Unstorable
    for a slab that is no rectangle.
    """
    for slab in slabs:
        _check(slab)
    slabs = [slab for slab in slabs if len(slab.timestamps) and len(slab.series)]
    if not slabs:
        return
    for _ in range(_ATTEMPTS):
        try:
            _load(engine, placer, slabs)
        except _Forgotten:
            continue
        return
    raise WriteRefused(f"{place(engine)}: retention forgot the series again and again; load it once more")


class _Forgotten(Exception):
    """Retention forgot a series that this load is about to write: it held nothing else."""


@dataclass(slots=True)
class _Inserter:
    """Writes the blocks of one load; ids: int64[series], as of series_epoch.

    Every transaction takes its place in the order of writing by itself: the maintainer may seal and merge
    while a long load goes on, and what it merged would else count as newer than what the load still writes.
    """

    engine: Engine
    ids: IntArray
    epoch: int

    def insert(self, writers: Sequence[BlockWriter]) -> None:
        writers = [writer for writer in writers if writer.bytes]
        if not writers:
            return
        with writing(self.engine) as connection:
            epoch = read_state(connection).series_epoch
            if epoch != self.epoch:
                if not places_kept(connection, self.ids):
                    raise _Forgotten
                self.epoch = epoch
            order = begin_load(connection)
            for writer in writers:
                writer.insert(connection, order)


def _load(engine: Engine, placer: Placer, slabs: Sequence[Slab]) -> None:
    with reading(engine) as connection:
        epoch = read_state(connection).series_epoch
    pieces: list[Piece] = []
    all_ids = _intern(engine, [labels for slab in slabs for labels in slab.series])
    for number, slab in enumerate(slabs):
        ids, all_ids = all_ids[: len(slab.series)], all_ids[len(slab.series) :]
        order = np.full(len(slab.timestamps), number << 32, dtype=np.int64)
        pieces.extend(_each_series_once(Piece(ids, slab.timestamps, slab.values, order)))
    wholes = assemble(pieces)
    inserter = _Inserter(engine, np.unique(np.concatenate([whole.ids for whole in wholes])), epoch)
    places = _place(engine, placer, wholes)
    groups = np.unique(np.concatenate([item.group for item in places])).tolist()
    with ThreadPoolExecutor(_THREADS, thread_name_prefix="load") as threads:
        for group_id in groups:
            _write_group(inserter, threads, group_id, wholes, places)


def _check(slab: Slab) -> None:
    if slab.values.shape != (len(slab.series), len(slab.timestamps)):
        raise Unstorable(
            f"{slab.values.shape} values for {len(slab.series)} series at {len(slab.timestamps)} timestamps"
        )
    if len(slab.timestamps) and (slab.timestamps[0] < FIRST_MS or slab.timestamps[-1] > LAST_MS):
        raise Unstorable("a timestamp is farther from 1970 than any clock")
    if not bool((slab.timestamps[1:] > slab.timestamps[:-1]).all()):
        raise Unstorable("the timestamps of a slab have to ascend")


def _intern(engine: Engine, series: Sequence[Labels]) -> IntArray:
    parts = []
    for first in range(0, len(series), _INTERNED_AT_ONCE):
        with writing(engine) as connection:
            parts.append(intern_series(connection, series[first : first + _INTERNED_AT_ONCE]))
    return np.concatenate(parts)


def _each_series_once(piece: Piece) -> Iterator[Piece]:
    """A slab may name a series twice; the later row counts as written later."""
    left = np.arange(len(piece.ids))
    layer = 0
    while len(left):
        _, first = np.unique(piece.ids[left], return_index=True)
        if layer == 0 and len(first) == len(left):
            yield piece
            return
        rows = left[np.sort(first)]
        yield Piece(piece.ids[rows], piece.timestamps, piece.values[rows], piece.order + layer)
        left = np.setdiff1d(left, rows)
        layer += 1


def _place(engine: Engine, placer: Placer, wholes: Sequence[Assembled]) -> list[Places]:
    units, counts = [], []
    for whole in wholes:
        for first in range(0, len(whole.ids), GROUP_SERIES):
            units.append((whole.ids[first : first + GROUP_SERIES], len(whole.timestamps)))
        counts.append(len(whole.ids))
    found = placer.place(engine, units)
    ends = np.cumsum(counts)[:-1]
    columns = (np.split(column, ends) for column in (found.bundle, found.place, found.group))
    return [Places(*of_whole) for of_whole in zip(*columns, strict=True)]


def _write_group(
    inserter: _Inserter,
    threads: ThreadPoolExecutor,
    group_id: int,
    wholes: Sequence[Assembled],
    places: Sequence[Places],
) -> None:
    """Day by day, and of each day as many bundles at a time as make _SAMPLES_AT_ONCE."""
    mine = [
        (whole, where, rows)
        for whole, where in zip(wholes, places, strict=True)
        if len(rows := np.flatnonzero(where.group == group_id))
    ]
    bundles = np.unique(np.concatenate([where.bundle[rows] for _, where, rows in mine]))
    number = [np.searchsorted(bundles, where.bundle[rows]) for _, where, rows in mine]
    days = np.unique(np.concatenate([whole.timestamps // DAY_MS for whole, _, _ in mine]))
    for day in days.tolist():
        # (whole, its places, its rows of this group, the bundle of each, its columns of this day)
        parts = []
        for (whole, where, rows), numbers in zip(mine, number, strict=True):
            first, end = np.searchsorted(whole.timestamps, (day * DAY_MS, (day + 1) * DAY_MS))
            if first < end:
                parts.append((whole, where, rows, numbers, slice(int(first), int(end))))
        longest = max(part[4].stop - part[4].start for part in parts)
        level = _level(max(_length_ms(whole.timestamps[columns]) for whole, _, _, _, columns in parts))
        writers: dict[int, BlockWriter] = {}
        encoding: deque[tuple[BlockWriter, Future[list[NewBlock]]]] = deque()
        at_once = max(1, _SAMPLES_AT_ONCE // (BUNDLE_SERIES * longest))
        for first in range(0, len(bundles), at_once):
            for whole, where, rows, numbers, columns in parts:
                chosen = rows[(numbers >= first) & (numbers < first + at_once)]
                if not len(chosen):
                    continue
                cut = Assembled(chosen, whole.timestamps[columns], whole.values[chosen, columns])
                for window_ms, part in windows(cut, SPANS_MS[level]):
                    writer = writers.setdefault(window_ms, BlockWriter(level, window_ms, 0))
                    at = chosen[part.ids]
                    writer.add(where.bundle[at], where.place[at], part.timestamps, part.values)
            for writer in writers.values():
                encoding.append((writer, threads.submit(encode, writer.pending())))
            while len(encoding) > _THREADS:
                _accept(inserter, encoding.popleft(), writers)
        while encoding:
            _accept(inserter, encoding.popleft(), writers)
        inserter.insert(list(writers.values()))


def _accept(
    inserter: _Inserter, done: tuple[BlockWriter, Future[list[NewBlock]]], writers: Mapping[int, BlockWriter]
) -> None:
    writer, blocks = done
    writer.accept(blocks.result())
    if sum(item.bytes for item in writers.values()) > TRANSACTION_BYTES // 2:
        inserter.insert(list(writers.values()))


def _length_ms(timestamps: IntArray) -> int:
    return int(timestamps[-1] - timestamps[0])


def _level(length_ms: int) -> int:
    if length_ms >= _DAY_BLOCK_MS:
        return 2
    return 1 if length_ms >= _HOURS_BLOCK_MS else 0
