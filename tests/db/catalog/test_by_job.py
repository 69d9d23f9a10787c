"""Values by the job that their target is scraped by, and when their newest samples were taken."""

import pytest

from db.catalog.load import load_catalog
from db.catalog.newest import newest_promql
from db.catalog.read import read_signal
from db.catalog.signal import EXPORTER, JOB, Resolved
from db.promql.engine import instant
from db.store import SampleStore
from tests.db.catalog.pages import names_of
from tests.stores import Target, gpu_samples, vllm_samples

NOW = 1_795_000_000_000


@pytest.fixture
def store(tmp_path):
    opened = SampleStore.open(tmp_path / "samples.db")
    yield opened
    opened.close()


def test_two_jobs_with_one_instance_are_told_apart(store):
    for job, running in (("blue", 3), ("green", 4)):
        store.write([Target(job, "gpu-1").append(NOW, vllm_samples(0, running=running))])
    catalog, names = load_catalog(), names_of(store)
    resolved = catalog.resolve("requests_running", names, by=("instance", EXPORTER, JOB))
    assert isinstance(resolved, Resolved)
    found = [(dict(one.labels), one.value) for one in read_signal(store, resolved, NOW)]
    assert found == [
        ({"instance": "gpu-1", "exporter": "vllm", "job": "blue"}, 3.0),
        ({"instance": "gpu-1", "exporter": "vllm", "job": "green"}, 4.0),
    ]


def test_the_newest_sample_of_any_of_the_signals_counts_for_what_has_it(store):
    late, early = Target("dcgm", "gpu-1:9400"), Target("dcgm", "gpu-2:9400")
    store.write([late.append(NOW - 1_234, gpu_samples(0, 1, host="gpu-1"))])
    store.write([early.append(NOW - 61_000, gpu_samples(0, 1, host="gpu-2"))])
    signals = ("gpu_utilization", "gpu_temperature_celsius")
    text = newest_promql(load_catalog(), signals, names_of(store), ("uuid", "node", "instance"))
    answer = instant(store, text, NOW)
    found = {
        (dict(labels)["node"], dict(labels)["instance"], dict(labels)["uuid"]): value
        for labels, value in zip(answer.table.rows(), answer.values[:, 0].tolist(), strict=True)
    }
    assert found == {
        ("gpu-1", "gpu-1:9400", "GPU-gpu-1-0000"): pytest.approx((NOW - 1_234) / 1000),
        ("gpu-2", "gpu-2:9400", "GPU-gpu-2-0000"): pytest.approx((NOW - 61_000) / 1000),
    }


def test_metrics_that_are_not_there_are_not_asked_for():
    assert newest_promql(load_catalog(), ("gpu_utilization",), {"up"}, ("uuid",)) == ""
    text = newest_promql(load_catalog(), ("gpu_utilization",), {"DCGM_FI_DEV_GPU_UTIL"}, ("uuid",))
    assert 'DCGM_FI_DEV_GPU_UTIL"' in text
    assert "RATIO" not in text
