"""Whole queries over a real store: the form and order of answers, what is said with them, and the limits."""

import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import pytest

from db.errors import StoreUnreachable
from db.nan import STALE
from db.promql.canonical import MAX_DEPTH
from db.promql.engine import Options, instant, ranged
from db.promql.errors import (
    BadQuery,
    ExecutionError,
    LimitExceeded,
    QueryError,
    QueryTimeout,
    SourceUnavailable,
    TooManySteps,
)
from db.promql.limits import Limits
from db.records import Matcher
from db.store import SampleStore
from tests.db.promql.samples import at, every_minute, over, rows_of, write

NAN, INF = float("nan"), float("inf")
SAME_LABELS = "^vector cannot contain metrics with the same labelset$"


@pytest.mark.parametrize(
    ("query", "order"),
    [
        ("sort(x)", "caebd"),
        ("sort_desc(x)", "beacd"),
        ("topk(2, x)", "be"),
        ("bottomk(3, x)", "cae"),
        ("topk(9, x)", "beacd"),
        ("topk by (g) (2, x)", "becd"),
        ("label_replace(sort_desc(x), 'h', 'q', '', '')", "beacd"),
        ("sort(x * 1)", "caebd"),
        ("sort(x) > 1", "aeb"),
    ],
)
def test_sorted_vectors_stay_so(store: SampleStore, query: str, order: str) -> None:
    held = {"a": (3, 1), "b": (INF, 1), "c": (1, 2), "d": (NAN, 2), "e": (4, 1)}
    write(store, {f'x{{i="{i}",g="{g}"}}': {0: value} for i, (value, g) in held.items()})
    names = [text.partition("i=")[2][0] for text, _ in at(store, query)]
    assert names == list(order)


def test_a_range_is_ordered_by_labels(store: SampleStore) -> None:
    write(store, {text: {0: 1} for text in ('x{i="b"}', 'x{i="a"}', "a", 'x{h="z"}', 'x{i="10"}')})
    found = over(store, 'sort({__name__=~".+"})', 0, 60, 60)
    assert list(found) == ["a", "x{h=z}", "x{i=10}", "x{i=a}", "x{i=b}"]


def test_forms_of_answers(store: SampleStore) -> None:
    write(store, {"x": every_minute([1, STALE, 3])})
    scalar = instant(store, "1 + 1", 5_000)
    assert (scalar.kind, scalar.values.tolist(), scalar.timestamps.tolist()) == ("scalar", [[2]], [5_000])
    text = instant(store, "('a')", 5_000)
    assert (text.kind, text.text, text.timestamps.tolist()) == ("string", "a", [5_000])
    vector = instant(store, "x", 5_000)
    assert (vector.kind, vector.timestamps.tolist()) == ("vector", [5_000])
    matrix = instant(store, "x[1h]", 121_000)
    assert (matrix.kind, matrix.timestamps.tolist()) == ("matrix", [0, 120_000])
    assert rows_of(matrix) == {"x": [1, 3]}
    assert over(store, "1 + time()", 0, 120, 60) == {"{}": [1, 61, 121]}
    # The last step is not after the end.
    assert over(store, "time()", 0, 119.999, 60) == {"{}": [0, 60]}
    assert over(store, "time()", 7, 7, 60) == {"{}": [7]}


@pytest.mark.parametrize(
    "query", ["no", "no[5m]", "no + 1", "sum(no)", "no or no", "rate(no[5m])", "sort(no)", "topk(1, no)"]
)
def test_nothing_is_found_without_an_error(store: SampleStore, query: str) -> None:
    assert instant(store, query, 0).table.count == 0
    if query != "no[5m]":
        assert over(store, query, 0, 60, 60) == {}


@pytest.mark.parametrize(
    ("query", "values"),
    [
        # In turns they are one series ...
        ('abs({__name__=~"one|two"})', [1, 1, 2, 2]),
        ('-{__name__=~"one|two"}', [-1, -1, -2, -2]),
        ('{__name__=~"one|two"} + 0', [1, 1, 2, 2]),
        ('label_replace({__name__=~"one|two"}, "__name__", "", "", "")', [1, 1, 2, 2]),
        # ... but not where windows see both.
        ('abs({__name__=~"one|both"})', None),
        ('-{__name__=~"one|both"}', None),
        ('label_replace({__name__=~"one|both"}, "__name__", "", "", "")', None),
        ('max_over_time({__name__=~"one|two"}[1s])', None),
        # What has no window with samples is no series.
        ('max_over_time({__name__=~"one|two"}[1s] offset -2m)', [2, 2, None, None]),
    ],
)
def test_series_that_lose_their_name(
    store: SampleStore, query: str, values: list[float | None] | None
) -> None:
    write(
        store,
        {"one": {0: 1, 60: 1, 90: STALE}, "two": {120: 2, 180: 2}, "both": every_minute([3, 3, 3, 3])},
    )
    if values is None:
        with pytest.raises(ExecutionError, match=SAME_LABELS):
            over(store, query, 0, 180, 60)
    else:
        assert over(store, query, 0, 180, 60) == {"{}": values}


@pytest.mark.parametrize(
    "query",
    [
        "-x",
        "x + 1",
        "x == bool 1",
        "abs(x)",
        "max_over_time(x[5m])",
        "timestamp(x)",
        "clamp(x, 0, 9)",
        "x + x",
    ],
)
def test_type_and_unit_go_with_the_name(store: SampleStore, query: str) -> None:
    write(store, {'x{__type__="gauge",__unit__="s",a="1"}': {0: 1}})
    [(labels, _)] = at(store, query)
    assert labels == "{a=1}"
    assert at(store, "last_over_time(x[5m])") == at(store, "x") == [("x{__type__=gauge,__unit__=s,a=1}", 1)]


BUCKET = 'PromQL warning: bucket label "le" is missing or has a malformed value of ""'
QUANTILE = "PromQL warning: quantile value should be between 0 and 1, got "


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("quantile(1.5, x)", f"{QUANTILE}1.5 (1:10)"),
        ("quantile by (a) (((1.5)), x)", f"{QUANTILE}1.5 (1:20)"),
        ("sum(\n quantile(-1, x))", f"{QUANTILE}-1 (2:11)"),
        ('x{a="é"} or quantile(2, x)', f"{QUANTILE}2 (1:23)"),
        ("histogram_quantile(- - 2, nothing)", f"{QUANTILE}2 (1:20)"),
        ("quantile_over_time(2, x[5m])", f"{QUANTILE}2 (1:20)"),
        ("quantile_over_time(2, nothing[5m])", ""),
        ("quantile(2, nothing)", f"{QUANTILE}2 (1:10)"),
        ("quantile(0.5 + 1, x)", f"{QUANTILE}1.5 (1:10)"),
        ("quantile((0.5) + 1, x)", f"{QUANTILE}1.5 (1:10)"),
        ("quantile(1 + (0.5), x)", f"{QUANTILE}1.5 (1:10)"),
        ("histogram_fraction(0, 1, (x))", f'{BUCKET} for metric name "x" (1:27)'),
        ("histogram_quantile(0.5, sum(x))", f"{BUCKET} (1:25)"),
    ],
)
def test_warnings_say_where(store: SampleStore, query: str, said: str) -> None:
    write(store, {"x": {0: 1}})
    answer = instant(store, query, 0)
    assert list(answer.warnings) == ([said] if said else [])
    assert answer.infos == ()


NO_COUNTER = "PromQL info: metric might not be a counter, name does not end in _total/_sum/_count/_bucket: "


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("rate(x[5m])", [f'{NO_COUNTER}"x" (1:6)']),
        ("1 + increase((x[5m]))", [f'{NO_COUNTER}"x" (1:15)']),
        ("rate(x[5m]) + rate(x[5m])", [f'{NO_COUNTER}"x" (1:6)', f'{NO_COUNTER}"x" (1:20)']),
        (
            "rate({__name__=~'x|y_total|odd.*'}[5m])",
            [f'{NO_COUNTER}"x" (1:6)', rf'{NO_COUNTER}"odd\n" (1:6)'],
        ),
        ("rate(y_total[5m])", []),
        # One sample is no rate, and other functions are not of counters.
        ("rate(single[5m])", []),
        ("irate(x[5m])", []),
        ("delta(x[5m])", []),
        ("rate(sum(x)[5m:1m])", []),
        ("rate(x[5m:1m])", [f'{NO_COUNTER}"x" (1:6)']),
    ],
)
def test_of_what_is_no_counter(store: SampleStore, query: str, said: Sequence[str]) -> None:
    series = {name: {0: 1, 60: 2} for name in ("x", 'y_total{i="2"}', '{"odd\\n",i="1"}')}
    write(store, {**series, "single": {0: 1}})
    assert list(instant(store, query, 120_000).infos) == said


def test_sorting_a_range_is_told(store: SampleStore) -> None:
    said = "sort is ineffective for range queries since results are always ordered by labels"
    assert ranged(store, "1 + sort(x)", 0, 60_000, 60_000).warnings == (f"PromQL warning: {said} (1:5)",)
    assert instant(store, "1 + sort(x)", 0).warnings == ()


def test_no_more_than_ten_notes_of_a_kind(store: SampleStore) -> None:
    write(store, {f'x{number}{{i="{number}"}}': {0: 1, 60: 2} for number in range(13)})
    rates = 'rate({__name__=~"x.*"}[5m])'
    infos = instant(store, rates, 60_000).infos
    assert infos[0] == f'{NO_COUNTER}"x0" (1:6)'
    assert infos[10:] == ("3 more info annotations omitted",)
    warnings = instant(store, " + ".join(f"quantile({number}.5, x1)" for number in range(1, 13)), 0).warnings
    assert (len(warnings), warnings[-1]) == (11, "2 more warning annotations omitted")
    ten = instant(store, rates.replace("x.*", "x[0-9]"), 60_000).infos
    assert len(ten) == 10
    assert "omitted" not in ten[-1]


def nested(before: str, inside: str, behind: str, times: int) -> str:
    return before * times + inside + behind * times


# Each as deep as an expression may be.
DEEP = [
    nested("abs(", "x", ")", MAX_DEPTH),
    nested("label_replace(", "x", ',"a","b","c","d")', MAX_DEPTH),
    nested("histogram_quantile(0.5,", "x", ")", MAX_DEPTH),
    nested("vector(scalar(", "x", "))", MAX_DEPTH // 2),
    nested("clamp_min(", "x", ",1)", MAX_DEPTH),
    nested("hour(", "x", ")", MAX_DEPTH),
    nested("timestamp(", "x", ")", MAX_DEPTH),
    nested("sum(", "x", ")", MAX_DEPTH),
    nested("quantile(0.5,", "x", ")", MAX_DEPTH),
    nested("topk(scalar(", "vector(1)", "),x)", MAX_DEPTH // 2 - 1),
    nested("count_values('a',", "x", ")", MAX_DEPTH),
    nested("max_over_time((", "x", ")[5m:1m])", MAX_DEPTH // 2),
    nested("-(", "x", ")", MAX_DEPTH),
    nested("(", "x", " ^ 1)", MAX_DEPTH),
    nested("(1 * ", "x", ")", MAX_DEPTH),
    "x" + " or x" * MAX_DEPTH,
    "x ^ " * MAX_DEPTH + "x",
]


@pytest.mark.parametrize("query", DEEP, ids=lambda query: query[:16])
def test_the_deepest_expressions_are_evaluated(store: SampleStore, query: str) -> None:
    write(store, {"x": {0: 1}})

    def ask() -> None:
        assert instant(store, query, 60_000).table.count <= 1
        assert ranged(store, query, 0, 120_000, 60_000).table.count <= 1

    def down(left: int) -> None:
        if left:
            down(left - 1)
        else:
            ask()

    # In a thread and with many calls open already, as servers ask.
    with ThreadPoolExecutor(1) as pool:
        pool.submit(down, 200).result()


def test_a_chain_that_is_too_long_is_refused(store: SampleStore) -> None:
    with pytest.raises(BadQuery, match="the expression is more than 200 deep; record parts of it"):
        instant(store, "x" + " or x" * 700, 0)


def test_an_expression_too_deep_for_this_process_is_told(store: SampleStore) -> None:
    held = sys.getrecursionlimit()
    query = nested("abs(", "x", ")", 150)
    instant(store, query, 0)  # it is parsed
    sys.setrecursionlimit(300)
    try:
        with pytest.raises(LimitExceeded, match="the expression is too deep; record parts of it with rules"):
            instant(store, query, 0)
    finally:
        sys.setrecursionlimit(held)


@pytest.mark.parametrize(
    ("query", "arguments", "kind", "message"),
    [
        ("x[5m]", (0, 60, 60), BadQuery, 'invalid expression type "range vector" for range query'),
        ("'x'", (0, 60, 60), BadQuery, 'invalid expression type "string" for range query'),
        ("x", (0, 60, 0), BadQuery, "zero or negative query resolution step widths are not accepted"),
        ("x", (0, 60, -1), BadQuery, "zero or negative query resolution step widths are not accepted"),
        ("x", (61, 60, 60), BadQuery, "end timestamp must not be before start time"),
        ("x", (0, 11_000, 1), TooManySteps, "exceeded maximum resolution of 11,000 points"),
    ],
)
def test_ranges_that_are_none(
    store: SampleStore, query: str, arguments: tuple[int, int, int], kind: type[QueryError], message: str
) -> None:
    with pytest.raises(kind, match=message):
        ranged(store, query, *(each * 1000 for each in arguments))
    assert kind("").kind == "bad_data"


@pytest.mark.parametrize(
    ("query", "samples"),
    [
        ("x", 20),
        ("x[1h]", 20),
        ("sum_over_time(x[1m])", 20),
        ("x + x", 40),
        # The times of the subquery, then its values.
        ("sum_over_time(vector(1)[10m:1m])", 20),
    ],
)
def test_samples_are_counted(store: SampleStore, query: str, samples: int) -> None:
    write(store, {f'x{{i="{i}"}}': every_minute(range(10)) for i in range(2)})
    # A matrix is put together once more.
    allowed = samples * (2 if query == "x[1h]" else 1)

    def ask(most: int) -> None:
        options = Options(limits=Limits(samples=most))
        if query == "x[1h]" or "vector" in query:
            instant(store, query, 540_000, options)
        else:
            ranged(store, query, 0, 540_000, 60_000, options)

    ask(allowed)
    with pytest.raises(LimitExceeded, match="samples at once; select fewer series, a shorter time"):
        ask(allowed - 1)


def test_time_is_up(store: SampleStore) -> None:
    with pytest.raises(QueryTimeout, match="the query took longer than -1 s; select fewer series"):
        instant(store, "x", 0, Options(limits=Limits(seconds=-1)))


def test_a_store_that_does_not_answer(store: SampleStore) -> None:
    class Gone:
        def latest_columns(self, matchers: Sequence[Matcher], at_ms: int, lookback_ms: int) -> None:
            raise StoreUnreachable("the disk is gone")

    with pytest.raises(SourceUnavailable, match="the disk is gone"):
        instant(Gone(), "x", 0)
