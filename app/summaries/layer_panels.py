"""What the four layer pages show, as data: adding a panel is adding an entry."""

from collections.abc import Mapping

from app.summaries.infrastructure_panels import INFRASTRUCTURE
from app.summaries.layer_page import (
    MODEL_LABELS,
    REPLICA_LABELS,
    LayerPage,
    Panel,
    PanelBand,
    TileSignal,
    by_model,
    quantiles,
)

_PROBE = ("job", "instance")
_QUIET = "Nothing reported in this time range."
_UNUSED = "Not in use in this time range."
_NO_PROBE = "No probe ran in this time range."

CLIENT = LayerPage(
    "client",
    "Client",
    "model",
    ("client_requests_per_second", "client_e2e_mean", "client_ttft_mean", "feedback_per_second"),
    (
        TileSignal("probe_success", "Probes that succeed", "No probe"),
        TileSignal("client_success_ratio", "Answered at the gateway"),
        TileSignal("client_ttft_p95", "First token p95"),
        TileSignal("client_e2e_p95", "Request p95"),
        TileSignal("client_requests_per_second", "Requests"),
        TileSignal("feedback_positive_ratio", "Positive feedback", "No ratings"),
    ),
    (
        PanelBand(
            "availability",
            "Availability",
            (
                Panel(
                    "probe_success",
                    "Probe success",
                    ("probe_success",),
                    _PROBE,
                    first="lowest",
                    none=_NO_PROBE,
                ),
                by_model("client_success_ratio", "Answered at the gateway", first="lowest"),
                Panel(
                    "client_errors",
                    "Errors at the gateway, by cause",
                    ("client_errors_per_second",),
                    ("model", "cause"),
                    none=_QUIET,
                ),
                by_model("client_requests_per_second", "Requests at the gateway"),
                Panel(
                    "target_up", "Targets up", ("target_up",), _PROBE, first="lowest", none="Nothing scraped."
                ),
            ),
        ),
        PanelBand(
            "latency",
            "Latency as users saw it",
            (
                quantiles("client_ttft", "Time to first token"),
                quantiles("client_e2e", "Request duration"),
                Panel("probe_ttft", "Probe: time to first token", ("probe_ttft",), _PROBE, none=_NO_PROBE),
                Panel("probe_duration", "Probe: duration", ("probe_duration",), _PROBE, none=_NO_PROBE),
            ),
        ),
        PanelBand(
            "answers",
            "Answers",
            (
                Panel(
                    "probe_answer_correct",
                    "Known-answer probes",
                    ("probe_answer_correct",),
                    _PROBE,
                    first="lowest",
                    none=_NO_PROBE,
                ),
                Panel(
                    "feedback_positive_ratio",
                    "Positive feedback",
                    ("feedback_positive_ratio",),
                    ("model", "variant"),
                    first="lowest",
                    none="No ratings in this time range.",
                ),
                Panel(
                    "certificate_expiry",
                    "Certificates expire in",
                    ("certificate_expiry",),
                    _PROBE,
                    first="lowest",
                    none=_NO_PROBE,
                    unit="days",
                ),
            ),
        ),
    ),
)

APPLICATION = LayerPage(
    "application",
    "Application",
    "model",
    ("requests_running", "requests_per_second", "tokens_out_per_second"),
    (
        TileSignal("requests_per_second", "Requests"),
        TileSignal("request_success_ratio", "Success"),
        TileSignal("ttft_p95", "First token p95"),
        TileSignal("itl_p95", "Between tokens p95"),
        TileSignal("e2e_p95", "Request p95"),
        TileSignal("requests_waiting", "Waiting", "No engine"),
        TileSignal("tokens_out_per_second", "Output tokens"),
        TileSignal("rate_limited_ratio", "Rate-limited"),
    ),
    (
        PanelBand(
            "traffic",
            "Traffic",
            (
                by_model("requests_per_second", "Requests"),
                Panel(
                    "queue",
                    "Requests running and waiting",
                    ("requests_running", "requests_waiting"),
                    MODEL_LABELS,
                    REPLICA_LABELS,
                    none="No engine in this time range.",
                    names=("running", "waiting"),
                ),
                by_model("tokens_out_per_second", "Output tokens"),
                by_model("tokens_in_per_second", "Prompt tokens, cached ones included"),
            ),
        ),
        PanelBand(
            "latency",
            "Latency",
            (
                quantiles("ttft", "Time to first token"),
                quantiles("itl", "Between two tokens"),
                quantiles("e2e", "Request duration"),
                quantiles("queue_time", "Waiting for the engine"),
            ),
        ),
        PanelBand(
            "errors",
            "Errors and limits",
            (
                by_model("request_success_ratio", "Success", first="lowest"),
                Panel(
                    "request_errors",
                    "Errors by cause",
                    ("request_errors_per_second",),
                    ("model", "cause"),
                    none=_QUIET,
                ),
                Panel(
                    "rate_limited",
                    "Rate-limited, by cause",
                    ("rate_limited_per_second",),
                    ("model", "cause"),
                    none=_QUIET,
                ),
                by_model("length_stop_ratio", "Cut off by a token limit"),
                by_model("token_limit_remaining_ratio", "Provider's token limit left", first="lowest"),
                by_model("safety_refusal_ratio", "Refused by a content filter"),
            ),
        ),
        PanelBand(
            "phases",
            "Where the time goes",
            (
                quantiles("prefill_time", "Prefill"),
                quantiles("decode_time", "Decode"),
                quantiles("tpot", "Time per output token, by request"),
                quantiles("gateway_overhead", "Added by the gateway"),
                by_model("http_requests_in_flight", "Requests in flight"),
                by_model("response_cache_hit_ratio", "Answered from the response cache"),
            ),
            opened=False,
        ),
    ),
)

MODEL = LayerPage(
    "model",
    "Model",
    "model",
    ("requests_running", "kv_cache_usage", "tokens_out_per_second"),
    (
        TileSignal("kv_cache_usage", "KV cache, fullest", "No engine"),
        TileSignal("prefix_cache_hit_ratio", "Prefix-cache hits"),
        TileSignal("batch_size", "Batch, mean", "No engine"),
        TileSignal("preemptions_per_second", "Preemptions"),
        TileSignal("spec_decode_acceptance_ratio", "Speculation accepted"),
        TileSignal("prompt_length_p50", "Prompt p50"),
        TileSignal("output_length_p50", "Answer p50"),
        TileSignal("engine_healthy", "Every engine healthy", "No engine"),
    ),
    (
        PanelBand(
            "cache",
            "KV cache",
            (
                Panel(
                    "kv_cache_usage", "In use, by replica", ("kv_cache_usage",), REPLICA_LABELS, none=_UNUSED
                ),
                by_model("prefix_cache_hit_ratio", "Prefix-cache hits", first="lowest"),
                by_model("kv_cache_capacity_tokens", "Capacity", none=_UNUSED),
            ),
        ),
        PanelBand(
            "scheduler",
            "Batching and speculation",
            (
                Panel("batch_size", "Batch size, by replica", ("batch_size",), REPLICA_LABELS, none=_UNUSED),
                Panel(
                    "preemptions",
                    "Preemptions, by replica",
                    ("preemptions_per_second",),
                    REPLICA_LABELS,
                    none=_UNUSED,
                ),
                by_model("spec_decode_acceptance_ratio", "Speculation accepted", first="lowest"),
                by_model("spec_decode_tokens_per_draft", "Tokens accepted per draft", first="lowest"),
            ),
        ),
        PanelBand(
            "lengths",
            "Lengths",
            (quantiles("prompt_length", "Prompt"), quantiles("output_length", "Answer")),
        ),
        PanelBand(
            "engine",
            "Engines and adapters",
            (
                Panel(
                    "engine_healthy",
                    "Engine healthy",
                    ("engine_healthy",),
                    REPLICA_LABELS,
                    first="lowest",
                    none=_UNUSED,
                ),
                Panel(
                    "engine_awake",
                    "Engine awake",
                    ("engine_awake",),
                    REPLICA_LABELS,
                    first="lowest",
                    none=_UNUSED,
                ),
                Panel("lora", "LoRA in use", ("lora_requests_running",), ("model", "adapter"), none=_UNUSED),
                by_model("corrupted_requests_per_second", "Requests with NaN logits", none=_QUIET),
                quantiles("perplexity", "Perplexity"),
                Panel(
                    "utilization",
                    "MFU and MBU",
                    ("model_flops_utilization", "model_bandwidth_utilization"),
                    REPLICA_LABELS,
                    none=_UNUSED,
                    names=("MFU", "MBU"),
                ),
            ),
            opened=False,
        ),
    ),
)

LAYER_PAGES: Mapping[str, LayerPage] = {
    page.key: page for page in (CLIENT, APPLICATION, MODEL, INFRASTRUCTURE)
}
