"""`prices` in the settings: what the user pays, as the only source of cost.

Without a price nothing is said about cost: a cloud's list price is not what somebody pays, and an owned GPU
has none. So every price says whether the GPU is owned.
"""

import math
from typing import Annotated, Any, Final

from pydantic import AfterValidator, BeforeValidator

from db.catalog.hardware import folded
from db.config_types import Name, Section, Switch
from db.yaml_lines import Plain

_MOST_USD: Final = 1e6
_MOST_PUE: Final = 10.0  # the worst machine rooms have 3: more is a mistake in the unit


def _number(value: Any) -> float:
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        number = float(value)
    elif isinstance(value, Plain):
        try:
            number = float(value)
        except ValueError:
            number = math.nan
    else:
        raise ValueError("has to be a number" + (", without quotes" if isinstance(value, str) else ""))
    if not math.isfinite(number):
        raise ValueError(f"has to be a number, like 2.5, not {str(value)[:40]!r}")
    return number


def _price(number: float) -> float:
    if not 0 <= number <= _MOST_USD:
        raise ValueError("has to be between 0 and 1000000 US dollars")
    return number


def _pue(number: float) -> float:
    if not 1 <= number <= _MOST_PUE:
        raise ValueError("has to be between 1 and 10: the power of the whole site over that of its machines")
    return number


def _pattern(text: str) -> str:
    if not folded(text):
        raise ValueError("has to name a GPU, like NVIDIA H100 80GB HBM3 or NVIDIA H100*")
    return text


UsDollars = Annotated[float, BeforeValidator(_number), AfterValidator(_price)]


class GpuPrice(Section):
    """What an hour of one GPU costs.

    gpu: the name that the driver reports or that the table of hardware has; `*` stands for any characters.
    owned: then the price is the share of what was paid for it, and electricity comes on top.
    """

    gpu: Annotated[Name, AfterValidator(_pattern)]
    usd_per_hour: UsDollars
    owned: Switch

    def fits(self, *names: str) -> bool:
        """Is one of these names of a GPU meant?"""
        return any(_fits(self.gpu, folded(name)) for name in names)


class PriceSettings(Section):
    """What GPUs and electricity cost. power_usage_effectiveness: the site's power over its machines'."""

    gpus: tuple[GpuPrice, ...] = ()
    electricity_usd_per_kwh: UsDollars | None = None
    power_usage_effectiveness: Annotated[float, BeforeValidator(_number), AfterValidator(_pue)] | None = None

    def of(self, *names: str) -> GpuPrice | None:
        """The first price that is meant for a GPU of these names."""
        return next((price for price in self.gpus if price.fits(*names)), None)


def _fits(pattern: str, name: str) -> bool:
    """`*` by searching what is around it from left to right: no backtracking, whatever the name is."""
    first, *others = folded(pattern).split("*")
    if not name:
        return False
    if not others:
        return name == first
    *middle, last = others
    at = len(first)
    for part in middle:
        found = name.find(part, at)
        if found < 0:
            return False
        at = found + len(part)
    return name.startswith(first) and name.endswith(last) and at + len(last) <= len(name)
