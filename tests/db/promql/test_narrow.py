import pytest

from db.promql.errors import BadQuery
from db.promql.narrow import narrowed
from db.promql.parse import parse
from db.records import Matcher

ONLY = [Matcher("instance", "=~", 'a|b"')]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("up", "up{ONLY}"),
        ('sum by (job) (rate(x_total{job="j"}[5m]))', 'sum by (job) (rate(x_total{job="j",ONLY}[5m]))'),
        ("a offset 5m unless on (b) c @ 10", "a{ONLY} offset 5m unless on (b) c{ONLY} @ 10"),
        ("max_over_time(a[1h:1m])", "max_over_time(a{ONLY}[1h:1m])"),
        ("-vector(1) * 2", "-vector(1) * 2"),
    ],
)
def test_every_selector_gets_the_condition(text, expected):
    assert parse(narrowed(text, ONLY)) == parse(expected.replace("ONLY", r'instance=~"a|b\""'))


def test_without_a_condition_it_is_the_same_text():
    assert narrowed("a  +  b", []) == "a  +  b"


def test_what_is_no_query_is_refused():
    with pytest.raises(BadQuery):
        narrowed("a +", ONLY)
