"""Series and their labels: interning new series, and finding series by label conditions.

Postings stay in SQL; a reader holds only the ids that match.
"""

import hashlib
from collections.abc import Iterable, Sequence

import numpy as np
import orjson
from sqlalchemy import Connection, text

from db.errors import BadMatcher
from db.labels import Labels
from db.nan import IntArray
from db.records import Matcher
from db.regex import RegexError, compile_anchored

# json_each lets one bound parameter carry any number of values; SQLite caps the number of parameters.
_ROWS_BY_HASH = text(
    "SELECT id, hash, labels FROM series WHERE hash IN (SELECT value FROM json_each(:hashes))"
)
_PAIR = text("SELECT id FROM label_pair WHERE name = :name AND value = :value")
_PAIRS = text(
    "SELECT p.id, p.name, p.value FROM json_each(:pairs) AS j "
    "JOIN label_pair AS p "
    "ON p.name = json_extract(j.value, '$[0]') AND p.value = json_extract(j.value, '$[1]')"
)
# Straight to the driver: a first scrape of a large cluster adds millions of postings, and Core's
# per-row parameter handling would be most of its cost.
_ADD_SERIES = "INSERT INTO series (id, hash, labels) VALUES (?, ?, ?)"
_ADD_PAIR = "INSERT INTO label_pair (id, name, value) VALUES (?, ?, ?)"
_ADD_POSTING = "INSERT INTO posting (pair_id, series_id) VALUES (?, ?)"
_ALL_IDS = text("SELECT id FROM series")
_IDS_WITH_PAIR = text(
    "SELECT s.series_id FROM label_pair AS p JOIN posting AS s ON s.pair_id = p.id "
    "WHERE p.name = :name AND p.value = :value"
)
_IDS_WITH_PAIRS = text("SELECT series_id FROM posting WHERE pair_id IN (SELECT value FROM json_each(:pairs))")
_VALUES_OF_NAME = text("SELECT id, value FROM label_pair WHERE name = :name")
_LABELS_OF_IDS = text("SELECT id, labels FROM series WHERE id IN (SELECT value FROM json_each(:ids))")


def encode_labels(labels: Labels) -> str:
    """Canonical text of a series' identity."""
    return orjson.dumps(labels).decode()


def decode_labels(encoded: str) -> Labels:
    return tuple((name, value) for name, value in orjson.loads(encoded))


def _json(value: object) -> str:
    return orjson.dumps(value).decode()


def _hash(encoded: str) -> int:
    digest = hashlib.blake2b(encoded.encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big", signed=True)


def intern_series(connection: Connection, series: Sequence[Labels]) -> IntArray:
    """Ids of the series, int64[len(series)]; those never seen are added with their postings.

    Runs inside the caller's write transaction, which is what makes the ids safe to hand out.
    """
    if not series:
        return np.empty(0, dtype=np.int64)
    encoded = [encode_labels(labels) for labels in series]
    hashes = [_hash(item) for item in encoded]
    known: dict[str, int] = {}
    for row in connection.execute(_ROWS_BY_HASH, {"hashes": _json(list(set(hashes)))}):
        known[row.labels] = row.id
    fresh: dict[str, tuple[int, Labels]] = {}
    for item, hashed, labels in zip(encoded, hashes, series, strict=True):
        if item not in known and item not in fresh:
            fresh[item] = (hashed, labels)
    if fresh:
        next_id = int(connection.execute(text("SELECT coalesce(max(id), 0) + 1 FROM series")).scalar_one())
        rows = []
        for item, (hashed, _labels) in fresh.items():
            rows.append((next_id, hashed, item))
            known[item] = next_id
            next_id += 1
        connection.exec_driver_sql(_ADD_SERIES, rows)
        _add_postings(connection, [(known[item], labels) for item, (_, labels) in fresh.items()])
    return np.fromiter((known[item] for item in encoded), dtype=np.int64, count=len(encoded))


def _add_postings(connection: Connection, series: Sequence[tuple[int, Labels]]) -> None:
    wanted = {pair for _, labels in series for pair in labels}
    # SQLite's JSON ends a string at U+0000, which a page may well hold.
    odd = [pair for pair in wanted if "\0" in pair[0] or "\0" in pair[1]]
    plain = list(wanted.difference(odd))
    pairs: dict[tuple[str, str], int] = {
        (row.name, row.value): row.id for row in connection.execute(_PAIRS, {"pairs": _json(plain)})
    }
    for name, value in odd:
        row = connection.execute(_PAIR, {"name": name, "value": value}).first()
        if row is not None:
            pairs[(name, value)] = row.id
    missing = sorted(wanted - pairs.keys())
    if missing:
        next_id = int(
            connection.execute(text("SELECT coalesce(max(id), 0) + 1 FROM label_pair")).scalar_one()
        )
        rows = []
        for offset, (name, value) in enumerate(missing):
            rows.append((next_id + offset, name, value))
            pairs[(name, value)] = next_id + offset
        connection.exec_driver_sql(_ADD_PAIR, rows)
    postings = [(pairs[pair], series_id) for series_id, labels in series for pair in labels]
    if postings:
        connection.exec_driver_sql(_ADD_POSTING, postings)


def match_series(connection: Connection, matchers: Sequence[Matcher]) -> IntArray:
    """Sorted ids of the series that satisfy every matcher; no matcher means every series.

    Raises BadMatcher for a pattern that is not RE2.
    """
    included: list[IntArray] = []
    excluded: list[IntArray] = []
    for matcher in matchers:
        ids, negated = _candidates(connection, matcher)
        (excluded if negated else included).append(ids)
    if included:
        found = included[0]
        for ids in sorted(included[1:], key=len):
            found = np.intersect1d(found, ids, assume_unique=True)
    else:
        found = _ids(row[0] for row in connection.execute(_ALL_IDS))
    for ids in excluded:
        found = np.setdiff1d(found, ids, assume_unique=True)
    return found


def _candidates(connection: Connection, matcher: Matcher) -> tuple[IntArray, bool]:
    """(ids, False): exactly these satisfy it; (ids, True): exactly these do not."""
    operator, name, value = matcher.operator, matcher.name, matcher.value
    if operator in ("=", "!="):
        if value == "":  # an empty value means "label absent": the ids that have the label are the rest
            pairs = [row.id for row in connection.execute(_VALUES_OF_NAME, {"name": name})]
            return _ids_with(connection, pairs), operator == "="
        rows = connection.execute(_IDS_WITH_PAIR, {"name": name, "value": value})
        return _ids(row[0] for row in rows), operator == "!="
    try:
        pattern = compile_anchored(value)
    except RegexError as error:
        raise BadMatcher(f'{name}{operator}"{value}": {error}') from error
    matches_absent = pattern.fullmatch("") is not None
    pairs = [
        row.id
        for row in connection.execute(_VALUES_OF_NAME, {"name": name})
        if (pattern.fullmatch(row.value) is not None) != matches_absent
    ]
    # The pattern matches "absent": collect the present values that fail it, and exclude those.
    return _ids_with(connection, pairs), matches_absent == (operator == "=~")


def _ids_with(connection: Connection, pair_ids: list[int]) -> IntArray:
    rows = connection.execute(_IDS_WITH_PAIRS, {"pairs": _json(pair_ids)})
    return _ids(row[0] for row in rows)


def _ids(values: Iterable[int]) -> IntArray:
    return np.unique(np.fromiter(values, dtype=np.int64))


def load_labels(connection: Connection, ids: IntArray) -> dict[int, Labels]:
    """Labels of the given series."""
    rows = connection.execute(_LABELS_OF_IDS, {"ids": _json(ids.tolist())})
    return {row.id: decode_labels(row.labels) for row in rows}
