"""The values of a signal at one time; quantiles with what is known about them."""

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from app.analysis.quantiles import Bound, Quantile, bucket_quantile
from db.catalog.signal import Buckets, Resolved
from db.config_types import parse_duration
from db.nan import FloatArray
from db.promql.answer import Answer
from db.promql.engine import Options, instant
from db.promql.histograms import bucket_bound
from db.promql.source import Source

_OPTIONS = Options()
LabelPairs = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Reading:
    """One value. labels: the ones that the signal was resolved by, empty ones left out. bound: whether a
    quantile is only known to be below or above value. observations: in the window, None where unknown."""

    labels: LabelPairs
    value: float
    bound: Bound = ""
    observations: float | None = None


def read_signal(
    source: Source,
    resolved: Resolved,
    at_ms: int,
    options: Options = _OPTIONS,
    *,
    known: dict[str, Answer] | None = None,
) -> list[Reading]:
    """Every series of the signal, ordered by labels. Raises db.promql.errors.QueryError.

    known: buckets that were read at that time, by PromQL: all quantiles of a distribution are told from the
    same. What is read is added.
    """
    if not resolved.buckets:
        return list(_values(instant(source, resolved.promql, at_ms, options)))
    found: dict[LabelPairs, Reading] = {}
    for buckets in resolved.buckets:
        answer = known.get(buckets.promql) if known is not None else None
        if answer is None:
            answer = instant(source, buckets.promql, at_ms, options)
        if known is not None:
            known[buckets.promql] = answer
        for reading in _quantiles(answer, buckets, resolved):
            _keep_larger(found, reading)
    if resolved.plain:
        for reading in _values(instant(source, resolved.plain, at_ms, options)):
            _keep_larger(found, reading)
    return [found[labels] for labels in sorted(found)]


def _keep_larger(found: dict[LabelPairs, Reading], reading: Reading) -> None:
    """Of one thing's buckets in two exporters: the slower one, as the signal's PromQL answers. One without
    traffic hides no other."""
    former = found.get(reading.labels)
    if former is None or math.isnan(former.value) or reading.value > former.value:
        found[reading.labels] = reading


def _values(answer: Answer) -> Iterator[Reading]:
    rows = zip(answer.table.rows(), answer.values[:, 0].tolist(), strict=True)
    yield from sorted(
        (Reading(tuple(labels), value) for labels, value in rows), key=lambda reading: reading.labels
    )


def _quantiles(answer: Answer, buckets: Buckets, resolved: Resolved) -> Iterator[Reading]:
    assert resolved.signal.quantile is not None  # noqa: S101  only quantiles have buckets
    seconds = parse_duration(resolved.window)
    for labels, edges, rates in _groups(answer):
        found: Quantile = bucket_quantile(resolved.signal.quantile, edges, rates)
        yield Reading(labels, found.value * buckets.scale, found.bound, found.observations * seconds)


def _groups(
    answer: Answer,
) -> Iterator[tuple[LabelPairs, FloatArray, FloatArray]]:
    """The buckets of each series: labels without `le`, edges ascending, counts a second. Edges that are
    written in two ways ("1" and "1.0") are one, and what they count is added, as Prometheus does."""
    groups: dict[LabelPairs, dict[float, float]] = {}
    for labels, value in zip(answer.table.rows(), answer.values[:, 0].tolist(), strict=True):
        edge = bucket_edge(dict(labels).get("le", ""))
        if edge is not None:
            others = tuple(pair for pair in labels if pair[0] != "le")
            counts = groups.setdefault(others, {})
            counts[edge] = counts.get(edge, 0.0) + value
    for others, counts in groups.items():
        ordered = np.array(sorted(counts.items()))
        yield others, ordered[:, 0], ordered[:, 1]


def bucket_edge(text: str) -> float | None:
    """None for a bucket that no reader can place."""
    edge = bucket_bound(text)
    return None if edge is None or math.isnan(edge) else edge
