"""What a GPU driver can be asked, without naming the library that answers.

The collector speaks only to `GpuDevices`; `collectors.nvml_driver` implements it with NVML and
`tests/fakes_nvml.py` without any GPU. Values stay in the driver's own units (the field's name says
which); `collectors.nvml_metrics` turns them into the exporter's units in one table. GPM (the
DCGM_FI_PROF_* ratios of Hopper and later) is more fields of the same kind, averages since the reading
before, read by `collectors.nvml_gpm`.

Error tree::

    GpuError
    +-- NoDriver       this machine has no NVIDIA driver; there is nothing to mend here
    |   +-- NotLoaded  its library is installed and the kernel part is not running
    +-- DriverFailed   the driver is there and does not answer; open it again at the next reading
    +-- GpuLost        this one GPU does not answer (fell off the bus, needs a reset); the others do
"""

from dataclasses import dataclass
from enum import Enum, auto
from typing import Literal, Protocol

MIB = 1024 * 1024


class GpuField(Enum):
    """One number that a driver may know about a GPU or a MIG instance; the name ends in its unit."""

    SM_CLOCK_MHZ = auto()
    MEM_CLOCK_MHZ = auto()
    MEMORY_TEMP_CELSIUS = auto()
    GPU_TEMP_CELSIUS = auto()
    POWER_MILLIWATTS = auto()
    ENERGY_MILLIJOULES = auto()
    PCIE_REPLAYS = auto()
    GPU_UTIL_PERCENT = auto()
    MEM_COPY_UTIL_PERCENT = auto()
    ENC_UTIL_PERCENT = auto()
    DEC_UTIL_PERCENT = auto()
    FB_FREE_BYTES = auto()
    FB_USED_BYTES = auto()
    FB_RESERVED_BYTES = auto()
    POWER_LIMIT_MILLIWATTS = auto()
    POWER_LIMIT_MIN_MILLIWATTS = auto()
    POWER_LIMIT_MAX_MILLIWATTS = auto()
    POWER_LIMIT_DEFAULT_MILLIWATTS = auto()
    POWER_LIMIT_ENFORCED_MILLIWATTS = auto()
    CLOCK_EVENT_REASONS_MASK = auto()
    POWER_VIOLATION_NANOSECONDS = auto()
    THERMAL_VIOLATION_NANOSECONDS = auto()
    SYNC_BOOST_VIOLATION_NANOSECONDS = auto()
    BOARD_LIMIT_VIOLATION_NANOSECONDS = auto()
    LOW_UTIL_VIOLATION_NANOSECONDS = auto()
    RELIABILITY_VIOLATION_NANOSECONDS = auto()
    SW_THERMAL_SLOWDOWN_NANOSECONDS = auto()
    HW_THERMAL_SLOWDOWN_NANOSECONDS = auto()
    HW_POWER_BRAKE_NANOSECONDS = auto()
    ECC_SINGLE_VOLATILE_ERRORS = auto()
    ECC_DOUBLE_VOLATILE_ERRORS = auto()
    ECC_SINGLE_AGGREGATE_ERRORS = auto()
    ECC_DOUBLE_AGGREGATE_ERRORS = auto()
    RETIRED_SINGLE_PAGES = auto()
    RETIRED_DOUBLE_PAGES = auto()
    RETIRED_PENDING_FLAG = auto()
    REMAPPED_UNCORRECTABLE_ROWS = auto()
    REMAPPED_CORRECTABLE_ROWS = auto()
    REMAP_FAILURE_FLAG = auto()
    REMAP_PENDING_FLAG = auto()
    PCIE_LINK_GENERATION = auto()
    PCIE_LINK_LANES = auto()
    PCIE_MAX_LINK_GENERATION = auto()
    PCIE_MAX_LINK_LANES = auto()
    NVLINK_CRC_FLIT_ERRORS = auto()
    NVLINK_CRC_DATA_ERRORS = auto()
    NVLINK_REPLAY_ERRORS = auto()
    NVLINK_RECOVERY_ERRORS = auto()
    NVLINK_DL_CRC_ERRORS = auto()
    NVLINK_DL_REPLAY_ERRORS = auto()
    NVLINK_DL_RECOVERY_ERRORS = auto()
    NVLINK_RECEIVE_ERRORS = auto()
    NVLINK_SYMBOL_ERRORS = auto()
    NVLINK_EFFECTIVE_ERRORS = auto()
    NVLINK_INTEGRITY_ERRORS = auto()
    NVLINK_TRANSMIT_DISCARDS = auto()
    NVLINK_LINK_RECOVERIES = auto()
    NVLINK_FAILED_LINK_RECOVERIES = auto()
    NVLINK_TRANSMITTED_BYTES = auto()
    NVLINK_RECEIVED_BYTES = auto()
    NVLINK_DATA_TRANSMITTED_KIB = auto()
    NVLINK_DATA_RECEIVED_KIB = auto()
    RECOVERY_ACTION_CODE = auto()
    GPM_GRAPHICS_PERCENT = auto()
    GPM_SM_PERCENT = auto()
    GPM_OCCUPANCY_PERCENT = auto()
    GPM_TENSOR_PERCENT = auto()
    GPM_DRAM_PERCENT = auto()
    GPM_FP64_PERCENT = auto()
    GPM_FP32_PERCENT = auto()
    GPM_FP16_PERCENT = auto()
    GPM_PCIE_TRANSMITTED_MIB_PER_SECOND = auto()
    GPM_PCIE_RECEIVED_MIB_PER_SECOND = auto()
    GPM_NVLINK_TRANSMITTED_MIB_PER_SECOND = auto()
    GPM_NVLINK_RECEIVED_MIB_PER_SECOND = auto()


@dataclass(frozen=True, slots=True)
class Gpu:
    """Who a GPU is: fixed until the driver is opened again. `index` is NVML's (PCI bus order)."""

    index: int
    uuid: str
    model: str
    pci_bus_id: str


@dataclass(frozen=True, slots=True)
class FieldValue:
    """A field that the driver answered. A field it cannot answer has no record at all, never a 0."""

    field: GpuField
    value: float


@dataclass(frozen=True, slots=True)
class GpuProcess:
    """A process with a context on the GPU; `memory_bytes` is None where the driver will not say."""

    pid: int
    kind: Literal["compute", "graphics"]
    memory_bytes: int | None


@dataclass(frozen=True, slots=True)
class MigInstance:
    """One MIG GPU instance, e.g. id 9 of profile "1g.10gb", with what is known of it alone."""

    instance_id: int
    profile: str
    values: tuple[FieldValue, ...]
    processes: tuple[GpuProcess, ...]


@dataclass(frozen=True, slots=True)
class GpuReading:
    """One look at one GPU. `watches_xid`: the driver reports XID errors of this GPU as events.
    `activity_missing`: why there is no GPM field among the values, "" where there is or will be.
    """

    values: tuple[FieldValue, ...]
    instances: tuple[MigInstance, ...]
    processes: tuple[GpuProcess, ...]
    watches_xid: bool
    activity_missing: str = ""


@dataclass(frozen=True, slots=True)
class XidError:
    """An XID that the driver reported; `instance_id` where it hit one MIG instance only."""

    uuid: str
    code: int
    instance_id: int | None


class GpuError(Exception):
    """Root of what a `GpuDevices` raises on purpose; the message is a sentence for the user."""


class NoDriver(GpuError):
    """There is no NVIDIA driver on this machine."""


class NotLoaded(NoDriver):
    """The driver's library is installed; its kernel part is not running."""


class DriverFailed(GpuError):
    """The driver is installed and does not answer."""


class GpuLost(GpuError):
    """The driver answers, but not for this GPU."""


class GpuDevices(Protocol):
    """An opened driver. Every method may block, and may raise DriverFailed."""

    driver_version: str

    def count(self) -> int:
        """How many GPUs the driver lists, the unreadable ones among them."""
        ...

    def gpu(self, index: int) -> Gpu | None:
        """Who GPU `index` is; None where this process may not see it. Raises GpuLost."""
        ...

    def read(self, gpu: Gpu) -> GpuReading:
        """What the driver knows of it now. Raises GpuLost."""
        ...

    def xids(self) -> tuple[XidError, ...]:
        """XID errors reported since the last call, oldest first; does not wait."""
        ...

    def close(self) -> None:
        """Give the driver back; never raises."""
        ...
