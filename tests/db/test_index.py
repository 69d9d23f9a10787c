"""The series index answers as a plain list of label sets would, whatever the labels and the patterns."""

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import re2
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import Connection, Engine, text

from db.engine import open_samples, reading, writing
from db.errors import BadMatcher
from db.index import forget_series, intern_series, load_labels, match_series
from db.labels import Labels, labels_from
from db.postings import repack_postings
from db.records import Matcher, MatchOperator
from db.sole_series import SOLE

OPERATORS: tuple[MatchOperator, ...] = ("=", "!=", "=~", "!~")


@pytest.fixture
def engine(tmp_path: Path):
    opened = open_samples(tmp_path / "samples.db")
    yield opened
    opened.dispose()


def satisfies(labels: Labels, matcher: Matcher) -> bool:
    value = dict(labels).get(matcher.name, "")
    if matcher.operator in ("=", "!="):
        return (value == matcher.value) == (matcher.operator == "=")
    return (pattern_of(matcher.value).fullmatch(value) is not None) == (matcher.operator == "=~")


@cache
def pattern_of(value: str) -> Any:
    options = re2.Options()
    options.dot_nl = True
    options.log_errors = False
    return re2.compile(f"^(?:{value})$", options)


def intern(engine: Engine, series: list[Labels]) -> dict[Labels, int]:
    with writing(engine) as connection:
        return dict(zip(series, intern_series(connection, series).tolist(), strict=True))


def matched(engine: Engine, *matchers: Matcher) -> list[int]:
    with reading(engine) as connection:
        return match_series(connection, matchers).tolist()


def agrees(engine: Engine, ids: dict[Labels, int], *matchers: Matcher) -> None:
    wanted = sorted(number for labels, number in ids.items() if all(satisfies(labels, m) for m in matchers))
    assert matched(engine, *matchers) == wanted, matchers


def clear(connection: Connection) -> None:
    for statement in ("DELETE FROM series", "DELETE FROM label_pair", "DELETE FROM posting"):
        connection.execute(text(statement))


def rows(engine: Engine, statement: str) -> list[tuple[object, ...]]:
    with reading(engine) as connection:
        return [tuple(row) for row in connection.execute(text(statement))]


VALUES = st.one_of(
    st.sampled_from(["a", "b", "ab", "a\nb", "\n", "a\0b", "\0", "é", "\uffff", "\U0010ffff", "A", "a|b"]),
    st.text(alphabet="ab\n\0é.1", min_size=1, max_size=4),
)
NAMES = ["x", "y", "z\0"]
LABELS = st.dictionaries(st.sampled_from(NAMES), VALUES, max_size=3).map(
    lambda items: labels_from(items, "m")
)
KNOWN_PATTERNS = (
    *("", ".*", ".+", "a|b", "(a|b|)", "a.*", "[^a]", "(?i)A.*", "(?:a|ab)", r"10\.0\.0\.1", r"\Aa", r"a\z"),
    *(
        "^a$",
        r"\D",
        r"[^b]+",
        r"(a|\n)b?",
        r"\x00",
        "(?-s).+",
        "(?-m:^a$)",
        r"\Qa\E",
        "(?s).",
        r"\C+",
    ),
    *(
        "\n",
        "é",
        "(?P<n>a|b)+",
        r"a\b.*",
        "a{1,2}.?",
        "[[:^alpha:]]",
        r"\pL",
        "(?U)a.*",
        "|a",
        "\0.*",
        "[\t-\r]",
    ),
)
ATOMS = [
    "a",
    "b",
    ".",
    "*",
    "|",
    "(",
    ")",
    "(?:",
    "é",
    "\n",
    "^",
    "$",
    "[^a]",
    "+?",
    r"\.",
    r"\n",
    r"\b",
    "1",
]
PATTERNS = st.one_of(
    st.sampled_from(KNOWN_PATTERNS),
    st.lists(st.sampled_from(ATOMS), max_size=6).map("".join),
    VALUES.map(re2.escape),
)
CONDITIONS = st.tuples(st.sampled_from([*NAMES, "no"]), st.sampled_from(OPERATORS), PATTERNS)


@settings(max_examples=120, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(st.lists(LABELS, max_size=12, unique=True), st.lists(CONDITIONS, min_size=1), st.data())
def test_it_answers_as_a_list_of_label_sets_would(
    engine: Engine,
    series: list[Labels],
    conditions: list[tuple[str, MatchOperator, str]],
    data: st.DataObject,
) -> None:
    with writing(engine) as connection:
        clear(connection)
    ids = intern(engine, series[:5])
    ids |= intern(engine, series[3:])
    gone = data.draw(st.sets(st.sampled_from(series))) if series else set()
    with writing(engine) as connection:
        forget_series(connection, np.array([ids.pop(labels) for labels in gone], dtype=np.int64))
    good = []
    for matcher in [Matcher(*condition) for condition in conditions]:
        try:
            agrees(engine, ids, matcher)
            good.append(matcher)
        except (BadMatcher, re2.error):
            with pytest.raises(BadMatcher), reading(engine) as connection:
                match_series(connection, [matcher])
    agrees(engine, ids, *good)


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory):
    """Enough series and values for several chunks of ids and batches of values."""
    opened = open_samples(tmp_path_factory.mktemp("large") / "samples.db")
    series = [
        labels_from(
            {"pod": f"pod-{number * 7919 % 70_000:05}", "node": f"n{number % 300}", "all": "yes"}, "m"
        )
        for number in range(70_000)
    ]
    series += [
        labels_from({"all": "no", "pod": "a\nb"}, "n"),
        labels_from({"all": "yes", "pod": "a\0b"}, "n"),
    ]
    yield opened, intern(opened, series)
    opened.dispose()


@pytest.mark.parametrize(
    "pattern",
    [
        "pod-.*",
        "pod-[0-3].*",
        ".*[0-7]",
        ".*9",
        "pod-123[45]|pod-4.*7",
        "[^x]+",
        "a.b",
        ".*x.*",
        "|.*3",
        r".*\z",
    ],
)
def test_patterns_on_a_label_of_very_many_values(
    large: tuple[Engine, dict[Labels, int]], pattern: str
) -> None:
    engine, ids = large
    agrees(engine, ids, Matcher("pod", "=~", pattern))
    others = set(ids.values()).difference(matched(engine, Matcher("pod", "=~", pattern)))
    assert matched(engine, Matcher("pod", "!~", pattern)) == sorted(others)


@pytest.mark.parametrize(
    "matchers",
    [
        [],
        [Matcher("all", "=", "yes")],
        [Matcher("node", "=", "n7"), Matcher("pod", "=~", ".*[13]")],
        [Matcher("node", "=", "n7"), Matcher("pod", "!~", ".*[13]|"), Matcher("all", "!=", "no")],
        [Matcher("node", "=~", "n1.*"), Matcher("pod", "!~", ".*[13]"), Matcher("node", "!=", "n17")],
        [Matcher("node", "=", "")],
        [Matcher("node", "=", "n7"), Matcher("node", "=", "n8"), Matcher("pod", "=~", "p.*")],
    ],
)
def test_conditions_together(large: tuple[Engine, dict[Labels, int]], matchers: list[Matcher]) -> None:
    agrees(*large, *matchers)


def test_a_series_keeps_its_id_and_its_labels(engine: Engine) -> None:
    one, two = labels_from({"a": "1\0"}, "m"), labels_from({"a": "2"}, "m")
    with writing(engine) as connection:
        assert intern_series(connection, [one, two, one]).tolist() == [1, 2, 1]
        assert intern_series(connection, [two, one]).tolist() == [2, 1]
        assert load_labels(connection, np.array([2, 1, 9])) == {1: one, 2: two}
        assert intern_series(connection, []).tolist() == []


def test_what_is_forgotten_leaves_nothing_and_its_id_is_never_given_again(engine: Engine) -> None:
    both = labels_from({"a": "both"}, "m")
    ids = intern(engine, [both, labels_from({"a": "last", "b": "x"}, "m")])
    with writing(engine) as connection:
        forget_series(connection, np.array([2, 2, 77]))
        forget_series(connection, np.array([], dtype=np.int64))
    assert rows(engine, "SELECT id FROM series") == [(1,)]
    assert rows(engine, "SELECT name, value FROM label_pair WHERE name <> '' ORDER BY name") == [
        ("__name__", "m"),
        ("a", "both"),
    ]
    assert rows(engine, "SELECT DISTINCT pair_id FROM posting ORDER BY 1") == rows(
        engine, "SELECT id FROM label_pair ORDER BY 1"
    )
    assert rows(engine, "SELECT series_epoch FROM store_state") == [(1,)]
    assert intern(engine, [labels_from({"a": "last", "b": "x"}, "m")]).popitem()[1] == 3
    assert matched(engine, Matcher("b", "=", "x")) == [3]
    assert matched(engine, Matcher("a", "=~", ".+")) == [ids[both], 3]


def test_ids_of_a_write_that_was_undone_are_free(engine: Engine) -> None:
    with writing(engine) as connection, connection.begin_nested() as savepoint:
        intern_series(connection, [labels_from({}, "lost")])
        savepoint.rollback()
    assert intern(engine, [labels_from({}, "kept")]) == {labels_from({}, "kept"): 1}


def test_postings_can_be_built_anew_from_the_series(engine: Engine) -> None:
    intern(engine, [labels_from({"a": str(number), "b\0": "\0"}, "m") for number in range(50)])
    intern(engine, [labels_from({"a": "x\ny"}, "m"), labels_from({"a": "z"}, "m")])
    stored = (
        "SELECT p.name, p.value, t.chunk, t.ids FROM posting AS t JOIN label_pair AS p ON p.id = t.pair_id "
        "ORDER BY 1, 2, 3"
    )
    before = rows(engine, stored)
    with writing(engine) as connection:
        connection.execute(text("DELETE FROM posting"))
        connection.execute(text("DELETE FROM label_pair WHERE name = ''"))
        repack_postings(connection)
    assert rows(engine, stored) == before
    assert matched(engine, Matcher("a", "=~", ".+")) == list(range(1, 53)) == matched(engine)


@pytest.mark.parametrize("operator", OPERATORS)
def test_text_that_is_not_unicode_is_a_bad_matcher(engine: Engine, operator: MatchOperator) -> None:
    with pytest.raises(BadMatcher, match="not Unicode"):
        matched(engine, Matcher("a", operator, "\ud800"))


def test_forgotten_values_leave_the_pages_of_a_label_of_very_many(engine: Engine) -> None:
    series = [
        labels_from({"pod": f"p{number}\n" if number % 9_000 == 0 else f"p{number}"})
        for number in range(30_000)
    ]
    ids = intern(engine, series[:25_000])
    ids |= intern(engine, series)
    with writing(engine) as connection:
        gone = [ids.pop(series[number]) for number in [*range(8_000), 9_000, 20_001]]
        forget_series(connection, np.array(gone))
    agrees(engine, ids, Matcher("pod", "=~", ".*[16]\n?"))
    agrees(engine, ids, Matcher("pod", "!~", "p.*1|"))


def test_a_label_without_a_name_is_kept_but_not_found_by(engine: Engine) -> None:
    odd = (("", "a"), ("a", "b"))
    with writing(engine) as connection:
        intern_series(connection, [odd, labels_from({"c": "d"})])
        assert load_labels(connection, np.array([1])) == {1: odd}
    assert matched(engine, Matcher("", "=", "a")) == []
    assert matched(engine, Matcher("c", "!=", "")) == [2]


_SOLE_ROWS = "SELECT pair_id, chunk FROM posting WHERE chunk <= :sole"


def sole_rows(engine: Engine) -> list[tuple[object, ...]]:
    with reading(engine) as connection:
        return [tuple(row) for row in connection.execute(text(_SOLE_ROWS), {"sole": SOLE})]


def test_values_that_one_series_carries_are_found_by_it(engine: Engine) -> None:
    """A value that gets a second series is in the postings alone from then on, also when it loses it."""
    series = [labels_from({"pod": f"pod-{number:05}"}, "m") for number in range(25_000)]
    ids = intern(engine, series)
    pattern = Matcher("pod", "=~", ".*[0-4]")
    assert len(sole_rows(engine)) >= 25_000 // 4096
    agrees(engine, ids, pattern)
    ids |= intern(engine, [labels_from({"pod": f"pod-{number:05}"}, "n") for number in range(0, 9_000, 3)])
    agrees(engine, ids, pattern)
    ids |= intern(engine, [labels_from({"pod": f"later-{number:05}"}, "m") for number in range(9_000)])
    agrees(engine, ids, pattern)
    gone = [labels for labels in ids if dict(labels)["__name__"] == "m" and dict(labels)["pod"] < "pod-05"]
    with writing(engine) as connection:
        forget_series(connection, np.array(sorted(ids.pop(labels) for labels in gone)))
    agrees(engine, ids, pattern)
    agrees(engine, ids, Matcher("pod", "!~", ".*[0-4]"))
    ids |= intern(engine, gone[:5_000])
    agrees(engine, ids, pattern)


def test_a_file_without_notes_of_sole_series_answers_the_same(engine: Engine) -> None:
    ids = intern(engine, [labels_from({"pod": f"pod-{number:05}"}, "m") for number in range(25_000)])
    with writing(engine) as connection:
        connection.execute(text("DELETE FROM posting WHERE chunk <= :sole"), {"sole": SOLE})
    agrees(engine, ids, Matcher("pod", "=~", ".*[0-4]"))


def test_no_note_is_left_of_series_that_are_forgotten(engine: Engine) -> None:
    ids = intern(engine, [labels_from({"pod": str(number), "all": "yes"}, "m") for number in range(5_000)])
    assert sole_rows(engine)
    with writing(engine) as connection:
        forget_series(connection, np.array(list(ids.values())))
    assert sole_rows(engine) == []
