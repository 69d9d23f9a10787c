"""What the two servers answer, as a client has it: the five questions, and four ways to read an answer.

*server only*: the HTTP body was received over a kept connection, uncompressed; nothing else. *lean*: requests
as it is (kept connection, gzip), orjson and NumPy into a labelled DataFrame. *bare*: the same without gzip
over http.client, which is the quickest on one machine. *api client*: prometheus-api-client into its own
DataFrame. No answer comes out of a cache of answers.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

import numpy as np
import orjson
import pandas as pd
import requests
from prometheus_api_client import MetricRangeDataFrame, MetricSnapshotDataFrame, PrometheusConnect

from db.labels import Labels
from tests.bench.store_data import BUCKET_METRIC, START_MS, Dataset
from tests.bench.store_peers import Peer

RESOLUTION_MS = 60_000
HISTOGRAM = "vllm-0"
# GPUs 0 to 199: a metric has one counter for each.
FIRST_200_GPUS = "GPU-000000[0-9ab].|GPU-000000c[0-7]"
EVERY_JOB = "dcgm|vllm"


@dataclass(frozen=True, slots=True)
class Question:
    """A question in PromQL. kind: `raw` samples of one series, a `range` of steps, the `latest` values."""

    name: str
    what: str
    kind: str
    promql: str
    start_ms: int
    end_ms: int

    def request(self) -> tuple[str, dict[str, object]]:
        if self.kind == "range":
            span = {"start": self.start_ms / 1000, "end": self.end_ms / 1000, "step": RESOLUTION_MS // 1000}
            return "/api/v1/query_range", {"query": self.promql, **span}
        return "/api/v1/query", {"query": self.promql, "time": self.end_ms / 1000}


def questions(data: Dataset) -> list[Question]:
    """The five. Rates are asked of a quarter of the time from its middle, 6 of 24 hours."""
    end = data.end_ms
    hours = (end - START_MS) // 3_600_000
    uuid = dict(data.series[one_series(data)])["UUID"]
    start = START_MS + 10 * 3_600_000 * hours // 24
    middle = start + hours * 3_600_000 // 4
    quantile = f'sum by (le) (rate({BUCKET_METRIC}{{instance="{HISTOGRAM}"}}[5m]))'
    gpus, counters = len(data.of_kind("util")), min(200, len(data.of_kind("pcie")))
    rates = f"{(middle - start) / 3_600_000:g} h"
    return [
        Question(
            "q1", f"one series, {hours} h raw", "raw", f'util{{UUID="{uuid}"}}[{hours}h]', START_MS, end
        ),
        Question(
            "q2",
            f"avg by (node), {gpus:,} series, {hours} h, 60 s step",
            "range",
            "avg by (node) (util)",
            START_MS + RESOLUTION_MS,
            end,
        ),
        Question(
            "q3",
            f"rate of {counters} counters, {rates}, 60 s",
            "range",
            f'rate(pcie{{UUID=~"{FIRST_200_GPUS}"}}[5m])',
            start,
            middle,
        ),
        Question(
            "q4",
            f"histogram_quantile over 20 buckets, {rates}, 60 s",
            "range",
            f"histogram_quantile(0.95, {quantile})",
            start,
            middle,
        ),
        Question(
            "q5",
            f"latest value of {len(data.series):,} series",
            "latest",
            f'{{job=~"{EVERY_JOB}"}}',
            end,
            end,
        ),
    ]


def one_series(data: Dataset) -> int:
    return data.of_kind("util")[7]


def server_reader(peer: Peer, question: Question) -> Callable[[], object]:
    connection = peer.connect()
    path, parameters = question.request()
    return lambda: connection.get(path, **parameters, **peer.extra)


def bare_reader(peer: Peer, question: Question) -> Callable[[], pd.DataFrame]:
    connection = peer.connect()
    path, parameters = question.request()
    return lambda: _decoded(question, connection.get(path, **parameters, **peer.extra))


def lean_reader(peer: Peer, question: Question) -> Callable[[], pd.DataFrame]:
    session = requests.Session()
    path, parameters = question.request()
    url, asked = peer.url + path, {**parameters, **peer.extra}

    def read() -> pd.DataFrame:
        answer = session.get(url, params=asked)
        answer.raise_for_status()
        return _decoded(question, answer.content)

    return read


def api_client_reader(peer: Peer, question: Question) -> Callable[[], pd.DataFrame]:
    client = PrometheusConnect(url=peer.url)
    at = [datetime.fromtimestamp(ms / 1000, UTC) for ms in (question.start_ms, question.end_ms)]
    step = str(RESOLUTION_MS // 1000)
    if question.kind == "range":
        return lambda: MetricRangeDataFrame(
            client.custom_query_range(question.promql, *at, step, params=dict(peer.extra))
        )
    frame = MetricRangeDataFrame if question.kind == "raw" else MetricSnapshotDataFrame
    instant = {"time": question.end_ms / 1000, **peer.extra}
    return lambda: frame(client.custom_query(question.promql, params=dict(instant)))


def _decoded(question: Question, body: bytes) -> pd.DataFrame:
    return _DECODERS[question.kind](question, orjson.loads(body)["data"]["result"])


def _labels(metric: Mapping[str, str]) -> Labels:
    return tuple(sorted(metric.items()))


def columns(series: list[Labels]) -> pd.Index:
    """Whole label sets as the names of columns or rows."""
    return pd.Index(series, dtype=object, tupleize_cols=False)


def _samples(pairs: list[list[object]]) -> tuple[np.ndarray, np.ndarray]:
    """Milliseconds and values out of [[seconds, "value"], ...]."""
    flat = np.array(pairs, dtype=object)
    return np.rint(flat[:, 0].astype(np.float64) * 1000).astype(np.int64), flat[:, 1].astype(np.float64)


def _decode_raw(question: Question, result: list) -> pd.DataFrame:
    timestamps, values = _samples(result[0]["values"])
    return pd.DataFrame(
        values[:, None], pd.DatetimeIndex(timestamps.view("M8[ms]")), columns([_labels(result[0]["metric"])])
    )


def _decode_range(question: Question, result: list) -> pd.DataFrame:
    grid = np.arange(question.start_ms, question.end_ms + 1, RESOLUTION_MS)
    values = np.full((len(grid), len(result)), np.nan)
    for place, series in enumerate(result):
        timestamps, held = _samples(series["values"])
        values[(timestamps - question.start_ms) // RESOLUTION_MS, place] = held
    return pd.DataFrame(
        values,
        pd.DatetimeIndex(grid.view("M8[ms]")),
        columns([_labels(series["metric"]) for series in result]),
    )


def _decode_latest(question: Question, result: list) -> pd.DataFrame:
    _, values = _samples([series["value"] for series in result])
    return pd.DataFrame({"value": values}, columns([_labels(series["metric"]) for series in result]))


_DECODERS = {"raw": _decode_raw, "range": _decode_range, "latest": _decode_latest}
