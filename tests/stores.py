"""Stores with known content for the web tests: what a page must show follows from these numbers."""

import math
from collections.abc import Mapping, Sequence

import numpy as np

from db.labels import Labels, labels_from
from db.records import DenseAppend, SourceReport
from db.store import SampleStore

STEP_MS = 5_000
GIB = 2**30


def grow(start: float, per_second: float, seconds: float) -> float:
    return start + per_second * seconds


class Target:
    """One target's series in a fixed order, written scrape by scrape."""

    def __init__(self, job: str, instance: str) -> None:
        self.job, self.instance = job, instance
        self._order: dict[Labels, int] = {}

    def append(
        self, at_ms: int, samples: Mapping[tuple[str, tuple[tuple[str, str], ...]], float]
    ) -> DenseAppend:
        new = []
        for name, pairs in samples:
            labels = labels_from({**dict(pairs), "job": self.job, "instance": self.instance}, name)
            if labels not in self._order:
                self._order[labels] = len(self._order)
                new.append(labels)
        return DenseAppend(f"{self.job}/{self.instance}", new, at_ms, np.array(list(samples.values())))


def host_samples(seconds: float, *, busy: float = 0.25, used: float = 12 * GIB) -> dict:
    """Four processors busy to the given share; 12 of 16 GiB used; steady disk and network traffic."""
    samples: dict = {}
    for cpu in range(4):
        wave = busy * seconds - 0.12 * 40 * math.cos(seconds / 40 + cpu)
        samples["node_cpu_seconds_total", (("cpu", str(cpu)), ("mode", "idle"))] = 10_000 + seconds - wave
        samples["node_cpu_seconds_total", (("cpu", str(cpu)), ("mode", "user"))] = 500 + wave
    samples["node_memory_MemTotal_bytes", ()] = 16.0 * GIB
    samples["node_memory_MemAvailable_bytes", ()] = 16.0 * GIB - used
    samples["node_load1", ()] = 0.52
    for device, read, written in (("nvme0n1", 3.0e6, 8.5e6), ("dm-0", 3.0e6, 8.5e6)):
        samples["node_disk_read_bytes_total", (("device", device),)] = grow(1e9, read, seconds)
        samples["node_disk_written_bytes_total", (("device", device),)] = grow(2e9, written, seconds)
    for device, received, sent in (("eth0", 1.25e6, 4.0e5), ("lo", 9e9, 9e9)):
        samples["node_network_receive_bytes_total", (("device", device),)] = grow(1e9, received, seconds)
        samples["node_network_transmit_bytes_total", (("device", device),)] = grow(1e9, sent, seconds)
    for resource, share in (("cpu", 0.031), ("memory", 0.0), ("io", 0.012)):
        samples[f"node_pressure_{resource}_waiting_seconds_total", ()] = grow(100, share, seconds)
    for mountpoint, fstype, size, free in (
        ("/", "ext4", 200 * GIB, 90 * GIB),
        ("/data", "xfs", 2000 * GIB, 420 * GIB),
        ("/run", "tmpfs", GIB, 0),
    ):
        labels = (("device", "x"), ("fstype", fstype), ("mountpoint", mountpoint))
        samples["node_filesystem_size_bytes", labels] = float(size)
        samples["node_filesystem_avail_bytes", labels] = float(free)
    return samples


def gpu_samples(seconds: float, gpus: int, *, host: str, model: str = "NVIDIA H200") -> dict:
    samples: dict = {}
    for gpu in range(gpus):
        labels = (
            ("gpu", str(gpu)),
            ("UUID", f"GPU-{host}-{gpu:04d}"),
            ("modelName", model),
            ("Hostname", host),
        )
        wave = 0.5 + 0.5 * math.sin(seconds / 60 + gpu)
        samples["DCGM_FI_DEV_GPU_UTIL", labels] = float(round(35 + 60 * wave))
        samples["DCGM_FI_DEV_FB_USED", labels] = 90_000.0 + 1000 * gpu
        samples["DCGM_FI_DEV_FB_FREE", labels] = 53_000.0 - 1000 * gpu
        samples["DCGM_FI_DEV_POWER_USAGE", labels] = round(280 + 380 * wave, 3)
        samples["DCGM_FI_DEV_GPU_TEMP", labels] = float(round(48 + 22 * wave))
    return samples


def vllm_samples(seconds: float, *, running: float = 17, waiting: float = 4, rate: float = 1834.5) -> dict:
    labels = (("model_name", "llama-3.3-70b"), ("engine", "0"))
    return {
        ("vllm:num_requests_running", labels): running,
        ("vllm:num_requests_waiting", labels): waiting,
        ("vllm:generation_tokens_total", labels): grow(1e6, rate, seconds),
    }


def scrape_samples(duration: float, count: int) -> dict:
    return {
        ("up", ()): 1.0,
        ("scrape_duration_seconds", ()): duration,
        ("scrape_samples_scraped", ()): float(count),
    }


def report(job: str, instance: str, at_ms: int, **changes: object) -> SourceReport:
    fields: dict = {
        "kind": "scrape",
        "pool": job,
        "instance": instance,
        "url": f"http://{instance}/metrics",
        "state": "up",
        "interval_seconds": STEP_MS / 1000,
        "last_attempt_ms": at_ms,
        "last_success_ms": at_ms,
        "duration_seconds": 0.0043,
        "samples": 1204,
    }
    return SourceReport(**{**fields, **changes})


def collector_report(name: str, at_ms: int, **changes: object) -> SourceReport:
    return report(name, "box-1", at_ms, **{"kind": "collector", "url": "", "samples": 412, **changes})


class Box:
    """One machine with host collector, GPUs, a vLLM server and a node_exporter, written step by step."""

    def __init__(self, store: SampleStore, *, gpus: int = 2) -> None:
        self.store, self.gpus = store, gpus
        self._node = Target("node", "box-1")
        self._nvml = Target("nvml", "box-1")
        self._vllm = Target("vllm", "127.0.0.1:8000")

    def write(self, at_ms: int, start_ms: int) -> None:
        seconds = (at_ms - start_ms) / 1000
        wobble = 0.0043 + 0.001 * math.sin(seconds / 20)
        appends = [
            self._node.append(at_ms, host_samples(seconds)),
            self._vllm.append(at_ms, {**scrape_samples(wobble, 1204), **vllm_samples(seconds)}),
        ]
        reports = [
            collector_report("host", at_ms),
            report("vllm", "127.0.0.1:8000", at_ms),
        ]
        if self.gpus:
            appends.append(self._nvml.append(at_ms, gpu_samples(seconds, self.gpus, host="box-1")))
            reports.append(collector_report("nvml", at_ms))
        else:
            note = "no NVIDIA driver (libnvidia-ml.so.1 is not installed)"
            reports.append(
                collector_report(
                    "nvml", at_ms, state="unsupported", last_success_ms=None, samples=None, note=note
                )
            )
        self.store.write(appends, reports)

    def fill(self, start_ms: int, end_ms: int, step_ms: int = STEP_MS) -> None:
        for at_ms in range(start_ms, end_ms + 1, step_ms):
            self.write(at_ms, start_ms)


def many_targets(store: SampleStore, count: int, at_ms: int, *, down: Sequence[int] = ()) -> None:
    """`count` targets with five scrapes each; the ones in `down` do not answer."""
    targets = [Target("node", f"10.0.{index // 256}.{index % 256}:9100") for index in range(count)]
    for step in range(4, -1, -1):
        moment = at_ms - step * 15_000
        store.write([target.append(moment, scrape_samples(0.004, 240)) for target in targets])
    store.write(
        [],
        [
            report("node", target.instance, at_ms, interval_seconds=15.0)
            if index not in down
            else report(
                "node",
                target.instance,
                at_ms,
                interval_seconds=15.0,
                state="down",
                last_success_ms=at_ms - 600_000,
                error="connection refused",
            )
            for index, target in enumerate(targets)
        ],
    )
