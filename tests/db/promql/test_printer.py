"""The text of an expression is read back as the same expression: an engine evaluates what was meant."""

import math

import pytest
from hypothesis import given, reject, settings
from hypothesis import strategies as st

from db.promql.ast import Number, Text
from db.promql.errors import BadQuery
from db.promql.parse import parse
from db.promql.printer import duration, quoted, selector_text, text_of
from db.records import Matcher
from tests.promql.grammar import vector

TEXTS = st.text(st.characters(exclude_categories=("Cs",)), max_size=8)


@settings(max_examples=300, deadline=None)
@given(vector(4))
def test_any_query_is_read_back_as_it_was(text: str) -> None:
    try:
        expression = parse(text)
    except BadQuery:
        reject()  # what the grammar allows beyond the language is no matter of the printer's
    # Not ==: NaN is no number to it.
    assert repr(parse(text_of(expression))) == repr(expression)


@pytest.mark.parametrize(
    "text",
    [
        "-1 ^ 2",
        "(-a) ^ 2",
        "-a ^ 2",
        "1 - -1",
        "2 ^ 3 ^ 2",
        "(2 ^ 3) ^ 2",
        "a == bool 1",
        "sum by () (x)",
        "sum without () (x)",
        "count_values('v', x)",
        "topk without (a) (3, x)",
        "max_over_time(rate(x[5m])[1h:] @ end() offset 1d)",
        "x @ 1700000000.5 offset -1ms",
        "a / on () group_right () b",
        "a * ignoring (x) group_left (y) b",
        '{"foo.bar", job=~"a|b"}',
        'sum by ("without", "NaN", "inf", "a b", by) (x)',
        r'x{a="\ufffd"} + on ("\ufffd") y',
        r'label_replace(x, "a", "\xff\x00\u202e", "b", "")',
        "label_replace(x, 'a', '$1', 'b', '(.*)')",
        "Inf + -Inf",
        "1e300 * 5e-324",
        "scalar(x) + vector(time())",
    ],
)
def test_texts(text: str) -> None:
    assert parse(text_of(parse(text))) == parse(text)


def test_nan_is_a_number() -> None:
    read = parse(text_of(parse("NaN")))
    assert isinstance(read, Number)
    assert math.isnan(read.value)


@given(TEXTS)
def test_any_text_is_quoted(text: str) -> None:
    assert parse(quoted(text)) == Text(text)


def test_a_selector_is_safe_whatever_its_values() -> None:
    matchers = [Matcher("__name__", "=", 'a"} or {b'), Matcher("it's", "!~", "x\\d\n")]
    assert selector_text(matchers) == '{__name__="a\\"} or {b","it\'s"!~"x\\\\d\\n"}'


def test_durations() -> None:
    assert [duration(ms) for ms in (0, 1, 60_000, 90_061_001)] == ["0s", "1ms", "1m", "1d1h1m1s1ms"]
