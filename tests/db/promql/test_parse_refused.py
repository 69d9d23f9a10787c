"""What is refused, and in which words: after Prometheus's own tests of its parser, and hostile texts."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from db.promql.ast import Binary, Call, Expression, Negated
from db.promql.canonical import MAX_DEPTH, MAX_OPEN
from db.promql.errors import BadQuery
from db.promql.parse import parse
from db.promql.scan import MAX_CHARACTERS


# The words are Prometheus's, mostly the places, too. A wrong type we place where the call begins.
@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "1:1 no expression found in input"),
        (" # x", "1:1 no expression found in input"),
        ("1+", "1:3 unexpected end of input"),
        (".", "1:1 unexpected character: '.'"),
        ("2.5.", '1:1 bad number or duration syntax: "2.5."'),
        ("1__0", '1:1 bad number or duration syntax: "1__0"'),
        ("0deadbeef", '1:1 bad number or duration syntax: "0deadbeef"'),
        ("5m1h", '1:1 not a valid duration string: "5m1h"'),
        ("1e999", '1:1 error parsing number: "1e999" is out of range'),
        ("1 /", "1:4 unexpected end of input"),
        ("*1", "1:1 unexpected <op:*>"),
        ("(1))", "1:4 unexpected right parenthesis ')'"),
        ("((1)", "1:5 unclosed left parenthesis"),
        ("x[5m", "1:5 unclosed left bracket"),
        ("x]", "1:2 unexpected right bracket ']'"),
        ('x{a="1"', "1:8 unexpected end of input inside braces"),
        ("()", '1:2 unexpected ")"'),
        ("x y", '1:3 unexpected identifier "y"'),
        ("x\n\n  + é", "3:5 unexpected character: 'é'"),
        ('"é" é', "1:6 unexpected character: 'é'"),
        ("=~", "1:1 unexpected character after '=': '~'"),
        ("x ! y", "1:3 unexpected character after '!': ' '"),
        ('"a', "1:1 unterminated quoted string"),
        ('"a\n"', "1:1 unterminated quoted string"),
        ("`a", "1:1 unterminated raw string"),
        ('"\\q"', "1:1 unknown escape sequence U+0071 'q'"),
        ("'\\\"'", "1:1 unknown escape sequence U+0022 '\"'"),
        ('"\\400"', "1:1 escape sequence is an invalid Unicode code point"),
        ('"\\ud800"', "1:1 escape sequence is an invalid Unicode code point"),
        ('"\ud800"', "1:1 invalid UTF-8 rune"),
        ("x\ud800", "1:2 unexpected character: '\\ud800'"),
        ("x{a=1}", "1:5 unexpected character inside braces: '1'"),
        ("x{a}", '1:4 unexpected "}" in label matching, expected label matching operator'),
        ("x{a=b}", '1:5 unexpected identifier "b" in label matching, expected string'),
        ("x{,}", '1:3 unexpected "," in label matching, expected identifier or "}"'),
        ('x{a="1" b="2"}', '1:9 unexpected identifier "b" in label matching, expected "," or "}"'),
        ('{"a" "b"}', '1:6 unexpected string "\\"b\\"" in label matching, expected "," or "}"'),
        ("{}", "1:1 vector selector must contain at least one non-empty matcher"),
        ('1 + {a="",b!="1",c=~".*",d!~".+",""}',
         "1:5 vector selector must contain at least one non-empty matcher"),
        ('x{__name__="y"}', '1:1 metric name must not be set twice: "x" or "y"'),
        ('x{"y"}', '1:1 metric name must not be set twice: "x" or "y"'),
        ('x{a=~"("}', "1:3 not a valid RE2 expression '(': missing ): ^(?:()$"),
        ('x{a!~"(?=b)"}', "1:3 not a valid RE2 expression '(?=b)': invalid perl operator: (?="),
        ("foo(x)", '1:1 unknown function with name "foo"'),
        ("1 + RATE(x[1m])", '1:5 unknown function with name "RATE"'),
        ("abs(x,)", "1:6 trailing commas not allowed in function call args"),
        ("abs()", '1:1 expected 1 argument(s) in call to "abs", got 0'),
        ("1 + round(x, 1, 2)", '1:5 expected at most 2 argument(s) in call to "round", got 3'),
        ('label_join(x, "a")', '1:1 expected at least 3 argument(s) in call to "label_join", got 2'),
        ("sum(rate(x)) + y",
         '1:5 expected type range vector in call to function "rate", got instant vector'),
        ("abs(1)", '1:1 expected type instant vector in call to function "abs", got scalar'),
        ("sum(5)", "1:1 expected type instant vector in aggregation expression, got scalar"),
        ("sum(x[1m])", "1:1 expected type instant vector in aggregation expression, got range vector"),
        ("sum()", "1:1 no arguments for aggregate expression provided"),
        ("topk(x)", "1:1 wrong number of arguments for aggregate expression provided, expected 2, got 1"),
        ("sum(1, x)", "1:1 wrong number of arguments for aggregate expression provided, expected 1, got 2"),
        ("sum x", '1:5 unexpected identifier "x"'),
        ("sum by (a) x", '1:12 unexpected identifier "x" in aggregation'),
        ("sum by a (x)", '1:8 unexpected identifier "a" in grouping opts, expected "("'),
        ("sum by (a b) (x)", '1:11 unexpected identifier "b" in grouping opts, expected "," or ")"'),
        ("sum by (1) (x)", '1:9 unexpected number "1" in grouping opts, expected label'),
        ("sum by (without) (x)", "1:9 unexpected <without> in grouping opts, expected label"),
        ('sum by ("") (x)', '1:9 invalid label name for grouping: ""'),
        ('sum by ("\\xff") (x)', '1:9 invalid label name for grouping: "\\xff"'),
        ("sum(x) by (a) by (b)", "1:15 unexpected <by>"),
        ("1 > 2", "1:1 comparisons between scalars must use BOOL modifier"),
        ("x + bool y", "1:1 bool modifier can only be used on comparison operators"),
        ("1 and x", '1:1 set operator "and" not allowed in binary scalar expression'),
        ('"a" + 1', "1:1 binary expression must contain only scalar and instant vector types"),
        ("x and on(a) group_left(b) y", '1:1 no grouping allowed for "and" operation'),
        ("x * on(a,b) group_left(c,b) y", '1:3 label "b" must not occur in ON and GROUP clause at once'),
        ("1 + on(a) x", "1:1 vector matching only allowed between instant vectors"),
        ("x + group_left y", "1:5 unexpected <group_left>"),
        ("x + on y", '1:8 unexpected identifier "y" in grouping opts, expected "("'),
        ('1 + -"a"', "1:1 unary expression only allowed on expressions of type scalar or instant "
         'vector, got "string"'),
        ("+x[5m]", "1:1 unary expression only allowed on expressions of type scalar or instant "
         'vector, got "range vector"'),
        ("x[0s]", "1:3 duration must be greater than 0"),
        ("x[-5m]", "1:3 duration must be greater than 0"),
        ("x[5m:0]", "1:6 duration must be greater than 0"),
        ("x[0.0001]", "1:3 duration must be at least 1ms"),
        ("x[300y]", "1:3 duration out of range"),
        ("x offset 1e10", "1:10 duration out of range"),
        ("x offset NaN", "1:10 duration out of range"),
        ("x[]", '1:3 unexpected "]" in subquery or range selector, expected number or duration'),
        ("x[5m 5m]", '1:6 unexpected duration "5m" in subquery or range, expected ":" or "]"'),
        ("x offset", "1:9 unexpected end of input in offset, expected number or duration"),
        ("x @", "1:4 unexpected end of input in @, expected timestamp"),
        ("x @ --5", "1:6 unexpected <op:-> in @, expected timestamp"),
        ("x @ Inf", "1:5 timestamp out of bounds for @ modifier: inf"),
        ("x @ 1e300", f"1:5 timestamp out of bounds for @ modifier: {1e300:f}"),
        ("1 + x offset 1m offset 1m", "1:5 offset may not be set multiple times"),
        ("x @ 1 @ start()", "1:1 @ <timestamp> may not be set multiple times"),
        ("(x) offset 1m", "1:1 offset modifier must be preceded by an instant vector selector or "
         "range vector selector or a subquery"),
        ("sum(x) @ 1", "1:1 @ modifier must be preceded by an instant vector selector or range "
         "vector selector or a subquery"),
        ("x offset 1m [5m]", "1:1 no offset modifiers allowed before range"),
        ("abs(x)[5m]", "1:1 ranges only allowed for vector selectors"),
        ("x[5m][1h:]", "1:1 subquery is only allowed on instant vector, got range vector instead"),
        ("1[1h:]", "1:1 subquery is only allowed on instant vector, got scalar instead"),
    ],
)  # fmt: skip
def test_what_is_refused(text, message):
    with pytest.raises(BadQuery) as refused:
        parse(text)
    place, _, reason = message.partition(" ")
    assert str(refused.value) == f"{place}: parse error: {reason}"


_FEATURE = "it is experimental in Prometheus 3"
_EXPERIMENTAL = (
    "first_over_time", "mad_over_time", "ts_of_min_over_time", "info", "integral", "min_of", "sort_by_label",
    "histogram_quantiles", "start", "step", "range", "limitk", "fill",
)  # fmt: skip


@pytest.mark.parametrize(
    ("text", "message"),
    [
        *((f"1 + {name}(x[1m])", f"not supported: {name}() at 1:5: {_FEATURE}") for name in _EXPERIMENTAL),
        ("limit_ratio by (a) (1, x)", f"not supported: limit_ratio() at 1:1: {_FEATURE}"),
        ("holt_winters(x[1m], 1, 1)", "not supported: holt_winters() at 1:1: Prometheus 3 calls it "
         "double_exponential_smoothing()"),
        ("x + fill_left(0) y", f"not supported: fill_left() at 1:5: {_FEATURE}"),
        ("x[5m] anchored", f"not supported: the modifier anchored at 1:7: {_FEATURE}"),
        ("x[1m+2m]", f"not supported: a duration that is calculated at 1:5: {_FEATURE}"),
        ("x[(1m)]", f"not supported: a duration that is calculated at 1:3: {_FEATURE}"),
        ("x[1h:step()]", f"not supported: a duration that is calculated at 1:6: {_FEATURE}"),
        ("x offset -(1m)", f"not supported: a duration that is calculated at 1:11: {_FEATURE}"),
        ("x[2i]", "not supported: the duration 2i at 1:3: write it in seconds, minutes, ..."),
        ('x{a="1" or b="2"}', "not supported: `or` between label matchers at 1:9: write two selectors with "
         "`or` between them"),
        ("x\n+ {{sum:1}}", "not supported: a native histogram at 2:3: only floats are evaluated"),
    ],
)  # fmt: skip
def test_what_is_not_supported_is_said_with_its_place(text, message):
    with pytest.raises(BadQuery) as refused:
        parse(text)
    assert str(refused.value) == message


def test_as_deep_as_the_limit_is_read():
    assert isinstance(parse("-" * MAX_DEPTH + "x"), Negated)
    assert isinstance(parse("x" + "+x" * MAX_DEPTH), Binary)
    assert isinstance(parse("abs(" * MAX_DEPTH + "x" + ")" * MAX_DEPTH), Call)
    assert parse("(" * MAX_OPEN + "x" + ")" * MAX_OPEN) == parse("x")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("-" * (MAX_DEPTH + 1) + "x", "deep"),
        ("x" + "^x" * (MAX_DEPTH + 1), "deep"),
        ("x" + "+x" * 60_000, "deep"),
        ("abs(" * 150 + "-" * 51 + "x" + ")" * 150, "deep"),
        ("sum(" * 150 + "x" + ")" * 150 + "+x" * 60, "deep"),
        ("x" + "[5m:]" * 201, "deep"),
        ("clamp(" + "-" * 201 + "x, 1, 2)", "deep"),
        ("(" * 100_000, "parentheses are open"),
        ("(" * 60_000 + "x" + ")" * 60_000, "parentheses are open"),
        ("x" * (MAX_CHARACTERS + 1), "the query has 131,073 characters; at most 131,072 are read"),
        ("x" * 1_000_000, "characters"),
    ],
)
def test_too_much_is_refused(text, message):
    with pytest.raises(BadQuery, match=message):
        parse(text)


_WORDS = st.sampled_from(
    [
        "x",
        "sum",
        "by",
        "without",
        "on",
        "ignoring",
        "group_left",
        "bool",
        "offset",
        "and",
        "or",
        "unless",
        "atan2",
        "start",
        "end",
        "(",
        ")",
        "(",
        ")",
        "(",
        ")",
        "{",
        "}",
        "[",
        "]",
        ":",
        ",",
        "=",
        "=~",
        "!=",
        "!~",
        "+",
        "-",
        "*",
        "/",
        "%",
        "^",
        "==",
        "<=",
        ">",
        "@",
        "1",
        "0x1f",
        "1_0",
        "5m",
        "Inf",
        "nan",
        '"a"',
        "'b'",
        "`c`",
        "rate",
        "abs",
        "time",
        "label_join",
        '{a="b"}',
        "{}",
        "[5m]",
        "[5m:]",
        "[1h:1m]",
        'x{a=~"b.*"}',
        '{"q.r"}',
        "(a)",
        "#",
        "topk",
        "count_values",
        "holt_winters",
        "limitk",
        "anchored",
        "fill",
    ]
)


@given(st.one_of(st.lists(_WORDS, max_size=12).map(" ".join), st.lists(_WORDS, max_size=8).map("".join)))
@settings(max_examples=400, deadline=None)
def test_any_words_are_read_or_refused(text):
    _read_or_refused(text)


@given(st.text(st.characters(), max_size=60))
@settings(max_examples=200, deadline=None)
def test_any_text_is_read_or_refused(text):
    _read_or_refused(text)
    _read_or_refused(f'x{{a=~"{text}"}}')


def _read_or_refused(text: str) -> None:
    try:
        found = parse(text)
    except BadQuery as refused:
        reason = str(refused)
    else:
        assert isinstance(found, Expression)
        return
    assert "parse error: " in reason or reason.startswith("not supported: ")
    assert reason.encode(), "it can be sent"
