"""What and when this machine is: kernel, operating system, clock, open files."""

import time
from collections.abc import Callable, Iterable
from pathlib import Path

from collectors.host_reading import FamilyTable, Metric, read_attribute, read_text
from collectors.types import Family

UNAME = Metric(
    "node_uname_info",
    "gauge",
    "Labeled system information as provided by the uname system call.",
    ("domainname", "machine", "nodename", "release", "sysname", "version"),
)

SECONDS = Metric("node_time_seconds", "gauge", "System time in seconds since epoch (1970).")
ZONE = Metric("node_time_zone_offset_seconds", "gauge", "System time zone offset in seconds.", ("time_zone",))
CLOCKSOURCES = {
    "available_clocksource": Metric(
        "node_time_clocksource_available_info",
        "gauge",
        "Available clocksources read from '/sys/devices/system/clocksource'.",
        ("clocksource", "device"),
    ),
    "current_clocksource": Metric(
        "node_time_clocksource_current_info",
        "gauge",
        "Current clocksource read from '/sys/devices/system/clocksource'.",
        ("clocksource", "device"),
    ),
}

FILES_ALLOCATED = Metric("node_filefd_allocated", "gauge", "File descriptor statistics: allocated.")
FILES_MAXIMUM = Metric("node_filefd_maximum", "gauge", "File descriptor statistics: maximum.")


class Uname:
    """uname(2) as /proc/sys/kernel shows it, so that a container reports the host it was given."""

    name = "uname"

    def __init__(self, proc: Path, machine: str, hostname: str | None) -> None:
        self._folder = f"{proc}/sys/kernel"
        self._machine = machine
        self._hostname = hostname

    def families(self) -> Iterable[Family]:
        table = FamilyTable()
        table.add(
            UNAME,
            1,
            self._value("domainname"),
            self._machine,
            self._hostname or self._value("hostname"),
            self._value("osrelease"),
            self._value("ostype"),
            self._value("version"),
        )
        return table.families()

    def _value(self, name: str) -> str:
        return read_text(f"{self._folder}/{name}").strip()


class Time:
    """The host's own clock, beside the scrape's timestamp: their difference is the clock's error."""

    name = "time"

    def __init__(self, sys: Path, clock: Callable[[], float]) -> None:
        self._folder = f"{sys}/devices/system/clocksource/clocksource0"
        self._clock = clock

    def families(self) -> Iterable[Family]:
        table = FamilyTable()
        now = self._clock()
        local = time.localtime(now)
        table.add(SECONDS, now)
        table.add(ZONE, local.tm_gmtoff, local.tm_zone)
        for attribute, metric in CLOCKSOURCES.items():
            for source in (read_attribute(f"{self._folder}/{attribute}") or "").split():
                table.add(metric, 1, source, "0")
        return table.families()


class Filefd:
    name = "filefd"

    def __init__(self, proc: Path) -> None:
        self._path = f"{proc}/sys/fs/file-nr"

    def families(self) -> Iterable[Family]:
        allocated, _, maximum = read_text(self._path).split()
        table = FamilyTable()
        table.add(FILES_ALLOCATED, int(allocated))
        table.add(FILES_MAXIMUM, int(maximum))
        return table.families()
