"""Families as a text page, version 0.0.4: what every Prometheus-compatible scraper reads.

The 0.0.4 format knows five types and names a family after its series, so OpenMetrics families are put into
its terms: `unknown` is untyped; `info` and `stateset` are gauges; a gaugehistogram's buckets are a
histogram and its `_gsum` and `_gcount` gauges; `_created` series are gauges of their own (prometheus_client
does the same).
"""

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass, field

from collectors.types import Family, MetricType, Sample

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

METRIC_NAME = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*")
LABEL_NAME = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")

# Series that belong to a family of this type under the family's own name and TYPE line.
SUFFIXES: dict[MetricType, tuple[str, ...]] = {
    "histogram": ("_bucket", "_sum", "_count"),
    "gaugehistogram": ("_bucket",),
    "summary": ("", "_sum", "_count"),
}
TYPES: dict[MetricType, str] = {
    "counter": "counter",
    "gauge": "gauge",
    "histogram": "histogram",
    "gaugehistogram": "histogram",
    "summary": "summary",
    "info": "gauge",
    "stateset": "gauge",
    "unknown": "untyped",
}


@dataclass(slots=True)
class _Block:
    """What is printed together: HELP, TYPE, samples."""

    type: str
    help: str
    samples: list[Sample] = field(default_factory=list)


def render(families: Iterable[Family]) -> str:
    """The page, one block a family in the order of first appearance; a family without samples has none.

    Families of one name are merged; the first one's TYPE and HELP stand. Every number reads back as the
    same float64 (a NaN as the one NaN that the format has).

    Raises ValueError for a metric or label name that the format cannot carry.
    """
    blocks: dict[str, _Block] = {}
    for family in families:
        for sample in family.samples:
            name, type_ = _block_of(family, sample.name)
            block = blocks.get(name)
            if block is None:
                _check(METRIC_NAME, name, "metric")
                block = blocks[name] = _Block(type_, family.help)
            block.samples.append(sample)
    lines: list[str] = []
    for name, block in blocks.items():
        if block.help:
            lines.append(f"# HELP {name} {_escape_help(block.help)}")
        lines.append(f"# TYPE {name} {block.type}")
        lines.extend(map(_line, block.samples))
    return "\n".join(lines) + "\n" if lines else ""


def _block_of(family: Family, name: str) -> tuple[str, str]:
    """(name, type) of the block that a series is printed in."""
    suffixes = SUFFIXES.get(family.type)
    if suffixes is None:
        created = family.type == "counter" and name == family.name.removesuffix("_total") + "_created"
        return name, "gauge" if created else TYPES[family.type]
    suffix = name.removeprefix(family.name)
    if name.startswith(family.name) and suffix in suffixes:
        return family.name, TYPES[family.type]
    return name, "gauge"


def _line(sample: Sample) -> str:
    _check(METRIC_NAME, sample.name, "metric")
    labels = ",".join(
        f'{_check(LABEL_NAME, name, "label")}="{_escape_label(value)}"' for name, value in sample.labels
    )
    text = f"{sample.name}{{{labels}}} " if labels else f"{sample.name} "
    text += format_value(sample.value)
    return text if sample.timestamp_ms is None else f"{text} {sample.timestamp_ms}"


def format_value(value: float) -> str:
    """The shortest text that reads back as the same float64."""
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    text = repr(float(value))
    return text if text == "-0.0" else text.removesuffix(".0")  # some parsers read "-0" as the integer 0


def _check(pattern: re.Pattern[str], name: str, what: str) -> str:
    if not pattern.fullmatch(name):
        raise ValueError(
            f"{name!r} is no {what} name of the text format 0.0.4: it must match {pattern.pattern}"
        )
    return name


def _escape_label(value: str) -> str:
    return _unicode(value.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\""))


def _escape_help(text: str) -> str:
    return _unicode(text.replace("\\", r"\\").replace("\n", r"\n"))


def _unicode(text: str) -> str:
    """A page is UTF-8: half a surrogate pair (from a file name, say) cannot be encoded."""
    return text.encode("utf-8", "replace").decode("utf-8")
