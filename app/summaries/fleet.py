"""The fleet of GPUs: as a matrix of one signal over time, and as a table of what each GPU is now. Pure."""

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from app.summaries.layer_history import series_name
from app.summaries.reading import natural
from db.catalog.read import LabelPairs, Reading
from db.catalog.read_range import SignalSteps
from db.catalog.signal import Good
from db.catalog.xid import Xid, explain
from db.nan import FloatArray, IntArray

# Rows that a heat map of that height can show apart.
MAX_ROWS = 400
GPU = ("node", "gpu", "uuid")
OWNER = (*GPU, "owner_kind", "namespace", "pod", "job_id", "user")
CAUSE = (*GPU, "cause")
# Signal -> the labels that the table reads it by.
TABLE_SIGNALS: Mapping[str, tuple[str, ...]] = {
    "gpu_utilization": GPU,
    "gpu_memory_used_ratio": GPU,
    "gpu_memory_used_bytes": GPU,
    "gpu_power_watts": GPU,
    "gpu_power_limit_watts": GPU,
    "gpu_temperature_celsius": GPU,
    "gpu_throttle_reason": CAUSE,
    "gpu_throttled_ratio": CAUSE,
    "gpu_xid": GPU,
    "gpu_owner": OWNER,
}
# A share of the whole time range, not of the last minutes.
OVER_RANGE = frozenset({"gpu_throttled_ratio"})
# Over in a moment: the newest in the time range is shown.
EVENTS = frozenset({"gpu_xid"})


@dataclass(frozen=True, slots=True, eq=False)
class Heat:
    """names: of the rows; untrusted text. values: float32[rows, steps], NaN for gaps.
    gpus: how many there are. together: how many a row stands for at most. by: how they became one."""

    times: IntArray
    names: tuple[str, ...]
    values: npt.NDArray[np.float32]
    gpus: int
    together: int
    by: str


def heat(times: IntArray, series: Sequence[SignalSteps], good: Good, max_rows: int = MAX_ROWS) -> Heat:
    """A row for each GPU in natural order, or for neighbours together where there are more than fit: of what
    should be low the highest, of what should be high the lowest, else the mean."""
    rows = sorted(
        ((series_name(one.labels, ("node", "gpu")), one) for one in series),
        key=lambda row: (natural(row[0]), row[1].labels),
    )
    together = math.ceil(len(rows) / max_rows) if rows else 1
    word = {"low": "highest", "high": "lowest", "neither": "mean"}[good]
    names, values = [], []
    for start in range(0, len(rows), together):
        group = rows[start : start + together]
        first, last = group[0][0], group[-1][0]
        names.append(first if len(group) == 1 else f"{first} to {last}")
        values.append(_one([one.values for _, one in group], word))
    matrix = np.array(values, dtype=np.float32) if values else np.zeros((0, len(times)), dtype=np.float32)
    return Heat(times, tuple(names), matrix, len(rows), together, word)


def _one(rows: Sequence[FloatArray], word: str) -> FloatArray:
    """float64[steps] of rows of the same length."""
    if len(rows) == 1:
        return rows[0]
    stacked = np.vstack(rows)
    known = ~np.isnan(stacked)
    none = ~known.any(axis=0)
    if word == "mean":
        found = np.where(known, stacked, 0.0).sum(axis=0) / np.maximum(known.sum(axis=0), 1)
    elif word == "highest":
        found = np.where(known, stacked, -np.inf).max(axis=0)
    else:
        found = np.where(known, stacked, np.inf).min(axis=0)
    return np.where(none, np.nan, found)


@dataclass(slots=True)
class FleetGpu:
    """One GPU now; None and empty where nothing says it. Texts are untrusted. throttled: cause -> share of
    the time range, NaN where the clocks are held down at this moment and no share is known."""

    node: str
    gpu: str
    uuid: str
    values: dict[str, float] = field(default_factory=dict)
    throttled: dict[str, float] = field(default_factory=dict)
    xid: Xid | None = None
    owners: list[str] = field(default_factory=list)


def fleet(readings: Mapping[str, Iterable[Reading]]) -> list[FleetGpu]:
    """Every GPU that any of the signals of TABLE_SIGNALS tells of, in natural order."""
    found: dict[tuple[str, str, str], FleetGpu] = {}
    for signal, rows in readings.items():
        for reading in rows:
            if math.isnan(reading.value):
                continue
            labels = dict(reading.labels)
            key = (labels.get("node", ""), labels.get("gpu", ""), labels.get("uuid", ""))
            _add(found.setdefault(key, FleetGpu(*key)), signal, labels, reading.value)
    return sorted(_joined(found.values()), key=lambda one: (natural(one.node), natural(one.gpu), one.uuid))


def _add(one: FleetGpu, signal: str, labels: Mapping[str, str], value: float) -> None:
    if signal == "gpu_xid":
        one.xid = explain(int(value))
    elif signal == "gpu_owner":
        owner = owner_text(labels)
        if value and owner and owner not in one.owners:
            one.owners.append(owner)
    elif signal in ("gpu_throttle_reason", "gpu_throttled_ratio"):
        cause = labels.get("cause", "") or "unknown cause"
        if value > 0:
            one.throttled[cause] = value if signal == "gpu_throttled_ratio" else math.nan
    else:
        one.values[signal] = value


def _joined(found: Collection[FleetGpu]) -> list[FleetGpu]:
    """An owner's exporter may know the UUID and no index or another node name: it goes to the GPU of that
    UUID. What is left without numbers stays a row, so that nothing is hidden."""
    numbered = {one.uuid: one for one in found if one.uuid and one.values}
    rows = []
    for one in found:
        whole = numbered.get(one.uuid)
        if whole is None or whole is one or one.values:
            rows.append(one)
            continue
        whole.owners += [owner for owner in one.owners if owner not in whole.owners]
        whole.throttled = {**one.throttled, **whole.throttled}
        whole.xid = whole.xid or one.xid
    return rows


def newest_readings(series: Iterable[SignalSteps]) -> list[Reading]:
    """Of each series its last value, whenever that was."""
    found = []
    for one in series:
        known = one.values[~np.isnan(one.values)]
        if len(known):
            found.append(Reading(one.labels, float(known[-1])))
    return found


def owner_text(labels: LabelPairs | Mapping[str, str]) -> str:
    """ "pod ml/train-0", "job 4711 of kim": untrusted text."""
    of = dict(labels)
    pod = "/".join(part for part in (of.get("namespace", ""), of.get("pod", "")) if part)
    job = f"job {of['job_id']}" if of.get("job_id") else ""
    user = f"of {of['user']}" if of.get("user") else ""
    named = f"pod {pod}" if of.get("pod") else " ".join(part for part in (job, user) if part)
    return named or of.get("owner_kind", "")
