"""Memory errors that the memory controller corrected, or could not correct (EDAC)."""

import re
from collections.abc import Iterable
from pathlib import Path

from collectors.host_reading import FamilyTable, Metric, list_names, read_attribute, read_number
from collectors.types import Family, Unsupported

CONTROLLER = ("controller",)
CSROW = ("controller", "csrow")
CHANNEL = ("channel", "controller", "csrow", "dimm_label")
ROW_FOLDER = re.compile(r"csrow(\d+)")
CHANNEL_FILE = re.compile(r"ch(\d+)_(ce|ue)_count")


def _counter(scope: str, error: str, text: str, labels: tuple[str, ...]) -> Metric:
    return Metric(f"node_edac_{scope}{error}_errors_total", "counter", text, labels)


# ce: correctable, ue: uncorrectable, as the kernel names its files.
ERRORS = {"ce": "correctable", "ue": "uncorrectable"}
TOTALS = {
    key: _counter("", error, f"Total {error} memory errors.", CONTROLLER) for key, error in ERRORS.items()
}
ROWS = {
    key: _counter("csrow_", error, f"Total {error} memory errors for this csrow.", CSROW)
    for key, error in ERRORS.items()
}
CHANNELS = {
    key: _counter("channel_", error, f"Total {error} memory errors for this channel.", CHANNEL)
    for key, error in ERRORS.items()
}


class Edac:
    name = "edac"

    def __init__(self, sys: Path) -> None:
        self._folder = f"{sys}/devices/system/edac/mc"

    def families(self) -> Iterable[Family]:
        try:
            names = [name for name in list_names(self._folder) if re.fullmatch(r"mc\d+", name)]
        except FileNotFoundError:
            raise Unsupported(f"no memory controller reports errors ({self._folder})") from None
        table = FamilyTable()
        for name in names:
            controller, folder = name.removeprefix("mc"), f"{self._folder}/{name}"
            for key in ERRORS:
                _add(table, TOTALS[key], f"{folder}/{key}_count", controller)
                # Errors whose row the controller could not tell.
                _add(table, ROWS[key], f"{folder}/{key}_noinfo_count", controller, "unknown")
            for row in list_names(folder):
                match = ROW_FOLDER.fullmatch(row)
                if match:
                    self._add_row(table, controller, match[1], f"{folder}/{row}")
        return table.families()

    def _add_row(self, table: FamilyTable, controller: str, row: str, folder: str) -> None:
        for key in ERRORS:
            _add(table, ROWS[key], f"{folder}/{key}_count", controller, row)
        for name in list_names(folder):
            match = CHANNEL_FILE.fullmatch(name)
            if match:
                dimm = read_attribute(f"{folder}/ch{match[1]}_dimm_label") or ""
                _add(table, CHANNELS[match[2]], f"{folder}/{name}", match[1], controller, row, dimm)


def _add(table: FamilyTable, metric: Metric, path: str, *labels: str) -> None:
    value = read_number(path)
    if value is not None:
        table.add(metric, value, *labels)
