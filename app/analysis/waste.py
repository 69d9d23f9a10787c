"""Where the GPU-hours went: disjoint causes that sum to all of them, so that no hour is blamed twice.

Each step of each GPU is handed down the causes in the order below, and each takes its share of what is left:

1. unallocated: nobody had been given the GPU
2. held by a dead process: memory held, the process gone (before idle, which it also is)
3. allocated but idle: given to someone, nothing running
4. redone after a restart: steps of a run since its last checkpoint, computed again (what is thrown away is
   lost whole, however well it ran: so this and the next come before throttling)
5. failed or aborted: the share of requests (by tokens, where known) whose answer nobody got
6. throttled: the clock held down by heat or power
7. low tensor activity: running, but not on what the GPU is bought for
8. useful: what no cause took

Missing data is a cause of its own. Where a state is NaN, the rest of that step is *unknown*, since nobody can
tell whether this cause or a later one took it. A state given as None has no source at all here (no profiling
counters, no requests): it takes nothing, and the result names it, since its hours hide in the later causes.
"""

from dataclasses import dataclass, fields

import numpy as np

from app.analysis.grid import FloatArray, IntArray

CAUSES = (
    "unallocated",
    "held by a dead process",
    "allocated but idle",
    "redone after a restart",
    "failed or aborted requests",
    "throttled",
    "low tensor activity",
    "unknown",
    "useful",
)
UNKNOWN, USEFUL = CAUSES.index("unknown"), CAUSES.index("useful")
MS_PER_HOUR = 3_600_000
# Cells worked on at once: 10,000 GPUs for a day of minutes would else need half a gigabyte.
CHUNK_CELLS = 1 << 20


@dataclass(frozen=True, slots=True)
class GpuStates:
    """Each float64[gpus, steps] or what broadcasts to it: the share of the step in that state, 0 to 1 (what
    is beyond is cut off), NaN where not known, None where nothing reports it.

    In the order of the causes. `allocated` alone is turned round: what it leaves is unallocated.
    """

    allocated: FloatArray | None = None
    held_by_dead_process: FloatArray | None = None
    idle: FloatArray | None = None
    redone: FloatArray | None = None
    failed: FloatArray | None = None
    throttled: FloatArray | None = None
    low_tensor: FloatArray | None = None


@dataclass(frozen=True, slots=True)
class Waste:
    """milliseconds: int64[causes, gpus], rows as in CAUSES; each column sums to steps x step_ms exactly.
    unassessed: causes that had no source."""

    milliseconds: IntArray
    unassessed: tuple[str, ...]

    def gpu_hours(self) -> FloatArray:
        """float64[causes, gpus]."""
        hours: FloatArray = self.milliseconds / MS_PER_HOUR
        return hours

    def total_hours(self) -> FloatArray:
        """float64[causes]."""
        hours: FloatArray = self.milliseconds.sum(axis=1) / MS_PER_HOUR
        return hours

    def shares(self) -> FloatArray:
        """float64[causes] of all GPU-hours, which sum to 1; NaN without any."""
        totals = self.milliseconds.sum(axis=1)
        everything = int(totals.sum())
        return totals / everything if everything else np.full(len(CAUSES), np.nan)

    def worst_gpus(self, cause: str, limit: int) -> IntArray:
        """int64[limit or fewer]: GPUs with time in this cause, the most first."""
        row = self.milliseconds[CAUSES.index(cause)]
        order = np.argsort(-row, kind="stable")[:limit]
        guilty: IntArray = order[row[order] > 0]
        return guilty


def split(states: GpuStates, gpus: int, steps: int, step_ms: int) -> Waste:
    """Hands every millisecond of gpus x steps x step_ms to exactly one cause.

    Whole milliseconds, so that sums are exact. A state of the wrong shape is a ValueError that names it.
    """
    given = [getattr(states, field.name) for field in fields(states)]
    full = [
        None if state is None else _full(field.name, state, gpus, steps)
        for field, state in zip(fields(states), given, strict=True)
    ]
    spent = np.zeros((len(CAUSES), gpus), dtype=np.int64)
    rows = max(CHUNK_CELLS // max(steps, 1), 1)
    for start in range(0, gpus, rows):
        chunk = slice(start, min(start + rows, gpus))
        spent[:, chunk] = _split_chunk(
            [None if state is None else state[chunk] for state in full],
            np.full((chunk.stop - start, steps), step_ms, dtype=np.int64),
        )
    return Waste(spent, tuple(cause for cause, state in zip(CAUSES, full, strict=False) if state is None))


def _split_chunk(states: list[FloatArray | None], left: IntArray) -> IntArray:
    """int64[causes, rows]; left: int64[rows, steps], milliseconds to hand out."""
    spent = np.zeros((len(CAUSES), len(left)), dtype=np.int64)
    for cause, state in enumerate(states):
        if state is None:
            continue
        missing = np.isnan(state)
        if missing.any():
            spent[UNKNOWN] += np.where(missing, left, 0).sum(axis=1)
            left = np.where(missing, 0, left)
        share = np.clip(np.where(missing, 0.0, state), 0.0, 1.0)
        if CAUSES[cause] == "unallocated":
            share = 1.0 - share
        taken = np.rint(left * share).astype(np.int64)
        spent[cause] = taken.sum(axis=1)
        left = left - taken
    spent[USEFUL] = left.sum(axis=1)
    return spent


def _full(name: str, state: FloatArray, gpus: int, steps: int) -> FloatArray:
    try:
        return np.broadcast_to(np.asarray(state, dtype=np.float64), (gpus, steps))
    except ValueError as error:
        shape = "x".join(str(side) for side in np.shape(state))
        raise ValueError(f"state {name} is {shape}, not {gpus} GPUs x {steps} steps") from error


def below(values: FloatArray, least: float) -> FloatArray:
    """float64, shaped as values: 1 where a ratio (tensor activity) is below least, 0 where not, NaN kept."""
    return np.where(np.isnan(values), np.nan, (values < least).astype(np.float64))
