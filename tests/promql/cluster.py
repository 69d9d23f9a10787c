"""An hour of a small LLM cluster, made of the captured pages: what the expressions of `expressions.yaml` ask.

Three nodes with two GPUs each serve two models. For forty minutes all is well but for a restart and a new
replica; then much goes wrong at once, so that every alert rule has something to fire at. No sample lies on a
whole second (and every time of a query does): it makes no difference whether a window is closed at its
beginning (Prometheus 2) or open (Prometheus 3).
"""

import re
import zlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from db.labels import METRIC_NAME, labels_from
from db.nan import STALE, BoolArray, FloatArray
from tests.promql.motion import INTERVAL_MS, MINUTES, SCRAPES, Shown, moved, read_pages
from tests.promql.samples import Samples

FIRST_MS = 1_699_999_200_000
# The pages were captured about then; boots and certificates are as far from the hour as from that.
_CAPTURED = 1_795_257_000
INCIDENT = 40  # minute

_VLLM = (
    r"vllm:(num_requests_(running|waiting|waiting_by_reason)|kv_cache_usage_perc|cache_config_info"
    r"|lora_requests_info|(prefix_cache_\w+|num_preemptions|\w*tokens\w*|request_success|admission_rejections"
    r"|spec_\w+|corrupted_requests|estimated_\w+)_total|(request_generation|iteration)_tokens_\w+"
    r"|(time_to_first_token|inter_token_latency|e2e_request_latency|request_queue_time|request_prefill_time)"
    r"_seconds_\w+)|http_request\w+|process_\w+"
)
_NODE = (
    r"node_(cpu_seconds_total|load\d+|memory_Mem\w+|disk_(read|written)_bytes_total|disk_io_time_\w+"
    r"|network_(receive|transmit)_(bytes|drop|errs)_total|network_(up|speed_bytes)|infiniband_(port_data\w+"
    r"|link_downed_total|state_id|rate_\w+|port_transmit_wait_total|symbol_error_total|info)"
    r"|vmstat_oom_kill|pressure_\w+|filefd_\w+|edac_(un)?correctable_errors_total|hwmon_(temp_\w*celsius"
    r"|sensor_label|chip_names)|uname_info|filesystem_\w+|timex_\w+|time_seconds|boot_time_seconds"
    r"|procs_\w+|context_switches_total|netstat_Tcp_(RetransSegs|OutSegs)|rapl_package_joules_total"
    r"|nf_conntrack_entries(_limit)?|scrape_collector_success)"
)
_LITELLM = (
    r"litellm_((spend|total_tokens|output_tokens|proxy_total_requests|proxy_failed_requests)_metric_total"
    r"|deployment_(state|total_requests_total|success_responses_total)|request_total_latency_metric_\w+"
    r"|llm_api_time_to_first_token_metric_\w+|remaining_team_budget_metric|team_max_budget_metric|in_flight_\w+)"
)
_NVIDIA_SMI = (
    r"nvidia_smi_(gpu_info|gpu_recovery_action|power_draw_watts|utilization_gpu_ratio|memory_\w+_bytes"
    r"|temperature_gpu(_tlimit)?|clocks_event_reasons_(hw|sw)_\w+|pcie_link_\w+|compute_app\w*)"
)
_RAY = (
    r"ray_serve_(num_http_(error_)?requests_total|deployment_(request|error)_counter_total|\w+_status"
    r"|deployment_(replica_healthy|queued_queries)|http_request_latency_ms_\w+|autoscaling_target_replicas"
    r"|replica_\w+_(percent|queries))|ray_(resources|component_rss_bytes|node_mem_(used|total))"
)

# Lowest and highest value of gauges whose pages were captured on an idle machine.
_LEVELS: dict[str, tuple[float, float]] = {
    "DCGM_FI_DEV_GPU_UTIL": (35, 99),
    "DCGM_FI_DEV_MEM_COPY_UTIL": (10, 60),
    "DCGM_FI_DEV_POWER_USAGE": (210.5, 640.25),
    "DCGM_FI_DEV_GPU_TEMP": (48, 71),
    "DCGM_FI_DEV_MEMORY_TEMP": (55, 79),
    "DCGM_FI_DEV_SM_CLOCK": (1600, 1980),
    "DCGM_FI_DEV_FB_USED": (90_000, 121_000),
    "DCGM_FI_DEV_FB_FREE": (19_000, 49_000),
    "DCGM_FI_PROF_GR_ENGINE_ACTIVE": (0.4, 0.97),
    "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE": (0.08, 0.61),
    "DCGM_FI_PROF_DRAM_ACTIVE": (0.2, 0.72),
    "vllm:num_requests_running": (3, 24),
    "vllm:num_requests_waiting": (0, 4),
    "vllm:kv_cache_usage_perc": (0.22, 0.81),
    "sglang:num_running_reqs": (4, 40),
    "sglang:num_queue_reqs": (0, 9),
    "sglang:token_usage": (0.3, 0.88),
    "nv_trt_llm_request_metrics": (0, 12),
    "probe_duration_seconds": (0.11, 0.42),
    "node_timex_offset_seconds": (-0.002, 0.003),
    "ray_serve_deployment_queued_queries": (0, 7),
    "scrape_duration_seconds": (0.011, 0.092),
}


@dataclass(frozen=True, slots=True)
class Target:
    """What one exporter shows. pages: the scrapes played (a pattern, one a page of its own); more: pages that
    it shows besides; families: names kept; add: labels on every series; gpus: labels on the series of each
    GPU; says: label values that are others here; begins, restarts, down: minutes; beside: not a target of its
    own, and without `up`."""

    job: str
    instance: str
    pages: str
    families: str = ".*"
    more: tuple[str, ...] = ()
    says: Mapping[str, str] = field(default_factory=dict)
    add: Mapping[str, str] = field(default_factory=dict)
    gpus: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    begins: float = 0
    restarts: float | None = None
    down: tuple[float, float] | None = None
    beside: bool = False


@dataclass(frozen=True, slots=True)
class Incident:
    """From a minute on, the series of this name and these labels are at `value`, change by `per_second`, stay
    where they are (`hold`), or are gone. le: the histogram's buckets that grow, from this bound."""

    names: str
    labels: Mapping[str, str]
    value: float | None = None
    per_second: float = 0.0
    hold: bool = False
    gone: bool = False
    le: float = 0.0
    minute: float = INCIDENT

    def happens_to(self, one: Shown) -> bool:
        if re.fullmatch(self.names, one.name) is None or float(one.labels.get("le", "inf")) < self.le:
            return False
        return all(one.labels.get(name) == value for name, value in self.labels.items())

    def applied(self, one: Shown) -> Shown:
        later = self.minute <= MINUTES
        if self.gone:
            return replace(one, there=one.there & ~later)
        values = one.values.copy()
        if self.hold:
            values[later] = values[~later][-1]
        elif self.value is not None:
            values[later] = self.value
        else:
            values += np.floor(self.per_second * 60 * np.maximum(MINUTES - self.minute, 0))
        return replace(one, values=values)


def _gpus(node: str, model: str, pods: tuple[str, str]) -> dict[str, dict[str, str]]:
    found = {}
    for gpu, pod in zip("01", pods, strict=True):
        namespace = "train" if pod.startswith("sft") else "serving" if pod else ""
        found[gpu] = {"UUID": f"GPU-{node[-1]}{gpu}", "Hostname": node, "modelName": model, "pod": pod}
        found[gpu] |= {"namespace": namespace, "container": "main" if pod else "", "device": f"nvidia{gpu}"}
        found[gpu] |= {"DCGM_FI_DRIVER_VERSION": "590.48.01"}
    return found


_GPUS = {
    "gpu-node-0": _gpus("gpu-node-0", "NVIDIA H200", ("llama-70b-0", "sft-7-0")),
    "gpu-node-1": _gpus("gpu-node-1", "NVIDIA H200", ("llama-70b-1", "")),
    "gpu-node-2": _gpus("gpu-node-2", "NVIDIA L40S", ("qwen3-8b-0", "")),
}
_GONE = {"gpu-node-2": (42.0, 60.0)}


def _node(node: str) -> Target:
    more, down = ("cluster/node.prom",), _GONE.get(node)
    return Target("node", f"{node}:9100", "proc/*.prom", _NODE, more, {"NODE": node}, down=down)


def _dcgm(node: str) -> Target:
    more, down = ("cluster/dcgm.prom",), _GONE.get(node)
    return Target("dcgm", f"{node}:9400", "dcgm/t4x2*.prom", more=more, gpus=_GPUS[node], down=down)


def _vllm(pod: str, model: str, pages: str) -> Target:
    add = {"pod": pod, "namespace": "serving"}
    return Target("vllm", f"{pod}:8000", pages, _VLLM, ("cluster/vllm.prom",), {"tiny": model}, add)


TARGETS = (
    _vllm("llama-70b-0", "llama-70b", "vllm-live/*.prom"),
    replace(_vllm("llama-70b-1", "llama-70b", "vllm-live/*.prom"), restarts=22, down=(20, 22)),
    replace(_vllm("qwen3-8b-0", "qwen3-8b", "vllm-live-mfu/*.prom"), begins=33, restarts=33),
    Target("sglang", "sglang-0:30000", "sglang/*.prom", r"sglang:(?!dp_|uncached_).*", restarts=50),
    Target("litellm", "litellm-0:4000", "litellm/litellm-*.prom", _LITELLM, ("cluster/litellm.prom",)),
    Target("ray", "ray-0:8080", "ray/*.prom", _RAY),
    Target("triton", "triton-0:8002", "triton/tensorrt*.prom", "nv_.*", ("triton/docs-queue-summary.prom",)),
    Target("nvidia-smi", "gpu-node-0:9835", "nvidia-smi/nvidia-h200*.load.metrics.prom", _NVIDIA_SMI),
    Target("kube-state-metrics", "kube-state-metrics:8080", "cluster/kube.prom"),
    Target("runs", "runs:9101", "cluster/run.prom"),
    Target("strata", "strata:8501", "cluster/strata.prom"),
    Target("probe", "https://chat.example", "blackbox/https-selfsigned-10d.prom"),
    Target("probe", "http://llama-70b-0:8000/v1", "blackbox/llm-known-answer-ok.prom"),
    Target("probe", "http://rerank.example", "blackbox/http-200.prom"),
    *(_node(node) for node in _GPUS),
    *(_dcgm(node) for node in _GPUS),
    replace(_dcgm("gpu-node-0"), pages="cluster/dcgm-xid.prom", more=(), begins=INCIDENT, beside=True),
)
_SLOW = r"vllm:(time_to_first_token|request_queue_time)_seconds_(bucket|count)"
_GPU_0_1 = {"Hostname": "gpu-node-0", "gpu": "1"}
_LLAMA_0 = {"instance": "llama-70b-0:8000"}
_LLAMA_1 = {"instance": "llama-70b-1:8000"}
_CHAT = {"model_name": "llama-70b"}
INCIDENTS = (
    # Requests come faster than they are served.
    Incident("vllm:num_requests_waiting", _LLAMA_0, value=27),
    Incident("vllm:num_requests_running", _LLAMA_0, value=61),
    Incident("vllm:kv_cache_usage_perc", _LLAMA_0, value=0.974),
    Incident("vllm:num_preemptions_total", _LLAMA_0, per_second=0.41),
    Incident(_SLOW, _LLAMA_0, per_second=3.2, le=10),
    Incident("vllm:e2e_request_latency_seconds_(bucket|count)", _LLAMA_0, per_second=3.2, le=120),
    Incident(r"vllm:request_queue_time_seconds_sum", _LLAMA_0, per_second=19.5),
    Incident(r"vllm:time_to_first_token_seconds_sum", _LLAMA_0, per_second=25.25),
    Incident(r"vllm:e2e_request_latency_seconds_sum", _LLAMA_0, per_second=31.75),
    Incident(r"vllm:inter_token_latency_seconds_(bucket|count)", _LLAMA_0, per_second=410, le=0.3),
    Incident("vllm:request_success_total", {**_LLAMA_0, "finished_reason": "abort"}, per_second=1.9),
    Incident("vllm:admission_rejections_total", _LLAMA_0, per_second=0.7),
    Incident("vllm:prefix_cache_queries_total", _CHAT, per_second=6100, minute=51),
    Incident("vllm:spec_decode_num_draft_tokens_total", _LLAMA_0, per_second=230),
    Incident("vllm:corrupted_requests_total", _LLAMA_0, per_second=0.05),
    Incident("http_requests_total", {**_LLAMA_0, "status": "5xx"}, per_second=1.3),
    Incident("http_request_duration_highr_seconds_(bucket|count)", _LLAMA_0, per_second=1.3, le=15),
    # A replica takes requests and makes no tokens.
    Incident("vllm:generation_tokens_total", _LLAMA_1, hold=True, minute=50),
    # The gateway.
    Incident("litellm_proxy_failed_requests_metric_total", {"exception_status": "429"}, per_second=0.8),
    Incident("litellm_deployment_state", {"litellm_model_name": "openai/llama-70b"}, value=2),
    Incident("litellm_remaining_team_budget_metric", {"team": "t-chat"}, value=71.5),
    Incident("litellm_spend_metric_total", {"team": "t-chat"}, per_second=0.9),
    Incident("ray_serve_deployment_status", {}, value=2),
    Incident("ray_serve_num_http_error_requests_total", {}, per_second=0.6),
    Incident("ray_serve_num_http_requests_total", {}, per_second=0.9),
    Incident("ray_serve_deployment_queued_queries", {}, value=55),
    Incident("sglang:num_queue_reqs", {}, value=48, minute=51),
    Incident("sglang:num_aborted_requests_total", {}, per_second=0.5),
    Incident("strata_feedback_total", {**_CHAT, "verdict": "bad"}, per_second=0.2),
    # A GPU that is too hot, with bad memory and links; another one that fell off its bus.
    Incident("DCGM_FI_DEV_XID_ERRORS", _GPU_0_1, value=79),
    Incident("DCGM_FI_DEV_GPU_TEMP", _GPU_0_1, value=87),
    Incident("DCGM_FI_DEV_MEMORY_TEMP", _GPU_0_1, value=98),
    Incident("DCGM_FI_DEV_SM_CLOCK", _GPU_0_1, value=1155),
    Incident("DCGM_FI_DEV_GPU_UTIL", _GPU_0_1, value=100),
    Incident("DCGM_FI_DEV_THERMAL_VIOLATION", _GPU_0_1, per_second=2.1e8),
    Incident("DCGM_FI_DEV_POWER_VIOLATION", _GPU_0_1, per_second=4.2e8),
    Incident("DCGM_EXP_CLOCK_EVENTS_COUNT", {**_GPU_0_1, "clock_event": "hw_power_brake"}, value=12),
    Incident("DCGM_FI_DEV_ECC_DBE_VOL_TOTAL", _GPU_0_1, per_second=0.01),
    Incident("DCGM_FI_DEV_ECC_SBE_VOL_TOTAL", _GPU_0_1, per_second=0.2),
    Incident("DCGM_FI_DEV_ROW_REMAP_(FAILURE|PENDING)", _GPU_0_1, value=1),
    Incident("DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS", _GPU_0_1, per_second=0.01),
    Incident("DCGM_FI_DEV_PCIE_REPLAY_COUNTER", _GPU_0_1, per_second=0.9),
    Incident("DCGM_FI_DEV_PCIE_LINK_WIDTH", _GPU_0_1, value=8),
    Incident("DCGM_FI_DEV_NVLINK_CRC_FLIT_ERROR_COUNT_TOTAL", _GPU_0_1, per_second=150),
    Incident("DCGM_FI_DEV_NVLINK_REPLAY_ERROR_COUNT_TOTAL", _GPU_0_1, per_second=0.02),
    Incident("DCGM_FI_DEV_FB_USED", _GPU_0_1, value=143_100),
    Incident("DCGM_FI_DEV_FB_FREE", _GPU_0_1, value=57),
    Incident("DCGM_FI_DEV_GPU_UTIL", {"Hostname": "gpu-node-1", "gpu": "0"}, value=0),
    Incident("DCGM_.*", {"Hostname": "gpu-node-1", "gpu": "1"}, gone=True, minute=45),
    Incident("nvidia_smi_gpu_recovery_action", {}, value=1),
    Incident("nvidia_smi_clocks_event_reasons_hw_slowdown", {}, value=1),
    # The machines.
    Incident("node_memory_MemAvailable_bytes", {"instance": "gpu-node-1:9100"}, value=1.9e9),
    Incident("node_vmstat_oom_kill", {"instance": "gpu-node-1:9100"}, per_second=0.004),
    Incident("node_filesystem_avail_bytes", {"mountpoint": "/models"}, per_second=-9.1e7, minute=0),
    Incident("node_timex_offset_seconds", {"instance": "gpu-node-1:9100"}, value=0.18),
    Incident("node_infiniband_state_id", {"device": "mlx5_0", "instance": "gpu-node-1:9100"}, value=1),
    Incident("node_infiniband_link_downed_total", {"instance": "gpu-node-1:9100"}, per_second=0.01),
    Incident("node_infiniband_port_transmit_wait_total", {"instance": "gpu-node-1:9100"}, per_second=4e6),
    Incident("node_network_receive_drop_total", {"device": "eth0"}, per_second=12),
    Incident("node_pressure_memory_waiting_seconds_total", {"instance": "gpu-node-1:9100"}, per_second=0.37),
    Incident("node_time_seconds", {}, per_second=1, minute=0),
    # Kubernetes.
    Incident("kube_pod_status_phase", {"phase": "Pending"}, value=1),
    Incident("kube_pod_container_status_restarts_total", {"pod": "llama-70b-1"}, per_second=0.006),
    Incident("kube_deployment_status_replicas_available", {}, value=1),
    Incident("kube_node_status_condition", {"node": "gpu-node-2"}, value=0),
    # The training runs: one has stopped, one diverges.
    Incident("train_last_(step|checkpoint)_timestamp_seconds", {}, per_second=1, minute=0),
    Incident("train_last_step_timestamp_seconds", {"run": "sft-7"}, hold=True),
    Incident("train_last_checkpoint_timestamp_seconds", {"run": "sft-7"}, hold=True),
    Incident("train_loss", {"run": "dpo-2"}, value=float("nan"), minute=50),
    Incident("train_loss", {"run": "sft-7"}, value=9.75, minute=56.5),
    Incident("train_grad_norm", {"run": "dpo-2"}, value=87.5, minute=54),
    Incident("train_step_seconds", {"run": "dpo-2"}, value=7.9),
    Incident("train_mfu", {"run": "dpo-2"}, value=0.11, minute=25),
    Incident("train_data_wait_ratio", {"run": "dpo-2"}, value=0.44),
    # What is probed from outside.
    Incident("probe_success", {"instance": "http://rerank.example"}, value=0),
    Incident("probe_http_status_code", {"instance": "http://rerank.example"}, value=503),
    Incident("probe_(success|failed_due_to_regex)", {"instance": "http://llama-70b-0:8000/v1"}, value=0),
    Incident("probe_failed_due_to_regex", {"instance": "http://llama-70b-0:8000/v1"}, value=1),
    Incident("probe_duration_seconds", {"instance": "https://chat.example"}, value=6.5),
    Incident("probe_ssl_earliest_cert_expiry", {}, value=FIRST_MS / 1000 + 200_000),
    Incident("scrape_duration_seconds", {"instance": "ray-0:8080"}, value=9.25),
)


def cluster() -> list[Samples]:
    """Every series of the hour, always the same."""
    return [one for target in TARGETS for one in _samples(target)]


def _samples(target: Target) -> Iterator[Samples]:
    phase_ms = zlib.crc32(target.instance.encode()) % 14 * 1000 + 137
    jitter = np.random.default_rng(phase_ms).integers(0, 90, SCRAPES)
    times = FIRST_MS + phase_ms + INTERVAL_MS * np.arange(SCRAPES, dtype=np.int64) + jitter
    found = np.ones(SCRAPES, dtype=np.bool_) & (target.begins <= MINUTES)
    up = found.copy()
    if target.down is not None:
        up &= (target.down[0] > MINUTES) | (target.down[1] <= MINUTES)
    for one in _shown(target):
        one = _through_incidents(one)
        values, there = _with_marker(one.values, one.there & up)
        yield Samples(labels_from(one.labels), times[there], values[there])
    if not target.beside:
        for name, column in _about(target, up):
            there = found
            one = Shown(
                {METRIC_NAME: name, "job": target.job, "instance": target.instance}, False, column, there
            )
            yield Samples(labels_from(one.labels), times[there], _through_incidents(one).values[there])


def _through_incidents(one: Shown) -> Shown:
    for incident in INCIDENTS:
        if incident.happens_to(one):
            one = incident.applied(one)
    return one


def _shown(target: Target) -> Iterator[Shown]:
    for pattern in (target.pages, *target.more):
        pages = read_pages(pattern, target.families)
        for one in moved(pages, target.instance, _LEVELS, FIRST_MS / 1000 - _CAPTURED):
            yield replace(one, labels=_labels(target, one.labels), values=_restarted(target, one))


def _labels(target: Target, shown: Mapping[str, str]) -> dict[str, str]:
    said = {name: target.says.get(value, value) for name, value in shown.items()}
    own = {"job": target.job, "instance": target.instance, **target.add}
    return said | target.gpus.get(said.get("gpu", ""), {}) | own


def _restarted(target: Target, one: Shown) -> FloatArray:
    """A counter begins at zero again."""
    if target.restarts is None or not one.counter:
        return one.values
    later = target.restarts <= MINUTES
    return np.where(later, one.values - one.values[later][0], one.values)


def _with_marker(values: FloatArray, there: BoolArray) -> tuple[FloatArray, BoolArray]:
    """A staleness marker at the first scrape that lacks the series, each time that it goes."""
    ends = np.zeros_like(there)
    ends[1:] = there[:-1] & ~there[1:]
    return np.where(ends, STALE, values), there | ends


def _about(target: Target, up: BoolArray) -> Iterable[tuple[str, FloatArray]]:
    low, high = _LEVELS["scrape_duration_seconds"]
    random = np.random.default_rng(zlib.crc32(target.instance.encode()))
    yield "up", up.astype(np.float64)
    yield "scrape_duration_seconds", np.round(random.uniform(low, high, SCRAPES), 6)
    yield "scrape_samples_scraped", np.where(up, 100.0 + len(target.instance), 0.0)
