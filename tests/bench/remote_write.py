"""Remote-write over one connection: 5,000 series x 6 samples a request, as the same client sends it to each.

Strata answers when a request is on disk; Prometheus writes its log without waiting for the disk. Rounds of
the servers are interleaved and the median counts: other work on the machine falls on all of them.
"""

import contextlib
import http.client
import statistics
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

import numpy as np

from tests.app.api.remote_write_messages import HEADERS, Template
from tests.browser.server import web_server
from tests.genuine_prometheus import prometheus

SERIES = 5_000
SAMPLES = 6
STEP_MS = 15_000
ROUNDS = 5
REQUESTS_A_ROUND = 20


@dataclass(slots=True)
class Receiver:
    """A server, what the client sends it next, and seconds per round: in the server, and with encoding."""

    name: str
    url: str
    samples: int
    template: Template
    at_ms: int
    connection: http.client.HTTPConnection
    server_seconds: list[float] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)

    def send(self, draw: np.random.Generator) -> float:
        """One request; seconds until its answer."""
        times = self.at_ms + STEP_MS * np.arange(self.samples)
        values = np.round(draw.random((SERIES, self.samples)) * 100, 3)
        body = self.template.fill(np.tile(times, (SERIES, 1)), values)
        self.at_ms += STEP_MS * self.samples
        started = time.perf_counter()
        self.connection.request("POST", "/api/v1/write", body=body, headers=HEADERS)
        answer = self.connection.getresponse()
        text = answer.read()
        assert answer.status in (200, 204), f"{self.name}: {answer.status} {text[:200]!r}"
        return time.perf_counter() - started

    def round(self, draw: np.random.Generator) -> None:
        self.connection.close()  # the server may have done so while the others had their turn
        started = time.perf_counter()
        self.server_seconds.append(sum(self.send(draw) for _ in range(REQUESTS_A_ROUND)))
        self.seconds.append(time.perf_counter() - started)


def labels() -> list[dict[str, str]]:
    """DCGM-like label sets."""
    return [
        {
            "__name__": f"DCGM_FI_DEV_FIELD_{place % 30:02d}",
            "UUID": f"GPU-7a2e92f2-be71-d37e-a744-{place // 30:012d}",
            "gpu": str(place // 30 % 8),
            "Hostname": f"node-{place // 240:04d}",
            "job": "dcgm",
            "instance": f"node-{place // 240:04d}:9400",
        }
        for place in range(SERIES)
    ]


@contextlib.contextmanager
def receivers(samples: int) -> Iterator[list[Receiver]]:
    """`strata web` and Prometheus, side by side."""
    start_ms = time.time_ns() // 1_000_000 - 3_600_000 * 6
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "prometheus.yml").write_text("{}\n")
        with (
            web_server(folder / "strata") as strata,
            prometheus(folder / "prometheus.yml", folder, "--web.enable-remote-write-receiver") as peer,
        ):
            found = []
            for server, url in (("Strata", strata.url), ("Prometheus", peer.url)):
                connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=60)
                template = Template(labels(), samples)
                found.append(Receiver(server, url, samples, template, start_ms, connection))
            yield found


def table() -> str:
    """The measurement as markdown."""
    text = [
        "One connection, 5,000 series a request; samples/s with the client's encoding, and answers alone.",
        "",
        "| server | samples a series and request | samples/s | answers alone | ms a request (median round) |",
        "|---|---:|---:|---:|---:|",
    ]
    for samples in (SAMPLES, 1):
        draw = np.random.default_rng(1)
        with receivers(samples) as servers:
            for server in servers:
                for _ in range(3):
                    server.send(draw)  # the first brings the series
            for _ in range(ROUNDS):
                for server in servers:
                    server.round(draw)
            for server in servers:
                sent = SERIES * samples * REQUESTS_A_ROUND
                alone, whole = statistics.median(server.server_seconds), statistics.median(server.seconds)
                text.append(
                    f"| {server.name} | {samples} | {sent / whole:,.0f} | {sent / alone:,.0f} "
                    f"| {alone / REQUESTS_A_ROUND * 1000:.1f} |"
                )
    return "\n".join(text)


if __name__ == "__main__":
    print(table())
