"""What the charts below the tiles can show: each is one field of a summary, drawn over time.

A chart is data: adding one is adding one entry.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from app.analysis.decimate import decimate
from app.summaries.gpus import Gpu
from app.summaries.hosts import Host
from app.summaries.reading import Reading
from app.summaries.targets import Target
from db.nan import FloatArray, IntArray

Band = Literal["hosts", "gpus", "targets"]
Summary = Host | Gpu | Target
Owner = tuple[str, ...]
Unit = Literal["ratio", "bytes", "bytes_per_second", "watts", "celsius", "seconds", "requests", "per_second"]

# More lines than that cannot be told apart; the highest now are shown.
MAX_LINES = 12


@dataclass(frozen=True, slots=True)
class Chart:
    """key: its name in the URL. lines: from one summary of the band to its named readings."""

    key: str
    title: str
    band: Band
    unit: Unit
    lines: Callable[[Any], Mapping[str, Reading]]


def _serving(field: str) -> Callable[[Target], Mapping[str, Reading]]:
    def lines(target: Target) -> Mapping[str, Reading]:
        return {} if target.serving is None else {"": getattr(target.serving, field)}

    return lines


def _field(name: str) -> Callable[[Any], Mapping[str, Reading]]:
    return lambda summary: {"": getattr(summary, name)}


_CHARTS = (
    Chart("cpu", "CPU busy", "hosts", "ratio", _field("cpu_busy_ratio")),
    Chart("memory", "Memory used", "hosts", "bytes", _field("memory_used_bytes")),
    Chart(
        "disk",
        "Disk I/O",
        "hosts",
        "bytes_per_second",
        lambda host: {"read": host.disk_read_bytes, "written": host.disk_written_bytes},
    ),
    Chart(
        "network",
        "Network",
        "hosts",
        "bytes_per_second",
        lambda host: {"in": host.network_in_bytes, "out": host.network_out_bytes},
    ),
    Chart("pressure", "Pressure", "hosts", "ratio", lambda host: host.pressure_ratio),
    Chart("gpu", "GPU utilisation", "gpus", "ratio", _field("utilisation_ratio")),
    Chart("gpu_memory", "GPU memory", "gpus", "bytes", _field("memory_used_bytes")),
    Chart("gpu_power", "GPU power", "gpus", "watts", _field("power_watts")),
    Chart("gpu_temperature", "GPU temperature", "gpus", "celsius", _field("temperature_celsius")),
    Chart("running", "Requests running", "targets", "requests", _serving("running")),
    Chart("waiting", "Requests waiting", "targets", "requests", _serving("waiting")),
    Chart("tokens", "Generated tokens", "targets", "per_second", _serving("generated_per_second")),
    Chart("scrape", "Scrape duration", "targets", "seconds", _field("duration")),
)
CHARTS = {chart.key: chart for chart in _CHARTS}


@dataclass(frozen=True, slots=True, eq=False)
class Line:
    """timestamps: int64[n], ms. values: float64[n], NaN where the line breaks. name: untrusted text."""

    name: str
    timestamps: IntArray
    values: FloatArray


@dataclass(frozen=True, slots=True, eq=False)
class History:
    """The lines to draw, highest at the window's end first. total: how many there would be."""

    lines: tuple[Line, ...]
    total: int


def offered(hosts: Sequence[Host], gpus: Sequence[Gpu], targets: Sequence[Target]) -> list[Chart]:
    """The charts that have something to show."""
    bands: dict[Band, Sequence[Any]] = {"hosts": hosts, "gpus": gpus, "targets": targets}
    return [
        chart
        for chart in CHARTS.values()
        if any(
            bool((~np.isnan(line.trend)).any())
            for summary in bands[chart.band]
            for line in chart.lines(summary).values()
        )
    ]


@dataclass(frozen=True, slots=True)
class Choice:
    """Whose lines a chart draws, highest first, and of how many lines that is a part. instances: of the
    targets that report them; none where that is not known of all."""

    owners: tuple[Owner, ...]
    instances: frozenset[str]
    total: int


def owner(summary: Summary) -> Owner:
    """What tells one from another."""
    if isinstance(summary, Gpu):
        return summary.host, summary.uuid or summary.index, summary.mig
    return summary.job, summary.instance


def summary_name(summary: Summary) -> str:
    """What a line of it is called. Untrusted text."""
    if isinstance(summary, Host):
        return summary.instance
    if isinstance(summary, Gpu):
        index = f"GPU {summary.index}" + (f" MIG {summary.mig}" if summary.mig else "")
        return f"{summary.host} {index}"
    return f"{summary.job} {summary.instance}"


def highest(chart: Chart, summaries: Iterable[Summary]) -> Choice:
    """Those with the highest values now, as many as make MAX_LINES lines (one at least)."""
    ranked = []
    for summary in summaries:
        lines = [line for line in chart.lines(summary).values() if not np.isnan(line.trend).all()]
        if lines:
            ranked.append((max(_rank(line) for line in lines), len(lines), summary))
    ranked.sort(key=lambda item: item[0], reverse=True)
    per_owner = max((count for _, count, _ in ranked), default=1)
    chosen = [summary for _, _, summary in ranked[: max(MAX_LINES // per_owner, 1)]]
    instances = frozenset(summary.instance for summary in chosen)
    return Choice(
        tuple(owner(summary) for summary in chosen),
        instances if "" not in instances else frozenset(),
        sum(count for _, count, _ in ranked),
    )


def draw_lines(chart: Chart, choice: Choice, summaries: Iterable[Summary], at: IntArray) -> History:
    """The chosen ones' lines over the grid the summaries were made on, decimated."""
    rank = {key: position for position, key in enumerate(choice.owners)}
    chosen = sorted((one for one in summaries if owner(one) in rank), key=lambda one: rank[owner(one)])
    lines = [
        Line(f"{summary_name(summary)} {suffix}".rstrip(), *decimate(at, line.trend))
        for summary in chosen
        for suffix, line in chart.lines(summary).items()
        if not np.isnan(line.trend).all()
    ]
    return History(tuple(lines), max(choice.total, len(lines)))


def _rank(line: Reading) -> float:
    return -np.inf if line.value is None else line.value
