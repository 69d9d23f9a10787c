"""Bonded network interfaces: how many links each has, and how many of them work."""

from collections.abc import Iterable
from pathlib import Path

from collectors.host_reading import FamilyTable, Metric, read_attribute
from collectors.types import Family, Unsupported

SLAVES = Metric(
    "node_bonding_slaves", "gauge", "Number of configured slaves per bonding interface.", ("master",)
)
ACTIVE = Metric("node_bonding_active", "gauge", "Number of active slaves per bonding interface.", ("master",))


class Bonding:
    name = "bonding"

    def __init__(self, sys: Path) -> None:
        self._class = f"{sys}/class/net"

    def families(self) -> Iterable[Family]:
        masters = read_attribute(f"{self._class}/bonding_masters")
        if masters is None:
            raise Unsupported("no bonded interfaces (module bonding is not loaded)")
        table = FamilyTable()
        for master in masters.split():
            folder = f"{self._class}/{master}"
            slaves = (read_attribute(f"{folder}/bonding/slaves") or "").split()
            table.add(SLAVES, len(slaves), master)
            table.add(ACTIVE, sum(_works(folder, slave) for slave in slaves), master)
        return table.families()


def _works(folder: str, slave: str) -> bool:
    """Link state as the bond itself monitors it; older kernels name the folder slave_*."""
    states = (
        read_attribute(f"{folder}/{prefix}_{slave}/bonding_slave/mii_status") for prefix in ("lower", "slave")
    )
    return "up" in states
