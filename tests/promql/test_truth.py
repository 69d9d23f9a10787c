"""Range queries over a live vLLM's scrapes give what Prometheus 2.42 gave.

2.42 closes a range at both ends, 3.x and we leave its beginning open. Of 20 scrapes at odd milliseconds
only the first lies on the grid of the queries, so that for each range there is one step whose window begins
exactly there. At that step the range is widened by the millisecond that lets the scrape in: the samples are
then the same, and only the division by the range's length and the extrapolation to its beginning differ, by
no more than one millisecond in the shortest range. Every other value is held to 1e-9.

One expression divides by the rate of a counter that begins near zero. 2.42 moves the beginning of the
extrapolation to the counter's zero point before it limits the extrapolation, 3.x after it. There our values
are held to 3.x's formula, written out below, and the truth to 2.42's.
"""

import json
import math
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np
import pytest

from collectors.exposition import PageParser
from db.labels import Labels
from db.promql.engine import instant, ranged
from db.records import Series, SparseAppend, named
from db.store import SampleStore
from tests.promql.results import lines

FIXTURES = Path(__file__).parents[1] / "fixtures"
PAGES = sorted((FIXTURES / "vllm-live").iterdir())
TRUTH = json.loads((FIXTURES / "promql-vllm-live.json").read_text())
SCRAPES_MS = [int(path.stem) for path in PAGES]
START_MS, END_MS, STEP_MS = round(TRUTH["start"] * 1000), round(TRUTH["end"] * 1000), TRUTH["step_s"] * 1000
RANGE = re.compile(r"\[(\d+)m\]")

EXACT, WIDENED = 1e-9, 1 / 60_000
NEAR_ZERO = "http_4xx_ratio_2m"


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SampleStore]:
    opened = SampleStore.open(tmp_path_factory.mktemp("truth") / "samples.db")
    parser = PageParser()
    for path, at_ms in zip(PAGES, SCRAPES_MS, strict=True):
        page = parser.parse(path.read_bytes(), "text")
        series = [page.layout.labels(index) for index in range(len(page.values))]
        opened.write([SparseAppend(series, np.full(len(series), at_ms), page.values)])
    yield opened
    opened.close()


def expected(name: str) -> Mapping[Labels, Mapping[int, float]]:
    result = TRUTH["queries"][name]["result"]
    return {
        tuple(sorted(item["metric"].items())): {round(at * 1000): float(text) for at, text in item["values"]}
        for item in result
    }


def on_the_edge(expression: str) -> set[int]:
    """Steps with a scrape exactly at the beginning of a range."""
    ranges_ms = {int(minutes) * 60_000 for minutes in RANGE.findall(expression)}
    grid = range(START_MS, END_MS + 1, STEP_MS)
    return {time for time in grid if any(time - width in SCRAPES_MS for width in ranges_ms)}


@pytest.mark.parametrize("name", [name for name in TRUTH["queries"] if name != NEAR_ZERO])
def test_an_expression_over_a_live_vllm_gives_what_prometheus_gave(store: SampleStore, name: str):
    expression = TRUTH["queries"][name]["expr"]
    edge = on_the_edge(expression)
    assert len(edge) <= 1
    found = lines(ranged(store, expression, START_MS, END_MS, STEP_MS))
    ours = {line.labels: {time: value for time, value in line.points if time not in edge} for line in found}
    theirs = expected(name)
    inside = {labels: {t: v for t, v in points.items() if t not in edge} for labels, points in theirs.items()}
    assert ours.keys() == inside.keys()
    for labels, points in inside.items():
        assert ours[labels] == pytest.approx(points, rel=EXACT, nan_ok=True)
    for time in edge:
        wider = RANGE.sub(lambda found: f"[{found[1]}m1ms]", expression)
        at_edge = {line.labels: line.points[0][1] for line in lines(instant(store, wider, time))}
        there = {labels: points[time] for labels, points in theirs.items() if time in points}
        assert at_edge == pytest.approx(there, rel=WIDENED, nan_ok=True)


def test_the_edge_is_met():
    """Else the widening above would not be needed."""
    assert {name for name in TRUTH["queries"] if on_the_edge(TRUTH["queries"][name]["expr"])} >= {
        "ttft_p95_2m",
        "gen_tok_rate_1m",
    }


def test_a_rate_near_zero_differs_only_by_the_order_of_zero_point_and_limit(store: SampleStore):
    expression = TRUTH["queries"][NEAR_ZERO]["expr"]
    [ours] = lines(ranged(store, expression, START_MS, END_MS, STEP_MS))
    [theirs] = expected(NEAR_ZERO).values()
    edge = on_the_edge(expression)
    for time, value in ours.points:
        if time not in edge:
            assert value == pytest.approx(ratio_of_4xx(store, time, zero_first=False), rel=EXACT)
            assert theirs[time] == pytest.approx(ratio_of_4xx(store, time, zero_first=True), rel=EXACT)
    assert {time for time, _ in ours.points} - edge == theirs.keys() - edge
    assert any(abs(value - theirs[time]) > 1e-3 for time, value in ours.points if time not in edge)


def ratio_of_4xx(store: SampleStore, at_ms: int, *, zero_first: bool) -> float:
    start_ms = at_ms - 120_000
    found = store.select([named("http_requests_total")], start_ms + 1, at_ms)
    rates = [(one.labels, rate(one, start_ms, at_ms, zero_first=zero_first)) for one in found]
    bad = sum(value for labels, value in rates if ("status", "4xx") in labels)
    return bad / sum(value for _, value in rates)


def rate(one: Series, start_ms: int, end_ms: int, *, zero_first: bool) -> float:
    """Prometheus's rate of a counter without resets, one series and window at a time; zero_first: 2.42's."""
    if len(one.values) < 2:
        return 0.0
    times = one.timestamps / 1000
    sampled, grown = times[-1] - times[0], one.values[-1] - one.values[0]
    average = sampled / (len(times) - 1)
    before, after = times[0] - start_ms / 1000, end_ms / 1000 - times[-1]
    to_zero = sampled * one.values[0] / grown if grown > 0 else math.inf
    limit = average * 1.1
    if zero_first:
        before = min(before, to_zero)
        before = before if before < limit else average / 2
    else:
        before = min(before if before < limit else average / 2, to_zero)
    after = after if after < limit else average / 2
    return float(grown * (sampled + before + after) / sampled / ((end_ms - start_ms) / 1000))
