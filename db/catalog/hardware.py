"""Accelerators: what a card can do at most, found by the name that its driver or exporter gives it.

The built-in table is `hardware.csv` (SOURCES.md beside it says where its numbers come from); a user's file of
the same columns adds cards and overrides cells. A reported name is matched whole, never in part: "NVIDIA H100
PCIe" and "NVIDIA H100 80GB HBM3" are different cards, and a name that nobody listed is no card at all. Only
case, the separators (space, `-`, `_`) and the vendor's name in front do not count.

Peak rates are dense: without structured sparsity. `memory_gb` of the table is in units of 2^30, as the
vendors mean it; drivers show 0.3 to 7 % less, since they keep a part and inline ECC takes a sixteenth.
"""

import csv
import io
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from db.config_types import suggest

MAX_NAME_LENGTH: Final = 200  # longer ones come from no driver
_FILE: Final = Path(__file__).parent / "hardware.csv"
_MAX_FILE_BYTES: Final = 4 << 20
_BETWEEN_NAMES: Final = "|"
_SEPARATORS: Final = re.compile(r"[\s_-]+")
_DTYPES: Final[dict[str, str]] = {
    "fp64_tflops": "fp64",
    "fp64_matrix_tflops": "fp64_matrix",
    "fp32_tflops": "fp32",
    "tf32_tflops": "tf32",
    "bf16_tflops": "bf16",
    "fp16_tflops": "fp16",
    "fp8_tflops": "fp8",
    "int8_tops": "int8",
    "fp4_tflops": "fp4",
    "int4_tops": "int4",
}
# Column of the table -> field of the record, and what one unit of the column is in the field's.
_NUMBERS: Final[dict[str, tuple[str, float]]] = {
    "memory_gb": ("memory_bytes", 2**30),
    "mem_bw_gbps": ("memory_bandwidth_bytes_per_second", 1e9),
    "scaleup_gbps_bidir": ("scale_up_bytes_per_second_both_ways", 1e9),
    "scaleup_gbps_uni": ("scale_up_bytes_per_second_one_way", 1e9),
    "tdp_w": ("tdp_watts", 1),
    "l2_mb": ("l2_bytes", 2**20),
    "llc_mb": ("last_level_cache_bytes", 2**20),
}
_TEXTS: Final[dict[str, str]] = {
    "vendor": "vendor",
    "arch": "architecture",
    "memory_type": "memory_type",
    "scaleup_link": "scale_up_link",
    "scaleup_domain": "scale_up_domain",
    "pcie": "pcie",
    "sms_or_cus": "compute_units",
    "release_year": "release_year",
    "on_demand_usd_h": "on_demand_usd_per_hour",
    "price_source_date": "price_source",
    "spec_source": "source",
    "read_here": "source_was_read",
    "note": "note",
}
COLUMNS: Final = ("name", *_TEXTS, *_NUMBERS, *_DTYPES, "names")


class HardwareFileError(ValueError):
    """A table that cannot be used; str() names the file, the line and the mend."""


@dataclass(frozen=True, slots=True)
class Hardware:
    """One card, or one GPU of a module that its driver shows as several. None: not known; "" likewise.

    peak_flops: dense FLOP/s by number format (operations a second for int8 and int4). scale_up_domain: how
    many cards the fast link joins, as the vendor writes it ("8", "1-256"). on_demand_usd_per_hour: what
    clouds asked at the time of `price_source`, for orientation only: never what somebody pays.
    source_was_read: "Y" where the numbers were read in the source, "N" where recalled, "part" for some.
    names: what drivers and exporters call it.
    """

    name: str
    vendor: str = ""
    architecture: str = ""
    memory_bytes: float | None = None
    memory_type: str = ""
    memory_bandwidth_bytes_per_second: float | None = None
    peak_flops: Mapping[str, float] = field(default_factory=lambda: MappingProxyType({}), hash=False)
    scale_up_link: str = ""
    scale_up_bytes_per_second_both_ways: float | None = None
    scale_up_bytes_per_second_one_way: float | None = None
    scale_up_domain: str = ""
    pcie: str = ""
    tdp_watts: float | None = None
    l2_bytes: float | None = None
    last_level_cache_bytes: float | None = None
    compute_units: str = ""
    release_year: str = ""
    on_demand_usd_per_hour: str = ""
    price_source: str = ""
    source: str = ""
    source_was_read: str = ""
    note: str = ""
    names: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class HardwareTable:
    """Every known card. A name that two files give to different cards is the later file's."""

    rows: tuple[Hardware, ...]
    _by_reported_name: Mapping[str, Hardware] = field(repr=False)

    @classmethod
    def of(cls, rows: Iterable[Hardware]) -> "HardwareTable":
        rows = tuple(rows)
        return cls(rows, {key: row for row in rows for key in _keys(row)})

    def match(self, model_name: str) -> Hardware | None:
        """The card that a driver or exporter calls so; None for a name that is not known."""
        return self._by_reported_name.get(folded(model_name))

    def named(self, name: str) -> Hardware | None:
        """The card of this name in the table itself, like "H100 SXM5 80GB"."""
        return next((row for row in self.rows if row.name == name), None)


def match(model_name: str) -> Hardware | None:
    """`HardwareTable.match` of the built-in table."""
    return load_hardware().match(model_name)


def folded(name: str) -> str:
    """The name without what does not count; "" for one that is no name."""
    return _SEPARATORS.sub(" ", name).strip().casefold() if len(name) <= MAX_NAME_LENGTH else ""


def load_hardware(files: Sequence[Path] = ()) -> HardwareTable:
    """The built-in table with what these files add and override. Raises HardwareFileError."""
    if not files:
        return _built_in()
    found = {row.name: row for row in _built_in().rows}
    for path in files:
        found = _merged(found, path)
    return HardwareTable.of(found.values())


@cache
def _built_in() -> HardwareTable:
    return HardwareTable.of(_merged({}, _FILE).values())


def _keys(row: Hardware) -> Iterator[str]:
    """Under what the names of this card are found."""
    prefix = f"{folded(row.vendor)} "
    for name in row.names:
        whole = folded(name)
        yield whole
        yield whole.removeprefix(prefix)


def _merged(rows: Mapping[str, Hardware], path: Path) -> dict[str, Hardware]:
    """The rows with this file's over them: cells that it fills override, names that it gives are added."""
    result = dict(rows)
    owners: dict[str, str] = {}
    for line, cells in _lines(path):
        place = f"{path}:{line}"
        name = cells.pop("name", "")
        if not name:
            raise HardwareFileError(f"{place}: has no name; give the card one in the first column")
        before = result.get(name, Hardware(name))
        row = replace(before, **_values(cells, before, place))
        keys = set(_keys(row))
        for key in keys:
            if (owner := owners.setdefault(key, name)) != name:
                reason = f"{key!r} is a name of {owner!r} already; leave it to one card"
                raise HardwareFileError(f"{place}: {reason}")
        for other in [one for one in result.values() if one.name != name and keys & set(_keys(one))]:
            left = tuple(one for one in other.names if not keys & set(_keys(replace(other, names=(one,)))))
            result[other.name] = replace(other, names=left)
        result[name] = row
    return result


def _values(cells: Mapping[str, str], before: Hardware, place: str) -> dict[str, Any]:
    values: dict[str, Any] = {}
    rates = dict(before.peak_flops)
    for column, text in cells.items():
        if column in _TEXTS:
            values[_TEXTS[column]] = text
        elif column in _NUMBERS:
            target, unit = _NUMBERS[column]
            values[target] = _number(text, column, place) * unit
        elif column in _DTYPES:
            rates[_DTYPES[column]] = _number(text, column, place) * 1e12
        else:
            names = (name.strip() for name in text.split(_BETWEEN_NAMES))
            values["names"] = tuple(dict.fromkeys((*before.names, *(name for name in names if name))))
    return values | {"peak_flops": MappingProxyType(rates)}


def _number(text: str, column: str, place: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not (math.isfinite(number) and number > 0):
        raise HardwareFileError(
            f"{place}: {column} {text[:40]!r} is not a number above 0; correct or empty it"
        )
    return number


def _lines(path: Path) -> Iterator[tuple[int, dict[str, str]]]:
    """Line number and filled cells of every row. Raises HardwareFileError."""
    try:
        with path.open("rb") as file:
            content = file.read(_MAX_FILE_BYTES + 1)
        text = content.decode("utf-8-sig")  # spreadsheets put a byte order mark in front
    except OSError as error:
        raise HardwareFileError(f"{path}: cannot be read: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise HardwareFileError(f"{path}: is not UTF-8 text; save it as CSV in UTF-8") from error
    if len(content) > _MAX_FILE_BYTES:
        raise HardwareFileError(f"{path}: is larger than 4 MB; it is a table of cards, one a line")
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    try:
        header = [cell.strip() for cell in next(reader, [])]
        if "name" not in header:
            raise HardwareFileError(f"{path}:1: has no column 'name'; the columns are {', '.join(COLUMNS)}")
        for column in header:
            if column not in COLUMNS:
                hint = suggest(column, COLUMNS)
                raise HardwareFileError(f"{path}:1: unknown column {column[:40]!r}{hint}")
        for cells in reader:
            if len(cells) > len(header):
                reason = (
                    f"has {len(cells)} cells for {len(header)} columns; put quotes around one with a comma"
                )
                raise HardwareFileError(f"{path}:{reader.line_num}: {reason}")
            filled = {
                column: cell.strip() for column, cell in zip(header, cells, strict=False) if cell.strip()
            }
            if filled:
                yield reader.line_num, filled
    except csv.Error as error:
        raise HardwareFileError(f"{path}:{reader.line_num}: is not CSV: {error}") from error
