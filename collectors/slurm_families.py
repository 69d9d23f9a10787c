"""Slurm's jobs and nodes as samples.

A GPU's holder is `strata_slurm_job_gpu_info`: at most one series for each `hostname` and `gpu`, so that a GPU
metric may be joined with it by those two labels. `hostname` is the node's own name without a domain. Waiting
jobs are only counted: their number has no bound.
"""

from collections import Counter
from collections.abc import Sequence
from typing import Final

from collectors.slurm_records import GPU_STATES, HOLDING_STATES, Job, Node
from collectors.types import Family, LabelPairs, Sample

MAX_GPUS: Final = 100_000
MAX_NODES: Final = 50_000
# Reasons for which a job waits for others, and not for its owner or its own date.
_QUEUED: Final = frozenset({"resources", "priority", "none", "", "nodes required for job are down"})
_ALWAYS_COUNTED: Final = ("pending", "running")

_HELP: Final = {
    "strata_slurm_job_gpu_info": "Which running job holds this GPU; gpu is Slurm's index of it on its node.",
    "strata_slurm_job_info": "A running job with GPUs; array and het ids are of the job that it is part of.",
    "strata_slurm_job_gpus": "GPUs that a running job holds.",
    "strata_slurm_job_nodes": "Nodes that a running job with GPUs has.",
    "strata_slurm_job_start_timestamp_seconds": "When a running job with GPUs started, in Unix time.",
    "strata_slurm_job_time_limit_seconds": "How long a running job with GPUs may run; absent: no limit.",
    "strata_slurm_jobs": "Jobs by state; one that waits for several partitions counts in the first.",
    "strata_slurm_pending_jobs": "Waiting jobs by Slurm's reason, each task of an array for itself.",
    "strata_slurm_queue_wait_max_seconds": "Longest wait since submission of a job that waits for resources.",
    "strata_slurm_gpus": "GPUs by state; a node in several partitions counts in each.",
    "strata_slurm_node_gpus": "GPUs that a node is configured with.",
    "strata_slurm_node_gpus_allocated": "GPUs of a node that jobs hold.",
    "strata_slurm_node_state_info": "A node's state and why an operator set it.",
}


class _Page:
    def __init__(self) -> None:
        self._samples: dict[str, list[Sample]] = {name: [] for name in _HELP}

    def add(self, name: str, labels: Sequence[tuple[str, str]], value: float) -> None:
        self._samples[name].append(Sample(name, tuple(pair for pair in labels if pair[1]), value))

    def families(self) -> tuple[Family, ...]:
        return tuple(
            Family(name, "gauge", _HELP[name], tuple(samples))
            for name, samples in self._samples.items()
            if samples
        )


def families(jobs: Sequence[Job], nodes: Sequence[Node], now: float) -> tuple[Family, ...]:
    """All families that have samples. `now` is Unix time in seconds."""
    page = _Page()
    _add_holders(page, jobs, {node.name: node.hostname for node in nodes})
    partitions = sorted({name for node in nodes for name in node.partitions})
    _add_queue(page, jobs, partitions, now)
    _add_nodes(page, nodes[:MAX_NODES], partitions)
    return page.families()


def held_gpus(jobs: Sequence[Job]) -> int:
    """How many GPUs the jobs account for."""
    return sum(held.gpus.count for job in jobs for held in job.held)


def _add_holders(page: _Page, jobs: Sequence[Job], hostnames: dict[str, str]) -> None:
    # The first to name a GPU has it: a completing job may still list what the next one was given.
    holding = [job for job in jobs if job.state in HOLDING_STATES and held_gpus([job])]
    holding.sort(key=lambda job: (job.state != "running", job.id))
    taken: set[tuple[str, int]] = set()
    for job in holding:
        if len(taken) >= MAX_GPUS:
            break
        who: LabelPairs = (("job_id", str(job.id)), ("user", job.user), ("account", job.account))
        who += (("partition", job.partition),)
        named = (*who, ("qos", job.qos), ("job_name", job.name))
        for held in job.held:
            hostname = hostnames.get(held.node, held.node.partition(".")[0])
            for index in held.gpus.indices:
                if (hostname, index) in taken:
                    continue
                taken.add((hostname, index))
                where = (("node", held.node), ("hostname", hostname), ("gpu", str(index)))
                page.add("strata_slurm_job_gpu_info", (*named, *where, ("gpu_type", held.gpus.type)), 1)
        page.add("strata_slurm_job_info", (*named, *_parts(job), ("state", job.state)), 1)
        page.add("strata_slurm_job_gpus", who, held_gpus([job]))
        page.add("strata_slurm_job_nodes", who, job.nodes)
        if job.started is not None:
            page.add("strata_slurm_job_start_timestamp_seconds", who, job.started)
        if job.limit_seconds is not None:
            page.add("strata_slurm_job_time_limit_seconds", who, job.limit_seconds)


def _parts(job: Job) -> LabelPairs:
    labels: LabelPairs = ()
    if job.array is not None:
        labels += (("array_job_id", str(job.array[0])), ("array_task_id", str(job.array[1])))
    if job.het is not None:
        labels += (("het_job_id", str(job.het[0])), ("het_job_offset", str(job.het[1])))
    return labels


def _add_queue(page: _Page, jobs: Sequence[Job], partitions: Sequence[str], now: float) -> None:
    states = Counter({(name, state): 0 for name in partitions for state in _ALWAYS_COUNTED})
    reasons: Counter[tuple[str, str]] = Counter()
    longest = dict.fromkeys(partitions, 0.0)
    for job in jobs:
        partition = job.partition.partition(",")[0]
        states[partition, job.state] += job.tasks
        if job.state != "pending":
            continue
        reasons[partition, job.reason] += job.tasks
        if job.submitted is not None and job.reason.lower() in _QUEUED:
            longest[partition] = max(longest.get(partition, 0.0), now - job.submitted)
    for (partition, state), count in sorted(states.items()):
        page.add("strata_slurm_jobs", (("partition", partition), ("state", state)), count)
    for (partition, reason), count in sorted(reasons.items()):
        page.add("strata_slurm_pending_jobs", (("partition", partition), ("reason", reason)), count)
    for partition, seconds in sorted(longest.items()):
        page.add("strata_slurm_queue_wait_max_seconds", (("partition", partition),), seconds)


def _add_nodes(page: _Page, nodes: Sequence[Node], partitions: Sequence[str]) -> None:
    totals = Counter({(name, state): 0 for name in partitions for state in GPU_STATES})
    for node in nodes:
        where = (("node", node.name), ("hostname", node.hostname))
        page.add("strata_slurm_node_state_info", (*where, ("state", node.state), ("reason", node.reason)), 1)
        if not node.gpus:
            continue
        page.add("strata_slurm_node_gpus", where, node.gpus)
        page.add("strata_slurm_node_gpus_allocated", where, node.allocated)
        for partition in node.partitions:
            totals[partition, "allocated"] += node.allocated
            totals[partition, node.unallocated_are] += max(0, node.gpus - node.allocated)
    if any(totals.values()):
        for (partition, state), count in sorted(totals.items()):
            page.add("strata_slurm_gpus", (("partition", partition), ("state", state)), count)
