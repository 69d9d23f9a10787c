import numpy as np
import pytest

from app.analysis.grid import time_grid
from app.summaries.targets import source_job, source_status, summarise_targets
from db.labels import labels_from
from db.records import Series
from tests.stores import report

END = 1_000_000_060_000
GRID = time_grid(END, 60_000, 12)


def series(name, values, **labels):
    pairs = {"job": "vllm", "instance": "a:8000", **labels}
    times = END - np.arange(len(values) - 1, -1, -1) * 5_000
    return Series(labels_from(pairs, name), times, np.array(values))


def target(*found):
    (only,) = summarise_targets([report("vllm", "a:8000", END)], found, GRID, END)
    return only


def test_a_serving_engine_is_known_by_its_metrics():
    found = target(
        series("vllm:num_requests_running", [3.0, 4.0], model_name="a"),
        series("vllm:num_requests_running", [1.0, 2.0], model_name="b"),
        series("vllm:num_requests_waiting", [0.0, 7.0]),
        series("vllm:generation_tokens_total", [100.0, 600.0, 1_100.0]),
    )
    assert found.serving is not None
    assert found.serving.engine == "vLLM"
    assert found.serving.running.value == 6.0
    assert found.serving.waiting.value == 7.0
    assert found.serving.generated_per_second.value == 100.0


@pytest.mark.parametrize(
    ("metric", "engine"),
    [
        ("sglang:num_running_reqs", "SGLang"),
        ("llamacpp:requests_processing", "llama.cpp"),
        ("tgi_batch_current_size", "TGI"),
        ("nv_inference_pending_request_count", "Triton"),
    ],
)
def test_other_engines(metric, engine):
    serving = target(series(metric, [5.0])).serving
    assert serving is not None
    assert serving.engine == engine


def test_an_exporter_is_not_a_serving_engine():
    assert target(series("scrape_duration_seconds", [0.1])).serving is None


def test_collectors_are_not_targets():
    assert summarise_targets([report("host", "box", END, kind="collector")], [], GRID, END) == []


def test_the_job_is_the_one_its_samples_carry():
    assert source_job(report("pool", "a", END, labels=(("job", "relabelled"),))) == "relabelled"


@pytest.mark.parametrize(
    ("changes", "status"),
    [
        ({}, "up"),
        ({"state": "down", "last_success_ms": None}, "down"),
        ({"last_success_ms": END - 120_000, "last_attempt_ms": END - 120_000}, "stale"),
        ({"state": "down", "last_attempt_ms": END - 120_000}, "stale"),
        ({"state": "waiting", "last_success_ms": None}, "waiting"),
        ({"state": "unsupported", "last_attempt_ms": 1}, "unsupported"),
        ({"state": "suppressed"}, "suppressed"),
    ],
)
def test_an_old_report_proves_nothing(changes, status):
    assert source_status(report("vllm", "a", END, **changes), END) == status
