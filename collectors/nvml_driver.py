"""NVML behind `GpuDevices`: the only module that imports pynvml (distribution nvidia-ml-py), and hands it to
`collectors.nvml_gpm`.

Every field is asked for by itself, so that one refusal (not supported on this model, in MIG mode, in this
container) costs only that field. Most numbers come in one batched call per GPU (`nvmlDeviceGetFieldValues`);
calls that sample for milliseconds are not made at all (see `collectors.nvml_metrics`).

Traps that this module knows:
- a value can be refused *inside* a batch that succeeds, and "unknown" is also said with all bits set;
- driver r545 labels the memory temperature as double though it writes an integer (so did DCGM find);
- NVLink counters are per link unless the scope says "all links": a bare field id reads link 0 only;
- drivers before 510 lack the _v2 memory call and the _v3 process lists, drivers before 535 the event reasons;
- several MIG compute instances of one GPU instance share its memory: it is reported once;
- a process with a compute and a graphics context is in both lists with the same memory: it is reported once.
"""

import contextlib
import ctypes
import re
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any, Final

import pynvml as nvml

from collectors.nvml_device import (
    DriverFailed,
    FieldValue,
    Gpu,
    GpuField,
    GpuLost,
    GpuProcess,
    GpuReading,
    MigInstance,
    NoDriver,
    NotLoaded,
    XidError,
)
from collectors.nvml_fields import ALL_LINKS_FIELDS, BATCH_FIELDS, plausible
from collectors.nvml_gpm import GpmReader

NO_LIBRARY: Final = "no NVIDIA driver on this machine (libnvidia-ml.so.1 not found)"
NOT_LOADED: Final = "the NVIDIA library is installed but its kernel driver is not loaded"
_DRIVER_GONE: Final[dict[int, str]] = {
    nvml.NVML_ERROR_UNINITIALIZED: "the NVIDIA driver was closed under the reader",
    nvml.NVML_ERROR_DRIVER_NOT_LOADED: NOT_LOADED,
    nvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH: (
        "the NVIDIA library and the loaded kernel driver differ in version (the driver was updated while "
        "running): restart Strata, and reboot the machine if this stays"
    ),
    nvml.NVML_ERROR_NO_PERMISSION: (
        "no permission to talk to the NVIDIA driver: let this user or container open /dev/nvidia*"
    ),
}
_GPU_GONE: Final = frozenset(
    {nvml.NVML_ERROR_GPU_IS_LOST, nvml.NVML_ERROR_RESET_REQUIRED, nvml.NVML_ERROR_GPU_NOT_FOUND}
)
_ALL_LINKS: Final = 0xFFFFFFFF  # nvml.h: scopeId UINT_MAX is the sum over all links
_WHOLE_GPU: Final = 0xFFFFFFFF  # nvml.h: the instance id of what is not in MIG mode
_MAX_EVENTS: Final = 1024  # a storm of XIDs must not hold up the reading
_MIG_PROFILE: Final = re.compile(r"\bMIG (?:\d+c\.)?(\S+)")
_VALUE_MEMBERS: Final[dict[int, str]] = {
    nvml.NVML_VALUE_TYPE_DOUBLE: "dVal",
    nvml.NVML_VALUE_TYPE_UNSIGNED_INT: "uiVal",
    nvml.NVML_VALUE_TYPE_UNSIGNED_LONG: "ulVal",
    nvml.NVML_VALUE_TYPE_UNSIGNED_LONG_LONG: "ullVal",
    nvml.NVML_VALUE_TYPE_SIGNED_LONG_LONG: "sllVal",
    nvml.NVML_VALUE_TYPE_SIGNED_INT: "siVal",
    nvml.NVML_VALUE_TYPE_UNSIGNED_SHORT: "usVal",
}
_BATCH: Final = {getattr(nvml, name): field for name, field in BATCH_FIELDS.items() if hasattr(nvml, name)}
_BATCH_REQUESTS: Final = [
    (number, _ALL_LINKS if field in ALL_LINKS_FIELDS else 0) for number, field in _BATCH.items()
]


def open_nvml(clock: Callable[[], float] = time.monotonic) -> "NvmlDriver":
    """Load libnvidia-ml and start it. `clock` is in seconds. Raises NoDriver or DriverFailed."""
    try:
        nvml.nvmlInit()
    except nvml.NVMLError as error:
        if error.value == nvml.NVML_ERROR_LIBRARY_NOT_FOUND:
            # pynvml says "not found" for every failure of dlopen; the loader's own words are in the context.
            why = str(error.__context__ or "")
            if why and "No such file" not in why:
                raise DriverFailed(f"libnvidia-ml.so.1 cannot be loaded: {why}") from error
            raise NoDriver(NO_LIBRARY) from error
        if error.value == nvml.NVML_ERROR_DRIVER_NOT_LOADED:
            raise NotLoaded(NOT_LOADED) from error
        raise DriverFailed(
            _DRIVER_GONE.get(error.value, f"the NVIDIA driver does not start: {error}")
        ) from error
    return NvmlDriver(clock)


class NvmlDriver:
    """An initialised NVML; handles, identities and XID registrations live as long as it does."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self.driver_version = _text(nvml.nvmlSystemGetDriverVersion)
        self._handles: dict[int, Any] = {}
        self._gpus: dict[int, Gpu] = {}
        self._uuid_at: dict[int | None, str] = {}
        self._watched: set[str] = set()
        self._events: Any = _ask(nvml.nvmlEventSetCreate)
        self._activity = GpmReader(nvml, _ask, clock)

    def count(self) -> int:
        try:
            return int(nvml.nvmlDeviceGetCount())
        except nvml.NVMLError as error:
            raise DriverFailed(_DRIVER_GONE.get(error.value, f"the NVIDIA driver failed: {error}")) from error

    def gpu(self, index: int) -> Gpu | None:
        if index in self._gpus:
            return self._gpus[index]
        try:
            handle = nvml.nvmlDeviceGetHandleByIndex(index)
        except nvml.NVMLError as error:
            if error.value == nvml.NVML_ERROR_NO_PERMISSION:
                return None
            _raise_if_gone(error)
            raise GpuLost(str(error)) from error
        gpu = Gpu(
            index=index,
            uuid=_text(nvml.nvmlDeviceGetUUID, handle),
            model=_text(nvml.nvmlDeviceGetName, handle),
            pci_bus_id=_text(lambda h: nvml.nvmlDeviceGetPciInfo(h).busId, handle),
        )
        if not gpu.uuid:
            raise GpuLost("the driver does not give its UUID")
        self._handles[index] = handle
        self._gpus[index] = gpu
        self._uuid_at[_address(handle)] = gpu.uuid
        self._watch(handle, gpu.uuid)
        return gpu

    def read(self, gpu: Gpu) -> GpuReading:
        handle = self._handles[gpu.index]
        values = tuple(_gpu_values(handle))
        if not values:
            raise GpuLost("the driver lists it and answers none of its fields")
        mig_mode = _ask(nvml.nvmlDeviceGetMigMode, handle)
        in_mig_mode = mig_mode is not None and mig_mode[0] == nvml.NVML_DEVICE_MIG_ENABLE
        instances = _instances(handle) if in_mig_mode else ()
        self._activity.keep(gpu.uuid, {(one.instance_id, one.profile) for one in instances})
        activity = self._activity.read(handle, gpu.uuid)
        # After the whole GPU, which may be refused while its instances are not.
        instances = tuple(self._with_activity(handle, gpu.uuid, one) for one in instances)
        return GpuReading(
            values=(*values, *activity),
            instances=instances,
            # In MIG mode the whole-GPU list repeats what the instances list, where it may be read at all.
            processes=() if in_mig_mode else _processes(handle),
            watches_xid=gpu.uuid in self._watched,
            activity_missing=self._activity.missing(gpu.uuid),
        )

    def xids(self) -> tuple[XidError, ...]:
        found: list[XidError] = []
        while self._events is not None and len(found) < _MAX_EVENTS:
            try:
                event = nvml.nvmlEventSetWait_v2(self._events, 0)
            except nvml.NVMLError as error:
                if error.value in _DRIVER_GONE:
                    raise DriverFailed(_DRIVER_GONE[error.value]) from error
                break  # a timeout: no event waits; or a lost GPU, which is reported where it is read
            uuid = self._uuid_at.get(_address(event.device), "")
            if uuid and event.eventType == nvml.nvmlEventTypeXidCriticalError:
                instance = None if event.gpuInstanceId == _WHOLE_GPU else int(event.gpuInstanceId)
                found.append(XidError(uuid, int(event.eventData), instance))
        return tuple(found)

    def close(self) -> None:
        self._activity.close()
        with contextlib.suppress(nvml.NVMLError):
            if self._events is not None:
                nvml.nvmlEventSetFree(self._events)
        with contextlib.suppress(nvml.NVMLError):
            nvml.nvmlShutdown()

    def _with_activity(self, handle: Any, uuid: str, one: MigInstance) -> MigInstance:
        activity = self._activity.read(handle, uuid, (one.instance_id, one.profile))
        return replace(one, values=(*one.values, *activity))

    def _watch(self, handle: Any, uuid: str) -> None:
        wanted = nvml.nvmlEventTypeXidCriticalError
        supported = _ask(nvml.nvmlDeviceGetSupportedEventTypes, handle)
        if self._events is None or supported is None or not supported & wanted:
            return
        try:
            nvml.nvmlDeviceRegisterEvents(handle, wanted, self._events)
        except nvml.NVMLError as error:
            _raise_if_gone(error)
            return  # not on this GPU: the XID series stays absent rather than saying 0
        self._watched.add(uuid)


def _raise_if_gone(error: Any) -> None:
    if error.value in _GPU_GONE:
        raise GpuLost(str(error)) from error
    if error.value in _DRIVER_GONE and error.value != nvml.NVML_ERROR_NO_PERMISSION:
        raise DriverFailed(_DRIVER_GONE[error.value]) from error


def _ask(function: Callable[..., Any], *arguments: Any) -> Any:
    """The answer, or None where the driver refuses it. Raises GpuLost, DriverFailed."""
    try:
        return function(*arguments)
    except nvml.NVMLError as error:
        _raise_if_gone(error)
        return None


def _newest(functions: Sequence[Callable[[Any], Any]], handle: Any) -> Any:
    """`_ask` of the first function that this driver's library has."""
    for function in functions:
        try:
            return function(handle)
        except nvml.NVMLError as error:
            _raise_if_gone(error)
            if error.value != nvml.NVML_ERROR_FUNCTION_NOT_FOUND:
                return None
    return None


def _text(function: Callable[..., Any], *arguments: Any) -> str:
    try:
        answer = _ask(function, *arguments)
    except UnicodeDecodeError:  # pynvml decodes strictly
        return ""
    if isinstance(answer, bytes):
        return answer.decode(errors="replace")
    return str(answer or "")


def _address(handle: Any) -> int | None:
    return ctypes.cast(handle, ctypes.c_void_p).value


def _gpu_values(handle: Any) -> Iterator[FieldValue]:
    for field, function, *arguments in (
        (GpuField.SM_CLOCK_MHZ, nvml.nvmlDeviceGetClockInfo, nvml.NVML_CLOCK_SM),
        (GpuField.MEM_CLOCK_MHZ, nvml.nvmlDeviceGetClockInfo, nvml.NVML_CLOCK_MEM),
        (GpuField.GPU_TEMP_CELSIUS, nvml.nvmlDeviceGetTemperature, nvml.NVML_TEMPERATURE_GPU),
        (GpuField.POWER_MILLIWATTS, nvml.nvmlDeviceGetPowerUsage),
        (GpuField.POWER_LIMIT_MILLIWATTS, nvml.nvmlDeviceGetPowerManagementLimit),
        (GpuField.POWER_LIMIT_DEFAULT_MILLIWATTS, nvml.nvmlDeviceGetPowerManagementDefaultLimit),
        (GpuField.POWER_LIMIT_ENFORCED_MILLIWATTS, nvml.nvmlDeviceGetEnforcedPowerLimit),
        (GpuField.PCIE_LINK_GENERATION, nvml.nvmlDeviceGetCurrPcieLinkGeneration),
        (GpuField.PCIE_LINK_LANES, nvml.nvmlDeviceGetCurrPcieLinkWidth),
        (GpuField.PCIE_MAX_LINK_GENERATION, nvml.nvmlDeviceGetMaxPcieLinkGeneration),
        (GpuField.PCIE_MAX_LINK_LANES, nvml.nvmlDeviceGetMaxPcieLinkWidth),
    ):
        answer = _ask(function, handle, *arguments)
        if answer is not None:
            yield from plausible(field, answer)
    if (rates := _ask(nvml.nvmlDeviceGetUtilizationRates, handle)) is not None:
        yield from plausible(GpuField.GPU_UTIL_PERCENT, rates.gpu)
        yield from plausible(GpuField.MEM_COPY_UTIL_PERCENT, rates.memory)
    if (encoder := _ask(nvml.nvmlDeviceGetEncoderUtilization, handle)) is not None:
        yield from plausible(GpuField.ENC_UTIL_PERCENT, encoder[0])
    if (decoder := _ask(nvml.nvmlDeviceGetDecoderUtilization, handle)) is not None:
        yield from plausible(GpuField.DEC_UTIL_PERCENT, decoder[0])
    if (limits := _ask(nvml.nvmlDeviceGetPowerManagementLimitConstraints, handle)) is not None:
        yield from plausible(GpuField.POWER_LIMIT_MIN_MILLIWATTS, limits[0])
        yield from plausible(GpuField.POWER_LIMIT_MAX_MILLIWATTS, limits[1])
    reasons = _newest(
        (nvml.nvmlDeviceGetCurrentClocksEventReasons, nvml.nvmlDeviceGetCurrentClocksThrottleReasons), handle
    )
    if reasons is not None:
        yield from plausible(GpuField.CLOCK_EVENT_REASONS_MASK, reasons)
    yield from _memory(handle)
    for answer in _batch(handle, _BATCH_REQUESTS):
        yield from _batched(answer)


def _memory(handle: Any) -> Iterator[FieldValue]:
    memory = _newest(
        (lambda h: nvml.nvmlDeviceGetMemoryInfo(h, nvml.nvmlMemory_v2), nvml.nvmlDeviceGetMemoryInfo), handle
    )
    if memory is None:
        return
    yield from plausible(GpuField.FB_FREE_BYTES, memory.free)
    yield from plausible(GpuField.FB_USED_BYTES, memory.used)
    if hasattr(memory, "reserved"):  # version 1 counts the reserve as used
        yield from plausible(GpuField.FB_RESERVED_BYTES, memory.reserved)


def _batch(handle: Any, requests: Sequence[tuple[int, int]]) -> list[Any]:
    try:
        return list(nvml.nvmlDeviceGetFieldValues(handle, requests))
    except nvml.NVMLError as error:
        _raise_if_gone(error)
    # An old driver may refuse the whole batch for one field that it does not know.
    return [] if len(requests) == 1 else [value for one in requests for value in _batch(handle, [one])]


def _batched(answer: Any) -> Iterator[FieldValue]:
    field = _BATCH.get(answer.fieldId)
    if field is None or answer.nvmlReturn != nvml.NVML_SUCCESS:
        return
    member = _VALUE_MEMBERS.get(answer.valueType)
    if field is GpuField.MEMORY_TEMP_CELSIUS:
        member = "uiVal"
    if member is not None and hasattr(answer.value, member):  # pynvml before 12.570 has no usVal
        yield from plausible(field, getattr(answer.value, member))


def _instances(handle: Any) -> tuple[MigInstance, ...]:
    found: dict[int, MigInstance] = {}
    for index in range(_ask(nvml.nvmlDeviceGetMaxMigDeviceCount, handle) or 0):
        device = _ask(nvml.nvmlDeviceGetMigDeviceHandleByIndex, handle, index)
        instance_id = None if device is None else _ask(nvml.nvmlDeviceGetGpuInstanceId, device)
        if instance_id is None:
            continue  # a slot that no instance fills
        processes = _processes(device)
        if (earlier := found.get(instance_id)) is not None:
            found[instance_id] = replace(earlier, processes=(*earlier.processes, *processes))
            continue
        profile = _MIG_PROFILE.search(_text(nvml.nvmlDeviceGetName, device))
        found[instance_id] = MigInstance(
            instance_id=int(instance_id),
            profile=profile.group(1) if profile else "",
            values=tuple(_memory(device)),
            processes=processes,
        )
    return tuple(found.values())


def _processes(handle: Any) -> tuple[GpuProcess, ...]:
    compute = _newest(
        (nvml.nvmlDeviceGetComputeRunningProcesses_v3, nvml.nvmlDeviceGetComputeRunningProcesses_v2), handle
    )
    # Clients of an MPS server are in a list of their own.
    shared = _newest(
        (nvml.nvmlDeviceGetMPSComputeRunningProcesses_v3, nvml.nvmlDeviceGetMPSComputeRunningProcesses_v2),
        handle,
    )
    graphics = _newest(
        (nvml.nvmlDeviceGetGraphicsRunningProcesses_v3, nvml.nvmlDeviceGetGraphicsRunningProcesses_v2), handle
    )
    found: dict[int, GpuProcess] = {}
    for one in [*(compute or ()), *(shared or ())]:
        found.setdefault(one.pid, GpuProcess(one.pid, "compute", one.usedGpuMemory))
    for one in graphics or ():
        found.setdefault(one.pid, GpuProcess(one.pid, "graphics", one.usedGpuMemory))
    return tuple(found.values())
