"""Have prompts (or answers) changed? How far two windows' histograms lie apart, and whether that is chance.

Serving engines publish lengths as classic buckets only, and an upgrade may move the edges: both windows are
brought to the edges they share, where cumulative counts are exact.
"""

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np

from app.analysis.buckets import EDGE_TOLERANCE, Buckets
from app.analysis.evidence import NotEnough, too_few
from app.analysis.grid import FloatArray
from app.analysis.intervals import normal_quantile

Reading = Literal["stable", "some drift", "drift"]

# The reading of credit scoring (Siddiqi 2006): below 0.1 nothing, above 0.25 a different population.
SOME_DRIFT = 0.1
DRIFT = 0.25
# What every bucket gets before shares are taken, so that an empty one gives no infinity: half an observation,
# the Jeffreys prior (Krichevsky and Trofimov 1981). Buckets empty in both windows are left out.
PSEUDO_COUNT = 0.5


@dataclass(frozen=True, slots=True)
class Drift:
    """psi: population stability index, from 0. chance: what psi reaches in 1 of 20 cases without any drift.
    js_distance: Jensen-Shannon, 0 (same) to 1 (nothing in common). edges: float64[k], the shared upper edges
    of the k buckets compared, the last infinite; before, after: float64[k], shares that sum to 1."""

    psi: float
    chance: float
    js_distance: float
    reading: Reading
    edges: FloatArray
    before: FloatArray
    after: FloatArray


def drift(before: Buckets, after: Buckets) -> Drift | NotEnough:
    """Not enough data where the windows share no finite edge, or where chance alone could read as drift.

    psi = sum (q - p) ln(q / p), p and q the shares before and after. Without drift it is (1/m + 1/n) times a
    chi-square with k - 1 degrees of freedom, m and n the observations (Yurdakul and Naranjo 2020).
    """
    if before.total() <= 0 or after.total() <= 0:
        return NotEnough("no observations in one of the windows")
    edges, counts_before, counts_after = on_common_edges(before, after)
    if len(edges) < 2:
        return NotEnough("the two windows share no bucket edge")
    used = (counts_before > 0) | (counts_after > 0)
    # Merged into the next bucket above, whose upper edge it then has; the last edge stays infinite.
    edges, first, second = edges[used], counts_before[used], counts_after[used]
    if not np.isposinf(edges[-1]):
        edges = np.append(edges[:-1], np.inf)
    psi = population_stability_index(first, second)
    degrees = max(len(edges) - 1, 1)
    effects = before.design_effect / before.total() + after.design_effect / after.total()
    chance = chi_square_quantile(degrees) * effects
    if chance >= SOME_DRIFT and psi <= chance:
        # Of equal windows, and as uneven as these are.
        return too_few("observations", min(before.total(), after.total()), _needed(degrees, before, after))
    reading: Reading = "stable" if psi < SOME_DRIFT else "some drift" if psi < DRIFT else "drift"
    return Drift(
        psi=psi,
        chance=chance,
        js_distance=jensen_shannon_distance(first, second),
        reading=reading,
        edges=edges,
        before=first / first.sum(),
        after=second / second.sum(),
    )


def on_common_edges(a: Buckets, b: Buckets) -> tuple[FloatArray, FloatArray, FloatArray]:
    """edges float64[k] that both have, and the observations of a and of b within each, float64[k]."""
    nearest = np.clip(np.searchsorted(b.edges, a.edges * (1 - EDGE_TOLERANCE)), 0, len(b.edges) - 1)
    with np.errstate(invalid="ignore"):
        same = np.isclose(a.edges, b.edges[nearest], rtol=2 * EDGE_TOLERANCE, atol=0.0)
    shared = np.flatnonzero(same)
    counts_a, counts_b = a.cumulative()[shared], b.cumulative()[nearest[shared]]
    return a.edges[shared], np.diff(counts_a, prepend=0.0), np.diff(counts_b, prepend=0.0)


def population_stability_index(before: FloatArray, after: FloatArray) -> float:
    """before, after: float64[k], observations a bucket. In nats, 0 or more, finite."""
    p = (before + PSEUDO_COUNT) / (before.sum() + PSEUDO_COUNT * len(before))
    q = (after + PSEUDO_COUNT) / (after.sum() + PSEUDO_COUNT * len(after))
    return float(((q - p) * np.log(q / p)).sum())


def jensen_shannon_distance(before: FloatArray, after: FloatArray) -> float:
    """sqrt of the divergence in bits (Endres and Schindelin 2003): a metric, 0 to 1, at ease with zeros."""
    p, q = before / before.sum(), after / after.sum()
    middle = (p + q) / 2
    divergence = 0.0
    for share in (p, q):
        there = share > 0
        divergence += float((share[there] * np.log2(share[there] / middle[there])).sum()) / 2
    return math.sqrt(min(max(divergence, 0.0), 1.0))


def chi_square_quantile(degrees: int, probability: float = 0.95) -> float:
    """Wilson and Hilferty 1931; within 3 % from 1 degree of freedom on, 0.6 % from 3 on."""
    z = normal_quantile(2 * probability - 1)
    spread = 2 / (9 * degrees)
    return float(degrees * (1 - spread + z * math.sqrt(spread)) ** 3)


def _needed(degrees: int, before: Buckets, after: Buckets) -> float:
    """Observations in the smaller window for chance to stay below SOME_DRIFT, both growing alike."""
    fewer = min(before.total(), after.total())
    effects = before.design_effect / before.total() + after.design_effect / after.total()
    return math.ceil(chi_square_quantile(degrees) * effects * fewer / SOME_DRIFT)
