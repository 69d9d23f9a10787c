"""10,000 simulated GPUs every 15 s: 1,250 dcgm-exporters and 200 vLLM servers, each on an address of its own.

The simulated cluster is a process of its own (its cost is shown too); the collector is the real `strata
collect`, which finds the targets by http_sd and stores with synchronous=FULL. How late a scrape is shows in
the stored samples: every gap between two of a target's is to be the interval, and a second at most besides.
"""

import argparse
import asyncio
import contextlib
import json
import multiprocessing
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path

import numpy as np
import psutil

from collectors.demo import DemoOptions, build_simulation
from collectors.demo_cluster import build_cluster
from collectors.demo_server import ClusterPages, ClusterServer
from db.records import named
from db.store import SampleStore

INTERVAL_SECONDS = 15
LATE_SECONDS = 1.0
KINDS = ("dcgm", "vllm")
START_SECONDS = 300.0


async def _serve(gpus: int, ready: Connection) -> None:
    # Without faults: a target that is meant to be silent would count as one that was missed.
    simulation = build_simulation(DemoOptions(gpus, 1, chosen_faults=False), float(int(time.time())))
    server = ClusterServer(ClusterPages(simulation, time.time), spread=True)
    await server.start()
    ready.send(server.port)
    await asyncio.Event().wait()


def serve(gpus: int, ready: Connection) -> None:
    signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
    asyncio.run(_serve(gpus, ready))


@contextlib.contextmanager
def simulated(gpus: int) -> Iterator[tuple[int, psutil.Process]]:
    """The port of the simulated cluster and its process, until the end of the block."""
    receive, send = multiprocessing.Pipe(duplex=False)
    simulator = multiprocessing.get_context("fork").Process(target=serve, args=(gpus, send), daemon=True)
    simulator.start()
    try:
        assert simulator.pid is not None
        yield receive.recv(), psutil.Process(simulator.pid)
    finally:
        simulator.terminate()


@dataclass(frozen=True)
class Outcome:
    """CPU in seconds over `wall_seconds`, memory in bytes; gaps: seconds between a target's samples.

    start_seconds: until every target was scraped once.
    """

    wall_seconds: float
    cpu_seconds: float
    start_seconds: float
    start_cpu_seconds: float
    peak_bytes: int
    simulator_cpu_seconds: float
    targets: int
    samples_per_scrape: float
    scrapes: int
    failed: int
    gaps: np.ndarray
    slowest_scrape_seconds: float

    @property
    def late(self) -> int:
        return int((np.abs(self.gaps - INTERVAL_SECONDS) > LATE_SECONDS).sum())


def measure(gpus: int, seconds: float, folder: Path) -> Outcome:
    """CPU and lateness are counted over `seconds`, two intervals after every target was scraped once."""
    with simulated(gpus) as (port, simulator):
        config = folder / "prometheus.yml"
        jobs = [
            {
                "job_name": kind,
                "scrape_interval": f"{INTERVAL_SECONDS}s",
                "http_sd_configs": [{"url": f"http://127.0.0.1:{port}/targets/{kind}"}],
            }
            for kind in KINDS
        ]
        config.write_text(json.dumps({"scrape_configs": jobs}))
        options = ["--data", str(folder), "--prometheus-config", str(config), "--only", "scrape"]
        program = subprocess.Popen(
            [sys.executable, "-m", "app", "collect", *options], stderr=subprocess.DEVNULL
        )
        try:
            process = psutil.Process(program.pid)
            start = _until_all_are_known(folder, simulator_targets(gpus))
            time.sleep(2 * INTERVAL_SECONDS)
            before, at, from_ms = _cpu(process), time.monotonic(), time.time_ns() // 1_000_000
            simulator_before, peak = _cpu(simulator), 0
            while time.monotonic() - at < seconds:
                time.sleep(1)
                peak = max(peak, process.memory_info().rss)
            wall = time.monotonic() - at
            cpu, simulator_cpu = _cpu(process) - before, _cpu(simulator) - simulator_before
        finally:
            program.terminate()
            program.wait(20)
    store = SampleStore.open(folder / "samples.db")
    try:
        until_ms = from_ms + int(wall * 1000)
        up, took, size = (
            store.select([named(name)], from_ms, until_ms)
            for name in ("up", "scrape_duration_seconds", "scrape_samples_scraped")
        )
    finally:
        store.close()
    return Outcome(
        wall_seconds=wall,
        cpu_seconds=cpu,
        start_seconds=start,
        start_cpu_seconds=before,
        peak_bytes=peak,
        simulator_cpu_seconds=simulator_cpu,
        targets=len(up),
        samples_per_scrape=float(np.mean([series.values[-1] for series in size])),
        scrapes=sum(int((series.values == 1).sum()) for series in up),
        failed=sum(int((series.values != 1).sum()) for series in up),
        gaps=np.concatenate([np.diff(series.timestamps) for series in up]) / 1000,
        slowest_scrape_seconds=max(float(series.values.max()) for series in took),
    )


def simulator_targets(gpus: int) -> int:
    cluster = build_cluster(gpus, 1)
    return len(cluster.nodes) + len(cluster.replicas)


def _until_all_are_known(folder: Path, targets: int) -> float:
    """Wait until every target was scraped once; the seconds that it took."""
    began = time.monotonic()
    while time.monotonic() - began < START_SECONDS:
        time.sleep(2)
        if (folder / "samples.db").exists():
            store = SampleStore.open(folder / "samples.db")
            try:
                if sum(report.state == "up" for report in store.sources()) == targets:
                    return time.monotonic() - began
            finally:
                store.close()
    raise AssertionError(f"not every target was scraped within {START_SECONDS:.0f} s")


def _cpu(process: psutil.Process) -> float:
    return float(sum(process.cpu_times()[:2]))


def table(gpus: int = 10_000, seconds: float = 120.0) -> str:
    """A markdown table."""
    with tempfile.TemporaryDirectory() as name:
        got = measure(gpus, seconds, Path(name))
    off = np.abs(got.gaps - INTERVAL_SECONDS)
    rows = [
        ("targets found and scraped", f"{got.targets:,}", ""),
        ("samples a scrape, mean", f"{got.samples_per_scrape:.0f}", ""),
        ("scrapes", f"{got.scrapes:,}", ""),
        ("scrapes that failed", f"{got.failed:,}", "0"),
        ("CPU, share of one core", f"{100 * got.cpu_seconds / got.wall_seconds:.1f} %", "under 20 %"),
        ("CPU a scrape", f"{1000 * got.cpu_seconds / max(1, got.scrapes):.2f} ms", ""),
        ("resident memory, peak", f"{got.peak_bytes / 1e6:.0f} MB", "under 1,000 MB"),
        ("gaps more than 1 s off the interval", f"{got.late:,} of {len(got.gaps):,}", "0"),
        ("largest deviation of a gap", f"{off.max():.2f} s", "1 s"),
        ("99.9 % of gaps deviate by less than", f"{np.quantile(off, 0.999):.2f} s", ""),
        ("slowest scrape", f"{got.slowest_scrape_seconds:.2f} s", ""),
        ("until every target was scraped once", f"{got.start_seconds:.0f} s", ""),
        ("CPU until then and for two intervals", f"{got.start_cpu_seconds:.1f} s", ""),
        (
            "the simulated cluster's own CPU, share of one core",
            f"{100 * got.simulator_cpu_seconds / got.wall_seconds:.1f} %",
            "",
        ),
    ]
    return "\n".join(
        [
            f"{gpus:,} simulated GPUs every {INTERVAL_SECONDS} s, over {seconds:.0f} s.",
            "",
            "| | Strata | bound |",
            "|---|---:|---|",
            *(f"| {what} | {value} | {bound} |" for what, value, bound in rows),
        ]
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--gpus", type=int, default=10_000)
    parser.add_argument("--seconds", type=float, default=120.0)
    given = parser.parse_args()
    print(table(given.gpus, given.seconds))
