"""The HTTP API beside Debian's Prometheus 2.42, request by request, where 2.42 and 3.x answer alike."""

from typing import Any

import pytest

from tests.app.api.two_servers import BEGIN, END, Said, ask, filled_prometheus, filled_strata

T = str(BEGIN + 300)
RANGE = [("start", str(BEGIN)), ("end", str(END)), ("step", "30")]

QUANTILE = "histogram_quantile(0.9, rate(latency_seconds_bucket[90s]))"
# Of these 2.42 does not say that it is the parameter "query".
WITHOUT_PREFIX = ("range of a range vector", "range of a string", "range of a broken query")

pytestmark = pytest.mark.server


@pytest.fixture(scope="module")
def servers(tmp_path_factory):
    folder = tmp_path_factory.mktemp("both")
    with filled_strata(folder) as strata, filled_prometheus(folder / "genuine") as genuine:
        yield strata.url, genuine.url


def comparable(said: Said) -> Any:
    """Status and body. Neither a vector nor a list of series has an order."""
    body = said.body
    data = body.get("data") if isinstance(body, dict) else None
    if isinstance(data, dict) and data.get("resultType") in ("vector", "matrix"):
        data["result"].sort(key=lambda one: sorted(one["metric"].items()))
    elif isinstance(data, list) and data and isinstance(data[0], dict):
        data.sort(key=lambda one: sorted(one.items()))
    return said.status, body, said.headers.get("content-type", "").partition(";")[0]


def same_error(said: Said) -> Any:
    """Which of the duplicates are named depends on the order of the series."""
    return said.status, said.body["errorType"]


def query(text, *more):
    return "query", [("query", text), *more]


def ranged(text, *more, **changes):
    return "query_range", [
        ("query", text),
        *[(name, changes.get(name, value)) for name, value in RANGE],
        *more,
    ]


ASKED = {
    "vector": query("up", ("time", T)),
    "vector between scrapes": query("up", ("time", f"{BEGIN + 300}.123")),
    "every odd value": query("odd_values[1h]", ("time", str(END))),
    "range vector": query("http_requests_total[1m]", ("time", str(BEGIN + 310))),
    "scalar": query("1.5", ("time", T)),
    "not a number": query("0/0", ("time", T)),
    "string": query('"a\\"b\\n<é>"', ("time", T)),
    "large and small": query("vector(1e-7) or vector(1e21)", ("time", T)),
    "aggregation": query("sum by (code) (rate(http_requests_total[2m]))", ("time", str(BEGIN + 307))),
    "nothing": query("nobody", ("time", T)),
    "rfc3339": query("up", ("time", "2023-11-14T22:18:20Z")),
    "rfc3339 with zone": query("up", ("time", "2023-11-14T23:18:20.5+01:00")),
    "exponent": query("up", ("time", "1.7e9")),
    "negative time": query("1", ("time", "-1.5")),
    "timeout": query("up", ("time", T), ("timeout", "1m30s")),
    "bad time": query("up", ("time", "x")),
    "bad date": query("up", ("time", "2023-11-14 22:18:20")),
    "bad timeout": query("up", ("time", T), ("timeout", "soon")),
    "no query": query("", ("time", T)),
    "unclosed": query("up{", ("time", T)),
    "unknown function": query("foo(up)", ("time", T)),
    "many to many": query("up * on (job) http_requests_total", ("time", T)),
    "range": ranged("http_requests_total"),
    "range of odd values": ranged("odd_values", step="15"),
    "range of a scalar": ranged("7"),
    "range of rates": ranged("max by (code) (increase(http_requests_total[2m]))", start=str(BEGIN + 7)),
    "range with fractions": ranged("up", start=f"{BEGIN}.5", step="7.25"),
    "range with a duration": ranged("up", step="1m"),
    "range with milliseconds": ranged("7", step="1.001"),
    "range with a duration of milliseconds": ranged("7", step="1s1ms"),
    "range beyond the data": ranged("up", start=str(BEGIN + 7), end=str(END + 1200), step="60"),
    "range of a quantile": ranged(QUANTILE, start=str(BEGIN + 7)),
    "range of nothing": ranged("nobody"),
    "range without start": ranged("up", start=""),
    "range with a bad end": ranged("up", end="x"),
    "range backwards": ranged("up", end=str(BEGIN - 1)),
    "range without step": ranged("up", step=""),
    "range with a bad step": ranged("up", step="x"),
    "range with step zero": ranged("up", step="0"),
    "range with a negative step": ranged("up", step="-15"),
    "range with an endless step": ranged("up", step="1e20"),
    "range of too many points": ranged("up", end=str(BEGIN + 11_001), step="1"),
    "range of the most points": ranged("1", end=str(BEGIN + 11_000), step="1"),
    "range of a range vector": ranged("up[5m]"),
    "range of a string": ranged('"a"'),
    "range of a broken query": ranged("up{"),
    "range with a bad timeout": ranged("up", ("timeout", "x")),
    "series": ("series", [("match[]", "up"), ("match[]", '{job="other"}')]),
    "series twice": ("series", [("match[]", "up"), ("match[]", '{job="api"}')]),
    "series in a window": ("series", [("match[]", "up"), ("start", str(BEGIN)), ("end", str(END))]),
    "series by pattern": ("series", [("match[]", '{__name__=~"http.*",code!~"5.."}')]),
    "no series": ("series", []),
    "series of everything": ("series", [("match[]", "{}")]),
    "series of anything": ("series", [("match[]", '{a=""}')]),
    "series of a broken selector": ("series", [("match[]", "up{")]),
    "series with a bad start": ("series", [("match[]", "up"), ("start", "x")]),
    "series with a bad end": ("series", [("match[]", "up"), ("end", "x")]),
    "labels": ("labels", []),
    "labels of some": ("labels", [("match[]", "up"), ("match[]", "latency_seconds_bucket")]),
    "labels of a broken selector": ("labels", [("match[]", "up{")]),
    "labels of everything": ("labels", [("match[]", "{}")]),
    "labels with a bad start": ("labels", [("start", "x")]),
    "values": ("label/job/values", []),
    "values of names": ("label/__name__/values", []),
    "values with hostile text": ("label/path/values", []),
    "values of some": (
        "label/instance/values",
        [("match[]", "odd_values"), ("match[]", "latency_seconds_bucket")],
    ),
    "values of nobody": ("label/nobody/values", []),
    "values of a broken selector": ("label/job/values", [("match[]", "up{")]),
    "metadata of nobody": ("metadata", [("metric", "nobody")]),
    "metadata with a bad limit": ("metadata", [("limit", "x")]),
    "target metadata with a bad limit": ("targets/metadata", [("limit", "x")]),
    "rules": ("rules", []),
    "rules of a bad type": ("rules", [("type", "x")]),
    "alerts": ("alerts", []),
    "alertmanagers": ("alertmanagers", []),
    "exemplars": ("query_exemplars", [("query", "up")]),
    "exemplars of a broken query": ("query_exemplars", [("query", "up{")]),
    "exemplars backwards": ("query_exemplars", [("query", "up"), ("start", "2"), ("end", "1")]),
    "an unknown path": ("nobody", []),
}  # fmt: skip


@pytest.mark.parametrize("case", ASKED)
def test_both_answer_alike(servers, case):
    path, parameters = ASKED[case]
    ours, theirs = (ask(url, path, parameters) for url in servers)
    if path == "query_range" and case in WITHOUT_PREFIX:
        theirs.body["error"] = f'invalid parameter "query": {theirs.body["error"]}'  # as 3.x says it
    if case == "many to many":
        assert same_error(ours) == same_error(theirs)
        return
    assert comparable(ours) == comparable(theirs)


@pytest.mark.parametrize("case", ["vector", "range", "series", "labels", "bad time", "exemplars"])
def test_a_form_says_the_same(servers, case):
    path, parameters = ASKED[case]
    ours = ask(servers[0], path, parameters, method="POST")
    assert comparable(ours) == comparable(ask(servers[1], path, parameters, method="POST"))
    assert comparable(ours) == comparable(ask(servers[0], path, parameters))


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", "metadata"),
        ("POST", "label/job/values"),
        ("PUT", "query"),
        ("DELETE", "labels"),
        ("OPTIONS", "query"),
    ],
)
def test_both_refuse_the_same_methods(servers, method, path):
    ours, theirs = (ask(url, path, method=method) for url in servers)
    assert (ours.status, ours.body) == (theirs.status, theirs.body)
    assert "access-control-allow-origin" not in ours.headers


def test_the_same_fields(servers):
    """Where the values cannot be equal, every field of theirs is there, with a value of its kind."""
    for path in ("status/buildinfo", "status/runtimeinfo", "status/tsdb", "targets", "status/config"):
        ours, theirs = (ask(url, path).data for url in servers)
        kinds = {name: type(value) for name, value in theirs.items()}
        assert {name: type(ours.get(name)) for name in kinds} == kinds, path
    ours, theirs = (ask(url, "status/tsdb").data for url in servers)
    for name in ("numSeries", "numLabelPairs", "minTime", "maxTime"):
        assert ours["headStats"][name] == theirs["headStats"][name]
    for name in ("seriesCountByMetricName", "labelValueCountByLabelName", "memoryInBytesByLabelName"):
        counted = [
            sorted((one["value"], one["name"]) for one in said[name] if one["name"])
            for said in (ours, theirs)
        ]
        assert counted[0] == counted[1], name
