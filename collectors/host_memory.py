"""Memory from /proc/meminfo (every field it has) and paging from /proc/vmstat."""

import re
from collections.abc import Iterable
from functools import cache
from pathlib import Path

from collectors.host_reading import FamilyTable, Metric, read_text
from collectors.types import Family

KIBIBYTE = 1024
# node_exporter's default choice out of some 180 fields.
VMSTAT_FIELDS = re.compile(r"oom_kill|pgpg.*|pswp.*|pg.*fault.*")


class Meminfo:
    name = "meminfo"

    def __init__(self, proc: Path) -> None:
        self._path = f"{proc}/meminfo"

    def families(self) -> Iterable[Family]:
        table = FamilyTable()
        for line in read_text(self._path).splitlines():
            field, value, *unit = line.split()
            # Page counts (HugePages_Total) carry no unit and stay counts.
            table.add(_memory_metric(field, bool(unit)), int(value) * (KIBIBYTE if unit else 1))
        return table.families()


class Vmstat:
    name = "vmstat"

    def __init__(self, proc: Path) -> None:
        self._path = f"{proc}/vmstat"

    def families(self) -> Iterable[Family]:
        table = FamilyTable()
        for line in read_text(self._path).splitlines():
            field, value = line.split()
            metric = _vmstat_metric(field)
            if metric is not None:
                table.add(metric, int(value))
        return table.families()


@cache
def _memory_metric(field: str, in_bytes: bool) -> Metric:
    """`Active(anon):` in kB is node_memory_Active_anon_bytes."""
    key = re.sub(r"\((.*)\)", r"_\1", field.removesuffix(":")) + ("_bytes" if in_bytes else "")
    return Metric(f"node_memory_{key}", "gauge", f"Memory information field {key}.")


@cache
def _vmstat_metric(field: str) -> Metric | None:
    if not VMSTAT_FIELDS.fullmatch(field):
        return None
    return Metric(f"node_vmstat_{field}", "unknown", f"/proc/vmstat information field {field}.")
