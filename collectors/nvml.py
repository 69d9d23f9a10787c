"""NVIDIA GPUs without an exporter: what NVML knows, published as dcgm-exporter (before 4.9) would.

A GPU that a scraped target already exposes is left to it (`suppressed_uuids`), so that nothing is counted
twice; only the processes on it, which dcgm-exporter does not publish, still come from here. One GPU that
stops answering costs its own readings only: it is reported by `strata_gpu_up` 0 and the driver is opened
again, which a reset GPU needs. MIG instances are rows beside their GPU's own row, as in the exporter: a sum
over a family would count memory twice.
"""

import logging
import os
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final

from collectors.nvml_device import (
    FieldValue,
    Gpu,
    GpuDevices,
    GpuError,
    GpuField,
    GpuLost,
    GpuProcess,
    GpuReading,
    MigInstance,
    NoDriver,
    NotLoaded,
)
from collectors.nvml_driver import open_nvml
from collectors.nvml_metrics import GPU_UP, METRICS, NVLINK_BANDWIDTH, PROCESS_MEMORY, XID_ERRORS, Metric
from collectors.nvml_processes import describe
from collectors.types import CollectFailed, Family, LabelPairs, NoData, Sample, Unsupported

log = logging.getLogger(__name__)

REOPEN_EVERY: Final = 20  # readings with a lost GPU between two attempts to open the driver anew
_KIB_PER_MEGABYTE: Final = 1000  # DCGM's own: its "MB/s" is KiB/s divided by 1000
_NVIDIA_VENDOR: Final = "10de"
_PAGE_ORDER: Final = (GPU_UP, *METRICS.values(), XID_ERRORS, NVLINK_BANDWIDTH, PROCESS_MEMORY)


class NvmlCollector:
    """Collector of the NVIDIA GPUs of this machine.

    `open_devices` opens the driver, at the first reading and in the process that reads (NVML does not survive
    a fork). `proc` is where /proc is mounted. `clock` is in seconds and only its differences are used.
    `tell_models` is told the names of the GPUs that this process sees, those of suppressed ones too.
    """

    name = "nvml"
    job = "nvml"

    def __init__(
        self,
        hostname: str,
        *,
        open_devices: Callable[[], GpuDevices] = open_nvml,
        proc: Path = Path("/proc"),
        suppressed_uuids: Callable[[], frozenset[str]] = frozenset,
        clock: Callable[[], float] = time.monotonic,
        tell_models: Callable[[Iterable[str]], None] = lambda _models: None,
    ) -> None:
        self._hostname = hostname
        self._open_devices = open_devices
        self._proc = proc
        self._suppressed_uuids = suppressed_uuids
        self._clock = clock
        self._tell_models = tell_models
        self._busy = threading.Lock()
        self._devices: GpuDevices | None = None
        self._opened_by = 0
        self._seen: dict[str, Gpu] = {}
        self._lost: dict[str, str] = {}
        self._readings_since_open = 0
        self._xids: dict[tuple[str, int | None], int] = {}
        self._link_counters: dict[str, tuple[float, float]] = {}
        self.note = ""
        self.trouble = ""

    def collect(self) -> tuple[Family, ...]:
        """Read every GPU once. Raises Unsupported, NoData, CollectFailed."""
        if not self._busy.acquire(blocking=False):
            raise CollectFailed("the NVIDIA driver hangs: it has not answered the reading before (see dmesg)")
        try:
            return self._collect()
        except GpuError as error:
            self._close()
            raise CollectFailed(str(error)) from error
        finally:
            self._busy.release()

    def _collect(self) -> tuple[Family, ...]:
        devices = self._opened()
        suppressed = self._suppressed_uuids()
        count = devices.count()
        if count == 0 and not self._seen:
            raise NoData("the NVIDIA driver answers and lists no GPU")
        for xid in devices.xids():
            self._xids[xid.uuid, xid.instance_id] = xid.code
        page = _Page(self._hostname, devices.driver_version)
        lost: dict[str, str] = {}
        nameless: dict[int, str] = {}
        found: set[str] = set()
        missing: dict[str, list[int]] = defaultdict(list)
        for index in range(count):
            try:
                gpu = devices.gpu(index)
            except GpuLost as error:
                nameless[index] = str(error)
                continue
            if gpu is None:
                continue
            self._tell_models((gpu.model,))
            if gpu.uuid in suppressed:
                self._add_processes_alone(page, gpu, devices)
                continue
            found.add(gpu.uuid)
            self._seen[gpu.uuid] = gpu
            try:
                reading = devices.read(gpu)
            except GpuLost as error:
                lost[gpu.uuid] = str(error)
                continue
            self._add(page, gpu, reading)
            if reading.activity_missing:
                missing[reading.activity_missing].append(index)
        for uuid, gpu in self._seen.items():
            if uuid in found:
                continue
            reason = nameless.pop(gpu.index, "the driver no longer lists it")
            if uuid not in suppressed:
                lost[uuid] = reason
        for uuid in lost:
            labels = page.gpu_labels(self._seen[uuid])
            page.add(GPU_UP, labels, 0)
            if (uuid, None) in self._xids:  # often the very reason
                page.add(XID_ERRORS, labels, self._xids[uuid, None])
        for index in nameless:
            page.add(GPU_UP, page.gpu_labels(Gpu(index, "", "", "")), 0)
        self._note(lost | {f"gpu {index}": reason for index, reason in nameless.items()})
        self.note = "; ".join(
            f"GPU {', '.join(map(str, which))}: {reason}" for reason, which in missing.items()
        )
        families = page.families()
        if not families:
            raise NoData(
                f"{count} GPU: each is exposed by a scraped target already and runs nothing, or is hidden "
                "from this process"
            )
        return families

    def _opened(self) -> GpuDevices:
        if self._devices is not None and self._opened_by != os.getpid():
            self._devices = None  # inherited through a fork: unusable here, and not ours to close
        if self._devices is None:
            try:
                self._devices = self._open_devices()
            except NoDriver as error:
                if self._seen:
                    raise CollectFailed(f"{error}, and it answered before") from error
                if isinstance(error, NotLoaded) and _has_nvidia_device(self._proc):
                    raise CollectFailed(
                        f"{error}: modprobe nvidia, and see dmesg for why it is not"
                    ) from error
                raise Unsupported(str(error)) from error
            self._opened_by = os.getpid()
            self._readings_since_open = 0
        return self._devices

    def _close(self) -> None:
        if self._devices is not None:
            self._devices.close()
            self._devices = None

    def _note(self, lost: dict[str, str]) -> None:
        """Say what changed, and open the driver anew where that may bring a GPU back."""
        self._readings_since_open += 1
        for who in lost.keys() - self._lost.keys():
            log.warning("GPU %s does not answer: %s", who, lost[who])
        for who in self._lost.keys() - lost.keys():
            log.info("GPU %s answers again", who)
        if lost and (lost.keys() != self._lost.keys() or self._readings_since_open >= REOPEN_EVERY):
            self._close()
        self._lost = lost

    def _add(self, page: "_Page", gpu: Gpu, reading: GpuReading) -> None:
        labels = page.gpu_labels(gpu)
        page.add(GPU_UP, labels, 1)
        page.add_values(labels, reading.values)
        self._add_link_rate(page, labels, gpu.uuid, reading.values)
        if reading.watches_xid:
            page.add(XID_ERRORS, labels, self._xids.get((gpu.uuid, None), 0))
        self._add_processes(page, gpu, None, reading.processes)
        for instance in reading.instances:
            labels = page.gpu_labels(gpu, instance)
            page.add_values(labels, instance.values)
            if reading.watches_xid:
                page.add(XID_ERRORS, labels, self._xids.get((gpu.uuid, instance.instance_id), 0))
            self._add_processes(page, gpu, instance, instance.processes)

    def _add_processes_alone(self, page: "_Page", gpu: Gpu, devices: GpuDevices) -> None:
        """What a scraped exporter leaves out of a GPU that it reports; that it is lost, it says itself."""
        try:
            reading = devices.read(gpu)
        except GpuLost:
            return
        self._add_processes(page, gpu, None, reading.processes)
        for instance in reading.instances:
            self._add_processes(page, gpu, instance, instance.processes)

    def _add_link_rate(
        self, page: "_Page", labels: LabelPairs, uuid: str, values: tuple[FieldValue, ...]
    ) -> None:
        both = (GpuField.NVLINK_DATA_TRANSMITTED_KIB, GpuField.NVLINK_DATA_RECEIVED_KIB)
        counters = [one.value for one in values if one.field in both]
        if len(counters) != len(both):
            return
        now, total = self._clock(), sum(counters)
        then, before = self._link_counters.get(uuid, (now, total))
        self._link_counters[uuid] = (now, total)
        if now > then and total >= before:  # a smaller total is a reset, not traffic
            page.add(NVLINK_BANDWIDTH, labels, (total - before) / (now - then) / _KIB_PER_MEGABYTE)

    def _add_processes(
        self, page: "_Page", gpu: Gpu, instance: MigInstance | None, processes: tuple[GpuProcess, ...]
    ) -> None:
        for process in processes:
            if process.memory_bytes is None:
                continue
            owner = describe(process.pid, self._proc)
            labels = [("gpu", str(gpu.index)), ("UUID", gpu.uuid), ("pid", str(process.pid))]
            labels += [("user", owner.user), ("command", owner.command), ("type", process.kind)]
            if instance is not None:
                labels.append(("GPU_I_ID", str(instance.instance_id)))
            page.add(PROCESS_MEMORY, tuple(pair for pair in labels if pair[1]), process.memory_bytes)


def _has_nvidia_device(proc: Path) -> bool:
    """Does the PCI bus hold a device of vendor 10de? Not knowing is no."""
    try:
        lines = (proc / "bus/pci/devices").read_text(errors="replace").splitlines()
    except OSError:
        return False
    return any(line.partition("\t")[2].startswith(_NVIDIA_VENDOR) for line in lines)


class _Page:
    """The families of one reading, in the exporter's order and with its labels in its order."""

    def __init__(self, hostname: str, driver_version: str) -> None:
        self._host = (("Hostname", hostname), ("DCGM_FI_DRIVER_VERSION", driver_version))
        self._samples: dict[str, list[Sample]] = defaultdict(list)

    def gpu_labels(self, gpu: Gpu, instance: MigInstance | None = None) -> LabelPairs:
        """Labels as dcgm-exporter prints them; one that is not known is left out."""
        labels = [
            ("gpu", str(gpu.index)),
            ("UUID", gpu.uuid),
            ("pci_bus_id", gpu.pci_bus_id),
            ("device", f"nvidia{gpu.index}"),
            ("modelName", gpu.model),
        ]
        if instance is not None:
            labels += [("GPU_I_PROFILE", instance.profile), ("GPU_I_ID", str(instance.instance_id))]
        return tuple(pair for pair in (*labels, *self._host) if pair[1])

    def add(self, metric: Metric, labels: LabelPairs, value: float) -> None:
        self._samples[metric.name].append(Sample(metric.name, labels, value / metric.divisor))

    def add_values(self, labels: LabelPairs, values: tuple[FieldValue, ...]) -> None:
        for one in values:
            if (metric := METRICS.get(one.field)) is not None:
                self.add(metric, labels, one.value)

    def families(self) -> tuple[Family, ...]:
        return tuple(
            Family(metric.name, metric.type, metric.help, tuple(self._samples[metric.name]))
            for metric in _PAGE_ORDER
            if metric.name in self._samples
        )
