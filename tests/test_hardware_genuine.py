"""GPUs that only a remote engine knows: their constants are published here and join its series."""

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from urllib.parse import quote
from urllib.request import urlopen

import pytest

from tests.remote_engines import GenuineEngine
from tests.running_strata import running_strata

pytestmark = pytest.mark.server
PAGE = Path(__file__).parent / "fixtures/dcgm/t4x2-k8s-fraction.prom"
CONFIG = {"prices": {"gpus": [{"gpu": "Tesla T4", "usd_per_hour": 0.5, "owned": False}]}}


class Exporter(BaseHTTPRequestHandler):
    """Answers with a captured page of two T4s."""

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/plain; version=0.0.4")
        self.end_headers()
        self.wfile.write(PAGE.read_bytes())

    def log_message(self, *_arguments: object) -> None:
        pass


@contextmanager
def exporter() -> Iterator[int]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Exporter)
    Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield server.server_port
    finally:
        server.shutdown()
        server.server_close()


def asked(url: str, query: str) -> list[dict]:
    with urlopen(f"{url}/api/v1/query?query={quote(query)}", timeout=20) as answer:
        return json.load(answer)["data"]["result"]


def test_constants_of_an_engines_gpus_are_here_and_join_its_series(tmp_path):
    with exporter() as port:
        engine = GenuineEngine("prometheus", tmp_path / "engine")
        engine.folder.mkdir(exist_ok=True)
        job = {
            "job_name": "dcgm",
            "scrape_interval": "1s",
            "static_configs": [{"targets": [f"127.0.0.1:{port}"]}],
        }
        (engine.folder / "prometheus.yml").write_text(json.dumps({"scrape_configs": [job]}))
        engine.start()
        try:
            engine.eventually(
                lambda: engine.samples("DCGM_FI_DEV_GPU_TEMP", time.time_ns() // 10**6, "1m"), "its scrapes"
            )
            config = tmp_path / "strata.yaml"
            config.write_text(json.dumps(CONFIG))
            options = ("--prometheus", engine.url, "--config", str(config))
            with running_strata(tmp_path / "strata", *options) as strata:
                price = "strata_gpu_price_usd_per_hour"
                strata.wait_for(lambda: bool(asked(strata.url, price)), "the price of a T4")
                dollars = f"sum(count by (modelName) (DCGM_FI_DEV_GPU_TEMP) * on (modelName) {price})"
                (found,) = asked(strata.url, dollars)
                assert float(found["value"][1]) == 2 * 0.5
                (peak,) = asked(strata.url, 'strata_gpu_peak_flops{dtype="fp16"}')
                assert (peak["metric"]["modelName"], float(peak["value"][1])) == ("Tesla T4", 65e12)
                assert asked(strata.url, "strata_electricity_price_usd_per_kwh") == []
        finally:
            engine.stop()
