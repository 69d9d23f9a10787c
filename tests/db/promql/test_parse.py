"""What a text means, as in Prometheus's own tests of its parser."""

import math

import pytest

from db.promql.ast import (
    Aggregate,
    Binary,
    Call,
    Matching,
    MatrixSelector,
    Negated,
    Number,
    Subquery,
    Text,
    VectorSelector,
)
from db.promql.errors import BadQuery
from db.promql.names import FUNCTIONS
from db.promql.parse import parse
from db.records import Matcher, named


def vector(name: str, *matchers: Matcher, offset_ms: int = 0, at: int | str | None = None) -> VectorSelector:
    return VectorSelector((named(name), *matchers), name, offset_ms, at)


X, Y = vector("x"), vector("y")
MANY = Matching("many-to-many")


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1", 1.0),
        ("5.", 5.0),
        (".5", 0.5),
        ("1e3", 1000.0),
        ("1E-3", 0.001),
        ("1e+3", 1000.0),
        ("0x1F", 31.0),
        ("0X_1f", 31.0),
        ("0755", 493.0),
        ("0_17", 15.0),
        ("018", 18.0),
        ("1_000", 1000.0),
        ("1_000.5", 1000.5),
        ("9223372036854775807", 2.0**63),
        ("123456789012345678901234567890", 1.2345678901234568e29),
        ("Inf", math.inf),
        ("-iNf", -math.inf),
        ("+5", 5.0),
        ("-5", -5.0),
        ("--5", 5.0),
        ("-+-+5", 5.0),
        ("5m", 300.0),
        ("1ms", 0.001),
        ("1h30m", 5400.0),
        ("1y2w3d4h5m6s7ms", 33019506.007),
        ("((7))", 7.0),
        ("# a comment\n 3 # another", 3.0),
    ],
)
def test_numbers(text, value):
    assert parse(text) == Number(value)


def test_not_a_number():
    expression = parse("nAn")
    assert isinstance(expression, Number)
    assert math.isnan(expression.value)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('"double"', "double"),
        ("'sin\"gle'", 'sin"gle'),
        ("'it\\'s'", "it's"),
        ('"a\\"b"', 'a"b'),
        ('"\\a\\b\\f\\n\\r\\t\\v\\\\"', "\a\b\f\n\r\t\v\\"),
        ('"\\x41\\101\\u00e9\\U0001F600"', "AAé\U0001f600"),
        ('"\\xc3\\xa9"', "é"),
        ('"\\xff"', "\udcff"),
        ("`raw \\n \" ' \n`", "raw \\n \" ' \n"),
        ('"# no comment"', "# no comment"),
        ('"☺日本語"', "☺日本語"),
        ('("in parentheses")', "in parentheses"),
    ],
)
def test_strings(text, value):
    assert parse(text) == Text(value)


@pytest.mark.parametrize(
    ("text", "matchers", "name"),
    [
        ("x", [named("x")], "x"),
        ("a:b:c", [named("a:b:c")], "a:b:c"),
        (":", [named(":")], ":"),
        ("x{}", [named("x")], "x"),
        ('x{a="1",b!="2",c=~"3.*",d!~`4\\d`}',
         [named("x"), Matcher("a", "=", "1"), Matcher("b", "!=", "2"), Matcher("c", "=~", "3.*"),
          Matcher("d", "!~", "4\\d")], "x"),
        ('x{ a = "1" , }', [named("x"), Matcher("a", "=", "1")], "x"),
        ('x{a="1" # why\n}', [named("x"), Matcher("a", "=", "1")], "x"),
        ('x{a=""}', [named("x"), Matcher("a", "=", "")], "x"),
        ('{a="1",a="2"}', [Matcher("a", "=", "1"), Matcher("a", "=", "2")], None),
        ('{a="",b!=""}', [Matcher("a", "=", ""), Matcher("b", "!=", "")], None),
        ('{a!~".*",b=~".*"}', [Matcher("a", "!~", ".*"), Matcher("b", "=~", ".*")], None),
        ('{a="1",__name__="x"}', [named("x"), Matcher("a", "=", "1")], "x"),
        ('{__name__=~"x|y"}', [Matcher("__name__", "=~", "x|y")], None),
        ('{"a.name", "a.label"="1"}', [named("a.name"), Matcher("a.label", "=", "1")], "a.name"),
        ('{a="1",\'it"s\'}', [named('it"s'), Matcher("a", "=", "1")], 'it"s'),
        ('{on="1",bool=~"2",sum!="3",inf="4",offset="5"}',
         [Matcher("on", "=", "1"), Matcher("bool", "=~", "2"), Matcher("sum", "!=", "3"),
          Matcher("inf", "=", "4"), Matcher("offset", "=", "5")], None),
    ],
)  # fmt: skip
def test_selectors(text, matchers, name):
    assert parse(text) == VectorSelector(tuple(matchers), name)


@pytest.mark.parametrize(
    "name",
    ["sum", "avg", "count_values", "by", "without", "offset", "and", "or", "unless", "start", "end",
     "step", "range", "limitk", "fill", "anchored", "smoothed", "SUM", "And", "info", "rate", "min_of",
     "infinity", "nano"],
)  # fmt: skip
def test_most_keywords_and_functions_name_metrics_too(name):
    assert parse(name) == vector(name)
    assert parse(f'{name}{{a="1"}}[5m]') == MatrixSelector(vector(name, Matcher("a", "=", "1")), 300_000)
    assert parse(f"-{name} offset 1s") == Negated(vector(name, offset_ms=1000))
    assert parse(f"{name} + {name}") == Binary("+", vector(name), vector(name))


@pytest.mark.parametrize("name", ["bool", "on", "ignoring", "group_left", "group_right", "atan2", "Bool"])
def test_some_keywords_never_name_metrics(name):
    with pytest.raises(BadQuery, match=f"1:1: parse error: unexpected <(op:)?{name}>"):
        parse(name)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("x offset 5m", vector("x", offset_ms=300_000)),
        ("x offset -1h30m", vector("x", offset_ms=-5_400_000)),
        ("x OFFSET 7", vector("x", offset_ms=7000)),
        ("x offset 0.0019", vector("x", offset_ms=1)),
        ("x offset -0.0019", vector("x", offset_ms=-1)),
        ("x offset 0s", X),
        ("offset offset 5m", vector("offset", offset_ms=300_000)),
        ("x offset 292y24w3d23h47m16s854ms", vector("x", offset_ms=9_223_372_036_854)),
        ("x @ 1700000000.5", vector("x", at=1_700_000_000_500)),
        ("x @ 0.0005", vector("x", at=1)),
        ("x @ -1.0015", vector("x", at=-1002)),
        ("x @ +5", vector("x", at=5000)),
        ("x @ 5m", vector("x", at=300_000)),
        ("x @ start()", vector("x", at="start")),
        ("x @ END ( )", vector("x", at="end")),
        ("x @ 1_000 offset 1m", vector("x", offset_ms=60_000, at=1_000_000)),
        ("x offset 1m @ 1e3", vector("x", offset_ms=60_000, at=1_000_000)),
        ("x[5m]", MatrixSelector(X, 300_000)),
        ("x[300]", MatrixSelector(X, 300_000)),
        ("x[0.001]", MatrixSelector(X, 1)),
        ("x[ 1_000 ]", MatrixSelector(X, 1_000_000)),
        ("x[+5m]", MatrixSelector(X, 300_000)),
        ("(x[5m])", MatrixSelector(X, 300_000)),
        ("x[5m] offset 1m @ 3", MatrixSelector(vector("x", offset_ms=60_000, at=3000), 300_000)),
        ("x[1h:]", Subquery(X, 3_600_000)),
        ("x[1h:5m]", Subquery(X, 3_600_000, 300_000)),
        ("x[1h:30]", Subquery(X, 3_600_000, 30_000)),
        ("x[1h:5m] @ end() offset -1s", Subquery(X, 3_600_000, 300_000, -1000, "end")),
        ("x offset 1m [1h:]", Subquery(vector("x", offset_ms=60_000), 3_600_000)),
        ("x @ 5 [1h:]", Subquery(vector("x", at=5000), 3_600_000)),
        ("(-x)[1m:1s]", Subquery(Negated(X), 60_000, 1000)),
        ("rate(x[5m])[1h:1m]", Subquery(Call("rate", (MatrixSelector(X, 300_000),)), 3_600_000, 60_000)),
        ("max_over_time(x[1h:])[1d:]",
         Subquery(Call("max_over_time", (Subquery(X, 3_600_000),)), 86_400_000)),
    ],
)  # fmt: skip
def test_times(text, expected):
    assert parse(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("-x", Negated(X)),
        ("+x", X),
        ("- -x", Negated(Negated(X))),
        ("-(1)", Negated(Number(1))),
        ("-x^2", Negated(Binary("^", X, Number(2)))),
        ("-1^2", Negated(Binary("^", Number(1), Number(2)))),
        ("2^-1*3", Binary("*", Binary("^", Number(2), Number(-1)), Number(3))),
        ("-x*y", Binary("*", Negated(X), Y)),
        ("-x offset 1s", Negated(vector("x", offset_ms=1000))),
        ("2^3^2", Binary("^", Number(2), Binary("^", Number(3), Number(2)))),
        ("1-2-3", Binary("-", Binary("-", Number(1), Number(2)), Number(3))),
        ("1+2*3", Binary("+", Number(1), Binary("*", Number(2), Number(3)))),
        ("(1+2)*3", Binary("*", Binary("+", Number(1), Number(2)), Number(3))),
        ("1 atan2 2 + 3", Binary("+", Binary("atan2", Number(1), Number(2)), Number(3))),
        ("x or y and x", Binary("or", X, Binary("and", Y, X, matching=MANY), matching=MANY)),
        ("x unless y and x", Binary("and", Binary("unless", X, Y, matching=MANY), X, matching=MANY)),
        ("x == y + 1", Binary("==", X, Binary("+", Y, Number(1)))),
        ("x > 1 < 2", Binary("<", Binary(">", X, Number(1)), Number(2))),
        ("1 >= bool 2", Binary(">=", Number(1), Number(2), True)),
        ("x != BOOL y", Binary("!=", X, Y, True)),
        ("and and and", Binary("and", vector("and"), vector("and"), matching=MANY)),
        ("x / on() y", Binary("/", X, Y, matching=Matching(on=True))),
        ("x % ignoring(a, on,) y", Binary("%", X, Y, matching=Matching(labels=("a", "on")))),
        ("x * on(a) group_left y", Binary("*", X, Y, matching=Matching("many-to-one", True, ("a",)))),
        ('x <= bool ON("a.b") Group_Right(c, "d e") y',
         Binary("<=", X, Y, True, Matching("one-to-many", True, ("a.b",), ("c", "d e")))),
        ("x ^ ignoring(a) group_left(a) y",
         Binary("^", X, Y, matching=Matching("many-to-one", False, ("a",), ("a",)))),
        ("x and on(a,bool) y", Binary("and", X, Y, matching=Matching("many-to-many", True, ("a", "bool")))),
        ("1 + on() group_left x", Binary("+", Number(1), X)),
        ("time() + x", Binary("+", Call("time", ()), X)),
    ],
)  # fmt: skip
def test_operators(text, expected):
    assert parse(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("sum(x)", Aggregate("sum", X)),
        ("SUM BY () (x)", Aggregate("sum", X)),
        ("avg by (a, by, sum,) (x)", Aggregate("avg", X, labels=("a", "by", "sum"))),
        ("max(x) without (b,a,b)", Aggregate("max", X, labels=("b", "a", "b"), without=True)),
        ("min without () (x)", Aggregate("min", X, without=True)),
        ('count(x) by ("a.b", c:d)', Aggregate("count", X, labels=("a.b", "c:d"))),
        ("topk(2, x) by (a)", Aggregate("topk", X, Number(2), ("a",))),
        ("quantile(scalar(y), x)", Aggregate("quantile", X, Call("scalar", (Y,)))),
        ('count_values without (a) ("b", x)', Aggregate("count_values", X, Text("b"), ("a",), True)),
        ("group((x))", Aggregate("group", X)),
        ("sum(sum)", Aggregate("sum", vector("sum"))),
        ("rate ( x [ 5m ] )", Call("rate", (MatrixSelector(X, 300_000),))),
        ("rate((x[5m]))", Call("rate", (MatrixSelector(X, 300_000),))),
        ("time()", Call("time", ())),
        ("hour()", Call("hour", ())),
        ("round(x)", Call("round", (X,))),
        ("round(x, 5)", Call("round", (X, Number(5)))),
        ('label_join(x, "a", ",")', Call("label_join", (X, Text("a"), Text(",")))),
        ('label_join(x, "a", ",", "b", `c`)',
         Call("label_join", (X, Text("a"), Text(","), Text("b"), Text("c")))),
        ("double_exponential_smoothing(x[1m], 0.5, 1)",
         Call("double_exponential_smoothing", (MatrixSelector(X, 60_000), Number(0.5), Number(1)))),
    ],
)  # fmt: skip
def test_calls(text, expected):
    assert parse(text) == expected


def test_every_function_is_known_with_the_arguments_that_prometheus_takes():
    no_argument = {"time", "pi"}
    more = {
        "clamp": "x, 1, 2", "clamp_max": "x, 1", "clamp_min": "x, 1", "predict_linear": "x[1m], 1",
        "quantile_over_time": "1, x[1m]", "double_exponential_smoothing": "x[1m], 1, 1", "vector": "1",
        "histogram_fraction": "1, 2, x", "histogram_quantile": "1, x", "label_join": 'x, "a", "b"',
        "label_replace": 'x, "a", "b", "c", "d"',
    }  # fmt: skip
    of_ranges = {"rate", "irate", "increase", "delta", "idelta", "deriv", "changes", "resets"}
    for name in sorted(FUNCTIONS):
        simple = "x[1m]" if name in of_ranges or name.endswith("_over_time") else "x"
        arguments = "" if name in no_argument else more.get(name, simple)
        call = parse(f"{name}({arguments})")
        assert isinstance(call, Call)
        assert call.function == name
        with pytest.raises(BadQuery, match=r"argument|expected type"):
            parse(f'{name}("a", "b", "c", 1)')


def test_long_lists_are_read():
    labels = ",".join(f"l{number}" for number in range(5000))
    expression = parse(f"x / on({labels}) group_left(other) y")
    assert isinstance(expression, Binary)
    assert expression.matching.labels[-1] == "l4999"


def test_expressions_can_be_remembered():
    text = 'sum by (a) (rate(x{b="1"}[5m])) / 2'
    assert parse(text) is parse(text)
    assert hash(parse(text)) == hash(parse(text + " "))
