"""This machine, published as node_exporter publishes it, so that a box without one looks like one with it.

Each subject (cpu, filesystem, ...) is collected by itself: what one cannot read is missing, and
`node_scrape_collector_success` says which. Nothing is ever 0 because it is unknown.
"""

import logging
import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from collectors.host_bonding import Bonding
from collectors.host_conntrack import Conntrack
from collectors.host_cpu import Cpu
from collectors.host_disk import Diskstats
from collectors.host_edac import Edac
from collectors.host_filesystem import Filesystem
from collectors.host_infiniband import Infiniband
from collectors.host_load import Loadavg, Pressure, Stat
from collectors.host_memory import Meminfo, Vmstat
from collectors.host_mounts import MountSizes
from collectors.host_netstat import Netstat, Sockstat
from collectors.host_network import Netclass, Netdev
from collectors.host_rapl import Rapl
from collectors.host_reading import FamilyTable, Metric, Subject
from collectors.host_sensors import Hwmon
from collectors.host_system import Filefd, Time, Uname
from collectors.host_thermal import ThermalZone
from collectors.host_timex import TimexSubject
from collectors.types import CollectFailed, CollectorError, Family, NoData, Unsupported

log = logging.getLogger(__name__)

DURATION = Metric(
    "node_scrape_collector_duration_seconds",
    "gauge",
    "node_exporter: Duration of a collector scrape.",
    ("collector",),
)
SUCCESS = Metric(
    "node_scrape_collector_success",
    "gauge",
    "node_exporter: Whether a collector succeeded.",
    ("collector",),
)


class HostCollector:
    """Yields node_* families of this machine; see `problems` for the subjects that had nothing to say."""

    name = "host"
    job = "node"

    def __init__(
        self,
        proc: Path = Path("/proc"),
        sys: Path = Path("/sys"),
        *,
        rootfs: Path = Path("/"),
        udev_data: Path = Path("/run/udev/data"),
        hostname: str | None = None,
        suppressed: Callable[[], bool] = lambda: False,
        clock: Callable[[], float] = time.time,
        timer: Callable[[], float] = time.perf_counter,
        subjects: Sequence[Subject] | None = None,
    ) -> None:
        """`proc`, `sys`, `rootfs` and `udev_data` are the host's own trees, wherever a container sees them.

        `hostname` replaces the kernel's in node_uname_info (a container has one of its own).
        `suppressed` is asked before each collection: true while a scraped node_exporter reports this host.
        """
        self.problems: Mapping[str, CollectorError] = {}
        self._suppressed = suppressed
        self._timer = timer
        self._subjects = subjects or (
            Bonding(sys),
            Conntrack(proc),
            Cpu(proc, sys),
            Diskstats(proc, sys, udev_data),
            Edac(sys),
            Filefd(proc),
            Filesystem(proc, rootfs, MountSizes(timer)),
            Hwmon(sys),
            Infiniband(sys),
            Loadavg(proc),
            Meminfo(proc),
            Netclass(sys),
            Netdev(proc, sys),
            Netstat(proc),
            Pressure(proc),
            Rapl(sys),
            Sockstat(proc),
            Stat(proc),
            ThermalZone(sys),
            Time(sys, clock),
            TimexSubject(),
            Uname(proc, os.uname().machine, hostname),
            Vmstat(proc),
        )

    def collect(self) -> Iterable[Family]:
        """Raises NoData while a scraped node_exporter reports this host, Unsupported without a /proc."""
        if self._suppressed():
            raise NoData("reported by a scraped node_exporter: the host is not counted twice")
        families: list[Family] = []
        problems: dict[str, CollectorError] = {}
        runs = FamilyTable()
        for subject in self._subjects:
            started = self._timer()
            try:
                families.extend(subject.families())
            except (NoData, Unsupported) as error:
                problems[subject.name] = error
            except FileNotFoundError as error:
                problems[subject.name] = Unsupported(f"this machine has no {error.filename}")
            except (OSError, ValueError, LookupError) as error:
                problems[subject.name] = CollectFailed(f"{subject.name}: {error}")
            runs.add(DURATION, self._timer() - started, subject.name)
            runs.add(SUCCESS, subject.name not in problems, subject.name)
        self._tell(problems)
        if not families:
            raise Unsupported("this machine has neither /proc nor /sys to read: host metrics need Linux")
        return [*families, *runs.families()]

    def _tell(self, problems: dict[str, CollectorError]) -> None:
        """Each problem once, not at every scrape."""
        for name, problem in problems.items():
            if str(problem) != str(self.problems.get(name)):
                level = logging.WARNING if isinstance(problem, CollectFailed) else logging.DEBUG
                log.log(level, "host subject %s: %s", name, problem)
        self.problems = problems
