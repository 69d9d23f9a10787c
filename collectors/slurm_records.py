"""What is kept of a job and of a node, whichever of Slurm's outputs it was read from."""

from dataclasses import dataclass
from typing import Final

from collectors.slurm_text import Gpus

# Of Slurm's states only these are of now; a finished job stays listed for MinJobAge (5 minutes).
ACTIVE_STATES: Final = frozenset({"pending", "running", "suspended", "completing", "configuring"})
# In these a job's processes may be on its GPUs. A suspended one leaves them to the job that pre-empted it.
HOLDING_STATES: Final = frozenset({"running", "completing"})


@dataclass(frozen=True, slots=True)
class Held:
    """GPUs that a job holds on one node."""

    node: str
    gpus: Gpus


@dataclass(frozen=True, slots=True)
class Job:
    """One record of the queue; texts are fit for labels, "" where Slurm has none.

    id: what SLURM_JOB_ID says inside it. partition: one, or several with commas while it waits. tasks: how
    many jobs of an array a pending record stands for. array, het: (id of the whole, index in it), else None.
    started, submitted: Unix seconds, None where unknown. limit_seconds: None without a limit.
    """

    id: int
    user: str
    account: str
    partition: str
    qos: str
    name: str
    state: str
    reason: str
    nodes: int
    tasks: int = 1
    array: tuple[int, int] | None = None
    het: tuple[int, int] | None = None
    started: float | None = None
    submitted: float | None = None
    limit_seconds: float | None = None
    held: tuple[Held, ...] = ()


@dataclass(frozen=True, slots=True)
class Node:
    """One node. hostname: its own name without a domain, as exporters on it say it.

    state: as Slurm says it, in lower case, such as `mixed` or `idle+drain`.
    """

    name: str
    hostname: str
    state: str
    reason: str
    partitions: tuple[str, ...]
    gpus: int
    allocated: int

    @property
    def unallocated_are(self) -> str:
        """What a GPU of it is that no job holds: idle, reserved, drained or down."""
        words = {word.rstrip("*~#!%$@^-") for word in self.state.split("+")}
        if "*" in self.state or words & _DOWN:
            return "down"
        if words & _DRAINED:
            return "drained"
        return "reserved" if words & _RESERVED else "idle"


GPU_STATES: Final = ("allocated", "idle", "reserved", "drained", "down")
_DOWN: Final = frozenset(
    {"down", "error", "unknown", "not_responding", "powered_down", "powering_down", "powering_up", "inval",
     "power_down", "powerdown", "reboot_issued", "invalid_reg"}
)  # fmt: skip
_DRAINED: Final = frozenset({"drain", "drained", "draining", "fail", "failing"})
_RESERVED: Final = frozenset({"reserved", "maint", "maintenance", "planned", "blocked"})
