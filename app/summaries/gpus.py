"""A GPU (or a MIG instance of one) in four numbers, from dcgm-exporter's names (its own, or our NVML's)."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from app.summaries.reading import (
    ByMetric,
    Reading,
    by_owner,
    gauge_any,
    gauge_sum,
    natural,
    newest_ms,
    reading,
)
from db.nan import IntArray
from db.records import Series

UTILISATION = "DCGM_FI_DEV_GPU_UTIL"
ENGINE_ACTIVE = "DCGM_FI_PROF_GR_ENGINE_ACTIVE"
MEMORY_USED = "DCGM_FI_DEV_FB_USED"
MEMORY_FREE = "DCGM_FI_DEV_FB_FREE"
MEMORY_RESERVED = "DCGM_FI_DEV_FB_RESERVED"
POWER = "DCGM_FI_DEV_POWER_USAGE"
TEMPERATURE = "DCGM_FI_DEV_GPU_TEMP"
METRICS = (
    UTILISATION,
    ENGINE_ACTIVE,
    MEMORY_USED,
    MEMORY_FREE,
    MEMORY_RESERVED,
    POWER,
    TEMPERATURE,
)
_BYTES_PER_MIB = 2**20


@dataclass(frozen=True, slots=True, eq=False)
class Gpu:
    """utilisation: ratio 0..1. memory: bytes. power: watts. temperature: degrees Celsius.

    mig: "" for a whole GPU, else the instance's id and profile. utilisation is None where the device does
    not report it (MIG instances without profiling counters).
    """

    instance: str
    host: str
    index: str
    uuid: str
    model: str
    mig: str
    newest_ms: int | None
    utilisation_ratio: Reading
    memory_used_bytes: Reading
    memory_total_bytes: float | None
    power_watts: Reading
    temperature_celsius: Reading


def summarise_gpus(series: Iterable[Series], at: IntArray) -> list[Gpu]:
    """One Gpu for each device, ordered by host, index and MIG instance. `at`: the time grid, ms."""
    found = [_gpu(metrics, at) for metrics in by_owner(series, _device).values()]
    return sorted(found, key=lambda gpu: [natural(part) for part in (gpu.host, gpu.index, gpu.mig, gpu.uuid)])


def _device(labels: Mapping[str, str]) -> tuple[str, ...]:
    return (
        labels.get("instance", ""),
        labels.get("UUID", "") or labels.get("gpu", ""),
        labels.get("GPU_I_ID", ""),
    )


def _gpu(metrics: ByMetric, at: IntArray) -> Gpu:
    labels = next(iter(metrics.values()))[0][0]
    used = gauge_any(metrics.get(MEMORY_USED, ()), at)
    rest = [metrics[name] for name in (MEMORY_FREE, MEMORY_RESERVED) if name in metrics]
    total = used + sum((gauge_sum(items[:1], at) for items in rest), np.zeros(len(at))) if rest else used
    utilisation = gauge_any(metrics.get(UTILISATION, ()), at) / 100.0
    if UTILISATION not in metrics:
        utilisation = gauge_any(metrics.get(ENGINE_ACTIVE, ()), at)
    profile = labels.get("GPU_I_PROFILE", "")
    return Gpu(
        instance=labels.get("instance", ""),
        host=labels.get("Hostname", "") or labels.get("instance", ""),
        index=labels.get("gpu", ""),
        uuid=labels.get("UUID", ""),
        model=labels.get("modelName", ""),
        mig=" ".join(part for part in (labels.get("GPU_I_ID", ""), profile) if part),
        newest_ms=newest_ms(item for items in metrics.values() for item in items),
        utilisation_ratio=reading(utilisation),
        memory_used_bytes=reading(used * _BYTES_PER_MIB),
        memory_total_bytes=reading(total * _BYTES_PER_MIB).value if rest else None,
        power_watts=reading(gauge_any(metrics.get(POWER, ()), at)),
        temperature_celsius=reading(gauge_any(metrics.get(TEMPERATURE, ()), at)),
    )
