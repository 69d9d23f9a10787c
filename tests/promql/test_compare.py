"""Random queries, answered by a real Prometheus and by us over the same samples; `make compare` asks more."""

import inspect
import math
from collections.abc import Iterator, Mapping

import numpy as np
import pytest

from db.labels import Labels
from db.nan import is_stale
from db.promql.names import AGGREGATIONS, FUNCTIONS, SET_OPERATORS
from db.promql.parse import parse
from tests.promql import grammar
from tests.promql.compare import (
    Engines,
    Given,
    asked_here,
    asked_there,
    different,
    engines,
    engines_at,
    questions,
)
from tests.promql.grammar import GRID_MS, Question
from tests.promql.samples import FIRST_MS, SPAN_MS, perturbed, random_series

SEED = 20
POINTS = Mapping[Labels, tuple[tuple[int, float], ...]]


@pytest.fixture(scope="module")
def both() -> Iterator[Engines]:
    with engines(SEED) as found:
        yield found


@pytest.mark.server
def test_random_queries_have_prometheus_answers(both: Engines):
    found = [both.compare(one) for one in questions(80, SEED)]
    assert [f"{one.question}: {one.difference}" for one in found if one.verdict == "differs"] == []
    assert sum(one.verdict == "equal" for one in found) > 70
    assert sum(one.failed for one in found) < 10


@pytest.mark.server
def test_staleness_markers_arrive_in_prometheus(both: Engines):
    """Else the comparison would say nothing of them: a series ends before its lookback is over."""
    for one in random_series(SEED):
        for row in np.flatnonzero(is_stale(one.values)):
            marker, following = int(one.timestamps[row]), one.timestamps[row + 1 : row + 2]
            after = -(-marker // GRID_MS) * GRID_MS
            if len(following) == 0 or following[0] > after:
                pairs = ", ".join(f'{name}="{value}"' for name, value in one.labels)
                asked = Question(f"{{{pairs}}}", after, after, 0)
                assert asked_there(both.url, asked) == asked_here(both.ours, asked) == Given("vector", {})
                return
    pytest.fail("no series ends with a marker")


def test_the_grammar_knows_the_whole_language():
    """What there is for native histograms only gives nothing to compare."""
    source = inspect.getsource(grammar)
    native = {name for name in FUNCTIONS if name.startswith("histogram_")} - {"histogram_quantile"}
    words = (
        FUNCTIONS
        | AGGREGATIONS
        | SET_OPERATORS
        | {"offset", "@ start()", "group_left", "group_right", "bool"}
    )
    assert [word for word in words - native if word not in source] == []


def test_what_the_grammar_says_is_parsed_and_varied():
    asked = questions(150, 1)
    for one in asked:
        parse(one.text)
    assert sum(one.step_ms > 0 for one in asked) in range(30, 130)
    assert sum(len(one.text) > 60 for one in asked) > 50


def test_the_same_seed_asks_the_same():
    assert questions(20, 3) == questions(20, 3)
    assert questions(20, 3) != questions(20, 4)


def test_no_sample_lies_where_a_window_may_begin():
    for one in random_series(1):
        assert (one.timestamps % 1000 != 0).all()
        assert (np.diff(one.timestamps) > 0).all()
        assert one.timestamps[0] >= FIRST_MS
        assert one.timestamps[-1] <= FIRST_MS + SPAN_MS + GRID_MS


def test_the_samples_have_gaps_markers_oddities_and_resets():
    series = random_series(1)
    values = np.concatenate([one.values for one in series])
    assert is_stale(values).any()
    assert np.isinf(values).any()
    assert (np.isnan(values) & ~is_stale(values)).any()
    counter = next(one for one in series if ("__name__", "requests_total") in one.labels)
    assert (np.diff(counter.values) < 0).any()
    assert max(int(np.diff(one.timestamps).max()) for one in series) > 300_000


def test_perturbing_moves_only_what_is_no_integer():
    series = random_series(1)
    for one, moved in zip(series, perturbed(series, 1), strict=True):
        finite = np.where(np.isfinite(one.values), one.values, 0)
        whole = finite == np.floor(finite)
        assert (one.values.view(np.int64)[whole] == moved.values.view(np.int64)[whole]).all()
        assert moved.values[~whole] == pytest.approx(one.values[~whole], rel=2e-13)


A: Labels = (("__name__", "a"),)
B: Labels = (("__name__", "b"),)


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [
        ({A: ((0, 1.0),)}, {A: ((0, 1.0 + 1e-8),)}),
        ({A: ((0, 1.0),)}, {A: ((1, 1.0),)}),
        ({A: ((0, 1.0),)}, {B: ((0, 1.0),)}),
        ({A: ((0, 1.0),)}, {}),
        ({}, {A: ((0, 1.0),)}),
        ({A: ((0, 1.0), (1, 1.0))}, {A: ((0, 1.0),)}),
        ({A: ((0, math.nan),)}, {A: ((0, 1.0),)}),
        ({A: ((0, math.inf),)}, {A: ((0, -math.inf),)}),
        ({A: ((0, 1e300),)}, {A: ((0, math.inf),)}),
    ],
)
def test_a_difference_is_seen(theirs: POINTS, ours: POINTS):
    assert different(Given("matrix", theirs), Given("matrix", ours)) is not None


def test_the_last_digits_are_no_difference():
    one = {A: ((0, 1.0), (1, math.nan), (2, math.inf), (3, 0.0))}
    other = {A: ((0, 1.0 + 1e-10), (1, math.nan), (2, math.inf), (3, -0.0))}
    assert different(Given("matrix", one), Given("matrix", other)) is None


def test_errors_and_kinds_and_orders_are_compared():
    failed, empty = Given("error", {}, error="no"), Given("vector", {})
    assert different(failed, failed) is None
    assert different(failed, empty) is not None
    assert different(empty, failed) is not None
    assert different(empty, Given("matrix", {})) is not None
    series = {A: ((0, 1.0),), B: ((0, 2.0),)}
    assert different(Given("vector", series, (A, B)), Given("vector", series, (B, A))) is not None


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engines]:
    """Without a Prometheus: the tests say what it would have given."""
    with engines_at("", tmp_path_factory.mktemp("alone"), SEED) as found:
        yield found


def off_by(relative: float, one: Given) -> Given:
    points = {
        labels: tuple((time, value * (1 + relative)) for time, value in line)
        for labels, line in one.series.items()
    }
    return Given(one.kind, points, one.order)


MINUTE = FIRST_MS - FIRST_MS % 60_000 + 3_600_000
FAR_FROM_ZERO = Question("stdvar((temperature - time()) > -Inf < Inf)", MINUTE, MINUTE, 0)


@pytest.mark.parametrize("relative", [5e-9, -3e-8])
def test_what_the_clock_leaves_no_digits_for_is_put_aside(alone: Engines, relative: float):
    """A small value less the time of day is rounded to 2e-7, and so is Prometheus's running mean of such."""
    ours = asked_here(alone.ours, FAR_FROM_ZERO)
    assert len(ours.series) == 1
    assert alone.has_no_digits(FAR_FROM_ZERO, off_by(relative, ours), ours)


@pytest.mark.parametrize(
    ("text", "relative"),
    [
        ("stdvar(temperature > -Inf < Inf)", 5e-9),
        ("stdvar((temperature - time()) > -Inf < Inf)", 1e-4),
        ("max(memory_bytes) + 0 * time()", 5e-9),
        ("sum(started_seconds) == bool time()", 1.0),
        ("time() == bool 1700001600", -1.0),
    ],
)
def test_what_has_its_digits_differs(alone: Engines, text: str, relative: float):
    asked = Question(text, 1_700_001_600_000, 1_700_001_600_000, 0)
    ours = asked_here(alone.ours, asked)
    assert ours.series, ours
    theirs = off_by(relative, ours) if relative != 1.0 else Given(ours.kind, {(): ((asked.start_ms, 1.0),)})
    assert not alone.has_no_digits(asked, theirs, ours)
