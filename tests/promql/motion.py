"""Captured pages set in motion: a few scrapes, or only one, become an hour of them.

Several scrapes of one program are played again and again, its counters going on from where they were. Of a
single scrape the counters grow by what they show, each in its own rhythm, and the gauges wave about what they
show. The same labels always move in the same way.
"""

import functools
import re
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from collectors.exposition import PageParser
from db.labels import METRIC_NAME
from db.nan import BoolArray, FloatArray

FIXTURES = Path(__file__).parents[1] / "fixtures"
SCRAPES = 240
INTERVAL_MS = 15_000
MINUTES: FloatArray = np.arange(SCRAPES) * INTERVAL_MS / 60_000
# Counters that a page does not declare as such.
_UNTYPED_COUNTERS = re.compile(r"node_(vmstat|netstat)_\w+")
# What a program says of itself stays: limits, sizes, names, versions, prices (and states: small numbers).
_FIXED = re.compile(
    r".*(_info|_size_bytes|_total_bytes|MemTotal_bytes|_limit|_LIMIT|_maximum|_MAX_\w+|SLOWDOWN_TEMP|FB_RESERVED"
    r"|_interval_seconds|_price_\w+|_peak_\w+|_max_\w+|_hash|_avail_bytes|_code|_replicas|_WIDTH|XID_\w+|_bytes_per_second)"
)
_TIMES = re.compile(r".*(_timestamp_seconds|_time_seconds|_expiry)")
_STATE_AT_MOST = 16.0
_GROWTH_AN_HOUR = 0.6
# When the hour begins, a program has run for some time: a counter near zero is extrapolated to its zero
# point, which Prometheus 2 and 3 do differently.
_ROUNDS_BEFORE = 3


@dataclass(frozen=True, slots=True)
class Shown:
    """A series as its pages show it. values: float64[SCRAPES]; there: bool[SCRAPES]."""

    labels: Mapping[str, str]
    counter: bool
    values: FloatArray
    there: BoolArray

    @property
    def name(self) -> str:
        return self.labels[METRIC_NAME]


@dataclass(frozen=True, slots=True)
class Pages:
    """The same series over several scrapes. values: float64[scrapes, series], NaN where a page lacks one."""

    labels: Sequence[Mapping[str, str]]
    counters: BoolArray
    values: FloatArray


@functools.cache
def read_pages(pattern: str, families: str) -> Pages:
    """The scrapes in the fixtures' files of this pattern, in order of their names; of each the series whose
    metric's name is as `families` says (never the times of a counter's creation)."""
    wanted = re.compile(rf"({families})(?<!_created)")
    index: dict[str, int] = {}
    labels: list[Mapping[str, str]] = []
    types: dict[str, str] = {}
    scrapes = []
    for path in sorted(FIXTURES.glob(pattern)):
        page = PageParser().parse(path.read_bytes(), "text")
        types |= {one.family: one.type for one in page.layout.metadata}
        shown = {}
        for place, key in enumerate(page.layout.keys):
            if wanted.fullmatch(key.partition("{")[0]) is None:
                continue
            if key not in index:
                index[key] = len(index)
                labels.append(dict(page.layout.labels(place)))
            shown[index[key]] = page.values[place]
        scrapes.append(shown)
    assert scrapes, pattern
    values = np.array([[shown.get(place, np.nan) for place in range(len(index))] for shown in scrapes])
    counters = np.array([_is_counter(one[METRIC_NAME], types) for one in labels])
    return Pages(labels, counters, values)


def _is_counter(name: str, types: Mapping[str, str]) -> bool:
    family = re.sub(r"_(bucket|sum|count)$", "", name)
    return (
        types.get(name) == "counter"
        or (family != name and types.get(family) in ("histogram", "summary"))
        or _UNTYPED_COUNTERS.fullmatch(name) is not None
    )


def moved(
    pages: Pages, instance: str, levels: Mapping[str, tuple[float, float]], shift: float
) -> Iterator[Shown]:
    """An hour of each series. levels: lowest and highest value of gauges by name, where what the page shows
    is not typical; shift: seconds from the pages' time to the hour's beginning."""
    once = len(pages.values) == 1
    for labels, counter, column in zip(pages.labels, pages.counters, pages.values.T, strict=True):
        name = labels[METRIC_NAME]
        random = _random(instance, labels)
        if name in levels:
            values = _waving(*levels[name], random)
        elif _TIMES.fullmatch(name) and column[-1] > 0:
            values = np.full(SCRAPES, column[-1] + shift)
        elif not once:
            values = _played(column, bool(counter))
        elif counter:
            values = _grown(column[0], random)
        elif _FIXED.fullmatch(name) or (abs(column[0]) <= _STATE_AT_MOST and column[0] == round(column[0])):
            values = np.full(SCRAPES, column[0])
        else:
            values = _waving(0.85 * column[0], 1.15 * column[0], random)
        yield Shown(labels, bool(counter), values, np.ones(SCRAPES, dtype=np.bool_))


def _random(instance: str, labels: Mapping[str, str]) -> np.random.Generator:
    """Of a series; all of a histogram have the same, so that a longer bucket never has less."""
    name = re.sub(r"_(bucket|sum|count)$", "", labels[METRIC_NAME])
    rest = sorted(pair for pair in labels.items() if pair[0] not in (METRIC_NAME, "le", "quantile"))
    return np.random.default_rng(zlib.crc32(repr((instance, name, rest)).encode()))


def _played(column: FloatArray, counter: bool) -> FloatArray:
    """column: float64[scrapes], NaN where the page did not show it yet."""
    shown = np.nan_to_num(column)
    if not counter:
        return shown[np.arange(SCRAPES) % len(column)]
    rounds, place = np.divmod(np.arange(SCRAPES), len(column) - 1)
    return shown[place] + (_ROUNDS_BEFORE + rounds) * (shown[-1] - shown[0])


def _grown(value: float, random: np.random.Generator) -> FloatArray:
    """A counter that shows this at the hour's beginning."""
    total = np.cumsum(random.uniform(0.5, 1.5, SCRAPES)) / SCRAPES
    values = value * (1 + _GROWTH_AN_HOUR * total)
    return np.floor(values) if value == np.floor(value) else values


def _waving(low: float, high: float, random: np.random.Generator) -> FloatArray:
    """Whole numbers between two whole numbers."""
    turn = 2 * np.pi * (MINUTES / random.uniform(9, 23) + random.random())
    values = low + (high - low) * (0.5 + 0.42 * np.sin(turn) + random.uniform(-0.08, 0.08, SCRAPES))
    return np.round(values) if low == round(low) and high == round(high) else np.round(values, 6)
