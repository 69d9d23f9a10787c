"""Which parts of a query go to the engine as they are, and which are evaluated here."""

import pytest

from db.promql.parse import parse
from db.promql.printer import text_of
from db.promql.routing import Locality, aside, route
from db.promql.walk import selectors
from db.records import Matcher

READING = Locality({"strata_price", "probe_success", "job:up:sum", "DCGM_OLD", "ALERTS"})


def routed(text: str, locality: Locality = READING):
    found = route(parse(text), locality, 1_000_000, 2_000_000, 60_000)
    asked = [aside(item.matchers) for item in selectors(found.expression)]
    return found.whole, [text for text in asked if text is not None], found.expression


@pytest.mark.parametrize(
    "text",
    [
        "sum by (node) (rate(x[5m]))",
        "DCGM_OLD",  # what was scraped here before there was an engine does not count
        "probe_dns_lookup_time_seconds",  # of the engine's own blackbox exporter
        'up{job=~"a|b"} == 0',
        '{__name__=~"DCGM_.*"}',
        "other:recorded:name",
        "absent(x)",
    ],
)
def test_what_only_touches_the_engine_goes_there_whole(text) -> None:
    assert routed(text)[0]


@pytest.mark.parametrize("text", ["strata_price", "strata_unheard_of", "1 + 1", "time()", "vector(1)"])
def test_what_does_not_touch_it_stays(text) -> None:
    assert routed(text) == (False, [], parse(text))


def place(text: str, locality: Locality = READING):
    (selector,) = selectors(parse(text))
    return locality.place(selector.matchers)


def test_where_series_are() -> None:
    assert place("strata_price") == "local"
    assert place("probe_success") == "both"
    assert place("ALERTS") == "both"
    assert place("ALERTS_FOR_STATE") == "remote"
    assert place("job:up:sum") == "both"
    assert place('{job="x"}') == "both"
    assert place('{__name__=~"strata_a|strata_b"}') == "local"
    assert place('{__name__=~"strata_a|x"}') == "both"
    assert place('{__name__=~"x|y"}') == "remote"
    assert place('{__name__=~"probe_.+"}') == "both"
    assert place('{job="x",__name__!~"probe_.*|strata_.*|.*:.*|ALERTS"}') == "remote"
    assert place('{job="x",__name__!="up"}') == "both"


def test_where_all_samples_go_to_the_engine_the_store_has_only_what_did_not() -> None:
    writing = Locality({"strata_price"}, writes=True)
    assert place("strata_price", writing) == "both"
    assert place("strata_other", writing) == "remote"
    assert place("up", writing) == "remote"


def test_the_largest_remote_parts_are_sent() -> None:
    whole, asked, _ = routed("sum by (node) (rate(x[5m])) * on (node) group_left () strata_price")
    assert not whole
    assert asked == ['sum by (node) (rate({__name__="x"}[5m]))']
    _, asked, _ = routed("sum(a + b > 2) / on () (strata_price + on () max(c))")
    assert asked == ['sum (({__name__="a"} + {__name__="b"}) > 2.0)', 'max ({__name__="c"})']


def test_bare_selectors_are_not_sent_as_expressions() -> None:
    _, asked, expression = routed("x * on () group_left () strata_price + on () y offset 5m")
    assert asked == []
    assert text_of(expression) == text_of(parse("x * on () group_left () strata_price + on () y offset 5m"))


def test_ranges_stay_and_what_is_in_a_subquery_is_sent() -> None:
    _, asked, _ = routed("max_over_time((sum(y) / strata_price)[1h:])")
    assert asked == ['sum ({__name__="y"})']
    _, asked, _ = routed('rate({job="x"}[5m])')
    assert asked == []


def test_a_scalar_is_made_here_of_what_the_engine_gives() -> None:
    _, asked, expression = routed("scalar(sum(x)) + strata_price")
    assert asked == ['sum ({__name__="x"})']
    assert text_of(expression).startswith("scalar(")


def test_what_is_sent_means_the_same_in_another_query() -> None:
    """`@ end()` is the whole query's, and the step of a subquery ours."""
    _, asked, _ = routed("sum(x @ end()) + on () sum(max_over_time(y[1h:] @ start())) + on () strata_price")
    (text,) = asked
    assert "@ 2000.000" in text
    assert "[1h:1m] @ 1000.000" in text


def test_a_text_of_the_users_own_is_not_taken_for_one_of_ours() -> None:
    matcher = Matcher("__strata_remote__", "=~", "up")
    assert aside([matcher]) is None
    assert aside([Matcher("a", "=", "b")]) is None
