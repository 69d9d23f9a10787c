"""Processor time per CPU and mode from /proc/stat, and thermal throttling from sysfs."""

import re
from collections.abc import Iterable
from pathlib import Path

from collectors.host_reading import FamilyTable, Metric, list_names, read_attribute, read_number, read_text
from collectors.types import Family

# The unit of /proc/stat as user space sees it, on every architecture (kernel: USER_HZ).
TICKS_PER_SECOND = 100.0
# Idle time this much smaller than before means that the CPU was unplugged and came back (node_exporter).
HOTPLUG_SECONDS = 3.0

MODES = ("user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal")
GUEST_MODES = ("user", "nice")
IDLE = MODES.index("idle")

SECONDS = Metric("node_cpu_seconds_total", "counter", "Seconds the CPUs spent in each mode.", ("cpu", "mode"))
GUEST = Metric(
    "node_cpu_guest_seconds_total",
    "counter",
    "Seconds the CPUs spent in guests (VMs) for each mode.",
    ("cpu", "mode"),
)
CORE_THROTTLES = Metric(
    "node_cpu_core_throttles_total",
    "counter",
    "Number of times this CPU core has been throttled.",
    ("core", "package"),
)
PACKAGE_THROTTLES = Metric(
    "node_cpu_package_throttles_total",
    "counter",
    "Number of times this CPU package has been throttled.",
    ("package",),
)
ISOLATED = Metric(
    "node_cpu_isolated",
    "gauge",
    "Whether each core is isolated, information from /sys/devices/system/cpu/isolated.",
    ("cpu",),
)

CPU_FOLDER = re.compile(r"cpu\d+")


class Cpu:
    """Remembers the last values: the kernel lets idle and iowait step back, a counter may not."""

    name = "cpu"

    def __init__(self, proc: Path, sys: Path) -> None:
        self._stat = f"{proc}/stat"
        self._folder = f"{sys}/devices/system/cpu"
        self._last: dict[str, list[float]] = {}

    def families(self) -> Iterable[Family]:
        table = FamilyTable()
        self._last = {
            cpu: _never_backwards(self._last.get(cpu), seconds)
            for cpu, seconds in _per_cpu(read_text(self._stat))
        }
        for cpu, seconds in self._last.items():
            for mode, value in zip(MODES, seconds, strict=False):
                table.add(SECONDS, value, cpu, mode)
            for mode, value in zip(GUEST_MODES, seconds[len(MODES) :], strict=False):
                table.add(GUEST, value, cpu, mode)
        self._add_isolated(table)
        self._add_throttles(table)
        return table.families()

    def _add_isolated(self, table: FamilyTable) -> None:
        for cpu in _expand_list(read_attribute(f"{self._folder}/isolated") or ""):
            table.add(ISOLATED, 1, str(cpu))

    def _add_throttles(self, table: FamilyTable) -> None:
        """Siblings of a core, and cores of a package, all show the same count: it is reported once."""
        cores: set[tuple[str, str]] = set()
        packages: set[str] = set()
        try:
            folders = [name for name in list_names(self._folder) if CPU_FOLDER.fullmatch(name)]
        except OSError:
            return
        for folder in folders:
            path = f"{self._folder}/{folder}"
            package = read_attribute(f"{path}/topology/physical_package_id")
            core = read_attribute(f"{path}/topology/core_id")
            if package is None or core is None:
                continue
            if (package, core) not in cores:
                count = read_number(f"{path}/thermal_throttle/core_throttle_count")
                if count is not None:
                    cores.add((package, core))
                    table.add(CORE_THROTTLES, count, core, package)
            if package not in packages:
                count = read_number(f"{path}/thermal_throttle/package_throttle_count")
                if count is not None:
                    packages.add(package)
                    table.add(PACKAGE_THROTTLES, count, package)


def _per_cpu(stat: str) -> Iterable[tuple[str, list[float]]]:
    """CPU number and its seconds per column; an old kernel has fewer columns."""
    for line in stat.splitlines():
        if not line.startswith("cpu"):
            return  # the cpu lines come first; the interrupt line behind them can be very long
        name, *ticks = line.split()
        if name != "cpu":
            yield name[3:], [int(tick) / TICKS_PER_SECOND for tick in ticks]


def _never_backwards(last: list[float] | None, now: list[float]) -> list[float]:
    if last is None or len(last) != len(now) or last[IDLE] - now[IDLE] >= HOTPLUG_SECONDS:
        return now
    return [max(pair) for pair in zip(last, now, strict=True)]


def _expand_list(text: str) -> list[int]:
    """The kernel's list format: "1,3-5" is 1, 3, 4, 5."""
    numbers: list[int] = []
    for part in text.split(",") if text else ():
        first, _, last = part.partition("-")
        numbers.extend(range(int(first), int(last or first) + 1))
    return numbers
