"""NVML's GPM: how busy the parts of a GPU were since the reading before, on Hopper and later, without DCGM.

GPM computes averages from two samples of hardware counters. A sample is memory of the C library: each GPU and
MIG instance that is read owns two of them, the one that its next interval begins with and one for that
interval's end, which then change places. They are freed when the instance is gone, when the driver refuses
one, and with the driver; a GPU that needs a reset makes the collector open the driver anew, so that an
interval never spans a reset.

Traps that this module knows:
- the first reading has no interval, so it has no values;
- two samples have to be more than 100 ms apart (nvml.h): sooner, the last values are answered again;
- a refusal may come per metric inside a call that succeeds, and a metric may be NaN;
- MIG instance ids are used again by other instances at once: a sample belongs to an id *and* its profile.
"""

import contextlib
from collections.abc import Callable, Set
from dataclasses import dataclass
from typing import Any, Final

from collectors.nvml_device import FieldValue, GpuError
from collectors.nvml_fields import GPM_METRICS, averaged

SHORTEST_INTERVAL_SECONDS: Final = 0.1
UNSUPPORTED: Final = "no activity of SM, tensor cores and memory (GPM is for Hopper and later, driver 520 on)"
REFUSED: Final = (
    "the driver refuses activity of SM, tensor cores and memory (GPM) to this user or in this mode"
)
_Instance = tuple[int, str]  # id and profile


@dataclass(slots=True)
class _Watch:
    """The two samples of a GPU or MIG instance. `begin` is filled once `began` is set, in seconds."""

    begin: Any
    end: Any
    began: float | None = None
    values: tuple[FieldValue, ...] = ()


class GpmReader:
    """Activity of the GPUs of one opened driver.

    nvml: the module pynvml. ask: calls one of its functions and answers None where the driver refuses; raises
    GpuLost or DriverFailed. clock: in seconds; only its differences are used.
    """

    def __init__(self, nvml: Any, ask: Callable[..., Any], clock: Callable[[], float]) -> None:
        self._nvml = nvml
        self._ask = ask
        self._clock = clock
        self._metrics = [
            (getattr(nvml, name), field) for name, field in GPM_METRICS.items() if hasattr(nvml, name)
        ]
        self._supported: dict[str, bool] = {}
        self._watches: dict[tuple[str, _Instance | None], _Watch] = {}
        self._refused: set[str] = set()

    def read(self, handle: Any, uuid: str, instance: _Instance | None = None) -> tuple[FieldValue, ...]:
        """Averages since this was read last; () where there are none (yet). Raises GpuLost, DriverFailed.

        handle: the GPU's, also for one of its MIG instances.
        """
        if not self._supports(handle, uuid):
            return ()
        key = (uuid, instance)
        watch = self._watches.get(key)
        if watch is None:
            watch = self._new_watch()
            if watch is None:
                return ()
            self._watches[key] = watch
        now = self._clock()
        if watch.began is not None and now - watch.began <= SHORTEST_INTERVAL_SECONDS:
            return watch.values
        if not self._sample(handle, instance, watch.end):
            self._drop(key)  # what comes after a gap begins anew
            self._refused.add(uuid)
            return ()
        self._refused.discard(uuid)
        watch.values = () if watch.began is None else self._averages(watch)
        watch.begin, watch.end, watch.began = watch.end, watch.begin, now
        return watch.values

    def missing(self, uuid: str) -> str:
        """Why the reading of this GPU and its instances, as it is now, has no activity; "" where it has."""
        if not self._supported.get(uuid, True):
            return UNSUPPORTED
        return REFUSED if uuid in self._refused else ""

    def keep(self, uuid: str, instances: Set[_Instance]) -> None:
        """Of this GPU's MIG instances only these are left."""
        gone = [
            key for key in self._watches if key[0] == uuid and key[1] is not None and key[1] not in instances
        ]
        for key in gone:
            self._drop(key)

    def close(self) -> None:
        """Free everything; to be called before NVML is shut down. Never raises."""
        for key in list(self._watches):
            self._drop(key)

    def _supports(self, handle: Any, uuid: str) -> bool:
        """Asked once a GPU: before Hopper, and by drivers before 520, the answer is no."""
        if uuid not in self._supported:
            answer = self._ask(self._nvml.nvmlGpmQueryDeviceSupport, handle)
            self._supported[uuid] = answer is not None and bool(answer.isSupportedDevice)
        return self._supported[uuid]

    def _new_watch(self) -> _Watch | None:
        begin = self._ask(self._nvml.nvmlGpmSampleAlloc)
        if begin is None:
            return None
        end = None
        try:
            end = self._ask(self._nvml.nvmlGpmSampleAlloc)
        finally:
            if end is None:
                self._free(begin)
        return None if end is None else _Watch(begin, end)

    def _sample(self, handle: Any, instance: _Instance | None, sample: Any) -> bool:
        """Fill the sample; False where that is refused (not permitted, not in this MIG mode)."""
        if instance is None:
            return self._ask(self._nvml.nvmlGpmSampleGet, handle, sample) is not None
        return self._ask(self._nvml.nvmlGpmMigSampleGet, handle, instance[0], sample) is not None

    def _averages(self, watch: _Watch) -> tuple[FieldValue, ...]:
        request = self._nvml.c_nvmlGpmMetricsGet_t()
        request.version = self._nvml.NVML_GPM_METRICS_GET_VERSION
        request.numMetrics = len(self._metrics)
        request.sample1, request.sample2 = watch.begin, watch.end
        for place, (number, _) in enumerate(self._metrics):
            request.metrics[place].metricId = number
        if self._ask(self._nvml.nvmlGpmMetricsGet, request) is None:
            return ()
        return tuple(
            value
            for place, (_, field) in enumerate(self._metrics)
            if request.metrics[place].nvmlReturn == self._nvml.NVML_SUCCESS
            for value in averaged(field, request.metrics[place].value)
        )

    def _drop(self, key: tuple[str, _Instance | None]) -> None:
        watch = self._watches.pop(key)
        self._free(watch.begin)
        self._free(watch.end)

    def _free(self, sample: Any) -> None:
        with contextlib.suppress(GpuError):
            self._ask(self._nvml.nvmlGpmSampleFree, sample)
