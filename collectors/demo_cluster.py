"""The simulated cluster's shape: which GPUs there are, what each one does, and where the models are served.

The same number of GPUs and the same seed always give the same cluster, names and UUIDs included, so that
a second `strata demo` over the same folder goes on with the same series.
"""

import hashlib
from dataclasses import dataclass
from enum import IntEnum

import numpy as np

from db.nan import BoolArray, FloatArray, IntArray

GPUS_PER_NODE = 8
MAX_GPUS = 10_000
MAX_REPLICAS = 200
ROLLING_UPGRADE_NODES = 8  # from so many nodes on, every eighth runs the newer exporter


@dataclass(frozen=True, slots=True)
class GpuModel:
    """NVIDIA's data sheet. peak_flops: dense bf16 per second. bandwidth: bytes per second."""

    name: str
    memory_mib: int
    reserved_mib: int
    idle_watts: float
    tdp_watts: float
    max_clock_mhz: int
    idle_clock_mhz: int
    memory_clock_mhz: int
    peak_flops: float
    bandwidth: float


H100 = GpuModel("NVIDIA H100 80GB HBM3", 81_559, 538, 72.0, 700.0, 1_980, 345, 2_619, 989e12, 3.35e12)
H200 = GpuModel("NVIDIA H200", 143_771, 598, 76.0, 700.0, 1_980, 345, 3_201, 989e12, 4.8e12)


@dataclass(frozen=True, slots=True)
class ServedModel:
    """A language model and its traffic. Weights and cache are 16-bit; a head has 128 dimensions.

    Token counts are means of a request; requests_per_second is one replica's at the mean hour of the day.
    """

    name: str
    parameters: float
    layers: int
    kv_heads: int
    tensor_parallel: int
    prompt_tokens: float
    output_tokens: float
    cached_share: float
    requests_per_second: float
    max_model_len: int

    @property
    def weight_bytes(self) -> float:
        return 2.0 * self.parameters

    @property
    def kv_bytes_per_token(self) -> float:
        """Keys and values of every layer."""
        return 2.0 * 2.0 * self.layers * self.kv_heads * 128


SERVED: tuple[ServedModel, ...] = (
    ServedModel("meta-llama/Llama-3.1-8B-Instruct", 8.03e9, 32, 8, 1, 900, 240, 0.45, 7.0, 32_768),
    ServedModel("Qwen/Qwen2.5-32B-Instruct", 32.8e9, 64, 8, 2, 1_200, 320, 0.35, 2.6, 32_768),
    ServedModel("meta-llama/Llama-3.3-70B-Instruct", 70.6e9, 80, 8, 4, 1_500, 300, 0.30, 2.4, 32_768),
    ServedModel("mistralai/Mistral-Large-Instruct-2411", 123e9, 88, 8, 8, 1_800, 380, 0.30, 2.0, 32_768),
)


class Work(IntEnum):
    """What a GPU is there for."""

    FREE = 0
    HELD = 1  # somebody has it and does nothing with it
    TRAIN = 2
    SERVE = 3


# What the GPUs of a node do, as runs of (work, index in SERVED, GPUs); nodes repeat these in this order.
_Plan = tuple[tuple[Work, int, int], ...]
_SMALL_MODELS: _Plan = ((Work.SERVE, 0, 1),) * 4 + ((Work.SERVE, 1, 2),) * 2
_LARGE_MODEL: _Plan = ((Work.SERVE, 2, 4),) * 2
_LARGEST_MODEL: _Plan = ((Work.SERVE, 3, 8),)
_TRAINING: _Plan = ((Work.TRAIN, -1, 8),)
_MIXED: _Plan = ((Work.TRAIN, -1, 4), (Work.HELD, -1, 2), (Work.FREE, -1, 2))
_PLANS: tuple[_Plan, ...] = (
    _SMALL_MODELS,
    _LARGE_MODEL,
    _TRAINING,
    _MIXED,
    _LARGEST_MODEL,
    _TRAINING,
    _SMALL_MODELS,
    _TRAINING,
)


@dataclass(frozen=True, slots=True)
class Node:
    """One machine. gpus: of the cluster's numbering. modern: its dcgm-exporter has the names of 4.9.

    health: its exporter's counter file has more than the default set.
    """

    name: str
    gpu_model: GpuModel
    gpus: range
    modern: bool
    health: bool


@dataclass(frozen=True, slots=True)
class Replica:
    """One vLLM server. gpus: neighbours on one node."""

    instance: str
    model: int
    node: int
    gpus: range


@dataclass(frozen=True, slots=True, eq=False)
class Cluster:
    """Everything in it by number. Per GPU: node, work, replica (-1: none), job (-1: none), uuid."""

    seed: int
    nodes: tuple[Node, ...]
    replicas: tuple[Replica, ...]
    jobs: int
    gpu_node: IntArray
    gpu_work: IntArray
    gpu_replica: IntArray
    gpu_job: IntArray
    uuids: tuple[str, ...]

    @property
    def gpus(self) -> int:
        return len(self.uuids)

    def per_gpu(self, attribute: str) -> FloatArray:
        """A figure of each GPU's data sheet."""
        return np.array([float(getattr(self.nodes[node].gpu_model, attribute)) for node in self.gpu_node])

    def per_replica(self, attribute: str) -> FloatArray:
        """A figure of the model that each replica serves."""
        return np.array([float(getattr(SERVED[one.model], attribute)) for one in self.replicas])


def build_cluster(gpus: int, seed: int, max_replicas: int = MAX_REPLICAS) -> Cluster:
    """A cluster of `gpus` GPUs in nodes of eight; the last node may have fewer."""
    nodes: list[Node] = []
    replicas: list[Replica] = []
    work = np.zeros(gpus, dtype=np.int64)
    of_replica = np.full(gpus, -1, dtype=np.int64)
    of_job = np.full(gpus, -1, dtype=np.int64)
    jobs, training = 0, -1
    count = -(-gpus // GPUS_PER_NODE)
    for number in range(count):
        own = range(number * GPUS_PER_NODE, min(gpus, (number + 1) * GPUS_PER_NODE))
        plan = _PLANS[number % len(_PLANS)]
        # Past the limit what would serve trains.
        if plan[0][0] is Work.SERVE and len(replicas) >= max_replicas:
            plan = _TRAINING
        nodes.append(
            Node(
                name=f"node{number + 1}",
                gpu_model=H200 if number % 4 == 3 else H100,
                gpus=own,
                modern=count >= ROLLING_UPGRADE_NODES and number % 8 == 7,
                health=number % 4 != 3,
            )
        )
        at, port = own.start, 8000
        # A mixed node has a small job of its own, and the large one before it ends there.
        if plan is _MIXED or (plan is _TRAINING and training < 0):
            training, jobs = jobs, jobs + 1
        for kind, model, width in plan:
            part = range(at, min(at + width, own.stop))
            at = part.stop
            if kind is Work.SERVE:
                if len(part) == width and len(replicas) < max_replicas:
                    of_replica[part] = len(replicas)
                    replicas.append(Replica(f"node{number + 1}:{port}", model, number, part))
                    work[part] = kind
                    port += 1
                continue
            work[part] = kind
            if kind is Work.TRAIN:
                of_job[part] = training
        if plan is _MIXED:
            training = -1
    return Cluster(
        seed=seed,
        nodes=tuple(nodes),
        replicas=tuple(replicas),
        jobs=jobs,
        gpu_node=np.arange(gpus, dtype=np.int64) // GPUS_PER_NODE,
        gpu_work=work,
        gpu_replica=of_replica,
        gpu_job=of_job,
        uuids=tuple(_uuid(seed, gpu) for gpu in range(gpus)),
    )


def totals(
    groups: IntArray, count: int, weights: FloatArray | IntArray | BoolArray | None = None
) -> FloatArray:
    """For each of `count` groups the sum of its members' weights, or their number."""
    summed: FloatArray = np.bincount(groups, weights, count).astype(np.float64)
    return summed


def seeded(seed: int, number: int) -> np.random.Generator:
    """The random generator of this number: each stands for itself, whatever the others gave."""
    return np.random.Generator(np.random.Philox(key=np.array([seed, number % 2**64], dtype=np.uint64)))


def _uuid(seed: int, gpu: int) -> str:
    digits = hashlib.blake2b(f"{seed}/{gpu}".encode(), digest_size=16).hexdigest()
    return f"GPU-{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"
