"""The simulated cluster agrees with itself: the laws that hold in a real one hold between its metrics."""

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import pytest

from collectors.demo import DemoOptions, build_simulation
from collectors.demo_cluster import MAX_GPUS, Work, build_cluster
from collectors.demo_model import WARM_UP_SECONDS
from db.config_errors import SettingsError
from tests.collectors.demo_clusters import START, Scraper, metric, one, quiet, seconds

LATENCIES = (
    "e2e_request_latency_seconds",
    "request_queue_time_seconds",
    "request_inference_time_seconds",
    "request_prefill_time_seconds",
    "request_decode_time_seconds",
    "request_prompt_tokens",
    "request_generation_tokens",
)


@pytest.fixture(scope="module")
def hour() -> tuple[Scraper, list[dict[str, float]]]:
    """Ten minutes of one vLLM server, a page every five seconds."""
    scraper = Scraper(quiet(1))
    return scraper, [scraper.at(second).vllm() for second in range(0, 601, 5)]


def rise(pages: Sequence[dict[str, float]], name: str) -> float:
    return sum(metric(pages[-1], name)) - sum(metric(pages[0], name))


def mean(pages: Sequence[dict[str, float]], name: str) -> float:
    return float(np.mean([sum(metric(page, name)) for page in pages]))


def test_the_same_seed_and_second_give_the_same_pages_whatever_was_asked_before():
    often, seldom = Scraper(quiet(16, "kv@30s:node1:8000")), Scraper(quiet(16, "kv@30s:node1:8000"))
    for second in range(1, 90):
        often.at(second).dcgm()
        often.vllm()
    often.at(90)
    seldom.at(90)
    for target in often.pages.targets:
        assert often.text(target.path) == seldom.text(target.path)


def test_another_seed_is_another_cluster():
    assert Scraper(quiet(8)).at(9).text("/dcgm/node1:9400/metrics") != Scraper(quiet(8, seed=2)).at(9).text(
        "/dcgm/node1:9400/metrics"
    )


def test_counters_only_rise_and_buckets_add_up(hour):
    _, pages = hour
    rising = [key for key in pages[0] if key.partition("{")[0].endswith(("_total", "_bucket", "_count"))]
    assert len(rising) > 250
    for before, after in pairwise(pages):
        assert [key for key in rising if after[key] < before[key]] == []
    page = pages[-1]
    families = {key.partition("_bucket{")[0] for key in page if "_bucket{" in key}
    assert len(families) == 18
    for family in families:
        buckets = metric(page, f"{family}_bucket")
        assert buckets == sorted(buckets)
        assert metric(page, f"{family}_count") == [buckets[-1]]
        assert all(value == int(value) for value in buckets)


def test_every_request_that_ends_is_in_every_histogram_of_requests(hour):
    _, pages = hour
    ended = sum(metric(pages[-1], "vllm:request_success_total"))
    assert ended > 1_000
    for name in LATENCIES:
        assert metric(pages[-1], f"vllm:{name}_count") == [ended]
    answered = one(pages[-1], "http_requests_total", '"2xx"') + one(pages[-1], "http_requests_total", '"5xx"')
    assert answered == ended
    refused = one(pages[-1], "http_requests_total", '"4xx"')
    assert metric(pages[-1], "http_request_duration_highr_seconds_count") == [ended + refused]


def test_littles_law(hour):
    _, pages = hour
    in_system = mean(pages, "vllm:num_requests_running") + mean(pages, "vllm:num_requests_waiting")
    per_second = rise(pages, "vllm:e2e_request_latency_seconds_count") / 600
    latency = rise(pages, "vllm:e2e_request_latency_seconds_sum") / (per_second * 600)
    assert in_system == pytest.approx(per_second * latency, rel=0.05)


def test_the_phases_of_a_request_make_its_latency(hour):
    _, pages = hour
    parts = [rise(pages, f"vllm:request_{part}_time_seconds_sum") for part in ("queue", "prefill", "decode")]
    assert sum(parts) == pytest.approx(rise(pages, "vllm:e2e_request_latency_seconds_sum"), rel=1e-6)


def test_tokens_are_the_requests_tokens(hour):
    _, pages = hour
    page = pages[-1]
    finished = one(page, "vllm:request_generation_tokens_sum")
    running = one(page, "vllm:num_requests_running")
    generated = one(page, "vllm:generation_tokens_total")
    # What is still running has generated something, but no more than the longest allowed.
    assert finished < generated < finished + running * 4_096
    firsts = one(page, "vllm:time_to_first_token_seconds_count")
    assert one(page, "vllm:inter_token_latency_seconds_count") == generated - firsts
    sources = metric(page, "vllm:prompt_tokens_by_source_total")
    assert sum(sources) == one(page, "vllm:prompt_tokens_total")
    assert sources[1] == one(page, "vllm:prefix_cache_hits_total") > 0
    asked = one(page, "vllm:request_prompt_tokens_sum")
    assert asked <= one(page, "vllm:prompt_tokens_total")


def test_the_time_between_tokens_is_what_decoding_takes(hour):
    _, pages = hour
    between = rise(pages, "vllm:inter_token_latency_seconds_sum") / rise(
        pages, "vllm:inter_token_latency_seconds_count"
    )
    decode = rise(pages, "vllm:request_decode_time_seconds_sum")
    tokens = rise(pages, "vllm:request_generation_tokens_sum") - rise(
        pages, "vllm:request_generation_tokens_count"
    )
    assert between == pytest.approx(decode / tokens, rel=0.05)


def test_energy_is_the_integral_of_power():
    scraper = Scraper(quiet(4))
    before = metric(scraper.at(1).dcgm(), "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION")
    joules = np.zeros(4)
    for _ in seconds(scraper, 2, 61):
        joules += metric(scraper.dcgm(), "DCGM_FI_DEV_POWER_USAGE")
    after = metric(scraper.dcgm(), "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION")
    assert (np.array(after) - before) / 1000 == pytest.approx(joules, rel=1e-5)


def test_more_load_means_more_work_for_the_gpu_and_later_tokens():
    simulation = quiet(1)
    busy, calm = [], []
    for second in range(600):
        simulation.advance(START + second)
        load = simulation.serving.load
        row = (
            load.tokens_per_second[0],
            simulation.gpus.tensor[0],
            simulation.gpus.watts[0],
            load.token_seconds[0],
            load.cache_used[0],
        )
        (busy if load.running[0] > 35 else calm).append(row)
    assert min(len(busy), len(calm)) > 50
    more, less = np.mean(busy, axis=0), np.mean(calm, axis=0)
    assert (more > less * 1.02).all()


def test_a_gpu_does_what_it_is_there_for():
    simulation = quiet(32)
    work, gpus = simulation.cluster.gpu_work, simulation.gpus
    simulation.advance(START + 30)
    for kind in Work:
        assert (work == kind).any()
    assert (gpus.busy[work >= Work.TRAIN] > 0.05).all()
    assert (gpus.busy[work < Work.TRAIN] == 0).all()
    assert (gpus.watts[work < Work.TRAIN] < 100).all()
    assert (gpus.used_mib[work == Work.FREE] == 0).all()
    assert (gpus.used_mib[work == Work.HELD] > 0).all()
    assert (gpus.watts <= 700).all()


def test_a_day_has_busy_and_calm_hours():
    def requests_per_second(hour_of_day: int) -> float:
        midnight = START // 86_400 * 86_400
        simulation = quiet(8, start=midnight + hour_of_day * 3_600.0)
        before = simulation.serving.success.sum()
        simulation.advance(simulation.start_seconds + 120)
        return float(simulation.serving.success.sum() - before) / 120

    assert requests_per_second(15) > 1.3 * requests_per_second(3)


def test_time_that_was_slept_through_is_made_up_for_in_parts():
    simulation = quiet(1)
    simulation.advance(START + 1_000)
    assert 0 < simulation.second < 1_000
    while simulation.second < 1_000:
        before = simulation.second
        simulation.advance(START + 1_000)
        assert simulation.second > before
    simulation.advance(START + 10)  # a clock that was set back moves nothing
    assert simulation.second == 1_000


@pytest.mark.parametrize("gpus", [1, 5, 8, 9, 32, MAX_GPUS])
def test_every_size_has_its_gpus_each_in_one_place(gpus):
    cluster = build_cluster(gpus, 1)
    assert sum(len(node.gpus) for node in cluster.nodes) == gpus == len(set(cluster.uuids))
    assert len(cluster.replicas) >= 1
    for number, replica in enumerate(cluster.replicas):
        assert (cluster.gpu_replica[replica.gpus] == number).all()
        assert (cluster.gpu_node[replica.gpus] == replica.node).all()
    assert ((cluster.gpu_work == Work.SERVE) == (cluster.gpu_replica >= 0)).all()
    assert ((cluster.gpu_work == Work.TRAIN) == (cluster.gpu_job >= 0)).all()
    assert len({replica.instance for replica in cluster.replicas}) == len(cluster.replicas)


def test_the_largest_cluster_is_the_one_of_the_benchmark():
    cluster = build_cluster(MAX_GPUS, 1)
    assert (len(cluster.nodes), len(cluster.replicas)) == (1_250, 200)


@pytest.mark.parametrize("gpus", [0, MAX_GPUS + 1])
def test_a_size_that_is_not_simulated_is_refused(gpus):
    with pytest.raises(SettingsError, match="--gpus"):
        build_simulation(DemoOptions(gpus, 1), START)


def test_it_is_warm_when_it_starts():
    simulation = quiet(8)
    assert simulation.second == 0
    assert simulation.serving.load.running.sum() > 20
    assert simulation.gpus.celsius.min() > 40
    assert simulation.serving.started_at.max() == START - WARM_UP_SECONDS
