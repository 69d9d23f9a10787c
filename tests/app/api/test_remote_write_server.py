"""Remote-write into a running `strata web`: by hand, and from Debian's Prometheus, sample by sample."""

import http.client
import json
import re
import struct
import subprocess
import time
from contextlib import closing

import numpy as np
import pytest

from db.labels import labels_from
from db.nan import NORMAL, STALE, is_stale
from db.records import named
from db.store import SampleStore
from tests.app.api.remote_write_messages import HEADERS, compressed, series
from tests.browser.server import WebServer, web_server
from tests.genuine_prometheus import prometheus
from tests.needs import require_program

END_MS = 2**62
PAIR = re.compile(r'(\w+)=("(?:[^"\\]|\\.)*")')


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with web_server(tmp_path_factory.mktemp("write") / "data") as running:
        yield running


def ask(server: WebServer, method: str, body: bytes = b"", **headers: str):
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=10)
    sent = {**HEADERS, **{name.replace("_", "-"): value for name, value in headers.items()}}
    with closing(connection):
        connection.request(method, "/api/v1/write", body=body, headers=sent)
        answer = connection.getresponse()
        return answer.status, answer.read().decode(), answer.headers


def test_acknowledged_means_that_another_process_reads_it(server, tmp_path_factory):
    now_ms = time.time_ns() // 1_000_000
    labels = {"__name__": "written", "path": "a\nb"}
    assert ask(server, "POST", compressed(series(labels, [(0.1, now_ms)])))[:2] == (204, "")
    with closing(SampleStore.open(server.log.parent / "data" / "samples.db")) as store:
        (found,) = store.select([], now_ms, now_ms)
    assert (found.labels, found.values.tolist()) == (labels_from(labels), [0.1])


def test_neither_another_host_nor_another_site_may_write(server):
    body = compressed(series({"__name__": "foreign"}, [(1.0, 1)]))
    assert ask(server, "POST", body, host="evil.example")[0] == 421
    assert ask(server, "POST", body, origin="http://evil.example")[0] == 403
    assert ask(server, "POST", body, x_forwarded_for="10.0.0.7")[0] == 403
    assert ask(server, "GET")[0] == 405
    preflight = {"origin": "http://evil.example", "access_control_request_method": "POST"}
    status, _, headers = ask(server, "OPTIONS", **preflight)
    assert status == 405
    assert headers.get("access-control-allow-origin") is None


def dumped(folder):
    """What is in a stopped Prometheus's data folder: the (labels, ms) of all samples."""
    done = subprocess.run(
        [require_program("promtool"), "tsdb", "dump", str(folder)], capture_output=True, text=True, check=True
    )
    found = set()
    for line in done.stdout.splitlines():
        text, _, at_ms = line.rsplit(" ", 2)
        found.add((labels_from((name, json.loads(value)) for name, value in PAIR.findall(text)), int(at_ms)))
    return found


@pytest.mark.server
def test_all_that_a_prometheus_scraped_arrives_bit_for_bit(tmp_path):
    """Its own page, five times a second, until the target is taken away; staleness markers included."""
    with web_server(tmp_path / "strata") as server:
        targets = tmp_path / "targets.json"
        targets.write_text("[]")
        config = tmp_path / "prometheus.yml"
        jobs = [{"job_name": "itself", "file_sd_configs": [{"files": [str(targets)]}]}]
        soon = {"batch_send_deadline": "200ms"}  # else what is no full batch waits five seconds
        sent_to = [{"url": f"{server.url}/api/v1/write", "queue_config": soon}]
        settings = {"scrape_interval": "200ms", "scrape_timeout": "200ms"}
        config.write_text(json.dumps({"global": settings, "scrape_configs": jobs, "remote_write": sent_to}))
        with (
            closing(SampleStore.open(server.log.parent / "strata" / "samples.db")) as store,
            prometheus(config, tmp_path) as genuine,
        ):
            target = genuine.url.removeprefix("http://")
            targets.write_text(json.dumps([{"targets": [target], "labels": {"path": 'a"b\\c\nd'}}]))
            genuine.eventually(lambda: len(up(store)) > 8)
            targets.write_text("[]")
            genuine.eventually(lambda: is_stale(np.array(up(store)[-1:])).any())
            living = genuine.api("query", query='{__name__!=""}[10m]')["result"]
        with closing(SampleStore.open(server.log.parent / "strata" / "samples.db")) as store:
            everything = store.select([], 0, END_MS)
        every = dumped(tmp_path / "data")
        ours = {
            (series.labels, at_ms): bits(value)
            for series in everything
            for at_ms, value in zip(series.timestamps.tolist(), series.values.tolist(), strict=True)
        }
    expected = {
        (labels_from(one["metric"]), round(at * 1000)): struct.pack(
            "<d", NORMAL if value == "NaN" else float(value)
        )
        for one in living
        for at, value in one["values"]
    }
    markers = every - expected.keys()
    assert len(markers) > 100
    assert expected.keys() <= every
    assert ours == {**expected, **dict.fromkeys(markers, bits(STALE))}


def bits(value):
    return struct.pack("<d", value)


def up(store):
    """Values of the target's `up` so far."""
    return [value for series in store.select([named("up")], 0, END_MS) for value in series.values.tolist()]
