"""What the API says by itself: 3.x's own parameters, kinds of failure, large answers, clients that leave."""

import asyncio
import gzip
import json
import threading

import numpy as np
import pytest

from db.errors import StoreUnreachable
from db.labels import labels_from
from db.promql.answer import Answer
from db.promql.errors import (
    BadQuery,
    ExecutionError,
    LimitExceeded,
    QueryCanceled,
    QueryTimeout,
    SourceUnavailable,
)
from db.promql.table import SeriesTable
from db.records import SparseAppend
from db.store import SampleStore
from tests.app.api.asgi import NOW_MS, FakeEvaluator, application, call, vector

UP = ("query", "up")


@pytest.fixture
def store(tmp_path):
    opened = SampleStore.open(tmp_path / "samples.db")
    series = [labels_from({"n": str(number), "a.b/c": "é"}, "m") for number in range(5)]
    opened.write([SparseAppend(series, np.full(5, NOW_MS), np.arange(5.0))])
    yield opened
    opened.close()


@pytest.fixture
def ask(tmp_path, store):
    """One request to an application over the store, with an evaluator that gives this answer."""

    def asked(path, *parameters, answer=None, evaluator=None, **options):
        app = application(tmp_path, lambda: store, evaluator or FakeEvaluator(answer or vector(1.0)))
        return asyncio.run(call(app, path, parameters, **options))

    return asked


def test_what_is_given_reaches_the_evaluator(ask):
    evaluator = FakeEvaluator(vector(1.0))
    ask("query", UP, evaluator=evaluator)
    ask("query", UP, ("time", "5.5"), ("timeout", "7s"), ("lookback_delta", "1m"), evaluator=evaluator)
    ask("query", UP, ("time", "5"), ("timeout", "1h"), ("lookback_delta", "0"), evaluator=evaluator)
    window = [("start", "1"), ("end", "2.5"), ("step", "0.3")]
    ask("query_range", UP, *window, ("timeout", "3"), ("lookback_delta", "90"), evaluator=evaluator)
    assert evaluator.asked == [
        ("up", NOW_MS, 120.0, None),
        ("up", 5_500, 7.0, 60_000),
        ("up", 5_000, 120.0, None),
        ("up", 1_000, 2_500, 300, 3.0, 90_000),
    ]


@pytest.mark.parametrize(
    ("step", "step_ms"),
    [("0.001", 1), ("0.3", 300), ("1.1", 1_100), ("4.097", 4_097), ("1s1ms", 1_001), ("1.001", 1_000)],
)
def test_a_step_has_prometheus_milliseconds(ask, step, step_ms):
    """Of 1.001 seconds it has 1,000,999,999 nanoseconds."""
    evaluator = FakeEvaluator(vector(1.0))
    ask("query_range", UP, ("start", "0"), ("end", "1"), ("step", step), evaluator=evaluator)
    assert evaluator.asked[0][3] == step_ms


def test_warnings_and_infos(ask):
    found = ask(
        "query", UP, answer=vector(1.0, warnings=["PromQL warning: w"], infos=["PromQL info: i"])
    ).json
    assert list(found) == ["status", "data", "warnings", "infos"]
    assert (found["warnings"], found["infos"]) == (["PromQL warning: w"], ["PromQL info: i"])
    assert list(ask("query", UP).json) == ["status", "data"]


def test_limit(ask):
    answer = vector(3.0, 1.0, 2.0, warnings=["PromQL warning: w"])
    found = ask("query", UP, ("limit", "2"), answer=answer).json
    assert [one["value"][1] for one in found["data"]["result"]] == ["3", "1"]
    assert found["warnings"] == ["PromQL warning: w", "results truncated due to limit"]
    for whole in ("3", "0", ""):
        found = ask("query", UP, ("limit", whole), answer=answer).json
        assert len(found["data"]["result"]) == 3
        assert found["warnings"] == ["PromQL warning: w"]


@pytest.mark.parametrize("path", ["series", "labels", "label/n/values"])
def test_limit_of_lists(ask, path):
    every = ask(path, ("match[]", "m")).json
    assert "warnings" not in every
    count = len(every["data"])
    assert count >= 3
    cut = ask(path, ("match[]", "m"), ("limit", "2")).json
    assert (cut["data"], cut["warnings"]) == (every["data"][:2], ["results truncated due to limit"])
    assert ask(path, ("match[]", "m"), ("limit", str(count))).json == every


@pytest.mark.parametrize(
    ("path", "parameters", "sentence"),
    [
        ("query", [("limit", "x")], 'invalid parameter "limit": strconv.Atoi: parsing "x": invalid syntax'),
        (
            "query",
            [("limit", "1.5")],
            'invalid parameter "limit": strconv.Atoi: parsing "1.5": invalid syntax',
        ),
        (
            "series",
            [("match[]", "up"), ("limit", "-1")],
            'invalid parameter "limit": limit must be non-negative',
        ),
        ("labels", [("limit", "-1")], 'invalid parameter "limit": limit must be non-negative'),
        (
            "query",
            [("lookback_delta", "x")],
            'error parsing lookback delta duration: cannot parse "x" to a valid duration',
        ),
        ("metadata", [("limit_per_metric", "x")], "limit_per_metric must be a number"),
        ("query", [("time", '"\x1b')], None),
        ("label/U__/values", [], 'invalid label name: ""'),
    ],
)
def test_what_3_x_says_of_bad_parameters(ask, path, parameters, sentence):
    got = ask(path, *parameters)
    assert (got.status, got.json["status"], got.json["errorType"]) == (400, "error", "bad_data")
    if sentence is not None:
        assert got.json["error"] == sentence


@pytest.mark.parametrize(
    ("error", "status", "kind", "sentence"),
    [
        (BadQuery("1:1: parse error: x"), 400, "bad_data", 'invalid parameter "query": 1:1: parse error: x'),
        (ExecutionError("two of them"), 422, "execution", "two of them"),
        (LimitExceeded("too many samples"), 422, "execution", "too many samples"),
        (QueryTimeout("took long"), 503, "timeout", "took long"),
        (QueryCanceled("stopped"), 499, "canceled", "stopped"),
        (SourceUnavailable("disk gone"), 503, "unavailable", "disk gone"),
        (StoreUnreachable("samples.db: gone"), 503, "unavailable", "samples.db: gone"),
        (ZeroDivisionError("inner life"), 500, "internal", "unexpected error: ZeroDivisionError"),
    ],
)
def test_failures(ask, error, status, kind, sentence):
    got = ask("query", UP, answer=error)
    assert got.status == status
    assert got.headers["content-type"] == "application/json"
    assert got.json == {"status": "error", "errorType": kind, "error": sentence}


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("n", ["0", "1", "2", "3", "4"]),
        ("U__n", ["0", "1", "2", "3", "4"]),
        ("U__a_2e_b_2f_c", ["é"]),
        ("U___5f__5f_name_5f__5f_", ["m"]),
        ("U______name____", ["m"]),
        ("U__a_zz_", []),
        ("U__a_110000_b", []),
        ("U__a_d800_", []),
    ],
)
def test_escaped_label_names(ask, name, values):
    assert ask(f"label/{name}/values").json["data"] == values


def wide(series=400, steps=1000):
    table = SeriesTable.of(
        [(("instance", f"10.0.{number}.1:9100"), ("job", "wide")) for number in range(series)]
    )
    values = np.arange(series * steps, dtype=np.float64).reshape(series, steps) / 8
    return Answer("matrix", table, np.arange(steps) * 15_000, values)


def test_a_flood_of_parameters_is_refused_before_it_is_taken_apart(ask):
    got = ask("labels", *[("a", "")] * 10_001)
    assert got.status == 400
    assert got.json["error"] == "error parsing form values: more than 10,000 parameters"
    assert ask("labels", *[("a", "")] * 9_000).status == 200


def test_a_large_answer_is_streamed_and_whole(ask):
    got = ask("query", UP, answer=wide())
    assert len(got.chunks) > 3
    assert max(map(len, got.chunks)) < 1 << 20
    result = got.json["data"]["result"]
    assert len(result) == 400
    assert {len(one["values"]) for one in result} == {1000}
    assert result[399]["values"][999] == [14_985, "49999.875"]
    assert "content-encoding" not in got.headers


@pytest.mark.parametrize(("answer", "zipped"), [(wide(), True), (wide(30, 30), True), (vector(1.0), False)])
def test_gzip_for_clients_that_take_it(ask, answer, zipped):
    plain = ask("query", UP, answer=answer)
    got = ask("query", UP, answer=answer, headers=[("accept-encoding", "br, GZIP;q=0.5")])
    assert (got.headers.get("content-encoding") == "gzip") == zipped
    body = b"".join(got.chunks)
    assert json.loads(gzip.decompress(body) if zipped else body) == plain.json
    assert got.headers["vary"] == "Accept-Encoding"
    refusing = ask("query", UP, answer=answer, headers=[("accept-encoding", "gzip;q=0")])
    assert "content-encoding" not in refusing.headers


def test_a_client_that_leaves_cancels_its_query(tmp_path, store):
    async def scene():
        gone, begun = asyncio.Event(), asyncio.Event()

        async def wait():
            begun.set()
            await asyncio.Event().wait()

        evaluator = FakeEvaluator(vector(1.0), wait=wait)
        app = application(tmp_path, lambda: store, evaluator)
        request = asyncio.create_task(call(app, "query", [UP], gone=gone))
        await begun.wait()
        gone.set()
        got = await request
        return evaluator.cancelled, got.status, got.json["errorType"]

    assert asyncio.run(scene()) == (1, 499, "canceled")


def test_a_server_that_stops_tells_whoever_still_waits(tmp_path, store):
    async def go():
        begun = asyncio.Event()

        async def wait():
            begun.set()
            await asyncio.Event().wait()

        evaluator = FakeEvaluator(vector(1.0), wait)
        asking = asyncio.ensure_future(call(application(tmp_path, lambda: store, evaluator), "query", [UP]))
        await begun.wait()
        asking.cancel()
        return await asking, evaluator

    got, evaluator = asyncio.run(go())
    assert (got.status, got.json["errorType"]) == (503, "unavailable")
    assert got.json["error"] == "the server is being stopped; ask again when it runs"
    assert evaluator.cancelled == 1


def test_the_loop_goes_on_while_a_list_is_looked_up(tmp_path, store):
    """The store answers only when another coroutine has run meanwhile."""
    released = threading.Event()

    def slow_store():
        assert released.wait(30)
        return store

    async def scene():
        app = application(tmp_path, slow_store, FakeEvaluator(vector(1.0)))
        request = asyncio.create_task(call(app, "labels", [("match[]", "m")]))
        await asyncio.sleep(0)
        released.set()
        return await request

    assert asyncio.run(scene()).json["data"] == ["__name__", "a.b/c", "n"]


def test_an_unreadable_store_is_unavailable(tmp_path):
    def broken():
        raise StoreUnreachable("samples.db: it is no database")

    app = application(tmp_path, broken, FakeEvaluator(vector(1.0)))
    for path in ("labels", "targets", "metadata", "status/tsdb", "label/n/values"):
        got = asyncio.run(call(app, path))
        assert (got.status, got.json["errorType"]) == (503, "unavailable")


def test_status(ask, tmp_path):
    build = ask("status/buildinfo").json["data"]
    assert build["version"].startswith("3.")
    assert build["revision"].startswith("strata 0.")
    flags = ask("status/flags").json["data"]
    assert {type(value) for value in flags.values()} == {str}
    assert flags["storage.tsdb.path"] == str(tmp_path / "samples.db")
    assert flags["storage.tsdb.retention.time"] == "15d"
    assert ask("status/runtimeinfo").json["data"]["startTime"] == "2023-11-14T22:13:20.000Z"
    tsdb = ask("status/tsdb", ("limit", "1")).json["data"]
    assert tsdb["headStats"]["numSeries"] == 5
    assert tsdb["headStats"]["minTime"] == NOW_MS
    assert tsdb["seriesCountByMetricName"] == [{"name": "m", "value": 5}]
    assert ask("status/tsdb", ("limit", "0")).status == 400
