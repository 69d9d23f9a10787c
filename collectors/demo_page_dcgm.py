"""The simulated dcgm-exporter: its default counters, the commented ones that tell of health, and both of its
generations of names."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from collectors.demo_cluster import Cluster
from collectors.demo_gpus import Gpus
from collectors.demo_page import Template, pairs
from db.nan import FloatArray

_DRIVER = "580.105.08"


@dataclass(frozen=True, slots=True)
class _Field:
    """name, form: as up to 4.8 with their unit. modern: the name since 4.9, whose unit is `factor` times
    the old one; "" where it has kept name and unit."""

    name: str
    kind: str
    text: str
    read: Callable[[Gpus], FloatArray]
    form: str = "%d"
    modern: str = ""
    factor: float = 1.0
    modern_form: str = ""
    health: bool = False


def _none(gpus: Gpus) -> FloatArray:
    return np.zeros(len(gpus.node))


# dcgm-exporter 4.8's etc/default-counters.csv, and what 4.9 has renamed of it; after them those that the
# file has commented out.
_FIELDS: tuple[_Field, ...] = (
    _Field("DCGM_FI_DEV_SM_CLOCK", "gauge", "SM clock frequency (in MHz).", lambda g: g.clock_mhz,
           modern="DCGM_FI_DEV_SM_CLOCK_HERTZ", factor=1e6),
    _Field("DCGM_FI_DEV_MEM_CLOCK", "gauge", "Memory clock frequency (in MHz).", lambda g: g.memory_clock_mhz,
           modern="DCGM_FI_DEV_MEMORY_CLOCK_HERTZ", factor=1e6),
    _Field("DCGM_FI_DEV_MEMORY_TEMP", "gauge", "Memory temperature (in C).", lambda g: g.memory_celsius,
           modern="DCGM_FI_DEV_MEMORY_TEMP_CELSIUS"),
    _Field("DCGM_FI_DEV_GPU_TEMP", "gauge", "GPU temperature (in C).", lambda g: g.celsius,
           modern="DCGM_FI_DEV_GPU_TEMP_CELSIUS"),
    _Field("DCGM_FI_DEV_POWER_USAGE", "gauge", "Power draw (in W).", lambda g: g.watts, "%.6f",
           modern="DCGM_FI_DEV_BOARD_POWER_WATTS"),
    _Field("DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", "counter", "Total energy consumption since boot (in mJ).",
           lambda g: g.energy_joules * 1e3,
           modern="DCGM_FI_DEV_GPU_ENERGY_JOULES_TOTAL", factor=1e-3),
    _Field("DCGM_FI_DEV_PCIE_REPLAY_COUNTER", "counter", "Total number of PCIe retries.",
           lambda g: g.pcie_replays, modern="DCGM_FI_DEV_PCIE_REPLAY_TOTAL"),
    _Field("DCGM_FI_DEV_GPU_UTIL", "gauge", "GPU utilization (in %).", lambda g: np.rint(g.busy * 100),
           modern="DCGM_FI_DEV_GPU_UTIL_RATIO", factor=0.01, modern_form="%.6f"),
    _Field("DCGM_FI_DEV_MEM_COPY_UTIL", "gauge", "Memory utilization (in %).",
           lambda g: np.rint(g.memory * 100),
           modern="DCGM_FI_DEV_MEMORY_UTIL_RATIO", factor=0.01, modern_form="%.6f"),
    _Field("DCGM_FI_DEV_ENC_UTIL", "gauge", "Encoder utilization (in %).", _none,
           modern="DCGM_FI_DEV_ENC_UTIL_RATIO", factor=0.01, modern_form="%.6f"),
    _Field("DCGM_FI_DEV_DEC_UTIL", "gauge", "Decoder utilization (in %).", _none,
           modern="DCGM_FI_DEV_DEC_UTIL_RATIO", factor=0.01, modern_form="%.6f"),
    _Field("DCGM_FI_DEV_XID_ERRORS", "gauge", "Value of the last XID error encountered.", lambda g: g.xid,
           modern="DCGM_FI_DEV_XID_ERROR"),
    _Field("DCGM_FI_DEV_FB_FREE", "gauge", "Framebuffer memory free (in MiB).", lambda g: g.free_mib,
           modern="DCGM_FI_DEV_FB_FREE_BYTES", factor=2.0**20),
    _Field("DCGM_FI_DEV_FB_USED", "gauge", "Framebuffer memory used (in MiB).", lambda g: g.used_mib,
           modern="DCGM_FI_DEV_FB_USED_BYTES", factor=2.0**20),
    _Field("DCGM_FI_DEV_FB_RESERVED", "gauge", "Framebuffer memory reserved (in MiB).",
           lambda g: g.reserved_mib, modern="DCGM_FI_DEV_FB_RESERVED_BYTES", factor=2.0**20),
    _Field("DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS", "counter",
           "Number of remapped rows for uncorrectable errors", lambda g: g.remapped,
           modern="DCGM_FI_DEV_ROW_REMAP_UNCORRECTABLE_TOTAL"),
    _Field("DCGM_FI_DEV_CORRECTABLE_REMAPPED_ROWS", "counter",
           "Number of remapped rows for correctable errors", _none,
           modern="DCGM_FI_DEV_ROW_REMAP_CORRECTABLE_TOTAL"),
    _Field("DCGM_FI_DEV_ROW_REMAP_FAILURE", "gauge", "Whether remapping of rows has failed", _none,
           modern="DCGM_FI_DEV_ROW_REMAP_FAILED"),
    _Field("DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL", "counter",
           "Total number of NVLink bandwidth counters for all lanes.", lambda g: g.nvlink_bytes / 1e6,
           modern="DCGM_FI_DEV_NVLINK_THROUGHPUT_BYTES_PER_SECOND", factor=1e6),
    _Field("DCGM_FI_DEV_VGPU_LICENSE_STATUS", "gauge", "vGPU License status", _none),
    _Field("DCGM_FI_PROF_GR_ENGINE_ACTIVE", "gauge", "Ratio of time the graphics engine is active.",
           lambda g: g.busy, "%.6f", modern="DCGM_FI_PROF_GR_ENGINE_UTIL_RATIO"),
    _Field("DCGM_FI_PROF_PIPE_TENSOR_ACTIVE", "gauge",
           "Ratio of cycles the tensor (HMMA) pipe is active.", lambda g: g.tensor, "%.6f",
           modern="DCGM_FI_PROF_TENSOR_UTIL_RATIO"),
    _Field("DCGM_FI_PROF_DRAM_ACTIVE", "gauge",
           "Ratio of cycles the device memory interface is active sending or receiving data.",
           lambda g: g.memory, "%.6f", modern="DCGM_FI_PROF_DRAM_UTIL_RATIO"),
    _Field("DCGM_FI_PROF_PCIE_TX_BYTES", "gauge",
           "The rate of data transmitted over the PCIe bus in bytes per second.", lambda g: g.pcie_sent),
    _Field("DCGM_FI_PROF_PCIE_RX_BYTES", "gauge",
           "The rate of data received over the PCIe bus in bytes per second.", lambda g: g.pcie_received),
    _Field("DCGM_FI_PROF_SM_ACTIVE", "gauge",
           "The ratio of cycles an SM has at least 1 warp assigned.", lambda g: g.sm, "%.6f",
           modern="DCGM_FI_PROF_SM_UTIL_RATIO", health=True),
    _Field("DCGM_FI_DEV_CLOCKS_EVENT_REASONS", "gauge", "Why the clocks are as low as they are (bitmask).",
           lambda g: g.reasons, health=True),
    _Field("DCGM_FI_DEV_POWER_VIOLATION", "counter", "Throttling duration due to power constraints (in ns).",
           lambda g: g.power_violation_ns, modern="DCGM_FI_DEV_GPU_POWER_THROTTLE_SECONDS_TOTAL",
           factor=1e-9, modern_form="%.6f", health=True),
    _Field("DCGM_FI_DEV_THERMAL_VIOLATION", "counter",
           "Throttling duration due to thermal constraints (in ns).", lambda g: g.thermal_violation_ns,
           health=True),
    _Field("DCGM_FI_DEV_ECC_SBE_VOL_TOTAL", "counter", "Total number of single-bit volatile ECC errors.",
           lambda g: g.corrected, health=True),
    _Field("DCGM_FI_DEV_ECC_DBE_VOL_TOTAL", "counter", "Total number of double-bit volatile ECC errors.",
           lambda g: g.double_bit, health=True),
    _Field("DCGM_FI_DEV_ROW_REMAP_PENDING", "gauge", "Whether a row remapping waits for a reset.",
           lambda g: g.remap_pending, health=True),
    _Field("DCGM_FI_DEV_NVLINK_CRC_FLIT_ERROR_COUNT_TOTAL", "counter",
           "Total number of NVLink flow-control CRC errors.", lambda g: g.nvlink_errors,
           modern="DCGM_FI_DEV_NVLINK_CRC_FLIT_ERROR_TOTAL", health=True),
    _Field("DCGM_FI_DEV_NVLINK_REPLAY_ERROR_COUNT_TOTAL", "counter", "Total number of NVLink retries.",
           lambda g: np.floor(g.nvlink_errors / 4), modern="DCGM_FI_DEV_NVLINK_REPLAY_ERROR_TOTAL",
           health=True),
)  # fmt: skip
_CAPACITY = _Field(
    "DCGM_FI_DEV_FB_CAPACITY_BYTES", "gauge", "Total framebuffer memory (in bytes).",
    lambda g: (g.free_mib + g.used_mib + g.reserved_mib) * 2.0**20,
)  # fmt: skip


class DcgmPages:
    """The pages of every node's dcgm-exporter."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._templates: dict[int, tuple[tuple[int, ...], Template]] = {}
        self._frames: dict[bool, FloatArray] = {}

    def forget(self) -> None:
        """The next page shows another second."""
        self._frames.clear()

    def page(self, node: int, gpus: Gpus) -> bytes:
        """What this node's exporter shows; a GPU that is gone has no lines."""
        one = self._cluster.nodes[node]
        shown = tuple(gpu for gpu in one.gpus if gpus.present[gpu])
        known, template = self._templates.get(node, ((), Template()))
        if known != shown:
            template = self._write(node, shown)
            self._templates[node] = shown, template
        fields = _fields(modern=one.modern, health=one.health)
        frame = self._frame(gpus, modern=one.modern)
        rows = frame[: len(fields), list(shown)]
        return template.page(rows.ravel().tolist())

    def _frame(self, gpus: Gpus, *, modern: bool) -> FloatArray:
        """Every field of every GPU, fields x GPUs, those of health last."""
        frame = self._frames.get(modern)
        if frame is None:
            fields = _fields(modern=modern, health=True)
            frame = np.array([one.read(gpus) * (one.factor if modern else 1.0) for one in fields])
            self._frames[modern] = frame
        return frame

    def _write(self, node: int, shown: tuple[int, ...]) -> Template:
        one = self._cluster.nodes[node]
        labels = [self._labels(node, gpu) for gpu in shown]
        template = Template()
        for item in _fields(modern=one.modern, health=one.health):
            name, form = item.name, item.form
            if one.modern:
                name, form = item.modern or item.name, item.modern_form or item.form
            template.family(name, item.kind, item.text)
            for text in labels:
                template.sample(name, text, form)
        return template

    def _labels(self, node: int, gpu: int) -> str:
        one = self._cluster.nodes[node]
        index = gpu - one.gpus.start
        host, driver = ("hostname", "DCGM_FI_SYSTEM_DRIVER_VERSION") if one.modern else (
            "Hostname", "DCGM_FI_DRIVER_VERSION")  # fmt: skip
        return pairs(
            (
                ("gpu", str(index)),
                ("UUID", self._cluster.uuids[gpu]),
                ("pci_bus_id", f"00000000:{0x1B + 0x0F * index:02X}:00.0"),
                ("device", f"nvidia{index}"),
                ("modelName", one.gpu_model.name),
                (host, one.name),
                (driver, _DRIVER),
            )
        )


def _fields(*, modern: bool, health: bool) -> tuple[_Field, ...]:
    """In the order of a page: the default ones first, so that a page without the others is a part of it."""
    return _HEALTH[modern] if health else _DEFAULT[modern]


_PLAIN = tuple(item for item in _FIELDS if not item.health)
_OTHER = tuple(item for item in _FIELDS if item.health)
_DEFAULT = {False: _PLAIN, True: (*_PLAIN, _CAPACITY)}
_HEALTH = {False: (*_PLAIN, *_OTHER), True: (*_PLAIN, _CAPACITY, *_OTHER)}
