"""Hardware sensors of /sys/class/hwmon: temperatures, fans, voltages, power supplies."""

import re
from collections import Counter
from collections.abc import Iterable
from functools import cache
from pathlib import Path

from collectors.host_reading import FamilyTable, Metric, list_names, read_attribute
from collectors.types import Family, MetricType, Unsupported

KINDS = "vrm|beep_enable|update_interval|in|cpu|fan|pwm|temp|curr|power|energy|humidity|intrusion|freq"
# temp1_crit_alarm is sensor temp1, element crit_alarm; pwm1 is sensor pwm1, element "".
SENSOR_FILE = re.compile(rf"(?P<kind>{KINDS})(?P<number>\d*)(_(?P<element>.+))?")
NOT_IN_NAMES = re.compile(r"[^a-z0-9:_]")

CHIP_NAME = Metric(
    "node_hwmon_chip_names",
    "gauge",
    "Annotation metric for human-readable chip names",
    ("chip", "chip_name"),
)
SENSOR_LABEL = Metric(
    "node_hwmon_sensor_label", "gauge", "Label for given chip and sensor", ("chip", "label", "sensor")
)
SENSOR = ("chip", "sensor")

MILLI, MICRO = 0.001, 1000000.0


class Hwmon:
    name = "hwmon"

    def __init__(self, sys: Path) -> None:
        self._class = Path(sys, "class/hwmon")

    def families(self) -> Iterable[Family]:
        try:
            chips = [self._class / name for name in list_names(str(self._class))]
        except FileNotFoundError:
            raise Unsupported(f"no hardware sensors ({self._class})") from None
        table = FamilyTable()
        for chip, folder in _chip_names(chips):
            readable = _clean(read_attribute(f"{folder}/name") or "")
            if readable:
                table.add(CHIP_NAME, 1, chip, readable)
            for sensor, elements in _sensors(folder).items():
                _add_sensor(table, chip, sensor, elements)
        return table.families()


def _chip_names(folders: list[Path]) -> Iterable[tuple[str, Path]]:
    """A name that survives a reboot: hwmon numbers follow the order in which modules are loaded.

    Several chips of one device (a wireless card has one per radio) are told apart by their own name.
    """
    paths = [_device_name(folder) for folder in folders]
    shared = Counter(paths)
    for path, folder in zip(paths, folders, strict=True):
        own = _clean(read_attribute(f"{folder}/name") or "")
        if not path:
            yield own or _clean(folder.resolve().name), folder
        elif shared[path] > 1 and own:
            yield f"{path}_{own}", folder
        else:
            yield path, folder


def _device_name(folder: Path) -> str:
    """/sys/devices/platform/coretemp.0 is platform_coretemp_0; "" for a chip without a device."""
    try:
        device = (folder / "device").resolve(strict=True)
    except OSError:
        return ""
    bus, name = _clean(device.parent.name), _clean(device.name)
    return f"{bus}_{name}" if bus and name else name


def _sensors(folder: Path) -> dict[str, dict[str, str]]:
    """Sensor -> element -> text; some old drivers put the files under device/."""
    found: dict[str, dict[str, str]] = {}
    for place in (f"{folder}", f"{folder}/device"):
        try:
            names = list_names(place)
        except OSError:
            continue
        for name in names:
            match = SENSOR_FILE.fullmatch(name)
            if match is None:
                continue
            text = read_attribute(f"{place}/{name}")
            if text is not None:
                sensor = f"{match['kind']}{int(match['number'] or 0)}"
                found.setdefault(sensor, {})[match["element"] or ""] = text
    return found


def _add_sensor(table: FamilyTable, chip: str, sensor: str, elements: dict[str, str]) -> None:
    kind = sensor.rstrip("0123456789")
    label = elements.pop("label", "")
    if label:
        table.add(SENSOR_LABEL, 1, chip, label, sensor)
    for element, text in elements.items():
        try:
            value = float(text)
        except ValueError:
            continue
        # Frequencies (of AMD GPUs) carry their label as the sensor's name: sclk, mclk.
        shown = _clean(label) or sensor if kind == "freq" else sensor
        found = _element(kind, element, "" in elements)
        if found is not None:
            metric, convert = found
            table.add(metric, value * convert if convert <= 1 else value / convert, chip, shown)


@cache
def _element(kind: str, element: str, has_bare_file: bool) -> tuple[Metric, float] | None:
    """The metric of one element and its conversion: a factor up to 1, a divisor above."""
    name = f"node_hwmon_{kind}"
    if element == "input":
        name += "_input" if has_bare_file else ""
    elif element:
        name += f"_{_clean(element)}"
    shown = element or "input"

    def metric(
        suffix: str, text: str, convert: float = 1, type_: MetricType = "gauge"
    ) -> tuple[Metric, float]:
        return Metric(name + suffix, type_, text, SENSOR), convert

    monitor = "Hardware monitor"
    match kind, element:
        case "beep_enable", _:
            return Metric("node_hwmon_beep_enabled", "gauge", "Hardware beep enabled", SENSOR), 1
        case "vrm", _:
            text = "Hardware voltage regulator"
            return Metric("node_hwmon_voltage_regulator_version", "gauge", text, SENSOR), 1
        case "update_interval", _:
            text = "Hardware monitor update interval"
            return Metric("node_hwmon_update_interval_seconds", "gauge", text, SENSOR), MILLI
        case _, "fault" | "alarm":
            return metric("", f"Hardware sensor {element} status ({kind})")
        case _, "beep":
            return metric("_enabled", f"{monitor} sensor has beeping enabled")
        case (("in" | "cpu"), _):
            return metric("_volts", f"{monitor} for voltage ({element})", MILLI)
        case "temp", _ if element != "type":
            return metric("_celsius", f"{monitor} for temperature ({shown})", MILLI)
        case "curr", _:
            return metric("_amps", f"{monitor} for current ({element})", MILLI)
        case "energy", _:
            return metric("_joule_total", f"{monitor} for joules used so far ({element})", MICRO, "counter")
        case "power", "accuracy":
            return metric("", f"{monitor} power meter accuracy, as a ratio", MICRO)
        case "power", "average_interval" | "average_interval_min" | "average_interval_max":
            return metric("_seconds", f"{monitor} power usage update interval ({element})", MILLI)
        case "power", _:
            return metric("_watt", f"{monitor} for power usage in watts ({element})", MICRO)
        case "humidity", _:
            text = "as a ratio (multiply with 100.0 to get the humidity as a percentage)"
            return metric("", f"{monitor} for humidity, {text} ({element})", MICRO)
        case "fan", "input" | "min" | "max" | "target":
            return metric("_rpm", f"{monitor} for fan revolutions per minute ({element})")
        case "freq", _:
            return (
                metric("_freq_mhz", f"{monitor} for GPU frequency in MHz", MICRO)
                if shown == "input"
                else None
            )
        case _:
            return metric("", f"{monitor} {kind} element {element}")


def _clean(text: str) -> str:
    return NOT_IN_NAMES.sub("_", text.lower()).strip("_")
