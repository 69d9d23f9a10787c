"""A GPU driver without a GPU: `GpuDevices` from plain values, or from an nvidia-smi capture.

`FakeDriver` is what a test turns knobs on; calling it opens it, as `open_nvml` would.
"""

import re
from dataclasses import dataclass, field, replace
from pathlib import Path

from collectors.nvml_device import (
    MIB,
    FieldValue,
    Gpu,
    GpuDevices,
    GpuError,
    GpuField,
    GpuLost,
    GpuProcess,
    GpuReading,
    MigInstance,
    XidError,
)


def reading(
    values: dict[GpuField, int] | None = None,
    *,
    instances: tuple[MigInstance, ...] = (),
    processes: tuple[GpuProcess, ...] = (),
    watches_xid: bool = True,
    activity_missing: str = "",
) -> GpuReading:
    """A reading that knows `values` (in the fields' units) and nothing else."""
    known = {GpuField.GPU_TEMP_CELSIUS: 40} if values is None else values
    return GpuReading(
        tuple(FieldValue(name, value) for name, value in known.items()),
        instances,
        processes,
        watches_xid,
        activity_missing,
    )


def gpu(index: int = 0, uuid: str = "") -> Gpu:
    return Gpu(index, uuid or f"GPU-{index:08d}", "NVIDIA H200", f"00000000:{0x1B + index:02X}:00.0")


@dataclass
class FakeDriver:
    """Set `readings[uuid]`, `lost[uuid]`, `broken`, `xids`; `None` among the GPUs is one we may not see."""

    gpus: list[Gpu | None] = field(default_factory=lambda: [gpu(0)])
    readings: dict[str, GpuReading] = field(default_factory=dict)
    lost: dict[str, str] = field(default_factory=dict)
    unopenable: GpuError | None = None
    broken: GpuError | None = None
    xids: list[XidError] = field(default_factory=list)
    driver_version: str = "590.48.01"
    opened: int = 0
    closed: int = 0
    read_uuids: list[str] = field(default_factory=list)

    def __call__(self) -> GpuDevices:
        if self.unopenable is not None:
            raise self.unopenable
        self.opened += 1
        return _Opened(self)


class _Opened:
    def __init__(self, driver: FakeDriver) -> None:
        self._driver = driver
        self.driver_version = driver.driver_version

    def count(self) -> int:
        if self._driver.broken is not None:
            raise self._driver.broken
        return len(self._driver.gpus)

    def gpu(self, index: int) -> Gpu | None:
        found = self._driver.gpus[index]
        return found if found is None else replace(found, index=index)

    def read(self, gpu: Gpu) -> GpuReading:
        if gpu.uuid in self._driver.lost:
            raise GpuLost(self._driver.lost[gpu.uuid])
        self._driver.read_uuids.append(gpu.uuid)
        return self._driver.readings.get(gpu.uuid) or reading()

    def xids(self) -> tuple[XidError, ...]:
        waiting = tuple(self._driver.xids)
        self._driver.xids.clear()
        return waiting

    def close(self) -> None:
        self._driver.closed += 1


_CSV_FIELDS = {
    "clocks.current.sm": (GpuField.SM_CLOCK_MHZ, 1),
    "clocks.current.memory": (GpuField.MEM_CLOCK_MHZ, 1),
    "temperature.gpu": (GpuField.GPU_TEMP_CELSIUS, 1),
    "temperature.memory": (GpuField.MEMORY_TEMP_CELSIUS, 1),
    "power.draw": (GpuField.POWER_MILLIWATTS, 1000),
    "power.limit": (GpuField.POWER_LIMIT_MILLIWATTS, 1000),
    "power.min_limit": (GpuField.POWER_LIMIT_MIN_MILLIWATTS, 1000),
    "power.max_limit": (GpuField.POWER_LIMIT_MAX_MILLIWATTS, 1000),
    "enforced.power.limit": (GpuField.POWER_LIMIT_ENFORCED_MILLIWATTS, 1000),
    "utilization.gpu": (GpuField.GPU_UTIL_PERCENT, 1),
    "utilization.memory": (GpuField.MEM_COPY_UTIL_PERCENT, 1),
    "utilization.encoder": (GpuField.ENC_UTIL_PERCENT, 1),
    "utilization.decoder": (GpuField.DEC_UTIL_PERCENT, 1),
    "memory.free": (GpuField.FB_FREE_BYTES, MIB),
    "memory.used": (GpuField.FB_USED_BYTES, MIB),
    "memory.reserved": (GpuField.FB_RESERVED_BYTES, MIB),
    "clocks_event_reasons.active": (GpuField.CLOCK_EVENT_REASONS_MASK, 1),
    "clocks_event_reasons_counters.sw_power_cap": (GpuField.POWER_VIOLATION_NANOSECONDS, 1000),
    "ecc.errors.corrected.volatile.total": (GpuField.ECC_SINGLE_VOLATILE_ERRORS, 1),
    "ecc.errors.uncorrected.aggregate.total": (GpuField.ECC_DOUBLE_AGGREGATE_ERRORS, 1),
    "retired_pages.single_bit_ecc.count": (GpuField.RETIRED_SINGLE_PAGES, 1),
    "remapped_rows.correctable": (GpuField.REMAPPED_CORRECTABLE_ROWS, 1),
    "remapped_rows.failure": (GpuField.REMAP_FAILURE_FLAG, 1),
    "pcie.link.gen.current": (GpuField.PCIE_LINK_GENERATION, 1),
    "pcie.link.width.current": (GpuField.PCIE_LINK_LANES, 1),
}
_WORDS = {"No": 0, "Yes": 1}


def driver_of_capture(path: Path, load: bool) -> FakeDriver:
    """The machine of an nvidia-smi capture, idle or under load: what it prints as N/A is not answered."""
    text = path.read_text(encoding="utf-8")
    rows = re.findall(r"^(timestamp, driver_version.*)\n(.*)$", text, flags=re.MULTILINE)
    header, row = rows[1 if load else 0]
    cells = {
        name.split(" [")[0]: cell for name, cell in zip(header.split(", "), row.split(", "), strict=True)
    }
    values: dict[GpuField, int] = {}
    for column, (name, factor) in _CSV_FIELDS.items():
        word = cells[column].split(" ")[0]
        if word in _WORDS:
            values[name] = _WORDS[word]
        elif word.startswith("0x"):
            values[name] = int(word, 16)
        elif re.fullmatch(r"[\d.]+", word):
            values[name] = round(float(word) * factor)
    card = Gpu(int(cells["index"]), cells["uuid"], cells["name"], cells["pci.bus_id"])
    in_use = text.split("# load :: query (-q)")[1 if load else 0].split("# load :: ")[0]
    return FakeDriver(
        [card],
        {card.uuid: reading(values, instances=_instances(text, in_use), processes=_processes(in_use, "N/A"))},
        driver_version=cells["driver_version"],
    )


def _instances(text: str, in_use: str) -> tuple[MigInstance, ...]:
    profiles = re.findall(r"^  MIG (\S+) +Device", text, flags=re.MULTILINE)
    found = re.findall(
        r"GPU Instance ID +: (\d+).*?Reserved +: (\d+) MiB\s+Used +: (\d+) MiB\s+Free +: (\d+) MiB",
        in_use.split("    Processes")[0],
        flags=re.DOTALL,
    )
    return tuple(
        MigInstance(
            int(instance_id),
            profile,
            (
                FieldValue(GpuField.FB_FREE_BYTES, int(free) * MIB),
                FieldValue(GpuField.FB_USED_BYTES, int(used) * MIB),
                FieldValue(GpuField.FB_RESERVED_BYTES, int(reserved) * MIB),
            ),
            _processes(in_use, instance_id),
        )
        for profile, (instance_id, reserved, used, free) in zip(profiles, found, strict=False)
    )


def _processes(in_use: str, instance: str) -> tuple[GpuProcess, ...]:
    found = re.findall(
        r"GPU instance ID +: (\S+)\n.*\n +Process ID +: (\d+)\n.*\n.*\n +Used GPU Memory +: (\d+) MiB", in_use
    )
    return tuple(
        GpuProcess(int(pid), "compute", int(mib) * MIB) for where, pid, mib in found if where == instance
    )
