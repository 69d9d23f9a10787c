"""A scraped target: does it answer, how fast, how much, and what its serving engine is doing."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from app.analysis.freshness import stale_after_ms
from app.summaries.reading import (
    ByMetric,
    Reading,
    by_owner,
    gauge_any,
    gauge_sum,
    job_and_instance,
    natural,
    rate_sum,
    reading,
)
from db.labels import Labels
from db.nan import IntArray
from db.records import Series, SourceReport

SourceStatus = Literal["up", "stale", "down", "waiting", "unsupported", "suppressed"]

DURATION = "scrape_duration_seconds"


@dataclass(frozen=True, slots=True)
class Engine:
    """A serving engine's names for the three numbers everybody asks for first; "" where it has none.

    generated: a counter of output tokens.
    """

    name: str
    running: str
    waiting: str
    generated: str


ENGINES = (
    Engine(
        "vLLM",
        running="vllm:num_requests_running",
        waiting="vllm:num_requests_waiting",
        generated="vllm:generation_tokens_total",
    ),
    Engine(
        "SGLang",
        running="sglang:num_running_reqs",
        waiting="sglang:num_queue_reqs",
        generated="sglang:generation_tokens_total",
    ),
    Engine(
        "llama.cpp",
        running="llamacpp:requests_processing",
        waiting="llamacpp:requests_deferred",
        generated="llamacpp:tokens_predicted_total",
    ),
    Engine(
        "TGI",
        running="tgi_batch_current_size",
        waiting="tgi_queue_size",
        generated="tgi_request_generated_tokens_sum",
    ),
    Engine("Triton", running="", waiting="nv_inference_pending_request_count", generated=""),
)
ENGINE_METRICS = tuple(
    name for engine in ENGINES for name in (engine.running, engine.waiting, engine.generated) if name
)


@dataclass(frozen=True, slots=True, eq=False)
class Serving:
    """What a target's serving engine does now: requests, requests, tokens per second."""

    engine: str
    running: Reading
    waiting: Reading
    generated_per_second: Reading


@dataclass(frozen=True, slots=True, eq=False)
class Target:
    """One scraped target. duration: seconds of the last scrape, and its recent past."""

    job: str
    instance: str
    status: SourceStatus
    report: SourceReport
    duration: Reading
    serving: Serving | None


def source_status(report: SourceReport, now_ms: int) -> SourceStatus:
    """The reported state, unless the report itself is old: then whoever wrote it has stopped."""
    if report.state in ("unsupported", "suppressed", "waiting"):
        return report.state
    attempted = report.last_attempt_ms if report.state == "down" else report.last_success_ms
    if attempted is None or now_ms - attempted > stale_after_ms(report.interval_seconds):
        return "stale"
    return report.state


def source_job(report: SourceReport) -> str:
    """The job label its samples carry (relabelling may differ from the pool's name)."""
    return _label(report.labels, "job") or report.pool


def summarise_targets(
    reports: Sequence[SourceReport], series: Iterable[Series], at: IntArray, now_ms: int
) -> list[Target]:
    """One Target for each scrape report, ordered by job and instance. `at`: the time grid, ms."""
    metrics = by_owner(series, job_and_instance)
    nothing = np.full(len(at), np.nan)
    found = []
    for report in reports:
        if report.kind != "scrape":
            continue
        job = source_job(report)
        instance = _label(report.labels, "instance") or report.instance
        own = metrics.get((job, instance), {})
        found.append(
            Target(
                job=job,
                instance=instance,
                status=source_status(report, now_ms),
                report=report,
                duration=reading(gauge_any(own[DURATION], at) if DURATION in own else nothing),
                serving=_serving(own, at),
            )
        )
    return sorted(
        found, key=lambda target: [natural(part) for part in (target.job, target.instance, target.report.url)]
    )


def _serving(metrics: ByMetric, at: IntArray) -> Serving | None:
    for engine in ENGINES:
        if engine.running in metrics or engine.waiting in metrics:
            return Serving(
                engine=engine.name,
                running=reading(gauge_sum(metrics.get(engine.running, ()), at)),
                waiting=reading(gauge_sum(metrics.get(engine.waiting, ()), at)),
                generated_per_second=reading(rate_sum(metrics.get(engine.generated, ()), at)),
            )
    return None


def _label(labels: Labels, name: str) -> str:
    return dict(labels).get(name, "")
