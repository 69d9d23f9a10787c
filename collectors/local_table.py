"""Which services are looked for on this machine: their usual ports and how their metrics are recognised.

Several services share a port, so what answers is told apart by its metric names, never by its port.
Ports and names: each project's documentation; names checked against real pages.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Service:
    """name: the job its samples get. signs: beginnings of metric names that only this service has.

    needs: what has to be switched on for metrics, "" if nothing. version_path: a JSON document with a
    `version` by which a service without metrics is recognised.
    """

    name: str
    title: str
    ports: tuple[int, ...]
    path: str = "/metrics"
    signs: tuple[str, ...] = ()
    needs: str = ""
    version_path: str = ""


SERVICES: tuple[Service, ...] = (
    Service("node", "node_exporter", (9100,), signs=("node_",)),
    Service("dcgm", "dcgm-exporter", (9400,), signs=("DCGM_",)),
    Service("vllm", "vLLM", (8000,), signs=("vllm:",)),
    Service("sglang", "SGLang", (30000,), signs=("sglang:", "sglang_"), needs="--enable-metrics"),
    Service("llamacpp", "llama.cpp", (8080,), signs=("llamacpp:",), needs="--metrics"),
    Service("tgi", "Text Generation Inference", (80, 3000, 8080, 9000), signs=("tgi_",)),
    Service("triton", "Triton", (8002,), signs=("nv_",)),
    Service("ray", "Ray", (8080,), signs=("ray_",)),
    Service(
        "trtllm",
        "trtllm-serve",
        (8000,),
        path="/prometheus/metrics",
        signs=("trtllm_",),
        needs="return_perf_metrics",
    ),
    # NIM uses vLLM's names without their prefix.
    Service(
        "nim", "NIM", (8000,), path="/v1/metrics", signs=("num_requests_running", "gpu_cache_usage_perc")
    ),
    Service("litellm", "LiteLLM", (4000,), path="/metrics/", signs=("litellm_",)),
    Service("nvidia_gpu_exporter", "nvidia_gpu_exporter", (9835,), signs=("nvidia_smi_",)),
    Service(
        "amd_gpu",
        "AMD device-metrics-exporter",
        (5000,),
        signs=("amd_gpu_", "gpu_gfx_activity", "gpu_junction_temperature", "gpu_package_power"),
    ),
    Service("ollama", "Ollama", (11434,), signs=("ollama_",), version_path="/api/version"),
)
