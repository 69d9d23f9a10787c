"""The exposition of each GPU field: dcgm-exporter's name, type, help and unit before its 4.9 renames.

Names, types and help texts of the default set are those of dcgm-exporter's default-counters.csv (Apache-2.0)
as genuine pages print them; the rest are DCGM's field names. Two are odd on purpose, as in the original:
NVLINK_BANDWIDTH_TOTAL is typed counter and is a rate, and row remap failure is a 0/1 gauge.
CLOCKS_EVENT_REASONS is the one spelling that every DCGM since 3.3 accepts (CLOCK_THROTTLE_REASONS is its
old alias), so it alone is published.

The DCGM_FI_PROF_* of GPM are averages between two readings: ratios of 0 to 1, and bytes a second where GPM
itself has MiB a second (nvml.h).

Left out, with the reason: PCIe throughput of GPUs before Hopper (NVML sleeps 20 ms in each of two calls per
GPU to sample it, and its cheap counter wraps at an undocumented width); the vGPU licence state (5 kB per GPU
for a constant 0).
"""

from dataclasses import dataclass
from typing import Final

from collectors.nvml_device import MIB, GpuField
from collectors.types import MetricType


@dataclass(frozen=True, slots=True)
class Metric:
    """`value = raw / divisor`; whole MiB are not forced, so that free + used + reserved stays the total."""

    name: str
    type: MetricType
    help: str
    divisor: float = 1


XID_ERRORS: Final = Metric("DCGM_FI_DEV_XID_ERRORS", "gauge", "Value of the last XID error encountered.")
NVLINK_BANDWIDTH: Final = Metric(
    "DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL",
    "counter",
    "Total number of NVLink bandwidth counters for all lanes.",
)
GPU_UP: Final = Metric(
    "strata_gpu_up",
    "gauge",
    "1 while the driver answers for this GPU, 0 while it reports it lost or in need of a reset.",
)
PROCESS_MEMORY: Final = Metric(
    "strata_gpu_process_memory_bytes", "gauge", "GPU memory held by a process, as the driver accounts it."
)

# fmt: off
METRICS: Final[dict[GpuField, Metric]] = {
    GpuField.SM_CLOCK_MHZ: Metric("DCGM_FI_DEV_SM_CLOCK", "gauge", "SM clock frequency (in MHz)."),
    GpuField.MEM_CLOCK_MHZ: Metric("DCGM_FI_DEV_MEM_CLOCK", "gauge", "Memory clock frequency (in MHz)."),
    GpuField.MEMORY_TEMP_CELSIUS: Metric("DCGM_FI_DEV_MEMORY_TEMP", "gauge", "Memory temperature (in C)."),
    GpuField.GPU_TEMP_CELSIUS: Metric("DCGM_FI_DEV_GPU_TEMP", "gauge", "GPU temperature (in C)."),
    GpuField.POWER_MILLIWATTS: Metric("DCGM_FI_DEV_POWER_USAGE", "gauge", "Power draw (in W).", 1000),
    GpuField.ENERGY_MILLIJOULES: Metric(
        "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", "counter", "Total energy consumption since boot (in mJ)."),
    GpuField.PCIE_REPLAYS: Metric(
        "DCGM_FI_DEV_PCIE_REPLAY_COUNTER", "counter", "Total number of PCIe retries."),
    GpuField.GPU_UTIL_PERCENT: Metric("DCGM_FI_DEV_GPU_UTIL", "gauge", "GPU utilization (in %)."),
    GpuField.MEM_COPY_UTIL_PERCENT: Metric(
        "DCGM_FI_DEV_MEM_COPY_UTIL", "gauge", "Memory utilization (in %)."),
    GpuField.ENC_UTIL_PERCENT: Metric("DCGM_FI_DEV_ENC_UTIL", "gauge", "Encoder utilization (in %)."),
    GpuField.DEC_UTIL_PERCENT: Metric("DCGM_FI_DEV_DEC_UTIL", "gauge", "Decoder utilization (in %)."),
    GpuField.FB_FREE_BYTES: Metric("DCGM_FI_DEV_FB_FREE", "gauge", "Framebuffer memory free (in MiB).", MIB),
    GpuField.FB_USED_BYTES: Metric("DCGM_FI_DEV_FB_USED", "gauge", "Framebuffer memory used (in MiB).", MIB),
    GpuField.FB_RESERVED_BYTES: Metric(
        "DCGM_FI_DEV_FB_RESERVED", "gauge", "Framebuffer memory reserved (in MiB).", MIB),
    GpuField.POWER_LIMIT_MILLIWATTS: Metric(
        "DCGM_FI_DEV_POWER_MGMT_LIMIT", "gauge", "Power limit that was asked for (in W).", 1000),
    GpuField.POWER_LIMIT_MIN_MILLIWATTS: Metric(
        "DCGM_FI_DEV_POWER_MGMT_LIMIT_MIN", "gauge", "Lowest power limit that can be set (in W).", 1000),
    GpuField.POWER_LIMIT_MAX_MILLIWATTS: Metric(
        "DCGM_FI_DEV_POWER_MGMT_LIMIT_MAX", "gauge", "Highest power limit that can be set (in W).", 1000),
    GpuField.POWER_LIMIT_DEFAULT_MILLIWATTS: Metric(
        "DCGM_FI_DEV_POWER_MGMT_LIMIT_DEF", "gauge", "Default power limit (in W).", 1000),
    GpuField.POWER_LIMIT_ENFORCED_MILLIWATTS: Metric(
        "DCGM_FI_DEV_ENFORCED_POWER_LIMIT", "gauge",
        "Power limit in force, the lowest of all limiters (in W).", 1000),
    GpuField.CLOCK_EVENT_REASONS_MASK: Metric(
        "DCGM_FI_DEV_CLOCKS_EVENT_REASONS", "gauge", "Bit mask of what holds the clocks down now."),
    GpuField.POWER_VIOLATION_NANOSECONDS: Metric(
        "DCGM_FI_DEV_POWER_VIOLATION", "counter", "Throttling duration due to power constraints (in ns)."),
    GpuField.THERMAL_VIOLATION_NANOSECONDS: Metric(
        "DCGM_FI_DEV_THERMAL_VIOLATION", "counter",
        "Throttling duration due to thermal constraints (in ns)."),
    GpuField.SYNC_BOOST_VIOLATION_NANOSECONDS: Metric(
        "DCGM_FI_DEV_SYNC_BOOST_VIOLATION", "counter",
        "Throttling duration due to sync-boost constraints (in ns)."),
    GpuField.BOARD_LIMIT_VIOLATION_NANOSECONDS: Metric(
        "DCGM_FI_DEV_BOARD_LIMIT_VIOLATION", "counter",
        "Throttling duration due to board limit constraints (in ns)."),
    GpuField.LOW_UTIL_VIOLATION_NANOSECONDS: Metric(
        "DCGM_FI_DEV_LOW_UTIL_VIOLATION", "counter", "Throttling duration due to low utilization (in ns)."),
    GpuField.RELIABILITY_VIOLATION_NANOSECONDS: Metric(
        "DCGM_FI_DEV_RELIABILITY_VIOLATION", "counter",
        "Throttling duration due to reliability constraints (in ns)."),
    GpuField.SW_THERMAL_SLOWDOWN_NANOSECONDS: Metric(
        "DCGM_FI_DEV_CLOCKS_EVENT_REASON_SW_THERM_SLOWDOWN_NS", "counter",
        "Time held back by software to keep GPU and memory under their operating temperature (in ns)."),
    GpuField.HW_THERMAL_SLOWDOWN_NANOSECONDS: Metric(
        "DCGM_FI_DEV_CLOCKS_EVENT_REASON_HW_THERM_SLOWDOWN_NS", "counter",
        "Time held back by hardware because it was too hot (in ns)."),
    GpuField.HW_POWER_BRAKE_NANOSECONDS: Metric(
        "DCGM_FI_DEV_CLOCKS_EVENT_REASON_HW_POWER_BRAKE_SLOWDOWN_NS", "counter",
        "Time held back by the external power brake (in ns)."),
    GpuField.ECC_SINGLE_VOLATILE_ERRORS: Metric(
        "DCGM_FI_DEV_ECC_SBE_VOL_TOTAL", "counter", "Total number of single-bit volatile ECC errors."),
    GpuField.ECC_DOUBLE_VOLATILE_ERRORS: Metric(
        "DCGM_FI_DEV_ECC_DBE_VOL_TOTAL", "counter", "Total number of double-bit volatile ECC errors."),
    GpuField.ECC_SINGLE_AGGREGATE_ERRORS: Metric(
        "DCGM_FI_DEV_ECC_SBE_AGG_TOTAL", "counter", "Total number of single-bit persistent ECC errors."),
    GpuField.ECC_DOUBLE_AGGREGATE_ERRORS: Metric(
        "DCGM_FI_DEV_ECC_DBE_AGG_TOTAL", "counter", "Total number of double-bit persistent ECC errors."),
    GpuField.RETIRED_SINGLE_PAGES: Metric(
        "DCGM_FI_DEV_RETIRED_SBE", "counter", "Total number of retired pages due to single-bit errors."),
    GpuField.RETIRED_DOUBLE_PAGES: Metric(
        "DCGM_FI_DEV_RETIRED_DBE", "counter", "Total number of retired pages due to double-bit errors."),
    GpuField.RETIRED_PENDING_FLAG: Metric(
        "DCGM_FI_DEV_RETIRED_PENDING", "counter", "Total number of pages pending retirement."),
    GpuField.REMAPPED_UNCORRECTABLE_ROWS: Metric(
        "DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS", "counter",
        "Number of remapped rows for uncorrectable errors"),
    GpuField.REMAPPED_CORRECTABLE_ROWS: Metric(
        "DCGM_FI_DEV_CORRECTABLE_REMAPPED_ROWS", "counter", "Number of remapped rows for correctable errors"),
    GpuField.REMAP_FAILURE_FLAG: Metric(
        "DCGM_FI_DEV_ROW_REMAP_FAILURE", "gauge", "Whether remapping of rows has failed"),
    GpuField.REMAP_PENDING_FLAG: Metric(
        "DCGM_FI_DEV_ROW_REMAP_PENDING", "gauge", "Whether remapping of rows is pending."),
    GpuField.PCIE_LINK_GENERATION: Metric(
        "DCGM_FI_DEV_PCIE_LINK_GEN", "gauge", "PCIe generation of the link now."),
    GpuField.PCIE_LINK_LANES: Metric("DCGM_FI_DEV_PCIE_LINK_WIDTH", "gauge", "PCIe lanes of the link now."),
    GpuField.PCIE_MAX_LINK_GENERATION: Metric(
        "DCGM_FI_DEV_PCIE_MAX_LINK_GEN", "gauge", "Highest PCIe generation of GPU and slot."),
    GpuField.PCIE_MAX_LINK_LANES: Metric(
        "DCGM_FI_DEV_PCIE_MAX_LINK_WIDTH", "gauge", "Most PCIe lanes of GPU and slot."),
    GpuField.NVLINK_CRC_FLIT_ERRORS: Metric(
        "DCGM_FI_DEV_NVLINK_CRC_FLIT_ERROR_COUNT_TOTAL", "counter",
        "Total number of NVLink flow-control CRC errors."),
    GpuField.NVLINK_CRC_DATA_ERRORS: Metric(
        "DCGM_FI_DEV_NVLINK_CRC_DATA_ERROR_COUNT_TOTAL", "counter",
        "Total number of NVLink data CRC errors."),
    GpuField.NVLINK_REPLAY_ERRORS: Metric(
        "DCGM_FI_DEV_NVLINK_REPLAY_ERROR_COUNT_TOTAL", "counter", "Total number of NVLink retries."),
    GpuField.NVLINK_RECOVERY_ERRORS: Metric(
        "DCGM_FI_DEV_NVLINK_RECOVERY_ERROR_COUNT_TOTAL", "counter",
        "Total number of NVLink recovery errors."),
    GpuField.NVLINK_DL_CRC_ERRORS: Metric(
        "DCGM_FI_DEV_NVLINK_ERROR_DL_CRC", "counter", "NVLink data-link CRC errors over all links."),
    GpuField.NVLINK_DL_REPLAY_ERRORS: Metric(
        "DCGM_FI_DEV_NVLINK_ERROR_DL_REPLAY", "counter", "NVLink data-link replays over all links."),
    GpuField.NVLINK_DL_RECOVERY_ERRORS: Metric(
        "DCGM_FI_DEV_NVLINK_ERROR_DL_RECOVERY", "counter", "NVLink data-link recoveries over all links."),
    GpuField.NVLINK_RECEIVE_ERRORS: Metric(
        "DCGM_FI_DEV_NVLINK_COUNT_RX_ERRORS", "counter",
        "Packets received with an error over all NVLinks, from NVLink 5 on."),
    GpuField.NVLINK_SYMBOL_ERRORS: Metric(
        "DCGM_FI_DEV_NVLINK_COUNT_RX_SYMBOL_ERRORS", "counter",
        "Symbol errors received over all NVLinks, from NVLink 5 on."),
    GpuField.NVLINK_EFFECTIVE_ERRORS: Metric(
        "DCGM_FI_DEV_NVLINK_COUNT_EFFECTIVE_ERRORS", "counter",
        "Errors that error correction left over, over all NVLinks, from NVLink 5 on."),
    GpuField.NVLINK_INTEGRITY_ERRORS: Metric(
        "DCGM_FI_DEV_NVLINK_COUNT_LOCAL_LINK_INTEGRITY_ERRORS", "counter",
        "Times that a link exceeded its threshold of local errors, over all NVLinks, from NVLink 5 on."),
    GpuField.NVLINK_TRANSMIT_DISCARDS: Metric(
        "DCGM_FI_DEV_NVLINK_COUNT_TX_DISCARDS", "counter",
        "Packets that could not be sent over all NVLinks, from NVLink 5 on."),
    GpuField.NVLINK_LINK_RECOVERIES: Metric(
        "DCGM_FI_DEV_NVLINK_COUNT_LINK_RECOVERY_SUCCESSFUL_EVENTS", "counter",
        "Times that a link went down and came back, over all NVLinks, from NVLink 5 on."),
    GpuField.NVLINK_FAILED_LINK_RECOVERIES: Metric(
        "DCGM_FI_DEV_NVLINK_COUNT_LINK_RECOVERY_FAILED_EVENTS", "counter",
        "Times that a link went down and stayed down, over all NVLinks, from NVLink 5 on."),
    GpuField.NVLINK_TRANSMITTED_BYTES: Metric(
        "DCGM_FI_DEV_NVLINK_COUNT_TX_BYTES", "counter", "Bytes sent over all NVLinks, from NVLink 5 on."),
    GpuField.NVLINK_RECEIVED_BYTES: Metric(
        "DCGM_FI_DEV_NVLINK_COUNT_RX_BYTES", "counter", "Bytes received over all NVLinks, from NVLink 5 on."),
    GpuField.RECOVERY_ACTION_CODE: Metric(
        "DCGM_FI_DEV_GET_GPU_RECOVERY_ACTION", "gauge",
        "What the driver asks for: 0 nothing, 1 reset the GPU, 2 reboot, 3 drain P2P, 4 drain and reset, "
        "5 recover the IMEX domain, 6 reset the bus, 7 reboot the system."),
    GpuField.GPM_GRAPHICS_PERCENT: Metric(
        "DCGM_FI_PROF_GR_ENGINE_ACTIVE", "gauge", "Ratio of time the graphics engine is active.", 100),
    GpuField.GPM_SM_PERCENT: Metric(
        "DCGM_FI_PROF_SM_ACTIVE", "gauge", "The ratio of cycles an SM has at least 1 warp assigned.", 100),
    GpuField.GPM_OCCUPANCY_PERCENT: Metric(
        "DCGM_FI_PROF_SM_OCCUPANCY", "gauge", "The ratio of number of warps resident on an SM.", 100),
    GpuField.GPM_TENSOR_PERCENT: Metric(
        "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE", "gauge",
        "Ratio of cycles the tensor (HMMA) pipe is active.", 100),
    GpuField.GPM_DRAM_PERCENT: Metric(
        "DCGM_FI_PROF_DRAM_ACTIVE", "gauge",
        "Ratio of cycles the device memory interface is active sending or receiving data.", 100),
    GpuField.GPM_FP64_PERCENT: Metric(
        "DCGM_FI_PROF_PIPE_FP64_ACTIVE", "gauge", "Ratio of cycles the fp64 pipes are active.", 100),
    GpuField.GPM_FP32_PERCENT: Metric(
        "DCGM_FI_PROF_PIPE_FP32_ACTIVE", "gauge", "Ratio of cycles the fp32 pipes are active.", 100),
    GpuField.GPM_FP16_PERCENT: Metric(
        "DCGM_FI_PROF_PIPE_FP16_ACTIVE", "gauge", "Ratio of cycles the fp16 pipes are active.", 100),
    GpuField.GPM_PCIE_TRANSMITTED_MIB_PER_SECOND: Metric(
        "DCGM_FI_PROF_PCIE_TX_BYTES", "gauge",
        "The rate of data transmitted over the PCIe bus - including both protocol headers and data payloads "
        "- in bytes per second.", 1 / MIB),
    GpuField.GPM_PCIE_RECEIVED_MIB_PER_SECOND: Metric(
        "DCGM_FI_PROF_PCIE_RX_BYTES", "gauge",
        "The rate of data received over the PCIe bus - including both protocol headers and data payloads "
        "- in bytes per second.", 1 / MIB),
    GpuField.GPM_NVLINK_TRANSMITTED_MIB_PER_SECOND: Metric(
        "DCGM_FI_PROF_NVLINK_TX_BYTES", "gauge",
        "The rate of data transmitted over all NVLinks in bytes per second.", 1 / MIB),
    GpuField.GPM_NVLINK_RECEIVED_MIB_PER_SECOND: Metric(
        "DCGM_FI_PROF_NVLINK_RX_BYTES", "gauge",
        "The rate of data received over all NVLinks in bytes per second.", 1 / MIB),
}
# fmt: on
