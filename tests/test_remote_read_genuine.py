"""`strata up --prometheus URL`: a real engine is read and nothing else, and one expression joins both."""

import json
import subprocess
import sys
import time
from pathlib import Path
from urllib.parse import quote
from urllib.request import urlopen

import numpy as np
import pytest

from collectors.engine import READ_ONLY
from db.labels import labels_from
from db.promql.errors import BadQuery, ExecutionError
from db.records import Matcher, SparseAppend, named
from db.remote import RemoteEngine
from db.remote_settings import PrometheusSettings
from tests.remote_engines import GenuineEngine, genuine_engine
from tests.running_strata import running_strata

pytestmark = pytest.mark.server


@pytest.fixture(scope="module")
def engine(tmp_path_factory):
    """A Prometheus that scrapes itself, once a second."""
    engine = GenuineEngine("prometheus", tmp_path_factory.mktemp("engine"))
    itself = [{"targets": [f"127.0.0.1:{engine.port}"]}]
    job = {"job_name": "itself", "scrape_interval": "1s", "static_configs": itself}
    (engine.folder / "prometheus.yml").write_text(json.dumps({"scrape_configs": [job]}))
    engine.start()
    try:
        engine.eventually(lambda: len(raw(engine)) > 3, "its own scrapes")
        yield engine
    finally:
        engine.stop()


def raw(engine):
    return [sample for one in engine.samples("up", now_ms(), "1m").values() for sample in one]


def now_ms() -> int:
    return time.time_ns() // 10**6


def asked(url: str, path: str, **parameters: str):
    text = "&".join(f"{name}={quote(value)}" for name, value in parameters.items())
    with urlopen(f"{url}/api/v1/{path}?{text}", timeout=20) as answer:
        return json.load(answer)["data"]


def test_an_engine_is_read_and_joined_with_what_is_here(engine, tmp_path) -> None:
    config = tmp_path / "strata.yaml"
    never = {"job_name": "never", "static_configs": [{"targets": ["127.0.0.1:9"]}]}
    config.write_text(json.dumps({"scrape_configs": [never]}))
    options = ("--prometheus", engine.url, "--config", str(config))
    with running_strata(tmp_path / "strata", *options) as strata:
        assert "is only read: nothing is scraped" in strata.log.read_text()
        with strata.store() as store:
            strata.wait_for(lambda: len(store.sources()) == 2, "the engine's row")
            rows = {report.pool: report for report in store.sources()}
            assert rows["engine"].state == "up"
            assert rows["engine"].note == f"reads {engine.url}; {READ_ONLY}"
            assert rows["hardware"].note == "no GPU is known yet"
            price = labels_from({"__name__": "strata_price", "job": "itself"})
            store.write([SparseAppend([price], np.array([now_ms()]), np.array([2.5]))])
            own = {dict(labels.labels)["job"] for labels in store.select([], 0, 2**62)}
            assert own == {"strata", "itself"}
        joined = "sum by (job) (up) * on (job) strata_price"
        (found,) = asked(strata.url, "query", query=joined)["result"]
        assert (found["metric"], found["value"][1]) == ({"job": "itself"}, "2.5")
        (found,) = asked(strata.url, "query", query="count(up)")["result"]
        assert found["value"][1] == "1"
        names = asked(strata.url, "label/__name__/values")
        assert {"strata_price", "strata_engine_up", "prometheus_build_info"} <= set(names)
        (target,) = asked(strata.url, "targets")["activeTargets"]
        assert target["scrapePool"] == "itself"
        command = [sys.executable, "-m", "app", "query", "--data", str(strata.data), "--json", joined]
        done = subprocess.run(
            [*command, "--prometheus", engine.url], capture_output=True, text=True, cwd=Path.cwd(), check=True
        )
        assert json.loads(done.stdout)["result"][0]["metric"] == {"job": "itself"}


def test_the_engines_own_words(engine) -> None:
    client = RemoteEngine(PrometheusSettings(query_url=engine.url))
    with pytest.raises(BadQuery, match="parse error"):
        client.instant("sum(", now_ms())
    with pytest.raises(ExecutionError, match=r"duplicate|many-to-many"):
        client.instant("up / on () group_left () prometheus_http_requests_total", now_ms())
    client.close()


def test_its_samples_series_and_metadata(engine) -> None:
    client = RemoteEngine(PrometheusSettings(query_url=engine.url))
    end_ms = raw(engine)[-1][0]  # a later scrape's time may have passed before it is stored
    series, (rectangle,) = client.rectangles([named("up")], end_ms - 60_000, end_ms)
    assert dict(series[0])["job"] == "itself"
    times = [at for at, _ in raw(engine) if at <= end_ms]
    assert rectangle.timestamps.tolist() == times[: len(rectangle.timestamps)]
    latest = client.latest_columns([named("up")], end_ms, 300_000)
    assert latest.timestamps.tolist() == [rectangle.timestamps[-1]]
    regex = [Matcher("__name__", "=~", "up|scrape_duration_seconds")]
    assert len(client.latest_columns(regex, end_ms, 300_000).series) == 2
    steps = client.at_steps([named("up")], end_ms - 11_000_000, end_ms, 500, 300_000)
    assert steps.values.shape == (1, 22_001)
    assert "job" in client.label_names([named("up")], start_ms=0, end_ms=end_ms)
    assert client.label_values("job", start_ms=0, end_ms=end_ms) == ["itself"]
    assert len(client.series([named("up")], start_ms=0, end_ms=end_ms)) == 1
    assert client.metadata("prometheus_build_info")[0].type == "gauge"
    assert len(client.targets()) == 1
    client.close()


def test_victoria_metrics_answers_the_same_questions(tmp_path) -> None:
    with genuine_engine("victoria-metrics", tmp_path / "engine") as engine:
        at_ms = now_ms() // 1000 * 1000 - 60_000
        times = [at_ms - 20_000, at_ms - 10_000, at_ms]
        line = {"metric": {"__name__": "a", "x": "1"}, "values": [1, 2, 3], "timestamps": times}
        with urlopen(f"{engine.url}/api/v1/import", data=json.dumps(line).encode(), timeout=10):
            pass
        engine.samples("a", at_ms, "1m")
        client = RemoteEngine(PrometheusSettings(query_url=engine.url))
        _, (rectangle,) = client.rectangles([named("a")], at_ms - 20_000, at_ms)
        assert rectangle.timestamps.tolist() == times
        assert rectangle.values.tolist() == [[1, 2, 3]]
        steps = client.at_steps([named("a")], at_ms - 7_777, at_ms + 777, 777, 300_000)
        assert steps.values[0, 0] == 2
        assert steps.values[0, -1] == 3
        latest = client.latest_columns([named("a")], at_ms + 3_000, 300_000)
        assert (latest.values.tolist(), latest.timestamps.tolist()) == ([3], [at_ms])
        with pytest.raises((ExecutionError, BadQuery)):
            client.instant("sum(", at_ms)
        client.close()
