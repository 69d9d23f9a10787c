"""A Slurm cluster: which job, user and account holds which GPU, how long the queue is, which nodes are down.

One machine reports the whole cluster: the one where slurmctld runs, or a login node. A compute node (slurmd
without slurmctld) stays silent, so that Strata on a thousand of them neither counts every job a thousand
times nor sends slurmctld a thousand requests; two login nodes that both run Strata need
`collectors.slurm.enabled: false` on one of them.

A reading is two requests to slurmctld (three to a Slurm without JSON), every 30 s by default.
"""

import os
import secrets
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from collectors import slurm_json, slurm_listing, slurm_nodes
from collectors.slurm_commands import Commands, OptionRefused, SlurmCommands, TooMuchOutput
from collectors.slurm_families import families, held_gpus
from collectors.slurm_records import Job, Node
from collectors.types import CollectFailed, Family, Unsupported

_MARK_BYTES: Final = 16


class SlurmCollector:
    """Collector of the cluster that this machine's Slurm commands speak to.

    `proc` is where /proc is mounted: what runs here decides who reports. `clock` gives Unix seconds. `mark`
    gives text that no user can foresee.
    """

    name = "slurm"
    job = "slurm"

    def __init__(
        self,
        *,
        commands: Commands | None = None,
        proc: Path = Path("/proc"),
        clock: Callable[[], float] = time.time,
        mark: Callable[[], str] = lambda: secrets.token_hex(_MARK_BYTES),
    ) -> None:
        self.note = ""
        self.trouble = ""
        self._commands: Commands = commands or SlurmCommands(os.environ)
        self._proc = proc
        self._clock = clock
        self._mark = mark
        self._has_json = True
        self._answered = False

    def collect(self) -> tuple[Family, ...]:
        """Read the cluster once. Raises Unsupported, CollectFailed."""
        self._commands.begin()
        try:
            nodes = self._nodes()
            jobs = self._jobs()
        except Unsupported as error:
            if self._answered:
                raise CollectFailed(f"{error}, and Slurm answered before") from error
            raise
        self._answered = True
        self._take_note(held_gpus(jobs), sum(node.allocated for node in nodes))
        return families(jobs, nodes, self._clock())

    def _nodes(self) -> list[Node]:
        # Not once it has answered: then slurmctld ran here, and is down.
        if not self._answered and _is_compute_node(self._proc):
            raise Unsupported(
                "slurmd runs here and slurmctld does not: a cluster is reported where slurmctld runs or on "
                "a login node"
            )
        nodes = slurm_nodes.nodes(self._commands.run("scontrol", *slurm_nodes.ARGUMENTS))
        if not nodes:
            raise CollectFailed(
                "scontrol lists no node to this user: let it see nodes and jobs (PrivateData, Operator)"
            )
        return nodes

    def _jobs(self) -> list[Job]:
        if self._has_json:
            try:
                return slurm_json.jobs(self._commands.run("squeue", *slurm_json.ARGUMENTS))
            except (OptionRefused, TooMuchOutput):
                self._has_json = False
        mark = self._mark()
        listed = slurm_listing.jobs(self._commands.run("squeue", *slurm_listing.arguments(mark)), mark)
        return slurm_listing.with_gpus(listed, self._commands.run("scontrol", *slurm_listing.DETAILS))

    def _take_note(self, shown: int, allocated: int) -> None:
        self.note = ""
        if shown < allocated:
            self.note = (
                f"jobs shown to this user hold {shown} of {allocated} allocated GPUs: PrivateData hides the "
                "others' (make the user that runs Strata an Operator), or a job's name imitates Slurm's text"
            )


def _is_compute_node(proc: Path) -> bool:
    """Does slurmd run here and slurmctld not? Not knowing is no."""
    running: set[str] = set()
    try:
        for process in os.scandir(proc):
            if process.name.isdecimal():
                try:
                    running.add((proc / process.name / "comm").read_text(errors="replace").strip())
                except OSError:
                    continue  # it has ended
    except OSError:
        return False
    return "slurmd" in running and "slurmctld" not in running
