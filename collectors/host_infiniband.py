"""InfiniBand and RoCE adapters: port state, traffic, errors and congestion counters.

Between GPU servers the network is part of the model's step time: a port that retrains to half its rate
or a switch that marks congestion shows here first.
"""

from collections.abc import Iterable
from pathlib import Path

from collectors.host_infiniband_counters import (
    COUNTERS,
    COUNTERS_EXT,
    HW_COUNTERS,
    LIFESPAN,
    LIFESPAN_FILE,
    Counters,
)
from collectors.host_reading import FamilyTable, Metric, list_names, read_attribute, read_number
from collectors.types import Family, Unsupported

GIGABIT_BYTES = 125_000_000
# The InfiniBand specification counts data in units of four octets.
OCTETS_PER_WORD = 4
MILLISECONDS = 1000
DATA_FILES = frozenset({"port_rcv_data", "port_xmit_data", "port_rcv_data_64", "port_xmit_data_64"})

PORT = ("device", "port")
INFO = Metric(
    "node_infiniband_info",
    "gauge",
    "Non-numeric data from /sys/class/infiniband/<device>, value is always 1.",
    ("board_id", "device", "firmware_version", "hca_type"),
)
STATE = Metric(
    "node_infiniband_state_id",
    "gauge",
    "State of the InfiniBand port (0: no change, 1: down, 2: init, 3: armed, 4: active, 5: act defer)",
    PORT,
)
PHYSICAL_STATE = Metric(
    "node_infiniband_physical_state_id",
    "gauge",
    "Physical state of the InfiniBand port (0: no change, 1: sleep, 2: polling, 3: disable, 4: shift, "
    "5: link up, 6: link error recover, 7: phytest)",
    PORT,
)
RATE = Metric("node_infiniband_rate_bytes_per_second", "gauge", "Maximum signal transfer rate", PORT)


class Infiniband:
    name = "infiniband"

    def __init__(self, sys: Path) -> None:
        self._class = f"{sys}/class/infiniband"

    def families(self) -> Iterable[Family]:
        try:
            devices = list_names(self._class)
        except FileNotFoundError:
            raise Unsupported(f"no InfiniBand or RoCE adapter ({self._class})") from None
        table = FamilyTable()
        for device in devices:
            folder = f"{self._class}/{device}"
            table.add(
                INFO,
                1,
                read_attribute(f"{folder}/board_id") or "",
                device,
                read_attribute(f"{folder}/fw_ver") or "",
                read_attribute(f"{folder}/hca_type") or "",
            )
            for port in _names_or_none(f"{folder}/ports"):
                self._add_port(table, device, port)
        return table.families()

    def _add_port(self, table: FamilyTable, device: str, port: str) -> None:
        folder = f"{self._class}/{device}/ports/{port}"
        for attribute, metric in (("state", STATE), ("phys_state", PHYSICAL_STATE)):
            state = read_number(f"{folder}/{attribute}", _state_id)
            if state is not None:
                table.add(metric, state, device, port)
        rate = read_number(f"{folder}/rate", _bytes_per_second)
        if rate is not None:
            table.add(RATE, rate, device, port)
        for subfolder, counters in (
            ("counters", COUNTERS),
            ("counters_ext", COUNTERS_EXT),
            ("hw_counters", HW_COUNTERS),
        ):
            _add_counters(table, f"{folder}/{subfolder}", counters, device, port)
        lifespan = read_number(f"{folder}/hw_counters/{LIFESPAN_FILE}")
        if lifespan is not None:
            table.add(LIFESPAN, lifespan / MILLISECONDS, device, port)


def _add_counters(table: FamilyTable, folder: str, counters: Counters, device: str, port: str) -> None:
    for name in _names_or_none(folder):
        metric = counters.get(name)
        if metric is None:
            continue
        value = read_number(f"{folder}/{name}")  # "N/A (no PMA)" on adapters that cannot count it
        if value is not None:
            table.add(metric, value * (OCTETS_PER_WORD if name in DATA_FILES else 1), device, port)


def _names_or_none(folder: str) -> list[str]:
    try:
        return list_names(folder)
    except OSError:
        return []


def _state_id(text: str) -> int:
    """ "4: ACTIVE" is 4."""
    return int(text.partition(":")[0])


def _bytes_per_second(text: str) -> int:
    """ "100 Gb/sec (4X EDR)" is 12.5e9; half rates such as "2.5 Gb/sec" exist."""
    return int(float(text.partition(" ")[0]) * GIGABIT_BYTES)
