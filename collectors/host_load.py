"""How busy the kernel is: run queue, load, forks and interrupts, and pressure stall information."""

from collections.abc import Iterable
from pathlib import Path

from collectors.host_reading import FamilyTable, Metric, read_text
from collectors.types import Family, Unsupported

STAT = {
    "intr": Metric("node_intr_total", "counter", "Total number of interrupts serviced."),
    "ctxt": Metric("node_context_switches_total", "counter", "Total number of context switches."),
    "processes": Metric("node_forks_total", "counter", "Total number of forks."),
    "btime": Metric("node_boot_time_seconds", "gauge", "Node boot time, in unixtime."),
    "procs_running": Metric("node_procs_running", "gauge", "Number of processes in runnable state."),
    "procs_blocked": Metric(
        "node_procs_blocked", "gauge", "Number of processes blocked waiting for I/O to complete."
    ),
}

LOAD = tuple(Metric(f"node_load{minutes}", "gauge", f"{minutes}m load average.") for minutes in (1, 5, 15))

WAITING = "Total time in seconds that processes have waited "
STALLED = "Total time in seconds no process could make progress due to "
# (resource, line of its file): the cpu has no meaningful "full" line, irq has no "some" line.
PRESSURE = {
    ("cpu", "some"): Metric("node_pressure_cpu_waiting_seconds_total", "counter", WAITING + "for CPU time"),
    ("io", "some"): Metric(
        "node_pressure_io_waiting_seconds_total", "counter", WAITING + "due to IO congestion"
    ),
    ("io", "full"): Metric("node_pressure_io_stalled_seconds_total", "counter", STALLED + "IO congestion"),
    ("memory", "some"): Metric(
        "node_pressure_memory_waiting_seconds_total", "counter", WAITING + "for memory"
    ),
    ("memory", "full"): Metric(
        "node_pressure_memory_stalled_seconds_total", "counter", STALLED + "memory congestion"
    ),
    ("irq", "full"): Metric("node_pressure_irq_stalled_seconds_total", "counter", STALLED + "IRQ congestion"),
}


class Stat:
    name = "stat"

    def __init__(self, proc: Path) -> None:
        self._path = f"{proc}/stat"

    def families(self) -> Iterable[Family]:
        table = FamilyTable()
        for line in read_text(self._path).splitlines():
            key, _, rest = line.partition(" ")
            metric = STAT.get(key)
            if metric is not None:
                # The interrupt line goes on with one number for each interrupt: only the first is the sum.
                table.add(metric, int(rest.split(None, 1)[0]))
        return table.families()


class Loadavg:
    name = "loadavg"

    def __init__(self, proc: Path) -> None:
        self._path = f"{proc}/loadavg"

    def families(self) -> Iterable[Family]:
        table = FamilyTable()
        averages = read_text(self._path).split()[: len(LOAD)]
        for metric, value in zip(LOAD, averages, strict=True):
            table.add(metric, float(value))
        return table.families()


class Pressure:
    name = "pressure"

    def __init__(self, proc: Path) -> None:
        self._folder = f"{proc}/pressure"

    def families(self) -> Iterable[Family]:
        table = FamilyTable()
        for resource in dict.fromkeys(resource for resource, _ in PRESSURE):
            try:
                text = read_text(f"{self._folder}/{resource}")
            except OSError:
                continue  # no such resource in this kernel, or PSI was switched off at boot (psi=0)
            for line in text.splitlines():
                kind, *fields = line.split()
                metric = PRESSURE.get((resource, kind))
                if metric is not None:
                    microseconds = int(dict(field.split("=", 1) for field in fields)["total"])
                    # Two divisions as node_exporter has them: the same float64 to the last bit.
                    table.add(metric, microseconds / 1000.0 / 1000.0)
        families = table.families()
        if not families:
            raise Unsupported(f"this kernel reports no pressure ({self._folder}); it needs CONFIG_PSI")
        return families
