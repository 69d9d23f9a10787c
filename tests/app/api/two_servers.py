"""A running `strata web` and Debian's Prometheus that were sent the same samples."""

import http.client
import json
import math
import urllib.parse
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from db.labels import labels_from
from db.records import MetricMetadata, SourceReport, SourceState
from db.store import SampleStore
from tests.app.api.remote_write_messages import HEADERS, compressed, series
from tests.browser.server import WebServer, web_server
from tests.genuine_prometheus import Prometheus, prometheus

BEGIN = 1_700_000_000  # seconds
STEP = 15
SCRAPES = 41
END = BEGIN + (SCRAPES - 1) * STEP
PATH = '/a "b"\\c\nd é'
METADATA = [
    MetricMetadata("http_requests", "counter", "Answers <given> so far.", ""),
    MetricMetadata("latency_seconds", "histogram", "How long answers took.", "seconds"),
    MetricMetadata("odd_values", "gauge", "Other's.", ""),
    MetricMetadata("up", "gauge", "Is the target there?", ""),
    MetricMetadata("up", "unknown", "", ""),
]
FORM = "application/x-www-form-urlencoded"


@dataclass(frozen=True)
class Said:
    """What a server answered; `body` is JSON's content, or text where it is not JSON."""

    status: int
    body: Any
    headers: Mapping[str, str]

    @property
    def data(self) -> Any:
        assert self.status == 200, self.body
        assert self.body["status"] == "success"
        return self.body["data"]


def ask(
    url: str,
    path: str,
    parameters: Sequence[tuple[str, str]] = (),
    *,
    method: str = "GET",
    headers: Mapping[str, str] | None = None,
) -> Said:
    """Parameters of a POST go as a form."""
    place = urllib.parse.urlsplit(url)
    encoded = urllib.parse.urlencode(parameters)
    body = encoded.encode() if method == "POST" else None
    sent = {"Content-Type": FORM} if method == "POST" else {}
    target = f"/api/v1/{path}" if method == "POST" or not encoded else f"/api/v1/{path}?{encoded}"
    connection = http.client.HTTPConnection(place.hostname or "", place.port, timeout=30)
    with closing(connection):
        connection.request(method, target, body=body, headers={**sent, **(headers or {})})
        answer = connection.getresponse()
        content = answer.read()
        said = {name.lower(): value for name, value in answer.headers.items()}
    if said.get("content-type", "").startswith("application/json") and "content-encoding" not in said:
        return Said(answer.status, json.loads(content), said)
    return Said(answer.status, content if "content-encoding" in said else content.decode(), said)


def labelled() -> list[tuple[dict[str, str], list[float]]]:
    """Labels and a value for each scrape."""
    found: list[tuple[dict[str, str], list[float]]] = []
    for instance in ("a:9100", "b:9100"):
        target = {"job": "api", "instance": instance}
        found.append(({"__name__": "up", **target}, [float(instance == "a:9100")] * SCRAPES))
        for code, pace in (("200", 7.0), ("500", 0.3)):
            labels = {"__name__": "http_requests_total", "code": code, **target}
            found.append((labels, [pace * number for number in range(SCRAPES)]))
    odd = [math.nan, math.inf, -math.inf, 1e-7, 1.5e-5, 123456789012345680.0, 1e21, -0.0]
    gauge = {"__name__": "odd_values", "path": PATH, "job": "other", "instance": "c:1"}
    found.append((gauge, [odd[number % len(odd)] for number in range(SCRAPES)]))
    for le, share in (("0.1", 3), ("1", 7), ("+Inf", 10)):
        labels = {"__name__": "latency_seconds_bucket", "le": le, "job": "api", "instance": "a:9100"}
        found.append((labels, [float(share * number) for number in range(SCRAPES)]))
    return found


def push(url: str) -> None:
    body = b"".join(
        series(labels, [(value, (BEGIN + STEP * number) * 1000) for number, value in enumerate(values)])
        for labels, values in labelled()
    )
    request = urllib.request.Request(f"{url}/api/v1/write", compressed(body), HEADERS, method="POST")
    with urllib.request.urlopen(request, timeout=30):
        pass


def describe(samples: Path) -> None:
    """What scraping would have stored besides: two targets, one of them down, and metadata."""
    with closing(SampleStore.open(samples)) as store:
        store.write(
            [], [target("a:9100", "up"), target("b:9100", "down", error="connection refused")], METADATA
        )


def target(instance: str, state: SourceState, error: str = "") -> SourceReport:
    return SourceReport(
        kind="scrape",
        pool="api",
        instance=instance,
        url=f"http://{instance}/metrics",
        state=state,
        interval_seconds=15.0,
        last_attempt_ms=END * 1000 + 125,
        last_success_ms=END * 1000 if state == "up" else None,
        duration_seconds=0.25,
        samples=4,
        error=error,
        labels=labels_from({"job": "api", "instance": instance}),
    )


@contextmanager
def filled_strata(folder: Path) -> Iterator[WebServer]:
    with web_server(folder / "data") as server:
        push(server.url)
        describe(folder / "data" / "samples.db")
        yield server


@contextmanager
def filled_prometheus(folder: Path) -> Iterator[Prometheus]:
    folder.mkdir(exist_ok=True)
    config = folder / "prometheus.yml"
    config.write_text("")
    with prometheus(config, folder, "--web.enable-remote-write-receiver") as genuine:
        push(genuine.url)
        yield genuine
