"""What Grafana's Prometheus data source asks, with its own headers, and what it needs in each answer."""

import gzip
import json
from pathlib import Path

import jsonschema
import pytest

from tests.app.api.two_servers import ask, filled_strata

REQUESTS = json.loads(
    (Path(__file__).parents[2] / "fixtures" / "grafana" / "requests.json").read_text(encoding="utf-8")
)


@pytest.fixture(scope="module")
def url(tmp_path_factory):
    with filled_strata(tmp_path_factory.mktemp("grafana")) as server:
        yield server.url


@pytest.mark.parametrize("request_", REQUESTS, ids=[one["what"] for one in REQUESTS])
def test_the_data_source_finds_what_it_reads(url, request_):
    said = ask(
        url,
        request_["path"],
        [(name, value) for name, value in request_["parameters"]],
        method=request_["method"],
        headers=request_["headers"],
    )
    body = json.loads(gzip.decompress(said.body)) if "content-encoding" in said.headers else said.body
    assert said.status == request_["status"], body
    jsonschema.validate(body, request_["schema"])
