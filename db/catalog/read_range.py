"""The values of a signal over a range of steps; quantiles with what is known about them at each."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from app.analysis.quantile_steps import bucket_quantile_steps
from db.catalog.read import LabelPairs, bucket_edge
from db.catalog.signal import Buckets, Resolved
from db.config_types import parse_duration
from db.nan import FloatArray, IntArray
from db.promql.answer import Answer
from db.promql.engine import Options, ranged
from db.promql.source import Source

_OPTIONS = Options()


@dataclass(frozen=True, slots=True, eq=False)
class SignalSteps:
    """One series of a signal.

    labels: those that it was resolved by, empty ones left out. values: float64[steps], NaN where it has none.
    bounds: int8[steps]: -1 where a quantile is only known to be at most the value, 1 where at least; None for
    what is no quantile. observations: float64[steps], in the window before each step; None where unknown.
    """

    labels: LabelPairs
    values: FloatArray
    bounds: npt.NDArray[np.int8] | None = None
    observations: FloatArray | None = None


def read_steps(
    source: Source,
    resolved: Resolved,
    start_ms: int,
    end_ms: int,
    step_ms: int,
    options: Options = _OPTIONS,
) -> tuple[IntArray, list[SignalSteps]]:
    """The steps, int64[steps] in ms, and every series of the signal, ordered by labels. Raises
    db.promql.errors.QueryError."""
    times = np.arange(start_ms, end_ms + 1, step_ms, dtype=np.int64)
    span = (start_ms, end_ms, step_ms)
    if not resolved.buckets:
        return times, _plain(ranged(source, resolved.promql, *span, options), times)
    found: dict[LabelPairs, SignalSteps] = {}
    for buckets in resolved.buckets:
        for one in _quantiles(ranged(source, buckets.promql, *span, options), buckets, resolved, times):
            _keep_larger(found, one)
    if resolved.plain:
        for one in _plain(ranged(source, resolved.plain, *span, options), times):
            _keep_larger(found, one)
    return times, [found[labels] for labels in sorted(found)]


def _plain(answer: Answer, times: IntArray) -> list[SignalSteps]:
    values = _on_grid(answer, times)
    found = [SignalSteps(tuple(labels), row) for labels, row in zip(answer.table.rows(), values, strict=True)]
    return sorted(found, key=lambda one: one.labels)


def _on_grid(answer: Answer, times: IntArray) -> FloatArray:
    """float64[series, steps]: NaN where absent. An engine's own answer may lack steps that are empty."""
    held = answer.values if answer.there is None else np.where(answer.there, answer.values, np.nan)
    if len(answer.timestamps) == len(times):
        return held
    whole = np.full((len(held), len(times)), np.nan)
    whole[:, np.searchsorted(times, answer.timestamps)] = held
    return whole


def _quantiles(answer: Answer, buckets: Buckets, resolved: Resolved, times: IntArray) -> list[SignalSteps]:
    assert resolved.signal.quantile is not None  # noqa: S101  only quantiles have buckets
    seconds = parse_duration(resolved.window)
    rows: dict[LabelPairs, list[tuple[float, int]]] = {}
    for row, labels in enumerate(answer.table.rows()):
        edge = bucket_edge(dict(labels).get("le", ""))
        if edge is not None:
            others = tuple(pair for pair in labels if pair[0] != "le")
            rows.setdefault(others, []).append((edge, row))
    counts = _on_grid(answer, times)
    found = []
    for others, pairs in rows.items():
        ordered = sorted(pairs)
        edges, first = np.unique(np.array([edge for edge, _ in ordered]), return_index=True)
        quantiles = bucket_quantile_steps(
            # An edge that is written in two ways ("1" and "1.0") is one.
            resolved.signal.quantile,
            edges,
            np.add.reduceat(np.nan_to_num(counts[[row for _, row in ordered]]), first, axis=0),
        )
        found.append(
            SignalSteps(
                others,
                quantiles.values * buckets.scale,
                quantiles.bounds,
                quantiles.observations * seconds,
            )
        )
    return found


def _keep_larger(found: dict[LabelPairs, SignalSteps], one: SignalSteps) -> None:
    """Of one thing in two exporters the larger value at each step, as the signal's PromQL answers."""
    former = found.get(one.labels)
    if former is None:
        found[one.labels] = one
        return
    better = ~(former.values >= one.values) & ~np.isnan(one.values)
    found[one.labels] = SignalSteps(
        one.labels,
        np.where(better, one.values, former.values),
        np.where(better, _bounds(one), _bounds(former)).astype(np.int8),
        np.where(better, _observations(one), _observations(former)),
    )


def _bounds(one: SignalSteps) -> npt.NDArray[np.int8]:
    return np.zeros(len(one.values), dtype=np.int8) if one.bounds is None else one.bounds


def _observations(one: SignalSteps) -> FloatArray:
    return np.full(len(one.values), np.nan) if one.observations is None else one.observations
