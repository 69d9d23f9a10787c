"""Random series for the comparison with a real Prometheus: gaps, resets, NaN, infinities, staleness, churn.

No sample lies on a whole second, and every time of a query does: whether a window is closed at its beginning
(Prometheus 2) or open (Prometheus 3) then makes no difference.

Counters start high and fall to half or more of their value when they are reset. A counter near zero is
extrapolated to its zero point, and 2.42 does that before it limits the extrapolation, 3.x after it: with
these counters the zero point is always farther away than the limit, and the two agree.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from db.labels import Labels, labels_from
from db.nan import NORMAL, STALE, BoolArray, FloatArray, IntArray

FIRST_MS = 1_700_000_000_000
SPAN_MS = 7_200_000
_INTERVAL_MS = 15_000
# Every instance is scraped at a time of its own within the interval.
INSTANCES = {"a:1": 2_137, "b:1": 5_411, "c:1": 8_733, "d:1": 13_871}
_JOBS = {"a:1": "api", "b:1": "api", "c:1": "db", "d:1": "db"}
BOUNDS = ("0.1", "0.5", "1", "2.5", "10", "+Inf")


@dataclass(frozen=True, slots=True)
class Samples:
    """One series. timestamps: int64[n], ms UTC; values: float64[n]."""

    labels: Labels
    timestamps: IntArray
    values: FloatArray


def random_series(seed: int) -> list[Samples]:
    rng = np.random.default_rng(seed)
    found: list[Samples] = []
    for instance, phase_ms in INSTANCES.items():
        times = FIRST_MS + phase_ms + _INTERVAL_MS * np.arange(SPAN_MS // _INTERVAL_MS, dtype=np.int64)
        times += rng.integers(0, 90, len(times))
        for name, more, values in _of_target(rng, len(times)):
            labels = labels_from({"instance": instance, "job": _JOBS[instance], **more}, name)
            found.append(_thinned(rng, labels, times, values))
        found += _churning(rng, instance, times)
    return found


def _of_target(rng: np.random.Generator, count: int) -> Iterator[tuple[str, dict[str, str], FloatArray]]:
    for code in ("200", "404", "500"):
        yield "requests_total", {"code": code}, _counter(rng, count, whole=True)
    for mode in ("idle", "user"):
        yield "cpu_seconds_total", {"mode": mode}, _counter(rng, count, whole=False)
    for zone in ("x", "y"):
        yield "temperature", {"zone": zone}, _with_oddities(rng, np.cumsum(rng.normal(0, 1, count)) + 20)
    yield "memory_bytes", {}, rng.integers(1, 2**40, count).astype(np.float64)
    yield "up", {}, (rng.random(count) > 0.2).astype(np.float64)
    yield "started_seconds", {}, np.floor(FIRST_MS / 1000 - rng.integers(0, 10**9) + np.arange(count) * 977.0)
    # One process: all of a histogram is reset at once.
    falls = rng.random(count) < 0.01
    buckets = np.array([_counter(rng, count, whole=True, falls=falls) for _ in BOUNDS])
    for bound, values in zip(BOUNDS, np.cumsum(buckets, axis=0), strict=True):
        yield "latency_seconds_bucket", {"le": bound}, values
    yield "latency_seconds_count", {}, buckets.sum(axis=0)
    yield "latency_seconds_sum", {}, buckets.sum(axis=0) * 0.75


def _counter(
    rng: np.random.Generator, count: int, *, whole: bool, falls: BoolArray | None = None
) -> FloatArray:
    steps = rng.integers(0, 20, count).astype(np.float64) if whole else rng.random(count) * 15
    values = np.empty(count)
    value = float(rng.integers(10_000, 50_000))
    if falls is None:
        falls = rng.random(count) < 0.01
    for index in range(count):
        value = np.floor(value * rng.uniform(0.5, 0.7)) if falls[index] else value + steps[index]
        values[index] = value
    return values


def _with_oddities(rng: np.random.Generator, values: FloatArray) -> FloatArray:
    which = rng.random(len(values))
    for share, odd in ((0.01, NORMAL), (0.015, np.inf), (0.02, -np.inf), (0.03, 0.0)):
        values = np.where((which < share) & (which >= share - 0.005), odd, values)
    return values


def _thinned(rng: np.random.Generator, labels: Labels, times: IntArray, values: FloatArray) -> Samples:
    """Some samples missing, some longer gaps, some of them begun with a staleness marker."""
    there = rng.random(len(times)) > rng.choice([0.0, 0.02, 0.2])
    values = values.copy()
    for _ in range(int(rng.integers(0, 4))):
        start = int(rng.integers(0, len(times) - 1))
        length = int(rng.integers(2, 60))
        if rng.random() < 0.6:
            values[start], there[start] = STALE, True
            start += 1
        there[start : start + length] = False
    return Samples(labels, times[there], values[there])


def _churning(rng: np.random.Generator, instance: str, times: IntArray) -> list[Samples]:
    """A label that changes: one series ends where the next begins, mostly with a marker."""
    cuts = np.sort(rng.choice(np.arange(20, len(times) - 20), 3, replace=False))
    found = []
    for number, part in enumerate(np.split(np.arange(len(times)), cuts)):
        labels = labels_from(
            {"instance": instance, "job": _JOBS[instance], "version": f"v{number}"}, "build_info"
        )
        stamps, values = times[part], np.ones(len(part))
        if number < len(cuts) and rng.random() < 0.8:
            stamps, values = np.append(stamps, times[part[-1] + 1]), np.append(values, STALE)
        found.append(Samples(labels, stamps, values))
    return found


def perturbed(
    series: Sequence[Samples], seed: int, relative: float = 1e-13, absolute: float = 0.0
) -> list[Samples]:
    """The same series with every value that is no integer moved a little: by a part of itself, and by up to
    `absolute`."""
    rng = np.random.default_rng(seed)
    found = []
    for one in series:
        with np.errstate(invalid="ignore"):
            moving = np.isfinite(one.values) & (one.values != np.floor(one.values))
        noise = rng.uniform(-1, 1, len(one.values))
        # Where nothing moves the bits stay: a multiplied staleness marker would be another NaN.
        values = one.values.copy()
        values[moving] *= 1 + relative * noise[moving]
        values[moving] += absolute * noise[moving]
        found.append(Samples(one.labels, one.timestamps, values))
    return found
