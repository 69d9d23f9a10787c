"""Simulated vLLM servers: every request waits, is prefilled and decoded, and counted, one second at a time.

What a second takes follows the roofline: prefill is bound by the tensor cores, a decode step reads the
weights and the KV cache of the whole batch from memory. So more load means a larger batch, longer steps and
more of the memory interface busy, and a slower clock means later tokens. Requests are single ones: counters,
histograms and gauges agree because they are sums over the same requests.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from collectors.demo_cluster import Cluster, totals
from collectors.demo_faults import Effects
from collectors.demo_histograms import Histograms
from collectors.demo_requests import ABORT, ERROR, REASONS, Requests, Traffic, no_requests
from db.nan import BoolArray, FloatArray

MAX_RUNNING = 256  # vLLM's --max-num-seqs
GPU_MEMORY_UTILISATION = 0.92
_WORKING_BYTES = 5e9  # activations and CUDA graphs, of each GPU
_CHUNK_TOKENS = 2_048  # vLLM's --max-num-batched-tokens, of a prefill in one step
_TENSOR_EFFICIENCY = 0.45
_MEMORY_EFFICIENCY = 0.65
_PREFILL_SHARE = 0.8  # chunked prefill leaves the rest of a step to decoding
_STEP_SECONDS = 0.002  # scheduling, sampling, kernel launches
_SEQUENCE_SECONDS = 0.00004
_CLIENT_PATIENCE_SECONDS = 90.0
_BAD_REQUEST_SHARE = 0.004
_BAD_REQUEST_SECONDS = 0.004

# vLLM 0.32's edges, as its page shows them.
_TTFT = (0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 20.0)
_TTFT_EDGES = (*_TTFT, 40.0, 80.0, 160.0, 640.0, 2560.0)
_TOKEN = (0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 20.0)
_TOKEN_EDGES = (*_TOKEN, 40.0, 80.0)
_REQUEST = (0.3, 0.5, 0.8, 1.0, 1.5, 2.0, 2.5, 5.0, 10.0, 15.0, 20.0, 30.0, 40.0, 50.0, 60.0, 120.0, 240.0)
_REQUEST_EDGES = (*_REQUEST, 480.0, 960.0, 1920.0, 7680.0)
_LENGTHS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000, 20_000)
_HTTP = (0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1.0, 1.5, 2.0, 2.5, 3.0, 3.5, 4.0, 4.5, 5.0, 7.5)
HISTOGRAM_EDGES: Mapping[str, tuple[float, ...]] = {
    "vllm:request_prompt_tokens": _LENGTHS,
    "vllm:request_generation_tokens": _LENGTHS,
    "vllm:iteration_tokens_total": (1, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384),
    "vllm:request_max_num_generation_tokens": _LENGTHS,
    "vllm:request_params_n": (1, 2, 5, 10, 20),
    "vllm:request_params_max_tokens": _LENGTHS,
    "vllm:time_to_first_token_seconds": _TTFT_EDGES,
    "vllm:inter_token_latency_seconds": _TOKEN_EDGES,
    "vllm:request_time_per_output_token_seconds": _TOKEN_EDGES,
    "vllm:e2e_request_latency_seconds": _REQUEST_EDGES,
    "vllm:request_queue_time_seconds": _REQUEST_EDGES,
    "vllm:request_inference_time_seconds": _REQUEST_EDGES,
    "vllm:request_prefill_time_seconds": _REQUEST_EDGES,
    "vllm:request_decode_time_seconds": _REQUEST_EDGES,
    "vllm:request_num_preemptions": (1, 2, 3, 4, 5, 10, 20),
    "vllm:request_prefill_kv_computed_tokens": _LENGTHS,
    "http_request_duration_highr_seconds": (*_HTTP, 10.0, 30.0, 60.0),
    "http_request_duration_seconds": (0.1, 0.5, 1.0),
}
_HTTP_DURATIONS = ("http_request_duration_highr_seconds", "http_request_duration_seconds")
COUNTERS = (
    "prompt",
    "cached",
    "generated",
    "preemptions",
    "http_2xx",
    "http_4xx",
    "http_5xx",
    "flops",
    "bytes_read",
    "bytes_written",
)


@dataclass(slots=True, eq=False)
class ServingLoad:
    """What the last second was on each replica. busy, tensor, memory: shares of the time, 0..1.

    running, waiting: requests at the second's end. token_seconds: between two tokens of a request.
    """

    running: FloatArray
    waiting: FloatArray
    cache_used: FloatArray
    busy: FloatArray
    tensor: FloatArray
    memory: FloatArray
    tokens_per_second: FloatArray
    token_seconds: FloatArray


class Serving:
    """All replicas of a cluster. `step` each second, in order; the rest is read in between."""

    def __init__(self, cluster: Cluster, start_seconds: float, first_second: int) -> None:
        """start_seconds: Unix time of second 0. first_second: when the servers were started."""
        count = len(cluster.replicas)
        self._start = start_seconds
        self._traffic = Traffic(cluster)
        self._requests = no_requests()
        self._up = np.ones(count, dtype=bool)
        self._free_at = np.full(count, -np.inf)  # when the prefills that are queued are done
        width = cluster.per_replica("tensor_parallel")
        first = [one.gpus.start for one in cluster.replicas]
        self._gpus = width
        self._peak = cluster.per_gpu("peak_flops")[first]
        self._bandwidth = cluster.per_gpu("bandwidth")[first]
        self._flops_per_token = 2.0 * cluster.per_replica("parameters")
        self._weight_bytes = cluster.per_replica("weight_bytes")
        self._kv_bytes = cluster.per_replica("kv_bytes_per_token")
        memory = cluster.per_gpu("memory_mib")[first] * 2.0**20 * GPU_MEMORY_UTILISATION - _WORKING_BYTES
        tokens = (memory * width - self._weight_bytes) / self._kv_bytes
        self.cache_tokens = np.floor(tokens / 16) * 16
        self.started_at = np.full(count, start_seconds + first_second)
        self.counters = {name: np.zeros(count) for name in COUNTERS}
        self.success = np.zeros((count, len(REASONS)))
        self.histograms = {name: Histograms(count, edges) for name, edges in HISTOGRAM_EDGES.items()}
        self.load = ServingLoad(*(np.zeros(count) for _ in range(8)))
        self._prefill_tokens = np.zeros(count)  # computed in the last second

    def step(
        self,
        random: np.random.Generator,
        second: int,
        arrivals: FloatArray,
        speed: FloatArray,
        effects: Effects,
    ) -> None:
        """The second [second, second + 1). arrivals: requests per second; speed: 1 is the full clock's."""
        up = effects.replica_up
        if not up.all() or not self._up.all():
            self._restart(second, up)
        arriving = self._traffic.arrive(random, second, np.where(up, arrivals, 0.0), effects.lengths)
        requests = self._requests.joined(arriving) if len(arriving) else self._requests
        requests = self._give_up(requests, second)
        works = up & ~effects.stuck
        prefilled = self._admit(requests, second, speed, works)
        finished = self._decode(requests, second, speed, works, prefilled)
        bad = random.poisson(arrivals * _BAD_REQUEST_SHARE * works).astype(np.float64)
        self.counters["http_4xx"] += bad
        for name in _HTTP_DURATIONS:
            self.histograms[name].observe_equal(bad, np.full(len(bad), _BAD_REQUEST_SECONDS))
        self._requests = requests.picked(~finished)
        self._preempt(self._requests)
        self._see(self._requests)

    def _restart(self, second: int, up: BoolArray) -> None:
        """A server that is down forgets everything, and counts from zero when it is back."""
        fresh = up & ~self._up
        if fresh.any():
            for values in self.counters.values():
                values[fresh] = 0.0
            for histogram in self.histograms.values():
                histogram.reset(fresh)
            self.success[fresh] = 0.0
            self.started_at[fresh] = self._start + second
            self._free_at[fresh] = -np.inf
        self._up = up.copy()
        self._requests = self._requests.picked(up[self._requests.replica])

    def _give_up(self, requests: Requests, second: int) -> Requests:
        """Clients that saw no first token for too long hang up."""
        gone = np.isnan(requests.first_token) & (requests.arrived < second - _CLIENT_PATIENCE_SECONDS)
        if not gone.any():
            return requests
        requests.reason[gone] = ABORT
        self._finish(requests.picked(gone), np.full(int(gone.sum()), float(second)))
        return requests.picked(~gone)

    def _admit(self, requests: Requests, second: int, speed: FloatArray, works: BoolArray) -> FloatArray:
        """Take in what fits, first come, first served, and queue its prefill. Gives the share of this
        second that each replica spends on prefill."""
        count = len(works)
        backlog = np.maximum(0.0, self._free_at - second)
        running = ~requests.waiting
        used = totals(requests.replica[running], count, requests.cache_tokens[running])
        batch = totals(requests.replica[running], count)
        rows = np.flatnonzero(requests.waiting & works[requests.replica])
        rows = rows[np.argsort(requests.replica[rows], kind="stable")]
        queued = np.zeros(count)
        per_second = self._gpus * self._peak * _TENSOR_EFFICIENCY * _PREFILL_SHARE * speed
        per_second /= self._flops_per_token
        again = ~np.isnan(requests.first_token)
        tokens = requests.cache_tokens - np.where(again, 0, requests.cached)
        work = tokens / per_second[requests.replica]
        if len(rows):
            replica = requests.replica[rows]
            begins = np.searchsorted(replica, replica)  # of this replica's rows
            needed = requests.cache_tokens[rows]
            # It comes in when its first chunk has room; what the rest finds taken is preempted.
            first = _running_sum(needed, begins) - needed + np.minimum(needed, _CHUNK_TOKENS)
            fits = used[replica] + first <= self.cache_tokens[replica]
            fits &= batch[replica] + np.arange(len(rows)) - begins < MAX_RUNNING
            # What cannot be prefilled within a second waits: a step has room for so many tokens only.
            fits &= backlog[replica] + _running_sum(work[rows], begins) - work[rows] < 1.0
            rows = rows[fits]
        if len(rows):
            replica, own = requests.replica[rows], work[rows]
            begins = np.searchsorted(replica, replica)
            # A request comes into a batch when the step that runs has ended.
            step = 0.5 * np.minimum(self.load.token_seconds, 0.2)
            at = np.maximum(requests.arrived[rows] + step[replica], second) - second
            # One prefill after the other: each ends its own work after it began, and none before its turn.
            through = _running_sum(own, begins)
            earliest = np.maximum(at, (self._free_at - second)[replica]) - (through - own)
            ends = through + _running_maximum(earliest, replica)
            requests.admitted[rows] = at + second
            fresh = np.isnan(requests.first_admitted[rows])
            requests.first_admitted[rows[fresh]] = at[fresh] + second
            requests.ready[rows] = ends + second
            np.maximum.at(self._free_at, replica, ends + second)
            queued = totals(replica, count, own)
        # A server that hangs hangs in its prefills, too.
        hung = ~works
        if hung.any():
            self._free_at[hung] += 1.0
            late = hung[requests.replica] & (requests.ready > second)
            requests.ready[late] += 1.0
        left = np.maximum(0.0, self._free_at - second - 1)
        share: FloatArray = np.where(works, np.clip(backlog + queued - left, 0.0, 1.0), 0.0)
        self._prefill_tokens = share * per_second
        return share

    def _decode(
        self,
        requests: Requests,
        second: int,
        speed: FloatArray,
        works: BoolArray,
        prefill_share: FloatArray,
    ) -> BoolArray:
        """A second of decoding. Gives the rows that finish in it."""
        count, end = len(works), second + 1.0
        active = (requests.ready < end) & works[requests.replica]
        replica = requests.replica[active]
        used = totals(replica, count, requests.cache_tokens[active])
        batch = totals(replica, count)
        read = self._weight_bytes + used * self._kv_bytes
        step = read / (self._gpus * self._bandwidth * _MEMORY_EFFICIENCY * speed)
        step += (_STEP_SECONDS + _SEQUENCE_SECONDS * batch) / speed
        token_seconds = step / (1.0 - _PREFILL_SHARE * prefill_share)

        begins = np.maximum(requests.ready[active], second)
        first = np.isnan(requests.first_token[active])
        before = np.floor(requests.generated[active])
        generated = np.where(first, 1.0, requests.generated[active])
        generated += (end - begins) / token_seconds[replica]
        done = generated >= requests.output[active]
        over = np.maximum(0.0, generated - requests.output[active])
        ends = np.where(done, end - over * token_seconds[replica], end)
        generated = np.minimum(generated, requests.output[active])
        requests.generated[active] = generated
        tokens = totals(replica, count, np.floor(generated) - before)
        starting = requests.picked(np.flatnonzero(active)[first])
        starting.first_token = starting.ready
        requests.first_token[np.flatnonzero(active)[first]] = starting.first_token
        self._begin(starting)
        between = tokens - totals(starting.replica, count)
        self.histograms["vllm:inter_token_latency_seconds"].observe_spread(between, token_seconds)

        busy = np.minimum(1.0, totals(replica, count, ends - begins))
        steps = busy / token_seconds
        computed = tokens + self._prefill_tokens
        self.histograms["vllm:iteration_tokens_total"].observe_equal(
            steps, computed / np.maximum(steps, 1e-9)
        )
        flops = computed * self._flops_per_token / self._gpus
        bytes_read = (steps * read + self._prefill_tokens * self._kv_bytes) / self._gpus
        self.counters["generated"] += tokens
        self.counters["flops"] += flops
        self.counters["bytes_read"] += bytes_read
        self.counters["bytes_written"] += computed * self._kv_bytes / self._gpus
        load = self.load
        load.tokens_per_second, load.token_seconds = tokens, token_seconds
        # A slower clock has fewer cycles: the same work keeps a larger share of them busy.
        load.tensor = np.minimum(1.0, flops / (self._peak * speed))
        load.memory = np.minimum(1.0, bytes_read / self._bandwidth)
        # Between two steps the GPU waits for the processor.
        load.busy = np.clip(busy + prefill_share, 0.0, 1.0) * (1.0 - _STEP_SECONDS / (step * speed))
        # What waits in a collective for a step that does not come keeps its kernel on the GPU.
        held = totals(requests.replica[~requests.waiting], count) > 0
        load.busy = np.where(self._up & ~works & held, 1.0, load.busy)

        finished = np.zeros(len(requests), dtype=bool)
        finished[np.flatnonzero(active)[done]] = True
        self._finish(requests.picked(finished), ends[done])
        return finished

    def _begin(self, starting: Requests) -> None:
        """Their prefill is done and the first token is out."""
        replica, count = starting.replica, len(self._up)
        self.counters["prompt"] += totals(replica, count, starting.prompt)
        self.counters["cached"] += totals(replica, count, starting.cached)
        waited = starting.first_token - starting.arrived
        self.histograms["vllm:time_to_first_token_seconds"].observe(replica, waited)

    def _finish(self, gone: Requests, ends: FloatArray) -> None:
        """Count requests that are over, for whatever reason."""
        if not len(gone):
            return
        replica, count = gone.replica, len(self._up)
        np.add.at(self.success, (replica, gone.reason), 1.0)
        answered = gone.reason != ABORT  # who hung up got no status
        failed = gone.reason == ERROR
        self.counters["http_2xx"] += totals(replica[answered & ~failed], count)
        self.counters["http_5xx"] += totals(replica[failed], count)
        admitted = np.where(np.isnan(gone.first_admitted), ends, gone.first_admitted)
        first_token = np.where(np.isnan(gone.first_token), ends, gone.first_token)
        output = np.floor(gone.generated)
        several = output > 1
        took = ends - gone.arrived
        observed = {
            "vllm:e2e_request_latency_seconds": took,
            "vllm:request_queue_time_seconds": admitted - gone.arrived,
            "vllm:request_inference_time_seconds": ends - admitted,
            "vllm:request_prefill_time_seconds": first_token - admitted,
            "vllm:request_decode_time_seconds": ends - first_token,
            "vllm:request_prompt_tokens": gone.prompt,
            "vllm:request_generation_tokens": output,
            "vllm:request_max_num_generation_tokens": output,
            "vllm:request_params_n": np.ones(len(gone)),
            "vllm:request_params_max_tokens": gone.max_tokens,
            "vllm:request_num_preemptions": gone.preemptions,
            "vllm:request_prefill_kv_computed_tokens": gone.prompt - gone.cached,
        }
        for name, values in observed.items():
            self.histograms[name].observe(replica, values)
        for name in _HTTP_DURATIONS:
            self.histograms[name].observe(replica[answered], took[answered])
        per_token = (ends - first_token)[several] / (output[several] - 1)
        self.histograms["vllm:request_time_per_output_token_seconds"].observe(replica[several], per_token)

    def _preempt(self, requests: Requests) -> None:
        """Where the cache is too small for what has grown in it, the latest go back to waiting."""
        count = len(self._up)
        running = np.flatnonzero(~requests.waiting)
        used = totals(requests.replica[running], count, requests.cache_tokens[running])
        excess = used - self.cache_tokens
        rows = running[excess[requests.replica[running]] > 0]
        if not len(rows):
            return
        rows = rows[np.lexsort((-requests.admitted[rows], requests.replica[rows]))]
        replica = requests.replica[rows]
        needed = requests.cache_tokens[rows]
        freed_before = _running_sum(needed, np.searchsorted(replica, replica)) - needed
        rows = rows[freed_before < excess[replica]]
        requests.admitted[rows] = np.nan
        requests.ready[rows] = np.nan
        requests.preemptions[rows] += 1
        self.counters["preemptions"] += totals(requests.replica[rows], count)

    def _see(self, requests: Requests) -> None:
        """The gauges at the end of the second."""
        count, waiting = len(self._up), requests.waiting
        load = self.load
        load.waiting = totals(requests.replica[waiting], count)
        load.running = totals(requests.replica[~waiting], count)
        used = totals(requests.replica[~waiting], count, requests.cache_tokens[~waiting])
        load.cache_used = np.minimum(1.0, used / self.cache_tokens)


def _running_sum(values: FloatArray, begins: np.ndarray[tuple[int], np.dtype[np.int64]]) -> FloatArray:
    """Sums through each row within its group; begins: where each row's group starts."""
    total = np.cumsum(values)
    inside: FloatArray = total - (total - values)[begins]
    return inside


def _running_maximum(values: FloatArray, groups: np.ndarray[tuple[int], np.dtype[np.int64]]) -> FloatArray:
    """The largest so far within each group; groups ascend."""
    apart = groups * 1e6  # seconds: more than any two values differ by
    largest: FloatArray = np.maximum.accumulate(values + apart) - apart
    return largest
