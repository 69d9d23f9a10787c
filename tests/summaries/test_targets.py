import numpy as np
import pytest

from app.analysis.grid import time_grid
from app.summaries.targets import rate_window, read_targets, source_job, source_status
from db.labels import labels_from
from db.records import Series
from tests.stores import report
from tests.summaries.readers import reader, write

END = 1_000_000_060_000
GRID = time_grid(END, 60_000, 12)
VLLM = report("vllm", "a:8000", END)


def series(name, values, *, step_ms=5_000, **labels):
    pairs = {"job": "vllm", "instance": "a:8000", **labels}
    times = END - np.arange(len(values) - 1, -1, -1) * step_ms
    return Series(labels_from(pairs, name), times, np.array(values))


@pytest.fixture
def targets(store):
    def read(*found, reports=(VLLM,), files=()):
        write(store, *found)
        return read_targets(reader(store, GRID, *files), reports, END)

    return read


def test_a_serving_engine_is_known_by_its_metrics(targets):
    (found,) = targets(
        series("vllm:num_requests_running", [3.0, 4.0], model_name="a"),
        series("vllm:num_requests_running", [1.0, 2.0], model_name="b"),
        series("vllm:num_requests_waiting", [0.0, 7.0], model_name="a"),
        series("vllm:generation_tokens_total", np.arange(100.0, 2_601.0, 500.0), model_name="a"),
    )
    assert found.serving is not None
    assert found.serving.engine == "vLLM"
    assert found.serving.running.value == 6.0
    assert found.serving.waiting.value == 7.0
    assert found.serving.generated_per_second.value == pytest.approx(100.0)


@pytest.mark.parametrize(
    ("metric", "engine"),
    [
        ("sglang:num_running_reqs", "SGLang"),
        ("llamacpp:requests_processing", "llama.cpp server"),
        ("tgi_batch_current_size", "Text Generation Inference"),
        ("nv_inference_pending_request_count", "Triton"),
        ("ray_vllm_num_requests_running", "vLLM under Ray Serve"),
        ("trtllm_num_requests_running", "trtllm-serve"),
    ],
)
def test_other_engines(targets, metric, engine):
    serving = targets(series(metric, [5.0]))[0].serving
    assert serving is not None
    assert serving.engine == engine
    assert 5.0 in (serving.running.value, serving.waiting.value)


NOVA = """
exporters:
  nova:
    title: Nova
    detect: [nova_running]
    labels: {model: served_model}
    signals:
      requests_running: {value: nova_running}
      tokens_out_per_second: {value: "rate(nova_tokens_total[$window])"}
"""


def test_an_engine_of_a_users_file_is_one(targets, tmp_path):
    (tmp_path / "nova.yaml").write_text(NOVA)
    (found,) = targets(
        series("nova_running", [9.0], served_model="m"),
        series("nova_tokens_total", np.arange(0.0, 601.0, 100.0), served_model="m"),
        files=[tmp_path / "nova.yaml"],
    )
    assert found.serving is not None
    assert found.serving.engine == "Nova"
    assert found.serving.running.value == 9.0
    assert found.serving.waiting.value is None
    assert found.serving.generated_per_second.value == pytest.approx(20.0)


def test_jobs_that_call_their_targets_alike_keep_their_own_numbers(targets):
    """Often every exporter of a machine has the machine's name as its instance."""
    node, vllm = targets(
        series("vllm:num_requests_running", [3.0], instance="gpu-1", model_name="a"),
        series("scrape_duration_seconds", [0.5], instance="gpu-1"),
        series("scrape_duration_seconds", [0.25], instance="gpu-1", job="node"),
        reports=[report("node", "gpu-1", END), report("vllm", "gpu-1", END)],
    )
    assert node.serving is None
    assert vllm.serving is not None
    assert (node.duration.value, vllm.duration.value) == (0.25, 0.5)


JOBLESS = NOVA.replace("nova_running}", '"sum by (instance, served_model) (nova_running)"}')


def test_numbers_without_a_job_are_those_of_the_only_target_of_that_name(targets, tmp_path):
    (tmp_path / "nova.yaml").write_text(JOBLESS)
    alone, shared, also = targets(
        series("nova_running", [9.0], instance="a"),
        series("nova_running", [8.0], instance="b"),
        reports=[report("nova", "a", END), report("nova", "b", END), report("other", "b", END)],
        files=[tmp_path / "nova.yaml"],
    )
    assert alone.serving is not None
    assert alone.serving.running.value == 9.0
    assert (shared.serving, also.serving) == (None, None)


def test_a_rate_goes_by_how_often_its_target_is_scraped(targets):
    quick, slow = targets(
        series("vllm:generation_tokens_total", np.arange(0.0, 601.0, 100.0), instance="a", model_name="m"),
        series(
            "vllm:generation_tokens_total",
            np.arange(0.0, 601.0, 100.0),
            step_ms=50_000,
            instance="b",
            model_name="m",
        ),
        reports=[report("vllm", "a", END), report("vllm", "b", END, interval_seconds=50.0)],
    )
    assert quick.serving is not None
    assert slow.serving is not None
    assert quick.serving.generated_per_second.value == pytest.approx(20.0)
    assert slow.serving.generated_per_second.value == pytest.approx(2.0)


@pytest.mark.parametrize(("interval", "window"), [(0.5, "10s"), (5.0, "20s"), (15.0, "1m"), (600.0, "5m")])
def test_the_range_of_a_rate_holds_a_few_scrapes(interval, window):
    assert rate_window(interval) == window


def test_an_exporter_is_not_a_serving_engine(targets):
    (found,) = targets(series("scrape_duration_seconds", [0.1]))
    assert found.serving is None
    assert found.duration.value == 0.1


def test_collectors_are_not_targets(targets):
    assert targets(reports=[report("host", "box", END, kind="collector")]) == []


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
