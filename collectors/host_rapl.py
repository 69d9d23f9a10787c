"""Energy that processor packages and memory used (Intel and AMD RAPL): the host's share beside the GPUs'."""

import re
from collections import Counter
from collections.abc import Iterable
from functools import cache
from pathlib import Path

from collectors.host_reading import FamilyTable, Metric, list_names, read_attribute, read_bytes
from collectors.types import Family, Unsupported

MICROJOULES = 1000000.0


class Rapl:
    name = "rapl"

    def __init__(self, sys: Path) -> None:
        self._class = f"{sys}/class/powercap"

    def families(self) -> Iterable[Family]:
        try:
            zones = list_names(self._class)
        except FileNotFoundError:
            raise Unsupported(f"no energy counters ({self._class})") from None
        table = FamilyTable()
        used: Counter[str] = Counter()
        for zone in zones:
            folder = f"{self._class}/{zone}"
            name = read_attribute(f"{folder}/name")
            if not name:
                continue  # the control type itself, not a zone
            name, index = _name_and_index(name, used)
            used[name] = index + 1
            try:
                energy = int(read_bytes(f"{folder}/energy_uj"))
            except PermissionError:
                # The kernel keeps them from everyone but root since the Platypus attack (CVE-2020-8694).
                raise Unsupported(f"only root may read {folder}/energy_uj") from None
            table.add(_metric(name), energy / MICROJOULES, str(index), folder)
        return table.families()


def _name_and_index(text: str, used: Counter[str]) -> tuple[str, int]:
    """package-1 is number 1 of "package"; a name without a number is counted as it comes."""
    name, _, number = text.partition("-")
    if number.isdecimal():
        return name, int(number)
    return text, used[text]


@cache
def _metric(name: str) -> Metric:
    clean = re.sub(r"[^a-zA-Z0-9_]", "_", name)
    text = f"Current RAPL {name} value in joules"
    return Metric(f"node_rapl_{clean}_joules_total", "counter", text, ("index", "path"))
