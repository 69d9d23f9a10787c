"""The simulated vLLM 0.32: the families of a live server's page, in its order, with its labels and edges.

Left out are the `_created` gauges, the Python process's own families and what no simulated server has
(speculation, LoRA adapters, KV connectors).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from collectors.demo_cluster import SERVED, Cluster
from collectors.demo_page import Template, pairs
from collectors.demo_requests import REASONS
from collectors.demo_serving import GPU_MEMORY_UTILISATION, HISTOGRAM_EDGES, Serving
from db.nan import FloatArray

_Read = Callable[[Serving], FloatArray]
_HANDLER = "/v1/chat/completions"
_BYTES_PER_TOKEN = 4.2  # of a request's and an answer's text


@dataclass(frozen=True, slots=True)
class _Line:
    """A family, or one sample of it: labels besides engine and model_name."""

    name: str
    kind: str
    text: str
    read: _Read
    labels: tuple[tuple[str, str], ...] = ()


def _counter(name: str) -> _Read:
    return lambda serving: serving.counters[name]


def _none(serving: Serving) -> FloatArray:
    return np.zeros(len(serving.cache_tokens))


def _one(serving: Serving) -> FloatArray:
    return np.ones(len(serving.cache_tokens))


def _split(
    name: str, kind: str, text: str, label: str, reads: Sequence[tuple[str, _Read]]
) -> tuple[_Line, ...]:
    return tuple(_Line(name, kind, text, read, ((label, value),)) for value, read in reads)


def _success(reason: int) -> _Read:
    return lambda serving: serving.success[:, reason]


_LINES: tuple[_Line, ...] = (
    _Line("vllm:estimated_flops_per_gpu_total", "counter",
          "Estimated number of floating point operations per GPU.", _counter("flops")),
    _Line("vllm:estimated_read_bytes_per_gpu_total", "counter",
          "Estimated number of bytes read from memory per GPU.", _counter("bytes_read")),
    _Line("vllm:estimated_write_bytes_per_gpu_total", "counter",
          "Estimated number of bytes written to memory per GPU.", _counter("bytes_written")),
    _Line("vllm:num_requests_running", "gauge", "Number of requests in model execution batches.",
          lambda s: s.load.running),
    _Line("vllm:num_requests_waiting", "gauge", "Number of requests waiting to be processed.",
          lambda s: s.load.waiting),
    *_split("vllm:num_requests_waiting_by_reason", "gauge", "Number of waiting requests by reason.", "reason",
            (("capacity", lambda s: s.load.waiting), ("deferred", _none))),
    *_split("vllm:engine_sleep_state", "gauge", "Engine sleep state; awake = 0 means engine is sleeping.",
            "sleep_state", (("awake", _one), ("weights_offloaded", _none), ("discard_all", _none))),
    _Line("vllm:kv_cache_usage_perc", "gauge", "KV-cache usage. 1 means 100 percent usage.",
          lambda s: s.load.cache_used),
    _Line("vllm:prefix_cache_queries_total", "counter",
          "Prefix cache queries, in terms of number of queried tokens.", _counter("prompt")),
    _Line("vllm:prefix_cache_hits_total", "counter",
          "Prefix cache hits, in terms of number of cached tokens.", _counter("cached")),
    _Line("vllm:num_preemptions_total", "counter", "Cumulative number of preemption from the engine.",
          _counter("preemptions")),
    _Line("vllm:prompt_tokens_total", "counter", "Number of prefill tokens processed.", _counter("prompt")),
    *_split("vllm:prompt_tokens_by_source_total", "counter", "Number of prompt tokens by source.", "source",
            (("local_compute", lambda s: s.counters["prompt"] - s.counters["cached"]),
             ("local_cache_hit", _counter("cached")), ("external_kv_transfer", _none))),
    _Line("vllm:prompt_tokens_cached_total", "counter",
          "Number of cached prompt tokens (local + external).", _counter("cached")),
    _Line("vllm:generation_tokens_total", "counter", "Number of generation tokens processed.",
          _counter("generated")),
    *_split("vllm:request_success_total", "counter", "Count of successfully processed requests.",
            "finished_reason", tuple((name, _success(at)) for at, name in enumerate(REASONS))),
)  # fmt: skip
_REJECTED = ("max_num_queued_reqs", "max_num_queued_tokens")
_HISTOGRAM_TEXTS = {
    "vllm:request_prompt_tokens": "Number of prefill tokens processed.",
    "vllm:request_generation_tokens": "Number of generation tokens processed.",
    "vllm:iteration_tokens_total": "Histogram of number of tokens per engine_step.",
    "vllm:request_max_num_generation_tokens": "Histogram of maximum number of requested generation tokens.",
    "vllm:request_params_n": "Histogram of the n request parameter.",
    "vllm:request_params_max_tokens": "Histogram of the max_tokens request parameter.",
    "vllm:time_to_first_token_seconds": "Histogram of time to first token in seconds.",
    "vllm:inter_token_latency_seconds": "Histogram of inter-token latency in seconds.",
    "vllm:request_time_per_output_token_seconds": "Histogram of time_per_output_token_seconds per request.",
    "vllm:e2e_request_latency_seconds": "Histogram of e2e request latency in seconds.",
    "vllm:request_queue_time_seconds": "Histogram of time spent in WAITING phase for request.",
    "vllm:request_inference_time_seconds": "Histogram of time spent in RUNNING phase for request.",
    "vllm:request_prefill_time_seconds": "Histogram of time spent in PREFILL phase for request.",
    "vllm:request_decode_time_seconds": "Histogram of time spent in DECODE phase for request.",
    "vllm:request_num_preemptions": "Histogram of the number of times a request was preempted.",
    "vllm:request_prefill_kv_computed_tokens": "Histogram of new KV tokens computed during prefill.",
}
_STATUSES = ("2xx", "4xx", "5xx")
_HTTP_HISTOGRAMS: tuple[tuple[str, str, tuple[tuple[str, str], ...]], ...] = (
    ("http_request_duration_highr_seconds", "Latency with many buckets but no API specific labels.", ()),
    ("http_request_duration_seconds", "Latency with only few buckets by handler.",
     (("handler", _HANDLER), ("method", "POST"))),
)  # fmt: skip


@dataclass(slots=True)
class VllmPages:
    """The pages of every replica."""

    cluster: Cluster
    _templates: dict[int, Template] = field(default_factory=dict)
    _frame: FloatArray | None = None

    def forget(self) -> None:
        """The next page shows another second."""
        self._frame = None

    def page(self, replica: int, serving: Serving) -> bytes:
        template = self._templates.get(replica)
        if template is None:
            template = self._templates[replica] = self._write(replica, serving)
        if self._frame is None:
            self._frame = _values(serving)
        return template.page(self._frame[replica].tolist())

    def _write(self, replica: int, serving: Serving) -> Template:
        """Lines in the order of `_values`."""
        one = self.cluster.replicas[replica]
        model = ("model_name", SERVED[one.model].name)
        common = (("engine", "0"), model)
        page = Template()
        page.family("process_start_time_seconds", "gauge", "Start time of the process since unix epoch.")
        page.sample("process_start_time_seconds", "", "%r")
        last = ""
        for line in _LINES:
            if line.name != last:
                page.family(line.name, line.kind, line.text)
                last = line.name
            page.sample(line.name, pairs(sorted((*common, *line.labels))), "%r")
        name = "vllm:admission_rejections_total"
        page.family(name, "counter", "Number of admission attempts rejected by a queue limit, by reason.")
        for reason in _REJECTED:
            page.sample(name, pairs((model, ("reason", reason))), "0.0")
        for name, text in _HISTOGRAM_TEXTS.items():
            _histogram(page, name, text, common)
        page.family("vllm:cache_config_info", "gauge", "Information of the LLMEngine CacheConfig")
        page.sample("vllm:cache_config_info", pairs(self._cache_config(replica, serving)), "1.0")
        self._write_http(page)
        return page

    def _cache_config(self, replica: int, serving: Serving) -> list[tuple[str, str]]:
        tokens = int(serving.cache_tokens[replica])
        longest = SERVED[self.cluster.replicas[replica].model].max_model_len
        return [
            ("block_size", "16"),
            ("cache_dtype", "auto"),
            ("enable_prefix_caching", "True"),
            ("engine", "0"),
            ("gpu_memory_utilization", str(GPU_MEMORY_UTILISATION)),
            ("kv_cache_max_concurrency", repr(tokens / longest)),
            ("kv_cache_size_tokens", str(tokens)),
            ("num_cpu_blocks", "None"),
            ("num_gpu_blocks", str(tokens // 16)),
            ("prefix_caching_hash_algo", "sha256"),
        ]

    def _write_http(self, page: Template) -> None:
        name = "http_requests_total"
        page.family(name, "counter", "Total number of requests by method, status and handler.")
        for status in _STATUSES:
            where = (("handler", _HANDLER), ("method", "POST"), ("status", status))
            page.sample(name, pairs(where), "%r")
        for name, what in (("http_request_size_bytes", "incoming"), ("http_response_size_bytes", "outgoing")):
            page.family(name, "summary", f"Content length of {what} requests by handler.")
            for suffix in ("_count", "_sum"):
                page.sample(name + suffix, pairs((("handler", _HANDLER),)), "%r")
        for name, text, labels in _HTTP_HISTOGRAMS:
            _histogram(page, name, text, labels)


def _histogram(page: Template, name: str, text: str, labels: tuple[tuple[str, str], ...]) -> None:
    page.family(name, "histogram", text)
    for edge in (*HISTOGRAM_EDGES[name], np.inf):
        le = "+Inf" if edge == np.inf else repr(float(edge))
        page.sample(f"{name}_bucket", pairs(sorted((*labels, ("le", le)))), "%r")
    page.sample(f"{name}_count", pairs(labels), "%r")
    page.sample(f"{name}_sum", pairs(labels), "%r")


def _values(serving: Serving) -> FloatArray:
    """Replicas x values, in the order of a page."""
    columns = [serving.started_at[:, None]]
    columns += [line.read(serving)[:, None] for line in _LINES]
    for name in _HISTOGRAM_TEXTS:
        columns += _histogram_values(serving, name)
    counters = serving.counters
    answered = [counters[f"http_{status}"] for status in _STATUSES]
    requests = np.sum(answered, axis=0)
    columns += [values[:, None] for values in answered]
    for tokens in (counters["prompt"], counters["generated"]):
        columns += [requests[:, None], np.floor(tokens * _BYTES_PER_TOKEN)[:, None]]
    for name, _, _ in _HTTP_HISTOGRAMS:
        columns += _histogram_values(serving, name)
    return np.hstack(columns)


def _histogram_values(serving: Serving, name: str) -> list[FloatArray]:
    buckets = serving.histograms[name].cumulative()
    return [buckets, buckets[:, -1:], serving.histograms[name].sums[:, None]]
