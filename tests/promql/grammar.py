"""Random valid queries as a hypothesis grammar: every operator, matching, aggregation and function of the
language for floats, nested, over the series of `tests.promql.samples`.

Left out where Prometheus 2.42, the oracle, is known to differ from 3.x, or has no order to compare:

- a subquery's range is no multiple of 10 s, so that no step of it lies on its beginning (2.42: closed,
  3.x: open);
- rate and increase only of counters, not of what falls to zero (the order of zero point and limit, see
  `samples`);
- topk and bottomk only over values that do not repeat (which of equal values stay is not defined);
- count_values only of whole numbers (its label would show the last bit of any other);
- stddev and stdvar only of finite numbers (of a single infinite one 2.42 has 0, 3.x NaN);
- atan2 only of vectors without a metric name, which 2.42 keeps and 3.x drops;
- timestamp of a selector with `@` and an offset, which Prometheus ignores there; and it always comes less a
  constant, since the spread of such large numbers has no digits;
- holt_winters is written under its new name, double_exponential_smoothing, and renamed for 2.42;
- what 2.42 lacks: numbers as durations, quoted metric names, experimental functions.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from itertools import combinations

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

from tests.promql.samples import FIRST_MS, SPAN_MS

Text = st.SearchStrategy[str]

# Every time of a query is a multiple of this.
GRID_MS = 10_000
COUNTERS = ("requests_total", "cpu_seconds_total", "latency_seconds_count", "latency_seconds_sum")
GAUGES = ("temperature", "memory_bytes", "up", "started_seconds", "build_info")
# Their values do not repeat.
DISTINCT = ("memory_bytes", "cpu_seconds_total")
LABELS = ("job", "instance", "code", "mode", "zone", "version", "le", "__name__")
# Of labels that every series has, and of those that some have.
MATCHERS = (
    'job="api"',
    'job!="api"',
    'job=~"api|db"',
    'instance=~"[ab].*"',
    'instance!~"a.*|d:1"',
    'instance=~".+"',
    'absent=""',
    'absent!~".+"',
)
OWN_MATCHERS = {
    "requests_total": ('code="200"', 'code!="500"', 'code=~"4..|5.."', 'code!~"4.*"'),
    "cpu_seconds_total": ('mode="idle"', 'mode=~"i.*|"', 'mode=""'),
    "temperature": ('zone=~"x|"', 'zone="y"', 'zone!~""'),
    "build_info": ('version!=""', 'version=~"v[12]"', 'version!="v0"'),
}
RANGES = ("50s", "1m", "2m", "5m", "7m30s", "20m", "1h")
SUBQUERY_RANGES = ("47s", "1m47s", "5m7s", "10m27s", "31m3s")
SUBQUERY_STEPS = ("", "10s", "30s", "1m", "2m40s")
OFFSETS = ("10s", "1m", "5m20s", "17m", "-30s", "-10m", "1h", "-1h")

OVER_RANGE = [
    "irate",
    "delta",
    "idelta",
    "changes",
    "resets",
    "deriv",
    "avg_over_time",
    "min_over_time",
    "max_over_time",
    "sum_over_time",
    "count_over_time",
    "stddev_over_time",
    "stdvar_over_time",
    "last_over_time",
    "present_over_time",
    "absent_over_time",
]
ELEMENTWISE = [
    "abs",
    "ceil",
    "floor",
    "exp",
    "sqrt",
    "ln",
    "log2",
    "log10",
    "sgn",
    "deg",
    "rad",
    "sin",
    "cos",
    "tan",
    "asin",
    "acos",
    "atan",
    "sinh",
    "cosh",
    "tanh",
    "asinh",
    "acosh",
    "atanh",
]
DATES = ["minute", "hour", "day_of_month", "day_of_week", "day_of_year", "days_in_month", "month", "year"]
AGGREGATIONS = ("sum", "avg", "count", "min", "max", "group", "stddev", "stdvar")
ARITHMETIC = ("+", "-", "*", "/", "%", "^", "atan2")
COMPARISONS = ("==", "!=", ">", "<", ">=", "<=")
# Destination and separator; destination and replacement; regular expressions.
LABEL_JOINS = st.sampled_from(('"new", "-", "job"', '"job", "", "instance"', '"new", ":", "absent"'))
TARGETS = st.sampled_from(('"new", "$1-$2"', '"code", "x"', '"new", "${1}"', '"instance", ""'))
PATTERNS = st.sampled_from(('"(.)(.*)"', '"([a-z]+).*"', '".*"', '"nothing"'))
QUOTED_LABELS = st.sampled_from([f'"{name}"' for name in LABELS])
# Between vectors; atan2 has a form of its own.
OPERATORS = (*ARITHMETIC[:-1], *COMPARISONS, *(f"{op} bool" for op in COMPARISONS))
NUMBERS = ("0", "1", "2", "0.5", "100", "1e3", "-1", "3.25", "NaN", "Inf", "-Inf", "0x1f")


@dataclass(frozen=True, slots=True)
class Question:
    """An instant query at start_ms where step_ms is 0, else a range query."""

    text: str
    start_ms: int
    end_ms: int
    step_ms: int

    def times(self) -> range:
        """Of all steps, ms UTC."""
        return range(self.start_ms, self.end_ms + 1, self.step_ms or 1)

    def __str__(self) -> str:
        if not self.step_ms:
            return f"{self.text} at {self.start_ms // 1000}"
        start, end, step = self.start_ms // 1000, self.end_ms // 1000, self.step_ms // 1000
        return f"{self.text} from {start} to {end} step {step}s"


def choice(*strategies: Text) -> Text:
    return st.one_of(*strategies)


@cache
def of(*texts: str) -> Text:
    return st.sampled_from(texts)


def joined(write: Callable[..., str], *parts: Text) -> Text:
    return st.builds(write, *parts)


@cache
@st.composite
def modifiers(draw: DrawFn) -> str:
    """Nothing mostly; offset, @ or both in either order."""
    if draw(st.integers(0, 3)):
        return ""
    moment = FIRST_MS // 1000 + draw(st.integers(0, SPAN_MS // GRID_MS)) * (GRID_MS // 1000)
    at = draw(of(f" @ {moment}", f" @ {moment}.000", " @ start()", " @ end()"))
    offset = f" offset {draw(of(*OFFSETS))}"
    return draw(of(offset, offset, at, offset + at, at + offset))


@cache
@st.composite
def selector(draw: DrawFn, names: tuple[str, ...], *, modified: bool = True) -> str:
    name = draw(of(*names))
    found = [draw(of(*MATCHERS))] if not draw(st.integers(0, 4)) else []
    if name in OWN_MATCHERS and not draw(st.integers(0, 3)):
        found.append(draw(of(*OWN_MATCHERS[name])))
    braces = "{" + ", ".join(found) + "}" if found else draw(of("", "", "{}"))
    return name + braces + (draw(modifiers()) if modified else "")


# Of one size: in the sum of a large whole number and a fraction, no digits of the fraction are left.
SEVERAL = (
    '{__name__=~"temperature|up"}',
    '{__name__=~".*_total", job="db"}',
    '{job="api", __name__!~"latency.*|memory.*|started.*"}',
    "no_such_metric",
)


@cache
@st.composite
def any_selector(draw: DrawFn) -> str:
    return draw(selector(COUNTERS + GAUGES)) if draw(st.integers(0, 15)) else draw(of(*SEVERAL))


@cache
@st.composite
def matrix(draw: DrawFn, depth: int, names: tuple[str, ...] = COUNTERS + GAUGES) -> str:
    if depth > 0 and not draw(st.integers(0, 2)):
        inner = draw(selector(names) if names == COUNTERS else vector(depth - 1))
        step = draw(of(*SUBQUERY_STEPS))
        return f"({inner})[{draw(of(*SUBQUERY_RANGES))}:{step}]{draw(modifiers())}"
    return f"{draw(selector(names, modified=False))}[{draw(of(*RANGES))}]{draw(modifiers())}"


@cache
def scalar(depth: int) -> Text:
    plain = choice(of(*NUMBERS), of(*NUMBERS), of("time()", "pi()"))
    if depth <= 0:
        return plain
    return choice(
        plain,
        plain,
        joined(lambda inner: f"scalar({inner})", vector(depth - 1)),
        joined(lambda one, op, other: f"({one} {op} {other})", plain, of(*ARITHMETIC), plain),
        joined(lambda one, op, other: f"({one} {op} bool {other})", plain, of(*COMPARISONS), plain),
        joined(lambda one: f"(-{one})", plain),
    )


@cache
def labels() -> Text:
    chosen = [", ".join(names) for size in range(4) for names in combinations(LABELS, size)]
    return st.sampled_from(chosen)


@cache
@st.composite
def aggregation(draw: DrawFn, depth: int) -> str:
    grouping = draw(of("", " by ({}) ", " by ({}) ", " without ({}) ")).format(draw(labels()))
    form = draw(st.integers(0, 9))
    if form == 0:
        op = draw(of("topk", "bottomk"))
        return f"{op}{grouping}({draw(of('0', '1', '2', '5', '-1', '2.7'))}, {draw(selector(DISTINCT))})"
    inner = draw(vector(depth - 1))
    if form == 1:
        return f"quantile{grouping}({draw(of('0', '0.3', '0.9', '1', '-1', '1.5', 'NaN'))}, {inner})"
    if form == 2:
        of_whole = draw(of("up", "build_info", "floor(temperature)", f"floor({inner})"))
        return f'count_values{grouping}("{draw(of("value", "job"))}", {of_whole})'
    op = draw(of(*AGGREGATIONS))
    if op in ("stddev", "stdvar"):
        inner = f"({inner}) > -Inf < Inf"
    if grouping and draw(st.booleans()):  # the grouping may stand behind
        return f"{op}({inner}){grouping.rstrip()}"
    return f"{op}{grouping}({inner})"


@cache
@st.composite
def of_scalar_and_vector(draw: DrawFn, depth: int) -> str:
    one, other = draw(vector(depth - 1)), draw(scalar(depth - 1))
    if not draw(st.integers(0, 15)):
        return f"abs({one}) atan2 ({other})"
    if draw(st.booleans()):
        one, other = other, one
    return f"({one}) {draw(of(*OPERATORS))} ({other})"


@cache
@st.composite
def of_vectors(draw: DrawFn, depth: int) -> str:
    """Forms that mostly match one to one or many to one; now and then any two vectors."""
    op = draw(of(*OPERATORS))
    form = draw(st.integers(0, 10))
    if form < 3:
        one = draw(selector(COUNTERS + GAUGES))
        name = one.partition("{")[0].partition(" ")[0]
        other = draw(selector((name,)))
        wrap = draw(of("{}", "abs({})", "({} * 2)"))
        return f"{one} {op} {draw(of('', '', 'ignoring (absent) '))}{wrap.format(other)}"
    if form < 5:
        by = draw(labels())
        one, other = draw(vector(depth - 1)), draw(vector(depth - 1))
        return f"sum by ({by}) ({one}) {op} {draw(of('', f'on ({by}) '))}max by ({by}) ({other})"
    if form < 7:
        many, few = (
            draw(selector(COUNTERS)),
            draw(of("up", "memory_bytes", "sum without (zone) (temperature)")),
        )
        how = draw(of("on (instance)", "on (job, instance)", "ignoring (code, mode)"))
        side = draw(of("", "job", "extra"))
        if draw(st.booleans()):
            return f"{many} {op} {how} group_left ({side}) {few}"
        return f"{few} {op} {how} group_right ({side}) {many}"
    if form < 8:
        return f"{draw(selector(('up',)))} {op} on (instance) group_right (job) build_info"
    one, other = draw(vector(depth - 1)), draw(vector(depth - 1))
    how = draw(of("", f"on ({draw(labels())}) ", f"ignoring ({draw(labels())}) "))
    if form < 9:
        return f"abs({one}) atan2 {how}abs({other})"
    return f"({one}) {op} {how}({other})"


@cache
@st.composite
def of_sets(draw: DrawFn, depth: int) -> str:
    one, other = draw(vector(depth - 1)), draw(vector(depth - 1))
    how = draw(of("", "", f"on ({draw(labels())}) ", f"ignoring ({draw(labels())}) "))
    return f"({one}) {draw(of('and', 'or', 'unless'))} {how}({other})"


@cache
@st.composite
def call(draw: DrawFn, depth: int) -> str:
    """A function of one or more instant vectors."""
    inner = draw(vector(depth - 1))
    number = draw(scalar(0))
    forms: list[Callable[[], str]] = [
        lambda: f"{draw(of(*ELEMENTWISE))}({inner})",
        lambda: f"{draw(of(*DATES))}({draw(of('started_seconds', '', inner))})",
        lambda: f"clamp({inner}, {number}, {draw(scalar(0))})",
        lambda: f"{draw(of('clamp_min', 'clamp_max'))}({inner}, {number})",
        lambda: f"round({inner}{draw(of('', ', 0.25', ', 10', ', ' + number))})",
        lambda: f"{draw(of('sort', 'sort_desc'))}({inner})",
        lambda: f"absent({inner})",
        lambda: f"vector({draw(scalar(depth - 1))})",
        lambda: f"(timestamp({_of_one_shift(draw(choice(any_selector(), st.just(inner))))}) - 1.7e9)",
        lambda: f"-({inner})",
        lambda: f"label_join({inner}, {draw(LABEL_JOINS)}, {draw(QUOTED_LABELS)})",
        lambda: f"label_replace({inner}, {draw(TARGETS)}, {draw(QUOTED_LABELS)}, {draw(PATTERNS)})",
    ]
    return draw(st.sampled_from(forms))()


def _of_one_shift(text: str) -> str:
    return re.sub(r" offset \S+", "", text) if "@" in text else text


@cache
@st.composite
def quantile(draw: DrawFn, depth: int) -> str:
    q = draw(of("0", "0.5", "0.9", "0.99", "1", "-1", "2", "NaN"))
    buckets = "latency_seconds_bucket" + draw(of("", '{job="api"}', '{le!="1"}', '{instance=~"a.*"}'))
    ranged = f"{draw(of('rate', 'increase', 'irate'))}({buckets}[{draw(of('2m', '5m', '20m'))}])"
    by = draw(of("le", "le, job", "le, instance"))
    inner = draw(of(buckets, ranged, f"sum by ({by}) ({ranged})"))
    return f"histogram_quantile({q}, {inner})"


@cache
@st.composite
def over_range(draw: DrawFn, depth: int) -> str:
    form = draw(st.integers(0, 9))
    if form < 3:
        return f"{draw(of('rate', 'increase'))}({draw(matrix(depth - 1, COUNTERS))})"
    ranged = draw(matrix(depth - 1))
    if form == 3:
        return f"quantile_over_time({draw(of('0', '0.25', '0.9', '1', '-0.5', '7', 'NaN'))}, {ranged})"
    if form == 4:
        return f"predict_linear({ranged}, {draw(of('60', '3600', '-10', 'time() - 1700000000'))})"
    if form == 5:
        return f"double_exponential_smoothing({ranged}, {draw(of('0.1', '0.5'))}, {draw(of('0.1', '0.9'))})"
    return f"{draw(of(*OVER_RANGE))}({ranged})"


@cache
@st.composite
def vector(draw: DrawFn, depth: int) -> str:
    if depth <= 0:
        return draw(any_selector())
    forms = (
        (over_range, 4),
        (aggregation, 4),
        (of_vectors, 2),
        (of_scalar_and_vector, 2),
        (of_sets, 1),
        (call, 4),
        (quantile, 1),
    )
    weighted = [form for form, weight in forms for _ in range(weight)]
    return draw(draw(st.sampled_from(weighted))(depth))


@cache
@st.composite
def question(draw: DrawFn) -> Question:
    text = draw(vector(draw(st.sampled_from((2, 3, 3, 1))))) if draw(st.integers(0, 24)) else draw(scalar(2))
    # Odd factors that divide nothing spread what hypothesis likes to draw, small numbers, over the span.
    start = FIRST_MS + (draw(st.integers(0, 999)) * 577 + 360) % (SPAN_MS // GRID_MS) * GRID_MS
    if draw(st.booleans()):
        return Question(text, start, start, 0)
    step = draw(st.sampled_from([10_000, 20_000, 30_000, 60_000, 300_000]))
    return Question(text, start, start + draw(st.integers(0, 40)) * step, step)
