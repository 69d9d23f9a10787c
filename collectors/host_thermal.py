"""Thermal zones and the cooling devices (throttling) that answer them."""

from collections.abc import Iterable
from pathlib import Path

from collectors.host_reading import FamilyTable, Metric, list_names, read_attribute, read_number
from collectors.types import Family, Unsupported

MILLIDEGREES = 1000.0

TEMPERATURE = Metric("node_thermal_zone_temp", "gauge", "Zone temperature in Celsius", ("type", "zone"))
STATES = {
    "cur_state": Metric(
        "node_cooling_device_cur_state",
        "gauge",
        "Current throttle state of the cooling device",
        ("name", "type"),
    ),
    "max_state": Metric(
        "node_cooling_device_max_state",
        "gauge",
        "Maximum throttle state of the cooling device",
        ("name", "type"),
    ),
}


class ThermalZone:
    name = "thermal_zone"

    def __init__(self, sys: Path) -> None:
        self._class = f"{sys}/class/thermal"

    def families(self) -> Iterable[Family]:
        try:
            names = list_names(self._class)
        except FileNotFoundError:
            raise Unsupported(f"no thermal zones ({self._class})") from None
        table = FamilyTable()
        for name in names:
            folder = f"{self._class}/{name}"
            kind = read_attribute(f"{folder}/type") or ""
            if name.startswith("thermal_zone"):
                value = read_number(f"{folder}/temp")  # refused while the zone is disabled
                if value is not None:
                    table.add(TEMPERATURE, value / MILLIDEGREES, kind, name.removeprefix("thermal_zone"))
            elif name.startswith("cooling_device"):
                for attribute, metric in STATES.items():
                    value = read_number(f"{folder}/{attribute}")
                    if value is not None:
                        table.add(metric, value, name.removeprefix("cooling_device"), kind)
        return table.families()
