"""Each simulated fault shows in the metrics that a real one touches, and in no others."""

import pytest

from collectors.demo_cluster import build_cluster
from collectors.demo_faults import BadFault, Fault, FaultSchedule, Kind, parse_faults
from collectors.demo_gpus import REASON_THERMAL
from collectors.demo_server import BrokenOff
from tests.collectors.demo_clusters import START, Scraper, metric, one, quiet

CLUSTER = build_cluster(32, 1)


def token_seconds(scraper: Scraper, instance: str, first: int, last: int) -> float:
    """Mean time between two tokens over these seconds, from the histogram."""
    name = "vllm:inter_token_latency_seconds"
    before, after = scraper.at(first).vllm(instance), scraper.at(last).vllm(instance)
    return (one(after, f"{name}_sum") - one(before, f"{name}_sum")) / (
        one(after, f"{name}_count") - one(before, f"{name}_count")
    )


def test_a_throttled_gpu_is_hot_and_slow_and_so_is_the_server_on_it():
    scraper, healthy = Scraper(quiet(8, "throttle@1s+10m:node1")), Scraper(quiet(8))
    slow = token_seconds(scraper, "node1:8000", 150, 300)
    usual = token_seconds(healthy, "node1:8000", 150, 300)
    assert slow > 1.15 * usual
    hot, cool = scraper.dcgm(), healthy.dcgm()
    assert min(metric(hot, "DCGM_FI_DEV_GPU_TEMP")) > 75 > max(metric(cool, "DCGM_FI_DEV_GPU_TEMP"))
    assert max(metric(hot, "DCGM_FI_DEV_SM_CLOCK")) < min(metric(cool, "DCGM_FI_DEV_SM_CLOCK"))
    assert min(metric(hot, "DCGM_FI_DEV_THERMAL_VIOLATION")) > 0
    assert set(metric(cool, "DCGM_FI_DEV_THERMAL_VIOLATION")) == {0}
    assert all(int(bits) & REASON_THERMAL for bits in metric(hot, "DCGM_FI_DEV_CLOCKS_EVENT_REASONS"))
    assert set(metric(cool, "DCGM_FI_DEV_CLOCKS_EVENT_REASONS")) == {0}
    assert max(metric(hot, "DCGM_FI_DEV_POWER_USAGE")) < max(metric(cool, "DCGM_FI_DEV_POWER_USAGE"))
    assert set(metric(hot, "DCGM_FI_DEV_XID_ERRORS")) == {0}


def test_the_hardest_working_gpu_is_throttled_before_it_would_switch_itself_off():
    simulation = quiet(32, "throttle@1s+5m:node3")
    hottest = 0.0
    for second in range(200):
        simulation.advance(START + second)
        hottest = max(hottest, float(simulation.gpus.celsius.max()))
    assert 87 < hottest < 96


def test_it_cools_down_afterwards():
    scraper = Scraper(quiet(8, "throttle@1s+2m:node1")).at(300)
    page = scraper.dcgm()
    assert max(metric(page, "DCGM_FI_DEV_GPU_TEMP")) < 75
    assert set(metric(page, "DCGM_FI_DEV_SM_CLOCK")) == {1980}


def test_a_slow_node_waits_for_its_processors_at_the_full_clock():
    scraper, healthy = Scraper(quiet(8, "slow@1s+10m:node1")), Scraper(quiet(8))
    slow = token_seconds(scraper, "node1:8000", 20, 140)
    assert slow > 1.3 * token_seconds(healthy, "node1:8000", 20, 140)
    assert set(metric(scraper.dcgm(), "DCGM_FI_DEV_SM_CLOCK")) == {1980}
    pressure, load = "node_pressure_cpu_waiting_seconds_total", "node_load1"
    before = one(scraper.node(), pressure)
    assert one(scraper.at(200).node(), pressure) - before > 20
    assert one(scraper.node(), load) > 3 * one(healthy.node(), load)


def test_a_full_cache_makes_requests_wait_and_preempts_them():
    scraper = Scraper(quiet(8, "kv@10s+4m:node1:8001"))
    before = scraper.at(9).vllm("node1:8001")
    after = scraper.at(220).vllm("node1:8001")
    assert one(before, "vllm:kv_cache_usage_perc") < 0.4
    assert one(after, "vllm:kv_cache_usage_perc") > 0.75
    assert one(after, "vllm:num_requests_waiting") > 20
    assert one(after, "vllm:num_requests_waiting_by_reason", '"capacity"') > 20
    assert one(before, "vllm:num_preemptions_total") == 0 < one(after, "vllm:num_preemptions_total")
    assert one(scraper.vllm("node1:8000"), "vllm:num_requests_waiting") == 0
    healed = scraper.at(620).vllm("node1:8001")
    assert one(healed, "vllm:num_requests_waiting") == 0
    assert one(healed, "vllm:kv_cache_usage_perc") < 0.4


def test_a_stuck_engine_lets_requests_wait_while_its_gpu_spins():
    scraper = Scraper(quiet(8, "stuck@10s+3m:node1:8000"))
    first, last = scraper.at(60).vllm(), scraper.at(120).vllm()
    assert one(last, "vllm:generation_tokens_total") == one(first, "vllm:generation_tokens_total")
    assert one(last, "vllm:num_requests_waiting") > one(first, "vllm:num_requests_waiting") > 50
    assert one(last, "vllm:num_requests_running") == one(first, "vllm:num_requests_running") > 0
    assert one(last, "vllm:request_success_total", '"abort"') > 0  # clients do not wait for ever
    page = scraper.dcgm()
    assert metric(page, "DCGM_FI_DEV_GPU_UTIL")[0] == 100
    assert metric(page, "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE")[0] == 0
    assert metric(page, "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE")[1] > 0.01
    assert one(scraper.at(300).vllm(), "vllm:num_requests_waiting") == 0


def test_a_lost_gpu_has_no_lines_and_its_server_is_gone_until_it_is_back():
    scraper = Scraper(quiet(8, "xid79@20s+1m:node1/0"))
    before = scraper.at(19)
    assert len(metric(before.dcgm(), "DCGM_FI_DEV_GPU_TEMP")) == 8
    started = one(before.vllm(), "process_start_time_seconds")
    assert one(before.vllm(), "vllm:prompt_tokens_total") > 1e5
    lost = scraper.at(40)
    assert len(metric(lost.dcgm(), "DCGM_FI_DEV_GPU_TEMP")) == 7
    with pytest.raises(BrokenOff):
        lost.vllm("node1:8000")
    assert lost.vllm("node1:8001")
    back = scraper.at(82)
    assert len(metric(back.dcgm(), "DCGM_FI_DEV_GPU_TEMP")) == 8
    assert one(back.vllm(), "vllm:prompt_tokens_total") < 1e5
    assert one(back.vllm(), "process_start_time_seconds") > started + 60


def test_the_other_servers_of_a_model_take_over():
    scraper, healthy = Scraper(quiet(8, "xid79@20s+5m:node1/0")), Scraper(quiet(8))

    def arrived(one_scraper: Scraper) -> float:
        name = "vllm:time_to_first_token_seconds_count"
        before = one(one_scraper.at(40).vllm("node1:8001"), name)
        return one(one_scraper.at(200).vllm("node1:8001"), name) - before

    # Of four servers three are left.
    assert arrived(scraper) == pytest.approx(arrived(healthy) * 4 / 3, rel=0.1)


def test_a_double_bit_error_is_counted_and_a_row_waits_to_be_remapped():
    page = Scraper(quiet(8, "xid48@5s:node1/3")).at(10).dcgm()
    for name, value in (
        ("DCGM_FI_DEV_XID_ERRORS", 48),
        ("DCGM_FI_DEV_ECC_DBE_VOL_TOTAL", 1),
        ("DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS", 1),
        ("DCGM_FI_DEV_ROW_REMAP_PENDING", 1),
        ("DCGM_FI_DEV_NVLINK_CRC_FLIT_ERROR_COUNT_TOTAL", 0),
    ):
        assert metric(page, name) == [0, 0, 0, value, 0, 0, 0, 0]


def test_an_nvlink_error_is_no_memory_error_and_the_code_stays():
    page = Scraper(quiet(8, "xid74@5s+10s:node1/1")).at(60).dcgm()
    assert metric(page, "DCGM_FI_DEV_XID_ERRORS") == [0, 74, 0, 0, 0, 0, 0, 0]
    assert metric(page, "DCGM_FI_DEV_NVLINK_CRC_FLIT_ERROR_COUNT_TOTAL")[1] > 0
    assert set(metric(page, "DCGM_FI_DEV_ECC_DBE_VOL_TOTAL")) == {0}
    assert set(metric(page, "DCGM_FI_DEV_ROW_REMAP_PENDING")) == {0}


def test_a_training_job_ends_with_one_of_its_gpus_and_waits_for_its_slowest():
    crashed = Scraper(quiet(32, "xid31@5s:node3/0")).at(30)
    assert set(metric(crashed.dcgm(3), "DCGM_FI_DEV_GPU_UTIL")) == {0}
    throttled, healthy = quiet(64, "throttle@1s+10m:node6"), quiet(64)
    here, there = 5 * 8, 7 * 8  # of one job, on the sixth and the eighth node
    assert healthy.cluster.gpu_job[here] == healthy.cluster.gpu_job[there]
    for simulation in (throttled, healthy):
        simulation.advance(START + 260)
    assert throttled.gpus.clock_share[here] < 0.9
    assert throttled.gpus.clock_share[there] == 1.0
    # It is as fast as ever, and waits.
    assert throttled.gpus.watts[there] < 0.9 * healthy.gpus.watts[there]


def test_a_dying_node_breaks_off_is_silent_and_begins_again_at_zero():
    scraper = Scraper(quiet(8, "dying@10s+90s:node1"))
    boot = one(scraper.at(5).node(), "node_boot_time_seconds")
    outcomes = {}
    for second in (25, 35, 60, 95, 101):
        scraper.at(second)
        try:
            outcomes[second] = len(scraper.dcgm()) > 0
        except BrokenOff as broken:
            outcomes[second] = broken.sent[:15]
    assert outcomes == {25: True, 35: b"HTTP/1.1 200 OK", 60: b"", 95: b"", 101: True}
    assert one(scraper.node(), "node_boot_time_seconds") > boot
    assert one(scraper.node(), "node_context_switches_total") < 1e7
    assert max(metric(scraper.dcgm(), "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION")) < 1e7
    assert one(scraper.vllm(), "vllm:prompt_tokens_total") < 1e5


def test_a_dying_server_takes_its_machine_not_along():
    scraper = Scraper(quiet(8, "dying@10s+90s:node1:8002")).at(60)
    with pytest.raises(BrokenOff):
        scraper.vllm("node1:8002")
    assert scraper.dcgm()
    assert scraper.node()
    assert metric(scraper.dcgm(), "DCGM_FI_DEV_FB_USED")[2] == 0


def test_the_schedule_shows_every_kind_within_the_first_ten_minutes():
    schedule = FaultSchedule(CLUSTER)
    seen = {fault.kind: fault.start for second in range(600) for fault in schedule.active(second)}
    assert set(seen) == set(Kind)
    assert min(seen.values()) < 60
    assert FaultSchedule(CLUSTER).active(500) == schedule.active(500)
    assert schedule.active(-1) == []


def test_without_chosen_faults_there_are_only_the_ordered():
    ordered = Fault(Kind.SLOW, 100, 50, node=1)
    schedule = FaultSchedule(CLUSTER, ordered=[ordered], chosen=False)
    assert [second for second in range(1_000) if schedule.active(second)] == list(range(100, 150))


def test_a_large_cluster_has_more_of_them():
    few, many = FaultSchedule(CLUSTER), FaultSchedule(build_cluster(8_000, 1))
    assert len(many.active(1_000)) > 3 * len(few.active(1_000))


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("throttle@60s:node3", Fault(Kind.THROTTLE, 60, 240, node=2)),
        ("xid48@5m+30s:node2/3", Fault(Kind.XID, 300, 30, gpu=11, xid=48)),
        ("kv@1s:node1:8004", Fault(Kind.KV, 1, 240, replica=4)),
        ("stuck@1s:node2", Fault(Kind.STUCK, 1, 240, replica=6)),
        ("dying@0s:node2:8001", Fault(Kind.DYING, 0, 240, replica=7)),
        ("dying@0s:node4", Fault(Kind.DYING, 0, 240, node=3)),
    ],
)
def test_a_fault_is_ordered_by_kind_time_and_place(text, fault):
    assert parse_faults([text], CLUSTER) == [fault]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("throttle", "is not KIND@AFTER[+DURATION]:PLACE"),
        ("fire@1s:node1", "there is no kind 'fire'"),
        ("slow@soon:node1", "soon"),
        ("slow@1s+0s:node1", "lasts less than a second"),
        ("slow@1s:node9", "there is no 'node9'; nodes are node1 to node4"),
        ("xid@1s:node1/8", "node1 has the GPUs 0 to 7"),
        ("xid7@1s:node1", "XID 7 is not simulated"),
        ("slow3@1s:node1", "only xid takes a number"),
        ("kv@1s:node3", "no model is served on node3"),
    ],
)
def test_an_order_that_cannot_be_followed_says_why(text, said):
    with pytest.raises(BadFault) as refused:
        parse_faults([text], CLUSTER)
    assert said in str(refused.value)
