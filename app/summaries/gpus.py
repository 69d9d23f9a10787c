"""A GPU (or a MIG instance of one) in four numbers, whichever exporter reports it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from app.summaries.reading import Reading, natural, reading
from app.summaries.signal_reader import SignalReader, Trend
from db.nan import FloatArray, IntArray

UTILISATION = "gpu_utilization"
ENGINE_ACTIVITY = "gpu_engine_activity"
MEMORY_USED = "gpu_memory_used_bytes"
MEMORY_TOTAL = "gpu_memory_total_bytes"
POWER = "gpu_power_watts"
TEMPERATURE = "gpu_temperature_celsius"
MIG_ACTIVITY = "mig_engine_activity"
MIG_MEMORY_USED = "mig_memory_used_bytes"

_GPU = ("uuid", "gpu", "node", "gpu_model")
_INSTANCE = (*_GPU, "mig", "mig_profile")
# What says that a GPU still reports.
_HEARD = (UTILISATION, MEMORY_USED, POWER, TEMPERATURE, MIG_ACTIVITY)

Key = tuple[str, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Gpu:
    """utilisation: ratio 0..1. memory: bytes. power: watts. temperature: degrees Celsius.

    instance: of the target that reports it now, "" where that is not known. mig: "" for a whole GPU, else the
    instance's id and profile. utilisation is None where the device does not report it (MIG instances without
    profiling counters).
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


@dataclass(slots=True)
class _Device:
    """labels: canonical. trends: by signal. total: bytes of memory."""

    labels: dict[str, str]
    trends: dict[str, FloatArray] = field(default_factory=dict)
    total: float | None = None

    def add(self, signal: str, values: FloatArray) -> None:
        """Two series of one signal are one GPU's whose labels changed."""
        former = self.trends.get(signal)
        self.trends[signal] = values if former is None else np.fmax(former, values)


def read_gpus(reader: SignalReader) -> list[Gpu]:
    """One Gpu for each device, and for each MIG instance, that had a value on the reader's grid; ordered by
    host, index and MIG instance. Raises StoreError."""
    devices: dict[Key, _Device] = {}
    for signal in (UTILISATION, MEMORY_USED, POWER, TEMPERATURE):
        _gather(devices, signal, reader.trends(signal, _GPU))
    _gather(devices, UTILISATION, reader.trends(MIG_ACTIVITY, _INSTANCE))
    _gather(devices, MEMORY_USED, reader.trends(MIG_MEMORY_USED, _INSTANCE))
    if _some_lack_utilisation(devices, reader):
        # In MIG mode a GPU has no utilisation; an old one has no engine activity.
        activity = [one for one in reader.trends(ENGINE_ACTIVITY, _GPU) if _lacks_utilisation(devices, one)]
        _gather(devices, UTILISATION, activity)
    for labels, value in reader.now(MEMORY_TOTAL, _GPU):
        device = devices.get(_key(labels))
        if device is not None:
            device.total = value
    heard = _Heard(reader.newest_ms(_HEARD, ("uuid", "gpu", "node", "instance")))
    found = [_gpu(device, heard, reader.at) for device in devices.values()]
    return sorted(found, key=lambda gpu: [natural(part) for part in (gpu.host, gpu.index, gpu.mig, gpu.uuid)])


def _gather(devices: dict[Key, _Device], signal: str, trends: Sequence[Trend]) -> None:
    for trend in trends:
        device = devices.setdefault(_key(trend.labels), _Device({}))
        device.labels.update(trend.labels)
        device.add(signal, trend.values)


def _some_lack_utilisation(devices: Mapping[Key, _Device], reader: SignalReader) -> bool:
    """Is it worth reading engine activity over the grid? On most fleets it is there and not needed."""
    return any(UTILISATION not in device.trends for device in devices.values()) or any(
        _key(labels) not in devices for labels, _ in reader.now(ENGINE_ACTIVITY, _GPU)
    )


def _lacks_utilisation(devices: Mapping[Key, _Device], trend: Trend) -> bool:
    device = devices.get(_key(trend.labels))
    return device is None or UTILISATION not in device.trends


def _key(labels: Mapping[str, str]) -> Key:
    """By its UUID where it has one, else by its place."""
    uuid = labels.get("uuid", "")
    place = ("", "") if uuid else (labels.get("node", ""), labels.get("gpu", ""))
    return uuid, *place, labels.get("mig", "")


class _Heard:
    """When a device was last heard of, and from which target."""

    def __init__(self, rows: Sequence[tuple[Mapping[str, str], int]]) -> None:
        self._by_key: dict[Key, tuple[int, str]] = {}
        self._by_node: dict[str, tuple[int, str]] = {}
        for labels, at_ms in rows:
            found = at_ms, labels.get("instance", "")
            key, node = _key(labels), labels.get("node", "")
            self._by_key[key] = max(found, self._by_key.get(key, found))
            self._by_node[node] = max(found, self._by_node.get(node, found))

    def of(self, device: _Device) -> tuple[int, str] | None:
        """Some exporters put a device's labels on in their PromQL only: then its node's newest page is meant.
        None where nothing is known."""
        whole = {name: text for name, text in device.labels.items() if name != "mig"}
        return self._by_key.get(_key(whole)) or self._by_node.get(device.labels.get("node", ""))


def _gpu(device: _Device, heard: _Heard, at: IntArray) -> Gpu:
    nothing = np.full(len(at), np.nan)
    readings = {signal: reading(values) for signal, values in device.trends.items()}
    none = reading(nothing)
    labels = device.labels
    newest = _newest_step(device, at)
    last = heard.of(device) if newest == int(at[-1]) else None
    return Gpu(
        instance=last[1] if last else "",
        host=labels.get("node", ""),
        index=labels.get("gpu", ""),
        uuid=labels.get("uuid", ""),
        model=labels.get("gpu_model", ""),
        mig=" ".join(text for text in (labels.get("mig", ""), labels.get("mig_profile", "")) if text),
        newest_ms=last[0] if last else newest,
        utilisation_ratio=readings.get(UTILISATION, none),
        memory_used_bytes=readings.get(MEMORY_USED, none),
        memory_total_bytes=device.total,
        power_watts=readings.get(POWER, none),
        temperature_celsius=readings.get(TEMPERATURE, none),
    )


def _newest_step(device: _Device, at: IntArray) -> int | None:
    """The last time on the grid at which anything is known of it."""
    known = np.zeros(len(at), dtype=np.bool_)
    for values in device.trends.values():
        known |= ~np.isnan(values)
    places = np.flatnonzero(known)
    return int(at[places[-1]]) if len(places) else None
