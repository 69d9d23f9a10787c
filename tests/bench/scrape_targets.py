"""1,000 targets of 240 lines every 15 s: what the collector process costs (CPU share of a core, memory).

The targets are one asyncio server in another process, one port for each, on the loopback; the collector
is the real `strata collect` in a process of its own over a prometheus.yml that names them.
"""

import argparse
import asyncio
import contextlib
import json
import multiprocessing
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path

import psutil

from db.records import named
from db.store import SampleStore
from tests.free_port import free_port
from tests.running_strata import prometheus_config

LINES = 240
INTERVAL_SECONDS = 15
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain; version=0.0.4\r\nContent-Length: %d\r\n\r\n"
GPU_METRICS = [
    ("DCGM_FI_DEV_GPU_UTIL", 100),
    ("DCGM_FI_DEV_SM_CLOCK", 1980),
    ("DCGM_FI_DEV_MEM_CLOCK", 2619),
    ("DCGM_FI_DEV_GPU_TEMP", 80),
    ("DCGM_FI_DEV_POWER_USAGE", 700),
    ("DCGM_FI_DEV_FB_USED", 81_000),
]


def page(target: int, turn: int) -> bytes:
    """A DCGM-like page of LINES samples; about two thirds of the values change from turn to turn."""
    lines = []
    for metric in range(LINES // 8):
        name, top = GPU_METRICS[metric % len(GPU_METRICS)]
        lines.append(f"# HELP {name}_{metric} A gauge of the simulated exporter.")
        lines.append(f"# TYPE {name}_{metric} gauge")
        for gpu in range(8):
            value = (target * 7 + metric * 13 + gpu * 17 + (turn if metric % 3 else 0) * 31) % (top * 10) / 10
            labels = (
                f'gpu="{gpu}",UUID="GPU-{target:08x}-0000-4000-8000-{gpu:012x}",device="nvidia{gpu}",'
                f'modelName="NVIDIA H100 80GB HBM3",Hostname="node{target}"'
            )
            lines.append(f"{name}_{metric}{{{labels}}} {value!r}")
    return ("\n".join(lines) + "\n").encode()


async def _serve(count: int, ports: Connection) -> None:
    async def answer(target: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        turn = 0
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                await reader.readuntil(b"\r\n\r\n")
                body = page(target, turn := turn + 1)
                writer.write(HEAD % len(body) + body)
                await writer.drain()
        writer.close()

    servers = [
        await asyncio.start_server(lambda r, w, t=target: answer(t, r, w), "127.0.0.1", 0)
        for target in range(count)
    ]
    ports.send([server.sockets[0].getsockname()[1] for server in servers])
    await asyncio.Event().wait()


def serve(count: int, ports: Connection) -> None:
    signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
    asyncio.run(_serve(count, ports))


@contextlib.contextmanager
def simulated(count: int) -> Iterator[list[int]]:
    """The ports of `count` targets, served until the end of the block."""
    receive, send = multiprocessing.Pipe(duplex=False)
    simulator = multiprocessing.get_context("fork").Process(target=serve, args=(count, send), daemon=True)
    simulator.start()
    try:
        yield receive.recv()
    finally:
        simulator.terminate()


@dataclass(frozen=True)
class Cost:
    """What a program needed: CPU and scrapes over a window, peak resident memory in bytes."""

    scrapes: int
    cpu_seconds: float
    wall_seconds: float
    rss_bytes: int
    start_cpu_seconds: float

    @property
    def core_share(self) -> float:
        return self.cpu_seconds / self.wall_seconds


def watch(command: list[str], seconds: float, scrapes: Callable[[float], int]) -> Cost:
    """Run a program; CPU is counted over `seconds` after its first three rounds."""
    program = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    process = psutil.Process(program.pid)
    try:
        time.sleep(3 * INTERVAL_SECONDS)
        before, at = sum(process.cpu_times()[:2]), time.monotonic()
        peak = 0
        while time.monotonic() - at < seconds:
            time.sleep(1)
            peak = max(peak, process.memory_info().rss)
        wall = time.monotonic() - at
        cpu = sum(process.cpu_times()[:2]) - before
        return Cost(scrapes(wall), cpu, wall, peak, before)
    finally:
        program.terminate()
        program.wait(20)


def strata_cost(ports: list[int], folder: Path, seconds: float) -> Cost:
    """The collector process by itself, storing with synchronous=FULL."""
    config = _config(ports, folder)
    options = ["--data", str(folder), "--prometheus-config", str(config), "--only", "scrape"]

    def scrapes(wall: float) -> int:
        store = SampleStore.open(folder / "samples.db")
        now = time.time_ns() // 1_000_000
        up = store.select([named("up")], now - int(wall * 1000), now)
        store.close()
        return sum(int((series.values == 1).sum()) for series in up)

    return watch([sys.executable, "-m", "app", "collect", *options], seconds, scrapes)


def prometheus_cost(ports: list[int], folder: Path, seconds: float) -> Cost | None:
    """Debian's Prometheus on the same targets (its WAL is not synced at a scrape); None without it."""
    program = shutil.which("prometheus")
    if program is None:
        return None
    port = free_port()
    options = [f"--config.file={_config(ports, folder)}", f"--storage.tsdb.path={folder / 'tsdb'}"]

    def scrapes(wall: float) -> int:
        query = urllib.parse.urlencode({"query": f"sum(count_over_time(up[{int(wall)}s]))"})
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/api/v1/query?{query}", timeout=20) as answer:
            return int(float(json.load(answer)["data"]["result"][0]["value"][1]))

    return watch([program, *options, f"--web.listen-address=127.0.0.1:{port}"], seconds, scrapes)


def _config(ports: list[int], folder: Path) -> Path:
    folder.mkdir()
    return prometheus_config(
        folder, {"simulated": [f"127.0.0.1:{port}" for port in ports]}, f"{INTERVAL_SECONDS}s"
    )


def table(count: int = 1_000, seconds: float = 60.0) -> str:
    """A markdown table, Strata beside Prometheus."""
    with tempfile.TemporaryDirectory() as name, simulated(count) as ports:
        ours = strata_cost(ports, Path(name) / "strata", seconds)
        peer = prometheus_cost(ports, Path(name) / "prometheus", seconds)

    def row(what: str, value: Callable[[Cost], float], form: str, bound: str = "") -> str:
        theirs = "-" if peer is None else form.format(value(peer))
        ratio = "-" if peer is None or not value(peer) else f"{value(ours) / value(peer):.2f}"
        return f"| {what} | {form.format(value(ours))} | {theirs} | {ratio} | {bound} |"

    return "\n".join(
        [
            f"{count:,} targets of {LINES} samples every {INTERVAL_SECONDS} s, over {seconds:.0f} s.",
            "",
            "| | Strata | Prometheus | ratio | bound |",
            "|---|---:|---:|---:|---|",
            row("successful scrapes", lambda cost: cost.scrapes, "{:,.0f}"),
            row("CPU, share of one core", lambda cost: 100 * cost.core_share, "{:.1f} %", "under 10 %"),
            row("CPU a scrape", lambda cost: 1000 * cost.cpu_seconds / max(1, cost.scrapes), "{:.2f} ms"),
            row("resident memory, peak", lambda cost: cost.rss_bytes / 1e6, "{:.0f} MB", "under 400 MB"),
            row(
                "CPU of the first 45 s (every series is new)", lambda cost: cost.start_cpu_seconds, "{:.1f} s"
            ),
        ]
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--targets", type=int, default=1_000)
    parser.add_argument("--seconds", type=float, default=60.0)
    given = parser.parse_args()
    print(table(given.targets, given.seconds))
