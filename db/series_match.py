"""Finding series by label conditions, so that a million series and a million values of a label stay cheap.

A condition becomes the label values that meet it, and these become postings. The values of a label are read
in batches that SQLite joins to one text and RE2 scans in one call.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from sqlalchemy import Connection, text

from db.errors import BadMatcher
from db.id_runs import NOTHING, Runs, runs_of
from db.labels import Labels
from db.nan import BoolArray, IntArray
from db.postings import EVERY_SERIES, find_pairs, series_with, series_with_values
from db.records import Matcher
from db.regex import RegexError, compile_anchored, fullmatch, line_pattern, literals, possible_range
from db.series_text import load_labels
from db.text_automaton import text_automaton
from db.value_pages import value_pages

# Values that are read and scanned together: about half a megabyte of text.
_VALUES = 1 << 14
# With so few series left, and a label of more values, their own labels are cheaper to look at.
_FEW_SERIES = 4_000
# Of so few values in a batch each is looked up; otherwise the ids of the whole batch are read.
_FEW_VALUES = 512
# The postings of more values than these are not looked up one by one if one series alone carries each.
_MANY_PAIRS = 2_000
# A label of more values is read from its pages, unless the pattern's first characters are known.
_MANY_VALUES = 20_000
_LEAST_CHARACTER = b"\0"
# So many values one by one cost more than all pages of a label of a million.
_WIDE_RANGE = 200_000
_NEWLINE = 10
# No UTF-8 text comes after it.
_ABOVE_ALL = b"\xff"
_ANYTHING, _SOMETHING = ".*", ".+"

# The bounds are bytes of UTF-8 that may end within a character; text compares by bytes.
_JOINED = text(
    "SELECT CAST(group_concat(value, char(10)) AS BLOB), count(*) FROM (SELECT value FROM label_pair "
    "WHERE name = :name AND value >= CAST(:least AS TEXT) AND value <= CAST(:most AS TEXT) "
    "ORDER BY value LIMIT :limit)"
)
_VALUES_OF_RANGE = text(
    "SELECT value FROM label_pair "
    "WHERE name = :name AND value >= CAST(:least AS TEXT) AND value <= CAST(:most AS TEXT) "
    "ORDER BY value LIMIT :limit"
)
_IDS_OF_RANGE = text(
    "SELECT group_concat(id) FROM (SELECT id FROM label_pair "
    "WHERE name = :name AND value >= CAST(:least AS TEXT) AND value <= CAST(:most AS TEXT) "
    "ORDER BY value LIMIT :limit)"
)
_IDS_OUTSIDE = text(
    "SELECT group_concat(id), count(*) FROM ("
    "SELECT id FROM label_pair WHERE name = :name AND value < CAST(:least AS TEXT) UNION ALL "
    "SELECT id FROM label_pair WHERE name = :name AND value > CAST(:most AS TEXT) LIMIT :limit)"
)
_RANGE_HAS = text(
    "SELECT 1 FROM label_pair WHERE name = :name AND value >= CAST(:least AS TEXT) "
    "AND value <= CAST(:most AS TEXT) LIMIT 1 OFFSET :more"
)
_HAS_VALUES = text("SELECT 1 FROM label_pair WHERE name = :name LIMIT 1 OFFSET :more")


def match_series(connection: Connection, matchers: Sequence[Matcher]) -> IntArray:
    """Sorted ids of the series that satisfy every matcher; no matcher means every series.

    Raises BadMatcher for a pattern that is not RE2, and for text that is not Unicode.
    """
    for matcher in matchers:
        _check(matcher)
    # No series is found by a label without a name, so that such a condition meets "" in every series.
    if not all(_meets(matcher, "") for matcher in matchers if matcher.name == ""):
        return NOTHING.ids()
    matchers = [matcher for matcher in matchers if matcher.name != ""]
    found: Runs | None = None
    needs_scan = [matcher for matcher in matchers if _needs_scan(matcher)]
    quick = [_looked_up(connection, matcher) for matcher in matchers if matcher not in needs_scan]
    for condition in sorted(quick, key=lambda one: (one.negated, len(one.series.first))):
        found = condition.narrow(connection, found)
    for matcher in needs_scan:
        if (
            found is not None
            and found.size <= _FEW_SERIES
            and _has_values(connection, matcher.name, found.size)
        ):
            found = _tried(connection, matcher, found)
        else:
            found = _scanned(connection, matcher).narrow(connection, found)
    return (_with_pairs(connection, [EVERY_SERIES]) if found is None else found).ids()


def satisfies(labels: Labels, matchers: Sequence[Matcher]) -> bool:
    """Would `match_series` find a series with these labels?"""
    texts = {**dict(labels), "": ""}  # a label without a name is not looked at
    return all(_meets(matcher, texts.get(matcher.name, "")) for matcher in matchers)


@dataclass(frozen=True, slots=True)
class _Condition:
    """Exactly these series satisfy a matcher, or, negated, exactly the others do."""

    series: Runs
    negated: bool

    def narrow(self, connection: Connection, found: Runs | None) -> Runs:
        """The series of `found` (None: all) that satisfy it."""
        if not self.negated:
            return self.series if found is None else found.intersect(self.series)
        if found is None:
            found = _with_pairs(connection, [EVERY_SERIES])
        return found.subtract(self.series)


def _check(matcher: Matcher) -> None:
    try:
        (matcher.name + matcher.value).encode()
        if matcher.operator in ("=~", "!~"):
            compile_anchored(matcher.value)
    except UnicodeEncodeError as error:
        raise BadMatcher(
            f"{matcher.name!r}{matcher.operator}{matcher.value!r}: is not Unicode text"
        ) from error
    except RegexError as error:
        raise BadMatcher(f'{matcher.name}{matcher.operator}"{matcher.value}": {error}') from error


def _meets(matcher: Matcher, value: str) -> bool:
    if matcher.operator in ("=", "!="):
        return (value == matcher.value) == (matcher.operator == "=")
    return fullmatch(matcher.value, value) == (matcher.operator == "=~")


def _needs_scan(matcher: Matcher) -> bool:
    return (
        matcher.operator in ("=~", "!~")
        and matcher.value not in (_ANYTHING, _SOMETHING)
        and literals(matcher.value) is None
    )


def _looked_up(connection: Connection, matcher: Matcher) -> _Condition:
    """What a matcher that names its values selects, without reading any other value."""
    operator, name, value = matcher.operator, matcher.name, matcher.value
    if operator in ("=~", "!~"):
        if value == _ANYTHING:
            return _Condition(NOTHING, negated=operator == "=~")
        if value == _SOMETHING:
            return _Condition(_having(connection, name), negated=operator == "!~")
        wanted = literals(value) or []
    else:
        wanted = [value]
    series = _with_pairs(connection, [(name, item) for item in wanted if item != ""])
    if "" not in wanted:
        return _Condition(series, negated=operator in ("!=", "!~"))
    # "" means that the label is absent.
    return _Condition(_having(connection, name).subtract(series), negated=operator in ("=", "=~"))


def _tried(connection: Connection, matcher: Matcher, found: Runs) -> Runs:
    """The series of `found` whose own labels satisfy the pattern."""
    matched = [
        series_id
        for series_id, labels in load_labels(connection, found.ids()).items()
        if _meets(matcher, dict(labels).get(matcher.name, ""))
    ]
    return runs_of(np.array(matched, dtype=np.int64))


def _scanned(connection: Connection, matcher: Matcher) -> _Condition:
    """What a matcher that needs the label's values selects."""
    pattern, name = matcher.value, matcher.name
    least, most = possible_range(pattern) or (b"", _ABOVE_ALL)
    wide = {"name": name, "least": least, "most": most, "more": _WIDE_RANGE}
    if (least <= _LEAST_CHARACTER and _has_values(connection, name, _MANY_VALUES)) or connection.execute(
        _RANGE_HAS, wide
    ).first() is not None:
        batches = list(_pages(connection, name, pattern))
        least, most = b"", _ABOVE_ALL
    else:
        batches = list(_batches(connection, name, pattern, least, most))
    matched = sum(int(batch.matches.sum()) for batch in batches)
    failed = sum(len(batch.matches) for batch in batches) - matched
    outside = NOTHING.first
    if matched > failed:
        # Whichever is less to look up: the values that match, or those that do not.
        bounds = {"name": name, "least": least, "most": most, "limit": matched - failed}
        ids, count = connection.execute(_IDS_OUTSIDE, bounds).one()
        outside, failed = _numbers(ids), failed + count
    if matched <= failed:
        series = _series_of(connection, name, _pair_ids(connection, name, batches, matching=True))
    else:
        others = np.append(outside, _pair_ids(connection, name, batches, matching=False))
        series = _having(connection, name).subtract(_series_of(connection, name, others))
    if not fullmatch(pattern, ""):
        return _Condition(series, negated=matcher.operator == "!~")
    return _Condition(_having(connection, name).subtract(series), negated=matcher.operator == "=~")


def _series_of(connection: Connection, name: str, pair_ids: IntArray) -> Runs:
    """The series that carry at least one of the label's pairs, int64[n]."""
    if len(pair_ids) <= _MANY_PAIRS:
        return series_with(connection, pair_ids)
    [label_id] = find_pairs(connection, [("", name)]).values()
    return series_with_values(connection, label_id, pair_ids)


@dataclass(frozen=True, slots=True)
class _Batch:
    """Values of a label, and which of them match: bool[n].

    values: UTF-8, consecutive; without them, ids: int64[n] of their pairs.
    """

    matches: BoolArray
    values: bytes | list[bytes] = b""
    ids: IntArray | None = None

    def all_values(self) -> list[bytes]:
        return self.values.split(b"\n") if isinstance(self.values, bytes) else self.values


def _pages(connection: Connection, name: str, pattern: str) -> Iterator[_Batch]:
    """Every value of the label."""
    automaton = text_automaton(pattern)
    lines = line_pattern(pattern)
    one = compile_anchored(pattern)
    for label_id in find_pairs(connection, [("", name)]).values():
        for page in value_pages(connection, label_id):
            if page.joined and automaton is not None:
                matches = automaton.matches(page.values)
            elif page.joined and lines is not None:
                matches = _lines_hit(page.values, lines.spans(page.values))
            else:
                matches = np.array([one.fullmatch(value.decode()) is not None for value in page.texts()])
            yield _Batch(matches, ids=page.ids)


def _batches(connection: Connection, name: str, pattern: str, least: bytes, most: bytes) -> Iterator[_Batch]:
    """Every value of the label in [least, most]."""
    lines = line_pattern(pattern)
    one = compile_anchored(pattern)
    while True:
        bounds = {"name": name, "least": least, "most": most, "limit": _VALUES}
        joined, count = connection.execute(_JOINED, bounds).one()
        if count == 0:
            return
        if lines is not None and joined.count(b"\n") == count - 1:
            batch = _Batch(_lines_hit(joined, lines.spans(joined)), joined)
            last = joined[joined.rfind(b"\n") + 1 :]
        else:  # a value has a newline of its own, or the pattern must see each value alone
            rows = [row[0] for row in connection.execute(_VALUES_OF_RANGE, bounds)]
            matches = np.array([one.fullmatch(value) is not None for value in rows])
            batch = _Batch(matches, [value.encode() for value in rows])
            last = rows[-1].encode()
        yield batch
        if count < _VALUES:
            return
        least = last + b"\0"  # the least text after it


def _lines_hit(joined: bytes, spans: IntArray) -> BoolArray:
    """Which lines the spans cover: bool[lines]."""
    newlines = np.flatnonzero(np.frombuffer(joined, dtype=np.uint8) == _NEWLINE)
    change = np.zeros(len(newlines) + 2, dtype=np.int64)
    np.add.at(change, np.searchsorted(newlines, spans[:, 0], side="left"), 1)
    np.add.at(change, np.searchsorted(newlines, spans[:, 1], side="left") + 1, -1)
    hit: BoolArray = np.cumsum(change[:-1]) > 0
    return hit


def _pair_ids(connection: Connection, name: str, batches: Sequence[_Batch], matching: bool) -> IntArray:
    """Ids of the label's pairs in the batches that match, or of those that do not."""
    parts: list[IntArray] = []
    few: list[tuple[str, str]] = []
    for batch in batches:
        wanted = batch.matches == matching
        count = int(wanted.sum())
        if count == 0:
            continue
        if batch.ids is not None:
            parts.append(batch.ids[wanted])
            continue
        values = batch.all_values()
        if count <= _FEW_VALUES:
            few.extend((name, values[place].decode()) for place in np.flatnonzero(wanted).tolist())
        else:
            bounds = {"name": name, "least": values[0], "most": values[-1], "limit": len(values)}
            parts.append(_numbers(connection.execute(_IDS_OF_RANGE, bounds).scalar_one())[wanted])
    parts.append(np.fromiter(find_pairs(connection, few).values(), dtype=np.int64))
    return np.concatenate(parts)


def _numbers(joined: str | None) -> IntArray:
    return np.fromstring(joined or "", dtype=np.int64, sep=",")


def _with_pairs(connection: Connection, pairs: Sequence[tuple[str, str]]) -> Runs:
    found = find_pairs(connection, pairs)
    return series_with(connection, np.fromiter(found.values(), dtype=np.int64, count=len(found)))


def _having(connection: Connection, name: str) -> Runs:
    """The series that have the label at all."""
    return _with_pairs(connection, [("", name)]) if name != "" else NOTHING


def _has_values(connection: Connection, name: str, count: int) -> bool:
    """Has the label more values than that?"""
    return connection.execute(_HAS_VALUES, {"name": name, "more": count}).first() is not None
