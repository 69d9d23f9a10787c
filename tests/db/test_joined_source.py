"""The store and an engine as one: every answer is that of one store which holds the samples of both."""

import pickle
from contextlib import ExitStack, closing

import numpy as np
import pytest

from db.errors import StoreUnreachable
from db.joined_source import JoinedSource
from db.labels import labels_from
from db.lookups import engine_targets, find_series, label_names, label_values, metadata
from db.promql.engine import Options, instant, ranged
from db.promql.errors import SourceUnavailable, TooManySteps
from db.promql.limits import Limits
from db.records import Matcher, MetricMetadata, SparseAppend, named
from db.samples_source import source_of
from db.settings import load_settings
from db.store import SampleStore
from tests.stored_engine import StoredEngine

START_MS = 1_700_000_000_000
STEP_MS = 15_000
COUNT = 80


def grown(labels, first, each, gap=()):
    at = np.array([number for number in range(COUNT) if number not in gap])
    times = START_MS + at * STEP_MS
    return SparseAppend([labels_from(labels)] * len(at), times, first + each * at.astype(float))


def of_engine():
    return [
        grown({"__name__": "gpu_seconds_total", "node": node, "gpu": gpu}, 0.0, step)
        for node, gpu, step in (("a", "0", 15.0), ("a", "1", 7.5), ("b", "0", 3.0))
    ] + [
        grown({"__name__": "probe_success", "instance": "theirs"}, 1.0, 0.0),
        grown({"__name__": "probe_success", "instance": "shared"}, 5.0, 0.0, gap=range(62)),
    ]


def of_store():
    return [
        grown({"__name__": "strata_price", "node": "a"}, 2.0, 0.125),
        grown({"__name__": "strata_price", "node": "b"}, 3.0, 0.0, gap=range(20, 50)),
        grown({"__name__": "probe_success", "instance": "ours"}, 0.0, 0.0),
        grown({"__name__": "probe_success", "instance": "shared"}, 7.0, 0.0, gap=range(40, 80)),
    ]


@pytest.fixture(scope="module")
def stores(tmp_path_factory):
    folder = tmp_path_factory.mktemp("joined")
    with ExitStack() as stack:
        here, there, all_of_it = (
            stack.enter_context(closing(SampleStore.open(folder / f"{name}.db")))
            for name in ("here", "there", "all")
        )
        here.write([*of_store(), grown({"__name__": "gpu_seconds_total", "node": "old"}, 0.0, 1.0)])
        there.write(of_engine(), metadata=[MetricMetadata("gpu_seconds_total", "counter", "h", "")])
        all_of_it.write([*of_store(), *of_engine()])
        yield here, StoredEngine(there), all_of_it


QUERIES = [
    "gpu_seconds_total",
    "sum by (node) (rate(gpu_seconds_total[1m]))",
    "strata_price",
    "avg_over_time(strata_price[2m])",
    "sum by (node) (rate(gpu_seconds_total[1m])) * on (node) group_left () strata_price",
    "gpu_seconds_total * on (node) group_left () strata_price",
    "rate(gpu_seconds_total[1m]) > 0.3 and on (node) strata_price > 2.5",
    "max_over_time((sum(gpu_seconds_total) / on () sum(strata_price))[5m:30s])",
    "sum(gpu_seconds_total offset 1m) - on () scalar(sum(strata_price)) * count(strata_price)",
    "probe_success",
    "sum by (instance) (count_over_time(probe_success[10m]))",
    "rate(probe_success[1m]) or strata_price",
    "timestamp(strata_price) - on (node) timestamp(max by (node) (gpu_seconds_total))",
    '{__name__=~"strata_price|gpu_seconds_total", node="a"}',
    'count by (__name__) ({node=~".+", __name__!="x"})',
    "absent(strata_nothing) * on () group_right () gpu_seconds_total",
    "sum(gpu_seconds_total @ end()) / on () sum(strata_price @ start())",
    "topk(1, sum by (node) (gpu_seconds_total) * on (node) strata_price)",
    "1 + 1",
]


def rows(answer):
    there = np.ones(answer.values.shape, bool) if answer.there is None else answer.there
    values = np.where(there, answer.values, np.inf)
    if answer.kind == "scalar":
        return values.tolist()
    return sorted(zip(answer.table.rows(), values.round(9).tolist(), strict=True))


@pytest.mark.parametrize("text", QUERIES)
def test_the_answer_is_that_of_one_store_with_all_samples(stores, text) -> None:
    here, engine, everything = stores
    joined = JoinedSource(here, engine)
    at_ms = START_MS + 50 * STEP_MS
    assert rows(instant(joined, text, at_ms)) == rows(instant(everything, text, at_ms))
    span = (START_MS + 60_000, START_MS + COUNT * STEP_MS, 20_000)
    assert rows(ranged(joined, text, *span)) == rows(ranged(everything, text, *span))


def test_only_what_is_needed_is_asked_of_the_engine(stores) -> None:
    here, engine, _ = stores
    joined = JoinedSource(here, engine)
    engine.asked.clear()
    instant(joined, "strata_price", START_MS)
    assert engine.asked == []
    text = 'sum  by (node)(rate(gpu_seconds_total{node=~"."}[1m]))'
    ranged(joined, text, START_MS, START_MS + 60_000, 30_000)
    assert engine.asked == [text]  # to the letter
    ranged(joined, f"{text} * on (node) strata_price", START_MS, START_MS + 60_000, 30_000)
    assert engine.asked[1:] == ['sum by (node) (rate({__name__="gpu_seconds_total",node=~"."}[1m]))']


def test_what_both_have_is_one_series_and_the_store_counts(stores) -> None:
    here, engine, _ = stores
    (found,) = JoinedSource(here, engine).select(
        [named("probe_success"), *labels_match(instance="shared")], 0, 2 * START_MS
    )
    assert found.values.tolist() == [7.0] * 40 + [5.0] * 18


def labels_match(**labels):
    return [Matcher(name, "=", value) for name, value in labels.items()]


def test_of_what_both_have_the_newest_sample_is_the_latest(stores) -> None:
    here, engine, _ = stores
    shared = [named("probe_success"), *labels_match(instance="shared")]
    for at, value in ((61, 7.0), (62, 5.0)):
        latest = JoinedSource(here, engine).latest_columns(shared, START_MS + at * STEP_MS, 10**9)
        assert latest.values.tolist() == [value]


def test_the_same_selection_gives_the_same_set(stores) -> None:
    here, engine, _ = stores
    joined = JoinedSource(here, engine)
    span = ([named("probe_success")], START_MS, START_MS + 60_000)
    assert joined.rectangles(*span)[0] is joined.rectangles(*span)[0]


def test_too_many_points_are_refused_before_the_engine_is_asked(stores) -> None:
    here, engine, _ = stores
    engine.asked.clear()
    with pytest.raises(TooManySteps):
        ranged(JoinedSource(here, engine), "x", 0, 10_000, 1_000, Options(limits=Limits(points=5)))
    assert engine.asked == []


def test_lookups_are_of_both(stores) -> None:
    here, engine, _ = stores
    joined = JoinedSource(here, engine)
    window = (0, 2 * START_MS)
    assert label_values(
        joined, "__name__", [[named("strata_price")], [named("gpu_seconds_total")]], *window
    ) == [
        "gpu_seconds_total",
        "strata_price",
    ]
    assert [dict(labels)["node"] for labels in find_series(joined, [[named("strata_price")]], *window)] == [
        "a",
        "b",
    ]
    instances = label_values(joined, "instance", [[named("probe_success")]], *window)
    assert instances == ["ours", "shared", "theirs"]
    assert label_names(joined, [], *window) == ["__name__", "gpu", "instance", "node"]
    assert [item.metric for item in metadata(joined)] == ["gpu_seconds_total"]
    assert engine_targets(joined) == [{"scrapePool": "p"}]
    assert engine_targets(here) == []


def test_gpu_labels_that_kubernetes_moved(stores) -> None:
    here, engine, _ = stores
    joined = JoinedSource(here, engine)
    assert joined.moved_gpu_labels(START_MS) == {}
    moved = {"__name__": "DCGM_FI_DEV_GPU_UTIL", "pod": "exporter", "exported_pod": "llm"}
    engine.store.write([grown(moved, 1.0, 0.0)])
    assert joined.moved_gpu_labels(START_MS + 60_000) == {"pod": "exported_pod"}


def test_the_source_can_be_opened_in_another_process(tmp_path) -> None:
    settings = load_settings(
        None,
        {"data": str(tmp_path), "store": {"prometheus": {"query_url": "http://127.0.0.1:1"}}},
        {"HOME": str(tmp_path)},
    )
    opened = pickle.loads(pickle.dumps(source_of(settings)))  # noqa: S301  our own
    with closing(opened()) as joined:
        assert isinstance(joined, JoinedSource)
        assert joined.engine.name == "http://127.0.0.1:1"
        assert instant(joined, "1 + 1", 0).values.tolist() == [[2.0]]
        with pytest.raises(SourceUnavailable, match="connection refused"):
            instant(joined, "up", 0)


def test_pages_are_told_in_the_stores_own_errors(stores) -> None:
    here, _, _ = stores

    class Gone(StoredEngine):
        def __init__(self):
            pass

        def rectangles(self, *_):
            raise SourceUnavailable("http://p:9090 cannot be reached: connection refused")

    with pytest.raises(StoreUnreachable, match="http://p:9090 cannot be reached"):
        JoinedSource(here, Gone()).select([named("x")], 0, 1)
