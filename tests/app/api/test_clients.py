"""promtool and prometheus-api-client, as their users call them, against a running `strata web`."""

import json
import subprocess
from datetime import UTC, datetime, timedelta

import pytest
from prometheus_api_client import (
    MetricRangeDataFrame,
    MetricsList,
    MetricSnapshotDataFrame,
    PrometheusApiClientException,
    PrometheusConnect,
)

from tests.app.api.two_servers import BEGIN, END, filled_strata
from tests.needs import require_program

START, STOP = datetime.fromtimestamp(BEGIN, UTC), datetime.fromtimestamp(END, UTC)
NAMES = ["http_requests_total", "latency_seconds_bucket", "odd_values", "up"]


@pytest.fixture(scope="module")
def url(tmp_path_factory):
    with filled_strata(tmp_path_factory.mktemp("clients")) as server:
        yield server.url


@pytest.fixture(params=["GET", "POST"])
def client(request, url):
    with PrometheusConnect(url=url, method=request.param, timeout=10) as opened:
        yield opened


def promtool(*words):
    done = subprocess.run(
        [require_program("promtool"), "query", *words], capture_output=True, text=True, check=False
    )
    return done.returncode, done.stdout, done.stderr


@pytest.mark.server
def test_promtool_queries(url):
    code, said, _ = promtool("instant", url, "sum by (job) (up)", "--time", str(END))
    assert (code, said) == (0, f'{{job="api"}} => 1 @[{END}]\n')
    code, said, _ = promtool(
        "range", url, "up", "--start", str(BEGIN), "--end", str(BEGIN + 30), "--step", "15s"
    )
    assert code == 0
    assert said.splitlines()[:4] == [
        'up{instance="a:9100", job="api"} =>',
        *(f"1 @[{BEGIN + 15 * number}]" for number in range(3)),
    ]
    code, _, complaint = promtool("instant", url, "up{")
    assert code == 1
    assert "bad_data" in complaint
    assert "parse error" in complaint


@pytest.mark.server
def test_promtool_series_and_labels(url):
    window = ("--start", str(BEGIN), "--end", str(END))  # without it asks for the last 9,999 hours
    code, said, _ = promtool("series", "--match", 'up{instance="a:9100"}', *window, url)
    assert (code, said) == (0, '{__name__="up", instance="a:9100", job="api"}\n')
    code, said, _ = promtool("labels", url, "code")
    assert (code, said.split()) == (0, ["200", "500"])
    assert promtool("series", "--match", "up{", url)[0] == 1


def test_connection(client):
    assert client.check_prometheus_connection()
    assert PrometheusConnect(url=client.url).check_prometheus_connection({"query": "1"})


def test_names_and_values(client):
    assert client.all_metrics() == NAMES
    assert client.get_label_names() == ["__name__", "code", "instance", "job", "le", "path"]
    assert client.get_label_names(params={"match[]": "odd_values"}) == ["__name__", "instance", "job", "path"]
    assert client.get_label_values("job") == ["api", "other"]
    assert client.get_label_values("instance", params={"match[]": "odd_values"}) == ["c:1"]


def test_series(client):
    found = client.get_series(START, STOP, params={"match[]": "up"})
    assert sorted(one["instance"] for one in found) == ["a:9100", "b:9100"]
    with pytest.raises(PrometheusApiClientException, match=r"no match\[\] parameter provided"):
        client.get_series(START, STOP)


def test_queries(client):
    (scalar_at, scalar) = client.custom_query("1 + 1", params={"time": END})
    assert (scalar_at, scalar) == (END, "2")
    found = client.custom_query('up{instance="a:9100"}', params={"time": END})
    assert found == [{"metric": {"__name__": "up", "instance": "a:9100", "job": "api"}, "value": [END, "1"]}]
    (ranged,) = client.custom_query_range(
        'up{instance="b:9100"}', start_time=START, end_time=START + timedelta(minutes=1), step="30s"
    )
    assert ranged["values"] == [[BEGIN, "0"], [BEGIN + 30, "0"], [BEGIN + 60, "0"]]
    with pytest.raises(PrometheusApiClientException, match="parse error"):
        client.custom_query("up{")


def test_current_values_and_ranges(client):
    labels = {"instance": "a:9100", "code": "200"}
    current = client.get_current_metric_value(
        "http_requests_total", label_config=labels, params={"time": END}
    )
    assert [one["value"] for one in current] == [[END, "280"]]
    data = client.get_metric_range_data(
        "http_requests_total",
        label_config=labels,
        start_time=START,
        end_time=STOP,
        chunk_size=timedelta(minutes=10),
    )
    values = [pair for one in data for pair in one["values"]]
    assert [float(value) for _, value in values] == [7.0 * number for number in range(1, 41)]
    assert values[-1][0] == END
    assert MetricsList(data)[0].label_config["code"] == "200"


def test_aggregation(client):
    found = client.get_metric_aggregation(
        'http_requests_total{code="200",instance="a:9100"}',
        ["sum", "max", "min", "average", "percentile_50", "deviation", "variance"],
        start_time=START,
        end_time=STOP,
        step="15",
    )
    assert (found["max"], found["min"], found["sum"]) == (280.0, 0.0, 7.0 * sum(range(41)))
    assert client.get_metric_aggregation("up", ["sum"], params={"time": END}) == {"sum": 1.0}


def test_frames(client):
    snapshot = MetricSnapshotDataFrame(client.custom_query("up", params={"time": END}))
    assert sorted(snapshot["value"].astype(float)) == [0.0, 1.0]
    assert set(snapshot.columns) == {"__name__", "instance", "job", "timestamp", "value"}


@pytest.mark.filterwarnings("ignore::FutureWarning", "ignore:.*inplace.*")  # theirs, with pandas 3
def test_range_frame(client):
    frame = MetricRangeDataFrame(client.custom_query_range("up", START, STOP, "15"))
    assert len(frame) == 2 * 41


def test_targets(client):
    found = client.get_targets()
    assert [(one["scrapeUrl"], one["health"], one["lastError"]) for one in found["activeTargets"]] == [
        ("http://a:9100/metrics", "up", ""),
        ("http://b:9100/metrics", "down", "connection refused"),
    ]
    first = found["activeTargets"][0]
    assert first["labels"] == {"instance": "a:9100", "job": "api"}
    assert first["discoveredLabels"]["__address__"] == "a:9100"
    assert first["lastScrape"] == "2023-11-14T22:23:20.125Z"
    assert (first["lastScrapeDuration"], first["scrapeInterval"], first["scrapeTimeout"]) == (
        0.25,
        "15s",
        "10s",
    )
    assert first["scrapePool"] == "api"
    assert client.get_targets(state="dropped")["activeTargets"] == []
    assert client.get_targets(scrape_pool="nobody")["activeTargets"] == []
    assert client.get_scrape_pools() == ["api"]


def test_metadata(client):
    assert client.get_metric_metadata("latency_seconds") == [
        {
            "metric_name": "latency_seconds",
            "type": "histogram",
            "help": "How long answers took.",
            "unit": "seconds",
        }
    ]
    assert len(client.get_metric_metadata("")) == 5
    assert len(client.get_metric_metadata("up")) == 2
    assert len(client.get_metric_metadata("up", limit_per_metric=1)) == 1
    assert {one["metric_name"] for one in client.get_metric_metadata("", limit=2)} == {
        "http_requests",
        "latency_seconds",
    }


def test_target_metadata(client):
    """Of the target's own metrics only; a family's samples have other names than the family."""
    found = client.get_target_metadata({"instance": "a:9100"})
    assert {one["metric"] for one in found} == {"http_requests", "latency_seconds", "up"}
    assert {json.dumps(one["target"]) for one in found} == {'{"instance": "a:9100", "job": "api"}'}
    (only,) = client.get_target_metadata({"instance": "a:9100"}, metric="up")
    assert (only["type"], "metric" in only) == ("gauge", False)
    assert client.get_target_metadata({"instance": "nobody"}) == []
