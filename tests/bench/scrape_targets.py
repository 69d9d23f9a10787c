"""1,000 targets of 240 lines every 15 s: what the collector process costs (CPU share of a core, memory).

The targets are one asyncio server in another process, one port for each, on the loopback; the collector
is the real `strata collect` in a process of its own over a prometheus.yml that names them.
"""

import argparse
import asyncio
import contextlib
import multiprocessing
import os
import signal
import subprocess
import sys
import tempfile
import time
from multiprocessing.connection import Connection
from pathlib import Path

import psutil

from db.records import named
from db.store import SampleStore

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


def measure(count: int, seconds: float) -> dict[str, float]:
    """Run the collector over `count` targets; CPU is counted over `seconds` after the first two rounds."""
    receive, send = multiprocessing.Pipe(duplex=False)
    simulator = multiprocessing.get_context("fork").Process(target=serve, args=(count, send), daemon=True)
    simulator.start()
    ports = receive.recv()
    with tempfile.TemporaryDirectory() as folder:
        config = Path(folder) / "prometheus.yml"
        targets = ", ".join(f"'127.0.0.1:{port}'" for port in ports)
        config.write_text(
            f"global: {{scrape_interval: {INTERVAL_SECONDS}s}}\n"
            f"scrape_configs:\n- job_name: simulated\n  static_configs: [{{targets: [{targets}]}}]\n"
        )
        options = ["--data", folder, "--prometheus-config", str(config), "--only", "scrape"]
        started = time.monotonic()
        collector = subprocess.Popen([sys.executable, "-m", "app", "collect", *options])
        process = psutil.Process(collector.pid)
        try:
            time.sleep(2 * INTERVAL_SECONDS + 5)
            cold_cpu = sum(process.cpu_times()[:2])
            time.sleep(max(0.0, INTERVAL_SECONDS * 3 - (time.monotonic() - started)))
            before, at = sum(process.cpu_times()[:2]), time.monotonic()
            peak = 0
            while time.monotonic() - at < seconds:
                time.sleep(1)
                peak = max(peak, process.memory_info().rss)
            cpu, wall = sum(process.cpu_times()[:2]) - before, time.monotonic() - at
        finally:
            collector.terminate()
            collector.wait(10)
            simulator.terminate()
        store = SampleStore.open(Path(folder) / "samples.db")
        now = time.time_ns() // 1_000_000
        up = store.select([named("up")], now - int(seconds * 1000), now)
        store.close()
    scrapes = sum(len(series.values) for series in up)
    return {
        "targets": count,
        "up": sum(series.values[-1] == 1 for series in up),
        "scrapes_in_window": scrapes,
        "cpu_percent_of_one_core": 100 * cpu / wall,
        "cpu_ms_per_scrape": 1000 * cpu / max(1, scrapes),
        "rss_mb": peak / 1e6,
        "cold_cpu_seconds": cold_cpu,
    }


def rows(count: int = 1_000, seconds: float = 60.0) -> list[tuple[str, str, str]]:
    """(what, value, bound) for the table of `make bench`."""
    found = measure(count, seconds)
    return [
        ("targets up", f"{found['up']:.0f} of {found['targets']:.0f}", "all"),
        ("scrapes in the window", f"{found['scrapes_in_window']:.0f}", ""),
        ("CPU, share of one core", f"{found['cpu_percent_of_one_core']:.1f} %", "under 10 %"),
        ("CPU per scrape", f"{found['cpu_ms_per_scrape']:.2f} ms", ""),
        ("memory (RSS, peak)", f"{found['rss_mb']:.0f} MB", "under 400 MB"),
        ("CPU of the first two rounds", f"{found['cold_cpu_seconds']:.1f} s", ""),
    ]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--targets", type=int, default=1_000)
    parser.add_argument("--seconds", type=float, default=60.0)
    given = parser.parse_args()
    for what, value, bound in rows(given.targets, given.seconds):
        print(f"| {what} | {value} | {bound} |")
