"""Postings: which series carry a label pair, packed so that a million series cost little to add and to find.

The ids with the same `id >> 16` (a chunk) make one blob of a pair: a kind byte, then little-endian uint16:

    1   the low halves, ascending
    2   runs of consecutive low halves, (first, last) after (first, last), ascending
    3   4,096 words of 16 bits: bit i of word j says whether 16 j + i is in

whichever is shortest. Targets come one after the other, so the labels of a target are a few runs. Blobs are
worked on many at a time, as runs: a Python step for each id would cost seconds.

Besides the labels that a series has, every series is posted under ("", name) for each of its label names and
under ("", ""): a label with a million values needs one posting to say which series have it. A label whose
own name is empty, which no exporter may send, is kept in the series and not indexed.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import chain

import numpy as np
from sqlalchemy import Connection, text

from db.id_runs import NOTHING, Runs, runs_of, united
from db.labels import Labels
from db.nan import IntArray
from db.series_text import decode_labels, to_json
from db.sole_series import PAGE_PAIRS, add_sole, drop_sole, sole_series
from db.sqlite_engine import driver
from db.value_pages import add_values, drop_values, repack_values

CHUNK_BITS = 16
_LOW = (1 << CHUNK_BITS) - 1
_ARRAY, _RUNS, _BITMAP = 1, 2, 3
_WORD = np.dtype("<u2")
_WORD_BYTES = 2
_RUN_BYTES = 2 * _WORD_BYTES
_BITMAP_WORDS = (1 << CHUNK_BITS) // 16
_BITMAP_BYTES = _BITMAP_WORDS * _WORD_BYTES
# While blobs of many pairs are worked on together, blob g holds the keys g << 17 | low half: with a bit to
# spare the runs of two blobs never touch.
_KEY_BITS = CHUNK_BITS + 1
# Bounds the memory of a repacking: some 4 kB a series.
_REPACK_SERIES = 20_000
EVERY_SERIES = ("", "")

_PAIR = text("SELECT id FROM label_pair WHERE name = :name AND value = :value")
_PAIRS = text(
    "SELECT p.id, p.name, p.value FROM json_each(:pairs) AS j JOIN label_pair AS p "
    "ON p.name = json_extract(j.value, '$[0]') AND p.value = json_extract(j.value, '$[1]')"
)
_LABELS = text("SELECT value, id FROM label_pair WHERE name = ''")
_NEXT_PAIR = text("SELECT coalesce(max(id), 0) + 1 FROM label_pair")
_HELD = text(
    "SELECT p.pair_id, p.ids FROM json_each(:pairs) AS j "
    "JOIN posting AS p ON p.pair_id = j.value AND p.chunk = :chunk"
)
# To the driver as well: a label's condition may need half a million of these.
_BLOBS = (
    "SELECT p.chunk, p.ids FROM json_each(?) AS j JOIN posting AS p ON p.pair_id = j.value AND p.chunk >= 0"
)
_DROP_UNUSED = text(
    "DELETE FROM label_pair WHERE id IN (SELECT value FROM json_each(:pairs)) "
    "AND NOT EXISTS (SELECT 1 FROM posting WHERE pair_id = label_pair.id AND chunk >= 0) "
    "RETURNING id, name, value"
)
_POSTED = text(
    "SELECT l.id, l.name, p.chunk, p.ids FROM label_pair AS l CROSS JOIN posting AS p ON p.pair_id = l.id "
    "AND p.chunk >= 0 WHERE l.name <> '' AND l.id >= :first AND l.id < :end ORDER BY l.name, l.id"
)
_SERIES_FROM = text("SELECT id, labels FROM series WHERE id > :id ORDER BY id LIMIT :limit")
# Straight to the driver: Core's per-row parameter handling would be most of the cost.
_ADD_PAIR = "INSERT INTO label_pair (id, name, value) VALUES (?, ?, ?)"
_PUT = "INSERT OR REPLACE INTO posting (pair_id, chunk, ids) VALUES (?, ?, ?)"
_DROP = "DELETE FROM posting WHERE pair_id = ? AND chunk = ?"


def find_pairs(connection: Connection, pairs: Sequence[tuple[str, str]]) -> dict[tuple[str, str], int]:
    """Ids of those label pairs that are stored."""
    found: dict[tuple[str, str], int] = {}
    plain: list[tuple[str, str]] = []
    for pair in pairs:
        # SQLite's JSON ends a string at U+0000, which a page may well hold.
        if "\0" in pair[0] or "\0" in pair[1]:
            row = connection.execute(_PAIR, {"name": pair[0], "value": pair[1]}).first()
            if row is not None:
                found[pair] = row.id
        else:
            plain.append(pair)
    if plain:
        for pair_id, name, value in connection.execute(_PAIRS, {"pairs": to_json(plain)}):
            found[name, value] = pair_id
    return found


def post_series(connection: Connection, ids: IntArray, labels: Sequence[Labels]) -> None:
    """Post series int64[n], ascending, under all their label pairs. Writes each (pair, chunk) once."""
    if len(ids) == 0:
        return
    pairs = _pairs_of(labels)
    next_id = int(connection.execute(_NEXT_PAIR).scalar_one())
    found = find_pairs(connection, pairs) if next_id > 1 else {}
    drop_sole(connection, _of_labels(found), _label_ids(found))
    missing = sorted(pair for pair in pairs if pair not in found)  # the index takes them in order
    if missing:
        numbers = range(next_id, next_id + len(missing))
        rows = [(number, *pair) for number, pair in zip(numbers, missing, strict=True)]
        connection.exec_driver_sql(_ADD_PAIR, rows)
        found.update(zip(missing, numbers, strict=True))
        add_values(connection, [row for row in rows if row[1] != ""], _label_ids(found), fresh_from=next_id)
    count, carrier = np.zeros((2, len(missing)), dtype=np.int64)
    for chunk, pair_ids, keys in _keys_of(found, ids, labels):
        old = int(np.searchsorted(pair_ids, next_id))
        new = pair_ids[old:] - next_id
        sizes, first = _carriers(keys)
        count[new] += sizes[old:]
        carrier[new] = chunk << CHUNK_BITS | first[old:]
        held = _held(connection, pair_ids[:old], chunk)
        _, blobs = pack(united(np.append(held.first, keys.first), np.append(held.last, keys.last)))
        connection.exec_driver_sql(
            _PUT, [(pair_id, chunk, blob) for pair_id, blob in zip(pair_ids.tolist(), blobs, strict=True)]
        )
    alone = [place for place in np.flatnonzero(count == 1).tolist() if missing[place][0] != ""]
    named = [(next_id + place, missing[place][0]) for place in alone]
    add_sole(connection, named, carrier[alone], _label_ids(found))


def unpost_series(connection: Connection, ids: IntArray, labels: Sequence[Labels]) -> None:
    """Take series int64[n], ascending, out of the postings; drop the label pairs that nobody has now."""
    if len(ids) == 0:
        return
    found = find_pairs(connection, _pairs_of(labels))
    drop_sole(connection, _of_labels(found), _label_ids(found))
    for chunk, pair_ids, keys in _keys_of(found, ids, labels):
        groups, blobs = pack(_held(connection, pair_ids, chunk).subtract(keys))
        kept = [
            (pair_id, chunk, blob) for pair_id, blob in zip(pair_ids[groups].tolist(), blobs, strict=True)
        ]
        if kept:
            connection.exec_driver_sql(_PUT, kept)
        emptied = np.delete(pair_ids, groups).tolist()
        if emptied:
            connection.exec_driver_sql(_DROP, [(pair_id, chunk) for pair_id in emptied])
            dropped = connection.execute(_DROP_UNUSED, {"pairs": to_json(emptied)}).all()
            drop_values(
                connection, [(row[0], row[1], row[2]) for row in dropped if row[1] != ""], _label_ids(found)
            )


def series_with_values(connection: Connection, label_id: int, pair_ids: IntArray) -> Runs:
    """The series that carry at least one of very many pairs of one label, int64[n].

    label_id: the pair ("", name).
    """
    alone, others = sole_series(connection, label_id, pair_ids)
    found = runs_of(alone)
    if len(others) == 0:
        return found
    rest = series_with(connection, others)
    return united(np.append(found.first, rest.first), np.append(found.last, rest.last))


def series_with(connection: Connection, pair_ids: IntArray) -> Runs:
    """The series that carry at least one of the pairs, int64[n]."""
    if len(pair_ids) == 0:
        return runs_of(pair_ids)
    rows = driver(connection).execute(_BLOBS, (to_json(pair_ids.tolist()),)).fetchall()
    chunks = np.fromiter((row[0] for row in rows), dtype=np.int64, count=len(rows))
    return united(*unpack([row[1] for row in rows], chunks << CHUNK_BITS))


def repack_postings(connection: Connection) -> None:
    """Fill an empty posting table from the series' labels and the label pairs, in batches."""
    repack_values(connection)
    last = -1
    while rows := connection.execute(_SERIES_FROM, {"id": last, "limit": _REPACK_SERIES}).all():
        labels = [decode_labels(row.labels) for row in rows]
        post_series(connection, np.array([row.id for row in rows], dtype=np.int64), labels)
        last = rows[-1].id
    _repack_sole(connection)


def _repack_sole(connection: Connection) -> None:
    """From the postings, in batches of pairs that share no page with another batch."""
    names = [(name, pair_id) for name, pair_id in connection.execute(_LABELS)]
    end = int(connection.execute(_NEXT_PAIR).scalar_one())
    for first in range(0, end, PAGE_PAIRS):
        rows = connection.execute(_POSTED, {"first": first, "end": first + PAGE_PAIRS}).all()
        if not rows:
            continue
        lows, lasts = unpack([row.ids for row in rows], np.arange(len(rows)) << _KEY_BITS)
        keys = united(lows, lasts)
        sizes, lows = _carriers(keys)
        blobs_of = Counter(row.id for row in rows)
        alone = [place for place in np.flatnonzero(sizes == 1).tolist() if blobs_of[rows[place].id] == 1]
        series = np.array([rows[place].chunk << CHUNK_BITS for place in alone], dtype=np.int64) | lows[alone]
        add_sole(connection, [(rows[place].id, rows[place].name) for place in alone], series, dict(names))


def _pairs_of(labels: Sequence[Labels]) -> list[tuple[str, str]]:
    """Every pair to post the series under."""
    pairs = set(chain.from_iterable(labels))
    names = {name for name, _ in pairs}
    pairs.difference_update([pair for pair in pairs if pair[0] == ""])
    pairs.update(("", name) for name in names)
    pairs.add(EVERY_SERIES)
    return list(pairs)


def _of_labels(found: dict[tuple[str, str], int]) -> list[tuple[int, str]]:
    return [(pair_id, name) for (name, _), pair_id in found.items() if name != ""]


def _label_ids(found: dict[tuple[str, str], int]) -> dict[str, int]:
    return {value: pair_id for (name, value), pair_id in found.items() if name == ""}


def _keys_of(
    found: dict[tuple[str, str], int], ids: IntArray, labels: Sequence[Labels]
) -> Iterator[tuple[int, IntArray, Runs]]:
    """For each chunk: its number, the ids of the pairs that its series have (ascending), and the keys of
    these series, pair i being blob i."""
    if any(pair[0] == "" for item in labels for pair in item[:1]):  # sorted: it would be the first
        labels = [tuple(pair for pair in item if pair[0] != "") for item in labels]
    unsorted = np.fromiter(found.values(), dtype=np.int64, count=len(found))
    known = np.sort(unsorted)
    rank_of = dict(zip(found, np.searchsorted(known, unsorted).tolist(), strict=True))
    rank_of_name = np.empty(len(found), dtype=np.int64)
    for (name, _), rank in rank_of.items():
        rank_of_name[rank] = rank_of["", name]
    counts = np.fromiter(map(len, labels), dtype=np.int64, count=len(labels))
    ranks = np.fromiter(
        map(rank_of.__getitem__, chain.from_iterable(labels)), dtype=np.int64, count=int(counts.sum())
    )
    owners = np.repeat(ids, counts)
    for chunk in np.unique(ids >> CHUNK_BITS).tolist():
        span = slice(*np.searchsorted(owners >> CHUNK_BITS, [chunk, chunk + 1]))
        alone = ids[slice(*np.searchsorted(ids >> CHUNK_BITS, [chunk, chunk + 1]))]
        group = np.concatenate(
            [ranks[span], rank_of_name[ranks[span]], np.full(len(alone), rank_of[EVERY_SERIES])]
        )
        low = np.concatenate([owners[span], owners[span], alone]) & _LOW
        keys = runs_of(group << _KEY_BITS | low)
        used, place = _distinct(keys.first >> _KEY_BITS)
        shift = (used[place] - place) << _KEY_BITS
        yield chunk, known[used], Runs(keys.first - shift, keys.last - shift)


def _carriers(keys: Runs) -> tuple[IntArray, IntArray]:
    """For each blob, none of them empty, how many keys are in it, and its first one: int64[blobs] each."""
    _, blob = _distinct(keys.first >> _KEY_BITS)
    begin = np.flatnonzero(np.diff(blob, prepend=-1))
    return np.add.reduceat(keys.last - keys.first + 1, begin), keys.first[begin] & _LOW


def _distinct(ascending: IntArray) -> tuple[IntArray, IntArray]:
    """The distinct numbers, and for each element which of them it is."""
    changes = np.append(True, ascending[1:] != ascending[:-1])
    return ascending[changes], np.cumsum(changes) - 1


def _held(connection: Connection, pair_ids: IntArray, chunk: int) -> Runs:
    """The keys that a chunk's blobs of these pairs (ascending) hold, pair i being blob i."""
    if len(pair_ids) == 0:
        return NOTHING
    rows = connection.execute(_HELD, {"pairs": to_json(pair_ids.tolist()), "chunk": chunk}).all()
    held = np.fromiter((row[0] for row in rows), dtype=np.int64, count=len(rows))
    places = np.searchsorted(pair_ids, held)
    return united(*unpack([row[1] for row in rows], places << _KEY_BITS))


def pack(keys: Runs) -> tuple[IntArray, list[bytes]]:
    """Which blobs are not empty (ascending), and these blobs."""
    if len(keys.first) == 0:
        return np.empty(0, dtype=np.int64), []
    groups, group = _distinct(keys.first >> _KEY_BITS)
    begin = np.searchsorted(group, np.arange(len(groups)))
    runs = np.diff(np.append(begin, len(group)))
    sizes = np.add.reduceat(keys.last - keys.first + 1, begin)
    as_runs = (2 * runs < sizes)[group]
    long = np.minimum(_RUN_BYTES * runs, _WORD_BYTES * sizes) > _BITMAP_BYTES
    # The words of every blob in one array: ids of runs that are written out, two words of those that are not.
    widths = np.where(as_runs, 2, keys.last - keys.first + 1)
    ends = np.cumsum(widths)
    words = np.empty(int(ends[-1]), dtype=_WORD)
    out = np.repeat(~as_runs, widths)
    words[out] = Runs(keys.first[~as_runs], keys.last[~as_runs]).ids() & _LOW
    words[ends[as_runs] - 2] = keys.first[as_runs] & _LOW
    words[ends[as_runs] - 1] = keys.last[as_runs] & _LOW
    data = words.tobytes()
    edges = np.append(0, ends[np.append(begin[1:], len(group)) - 1]) * _WORD_BYTES
    marks = [b"\x01" if plain else b"\x02" for plain in (~as_runs[begin]).tolist()]
    starts = edges.tolist()
    blobs = [mark + data[first:last] for mark, first, last in zip(marks, starts, starts[1:], strict=False)]
    for place in np.flatnonzero(long).tolist():
        span = slice(begin[place], begin[place] + runs[place])
        bits = np.zeros(1 << CHUNK_BITS, dtype=np.uint8)
        bits[Runs(keys.first[span], keys.last[span]).ids() & _LOW] = 1
        blobs[place] = b"\x03" + np.packbits(bits, bitorder="little").tobytes()
    return groups, blobs


def unpack(blobs: Sequence[bytes], bases: IntArray) -> tuple[IntArray, IntArray]:
    """First and last of every run in the blobs, each blob's base added: int64[runs] twice, in any order."""
    lengths = np.fromiter(map(len, blobs), dtype=np.int64, count=len(blobs))
    data = np.frombuffer(b"".join(blobs), dtype=np.uint8)
    marks = np.cumsum(lengths) - lengths
    kinds = data[marks]
    words = np.delete(data, marks).view(_WORD).astype(np.int64)
    widths = (lengths - 1) // _WORD_BYTES
    kind = np.repeat(kinds, widths)
    base = np.repeat(bases, widths)
    single = (words + base)[kind == _ARRAY]
    run = (words + base)[kind == _RUNS]
    firsts, lasts = [single, run[0::2]], [single, run[1::2]]
    if (kinds == _BITMAP).any():
        bits = np.unpackbits(
            words[kind == _BITMAP].astype(_WORD).view(np.uint8).reshape(-1, _BITMAP_BYTES),
            axis=1,
            bitorder="little",
        )
        # An empty bit at both ends of each row: then every run begins and ends with a change.
        changes = np.diff(np.pad(bits, ((0, 0), (1, 1))), axis=1)
        row, column = np.nonzero(changes)
        edge = column + bases[kinds == _BITMAP][row]
        firsts.append(edge[0::2])
        lasts.append(edge[1::2] - 1)
    return np.concatenate(firsts), np.concatenate(lasts)
