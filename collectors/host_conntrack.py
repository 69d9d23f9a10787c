"""Fill level of the kernel's connection table: full, it drops new connections without any other sign."""

from collections.abc import Iterable
from pathlib import Path

from collectors.host_reading import FamilyTable, Metric, read_text
from collectors.types import Family, Unsupported

ENTRIES = Metric(
    "node_nf_conntrack_entries",
    "gauge",
    "Number of currently allocated flow entries for connection tracking.",
)
LIMIT = Metric("node_nf_conntrack_entries_limit", "gauge", "Maximum size of connection tracking table.")
# By the column's name: kernels have added and renamed columns.
STATISTICS = {
    name: Metric(f"node_nf_conntrack_stat_{name}", "gauge", text)
    for name, text in {
        "found": "Number of searched entries which were successful.",
        "invalid": "Number of packets seen which can not be tracked.",
        "ignore": "Number of packets seen which are already connected to a conntrack entry.",
        "insert": "Number of entries inserted into the list.",
        "insert_failed": "Number of entries for which list insertion was attempted but failed.",
        "drop": "Number of packets dropped due to conntrack failure.",
        "early_drop": "Number of dropped conntrack entries to make room for new ones, if maximum table size"
        " was reached.",
        "search_restart": "Number of conntrack table lookups which had to be restarted due to hashtable"
        " resizes.",
    }.items()
}


class Conntrack:
    name = "conntrack"

    def __init__(self, proc: Path) -> None:
        self._sysctl = f"{proc}/sys/net/netfilter/nf_conntrack"
        self._stat = f"{proc}/net/stat/nf_conntrack"

    def families(self) -> Iterable[Family]:
        table = FamilyTable()
        try:
            table.add(ENTRIES, int(read_text(f"{self._sysctl}_count")))
            table.add(LIMIT, int(read_text(f"{self._sysctl}_max")))
        except FileNotFoundError:
            raise Unsupported("connections are not tracked (module nf_conntrack is not loaded)") from None
        names, *cpus = (line.split() for line in read_text(self._stat).splitlines())
        for column, name in enumerate(names):
            if name in STATISTICS:
                table.add(STATISTICS[name], sum(int(cpu[column], 16) for cpu in cpus))
        return table.families()
