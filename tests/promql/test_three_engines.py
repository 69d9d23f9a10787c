"""What an operator asks of an LLM cluster: the embedded store, Debian's Prometheus and its VictoriaMetrics.

The store and Prometheus give the same. VictoriaMetrics has an answer: its `rate`, `increase` and lookback
differ from Prometheus's by design.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path

import numpy as np
import pytest
import yaml

from db.nan import is_stale
from tests.promql.cluster import FIRST_MS, INCIDENT, cluster
from tests.promql.compare import Given, asked_here, asked_there, different, opened
from tests.promql.grammar import Question
from tests.promql.pushed import push
from tests.promql.samples import Samples
from tests.remote_engines import genuine_engine

KINDS = yaml.safe_load((Path(__file__).parent / "expressions.yaml").read_text())
EXPRESSIONS = {name: text for named in KINDS.values() for name, text in named.items()}
# Seven seconds off a minute: of a subquery's steps, too, none falls on the edge of its window.
AT_MS = FIRST_MS + 57 * 60_000 + 7_000
ALL_IS_WELL_MS = FIRST_MS + (INCIDENT - 2) * 60_000 + 7_000
START_MS, STEP_MS = FIRST_MS + 4 * 60_000 + 7_000, 30_000

Answering = Callable[[Question], Given]


@dataclass(frozen=True, slots=True)
class Engine:
    """equal: it gives what the store gives."""

    answer: Answering
    equal: bool


@pytest.fixture(scope="module")
def hour() -> list[Samples]:
    return cluster()


@pytest.fixture(scope="module")
def ours(tmp_path_factory: pytest.TempPathFactory, hour: list[Samples]) -> Iterator[Answering]:
    with opened(tmp_path_factory.mktemp("ours") / "samples.db", hour) as store:
        yield cache(partial(asked_here, store))


@pytest.fixture(
    scope="module",
    params=[
        "store",
        pytest.param("prometheus", marks=pytest.mark.server),
        pytest.param("victoria-metrics", marks=pytest.mark.server),
    ],
)
def engine(
    request: pytest.FixtureRequest,
    tmp_path_factory: pytest.TempPathFactory,
    hour: list[Samples],
    ours: Answering,
) -> Iterator[Engine]:
    if request.param == "store":
        yield Engine(ours, equal=True)
        return
    with genuine_engine(request.param, tmp_path_factory.mktemp(request.param)) as server:
        push(server.url, hour)
        last_ms = max(int(one.timestamps[-1]) for one in hour)
        server.eventually(lambda: server.samples("up", last_ms, "5s"), "the last samples")
        yield Engine(partial(asked_there, server.url), equal=request.param == "prometheus")


def _in_order(given: Given, asked: Question) -> Given:
    """Only what sorts promises an order."""
    return given if asked.text.startswith(("sort", "topk")) else replace(given, order=())


@pytest.mark.parametrize("name", EXPRESSIONS)
def test_an_expression_answers(engine: Engine, ours: Answering, name: str):
    """At one time, and over most of the hour."""
    for step_ms in (0, STEP_MS):
        asked = Question(EXPRESSIONS[name], START_MS if step_ms else AT_MS, AT_MS, step_ms)
        given = engine.answer(asked)
        assert given.error == ""
        assert len(given.series) > 0
        if engine.equal:
            assert different(_in_order(given, asked), _in_order(ours(asked), asked)) is None


@pytest.mark.parametrize("name", KINDS["rule"])
def test_a_rule_is_silent_while_all_is_well(ours: Answering, name: str):
    assert ours(Question(EXPRESSIONS[name], ALL_IS_WELL_MS, ALL_IS_WELL_MS, 0)) == Given("vector", {})


def test_there_are_two_hundred_expressions_of_all_kinds():
    assert len(EXPRESSIONS) == sum(map(len, KINDS.values())) == 200
    assert min(len(KINDS[kind]) for kind in ("signal", "rule", "join")) > 30


def test_the_hour_has_what_makes_engines_differ(hour: list[Samples]):
    """Resets, staleness, a target that comes and one that goes, NaN; and nothing on the edge of a window."""
    named = {(dict(one.labels)["__name__"], dict(one.labels)["instance"]): one for one in hour}
    assert len({one.labels for one in hour}) == len(hour)
    assert all((one.timestamps % 1000 != 0).all() and (np.diff(one.timestamps) > 0).all() for one in hour)
    tokens = named["vllm:prompt_tokens_total", "llama-70b-1:8000"].values
    assert is_stale(tokens).sum() == 1
    assert (np.diff(tokens[~is_stale(tokens)]) < 0).sum() == 1
    ends_stale = {instance for (_, instance), one in named.items() if is_stale(one.values)[-1]}
    assert ends_stale == {"gpu-node-1:9400", "gpu-node-2:9400", "gpu-node-2:9100"}
    assert named["up", "qwen3-8b-0:8000"].timestamps[0] > FIRST_MS + 33 * 60_000
    loss = [one for one in hour if ("__name__", "train_loss") in one.labels]
    assert any((np.isnan(one.values) & ~is_stale(one.values)).any() for one in loss)


def test_the_hour_is_always_the_same(hour: list[Samples]):
    for one, other in zip(hour, cluster(), strict=True):
        assert one.labels == other.labels
        assert (one.timestamps == other.timestamps).all()
        assert one.values.tobytes() == other.values.tobytes()
