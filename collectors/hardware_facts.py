"""What the GPUs seen here can do at most, and what they cost, as constant series that queries divide by.

Peak rates, memory and power come from the table of hardware, for the names that drivers and exporters report;
a name that the table does not have has no series. Prices come from the settings alone: a GPU without a price
there has none here, never a cloud's list price.
"""

from collections import defaultdict
from collections.abc import Callable, Set
from typing import Final

from collectors.types import CollectFailed, Family, LabelPairs, NoData, Sample
from db.catalog.hardware import Hardware, HardwareFileError, HardwareTable, load_hardware
from db.logs import printable
from db.price_settings import PriceSettings
from db.settings import Settings

_TOLD: Final = 3  # unknown names in the note on the Sources page
_TOLD_LENGTH: Final = 60
_HELP: Final = {
    "strata_gpu_peak_flops": (
        "Highest dense rate of this GPU in a number format, in FLOP/s (int8 and int4: operations a second)."
    ),
    "strata_gpu_memory_bandwidth_bytes_per_second": "Highest rate of this GPU's memory.",
    "strata_gpu_memory_bytes": "Memory that is built into this GPU; its driver shows a little less.",
    "strata_gpu_tdp_watts": "Power that this GPU is designed for.",
    "strata_gpu_price_usd_per_hour": "What an hour of this GPU costs, from the settings (prices).",
    "strata_gpu_owned": "1 where the price leaves out electricity, since the GPU is owned; 0 where rented.",
    "strata_electricity_price_usd_per_kwh": "What electricity costs, from the settings (prices).",
    "strata_power_usage_effectiveness": "Power of the site over that of its machines, from the settings.",
}


class HardwareCollector:
    """Collector of constants. `models` gives the GPU model names seen so far; may raise CollectFailed."""

    name = "hardware"
    job = "hardware"

    def __init__(self, models: Callable[[], Set[str]]) -> None:
        self._models = models
        self._settings: Settings | None = None
        self._loaded: tuple[Settings | None, HardwareTable] | None = None
        self.note = ""
        self.trouble = ""

    def configure(self, settings: Settings) -> None:
        self._settings = settings

    def collect(self) -> tuple[Family, ...]:
        """Raises NoData, CollectFailed."""
        settings = self._settings  # a reload may replace them meanwhile
        table = self._table_of(settings)
        prices = PriceSettings() if settings is None else settings.prices
        models = sorted(self._models())
        if not models:
            raise NoData("no GPU is known yet")
        page = _Page()
        unknown = []
        for model in models:
            hardware = table.match(model)
            if hardware is None:
                unknown.append(model)
            else:
                page.add_hardware(model, hardware)
            page.add_price(model, hardware, prices)
        self.note = _note(unknown)
        if page.is_empty():
            raise NoData(self.note)
        page.add_electricity(prices)
        return page.families()

    def _table_of(self, settings: Settings | None) -> HardwareTable:
        """Read again after an error and a reload, so that mending the file is enough."""
        if self._loaded is None or self._loaded[0] is not settings:
            own = None if settings is None else settings.hardware_file
            try:
                self._loaded = settings, load_hardware(() if own is None else (own,))
            except HardwareFileError as error:
                raise CollectFailed(printable(str(error))) from error
        return self._loaded[1]


def _note(unknown: list[str]) -> str:
    if not unknown:
        return ""
    names = ", ".join(printable(name[:_TOLD_LENGTH]) for name in unknown[:_TOLD])
    more = f" and {len(unknown) - _TOLD} more" if len(unknown) > _TOLD else ""
    return f"not in the table of hardware: {names}{more}; add them in a file and name it as hardware_file"


class _Page:
    def __init__(self) -> None:
        self._samples: dict[str, list[Sample]] = defaultdict(list)

    def add_hardware(self, model: str, hardware: Hardware) -> None:
        labels = (("modelName", model),)
        for dtype, rate in hardware.peak_flops.items():
            self._add("strata_gpu_peak_flops", (*labels, ("dtype", dtype)), rate)
        bandwidth = hardware.memory_bandwidth_bytes_per_second
        self._add("strata_gpu_memory_bandwidth_bytes_per_second", labels, bandwidth)
        self._add("strata_gpu_memory_bytes", labels, hardware.memory_bytes)
        self._add("strata_gpu_tdp_watts", labels, hardware.tdp_watts)

    def add_price(self, model: str, hardware: Hardware | None, prices: PriceSettings) -> None:
        price = prices.of(model, *(() if hardware is None else (hardware.name,)))
        if price is not None:
            labels = (("modelName", model),)
            self._add("strata_gpu_price_usd_per_hour", labels, price.usd_per_hour)
            self._add("strata_gpu_owned", labels, float(price.owned))

    def add_electricity(self, prices: PriceSettings) -> None:
        self._add("strata_electricity_price_usd_per_kwh", (), prices.electricity_usd_per_kwh)
        self._add("strata_power_usage_effectiveness", (), prices.power_usage_effectiveness)

    def is_empty(self) -> bool:
        return not self._samples

    def families(self) -> tuple[Family, ...]:
        return tuple(
            Family(name, "gauge", text, tuple(self._samples[name]))
            for name, text in _HELP.items()
            if name in self._samples
        )

    def _add(self, name: str, labels: LabelPairs, value: float | None) -> None:
        if value is not None:
            self._samples[name].append(Sample(name, labels, value))
