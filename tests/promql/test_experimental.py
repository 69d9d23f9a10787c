"""Which queries need the features that only Prometheus's test engine turns on."""

import pytest

from db.promql.parse import parse
from tests.promql.experimental import counts, drops_several_names, reads_dropped_names
from tests.promql.runner import run
from tests.promql.script import commands

LOAD = 'load 1m\n  a_total{x="1"} 0+1x10\n  b_total{x="1"} 0+1x10\n\n'


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("sum by (__name__) (rate(a[5m]))", True),
        ("sum by (__name__, x) (-a)", True),
        ("sum by (__name__) (a)", False),
        ("sum without (__name__) (rate(a[5m]))", False),
        ('label_replace(rate(a[5m]), "n", "$1", "__name__", "(.+)")', True),
        ('label_replace(a, "n", "$1", "__name__", "(.+)")', False),
        ('label_join(a + 1, "__name__", "_", "x")', True),
        ("sum by (__name__) (a > 1)", False),
        ("sum by (__name__) (a > bool 1)", True),
        ("sum by (__name__) (last_over_time(a[5m]))", False),
    ],
)
def test_reading_a_dropped_name(query: str, expected: bool):
    assert reads_dropped_names(parse(query)) is expected


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ('sum(rate({x="1"}[5m]))', True),
        ('rate({x="1"}[5m])', False),
        ("sum(rate(a[5m]))", False),
        ('sum({__name__=~"a|b"} * 2)', True),
        ('sum({__name__=~"a|b"})', False),
    ],
)
def test_dropping_several_names_inside(query: str, expected: bool):
    assert drops_several_names(parse(query)) is expected


def test_counting():
    assert counts(parse("sum(increase(a[5m]))"))
    assert not counts(parse("sum(delta(a[5m]))"))


def reason(script: str) -> str:
    [one] = run(list(commands(LOAD + script)), "f.test")
    return f"{one.status} {one.detail}".strip()


def test_such_cases_are_left_out():
    names = "skipped not supported: delayed removal of metric names: it is experimental in Prometheus 3"
    assert reason('eval instant at 5m sum(rate({x="1"}[5m]))\n  {} 2') == names
    assert reason("eval instant at 5m sum by (__name__) (rate(a_total[5m]))\n  {} 1") == names
    times = "load 1m\n  @st -1m\n  c_total 1+1x10\n\n"
    assert "start timestamps" in reason(times + "eval instant at 5m increase(c_total[5m])\n  {} 6")
    assert reason(times + "eval instant at 5m sum_over_time(c_total[5m])\n  {} 20") == "passed"


def test_the_error_itself_is_no_reason():
    """Two series that are alike in the end are an error with and without the feature."""
    assert reason('eval instant at 5m rate({x="1"}[5m])\n  expect fail') == "passed"
    assert reason('eval instant at 5m rate({x="1"}[5m])\n  {x="1"} 1').startswith("failed")
