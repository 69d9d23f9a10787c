"""One of N replicas (or GPUs of one node) is slow or wrong: which, and by how much.

The judge is the group itself, by median and MAD, which a minority of bad members cannot move. Groups are
small here (4 replicas, 8 GPUs), and with the textbook threshold of 3.5 one of ten healthy groups has an
"outlier": the threshold therefore follows the size.
"""

from bisect import bisect_right
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

from app.analysis.evidence import NotEnough, too_few
from app.analysis.grid import FloatArray

# The size of the group. Of three, one odd member and two odd members look alike.
MIN_PEERS = 4
# The MAD of a normal population times this is its standard deviation.
MAD_TO_SIGMA = 1.4826
# Finite-sample correction of that for 4 to 9 members, then n / (n - 0.8) (Croux and Rousseeuw 1992).
MAD_CORRECTION = {4: 1.363, 5: 1.206, 6: 1.200, 7: 1.140, 8: 1.129, 9: 1.107}
# |z| that the worst of n normal members exceeds in 1 of 100 groups, with the scale above; simulated, 400,000
# groups each. Odd groups come worse off: their median is one of the members.
FALSE_ALARMS = 0.01
THRESHOLDS = {4: 11.7, 5: 15.7, 6: 8.4, 7: 9.4, 8: 7.1, 9: 7.5, 10: 6.4, 12: 5.9, 16: 5.4, 20: 5.1, 24: 4.9}
LARGE_GROUP, LARGE_GROUP_THRESHOLD = 32, 4.6
# A GPU one clock step beside seven identical ones is odd and does not matter.
LEAST_RATIO = 0.05


@dataclass(frozen=True, slots=True)
class Outlier:
    """index: into the values given. difference: from the median, in their unit. ratio: to the median, None
    where that is zero. z: robust standard deviations, signed; infinite where the others are all but equal."""

    index: int
    value: float
    difference: float
    ratio: float | None
    z: float


@dataclass(frozen=True, slots=True)
class PeerGroup:
    """median, scale (robust standard deviation): of the known members; outliers: the oddest first."""

    peers: int
    median: float
    scale: float
    threshold: float
    outliers: tuple[Outlier, ...]


def find_outliers(
    values: FloatArray, least_ratio: float = LEAST_RATIO, least_difference: float = 0.0
) -> PeerGroup | NotEnough:
    """values: float64[members], one number each over the same time; NaN where not known (left out).

    z = (value - median) / (1.4826 c MAD) (Iglewicz and Hoaglin 1993, c from MAD_CORRECTION). An outlier is
    beyond the threshold and away from the median by more than least_ratio of it and least_difference (the
    values' unit; give one for small counts, where 1 beside 0, 0, 0 is nothing).
    """
    known = np.flatnonzero(np.isfinite(values))
    if len(known) < MIN_PEERS:
        return too_few("peers", len(known), MIN_PEERS)
    members = values[known]
    median = float(np.median(members))
    away = members - median
    scale = float(np.median(np.abs(away))) * MAD_TO_SIGMA * _correction(len(members))
    # Where most are equal, whatever matters at all is beyond any threshold.
    with np.errstate(divide="ignore", invalid="ignore"):
        z = np.where(away == 0, 0.0, away / scale)
    threshold = threshold_of(len(members))
    matters = np.abs(away) > max(least_ratio * abs(median), least_difference)
    odd = np.flatnonzero((np.abs(z) > threshold) & matters)
    odd = odd[np.argsort(-np.abs(away[odd]), kind="stable")]
    return PeerGroup(
        peers=len(members),
        median=median,
        scale=scale,
        threshold=threshold,
        outliers=tuple(
            Outlier(
                index=int(known[at]),
                value=float(members[at]),
                difference=float(away[at]),
                ratio=float(members[at]) / median if median else None,
                z=float(z[at]),
            )
            for at in odd
        ),
    )


def typical_level(matrix: FloatArray) -> FloatArray:
    """float64[members]: one number a member for `find_outliers`, from matrix float64[members, steps].

    The median over time of each member's distance to its peers' median at that step, put back on the median
    of those: load that moves all members drops out, and so does a moment's hiccup. A step where fewer than
    MIN_PEERS members are known is left out; a member known at fewer than half of the steps that stay is NaN.
    """
    steps = np.isfinite(matrix).sum(axis=0) >= MIN_PEERS
    level = np.full(len(matrix), np.nan)
    if not steps.any():
        return level
    kept = np.where(np.isfinite(matrix[:, steps]), matrix[:, steps], np.nan)
    centre = np.nanmedian(kept, axis=0)
    enough = 2 * np.isfinite(kept).sum(axis=1) >= kept.shape[1]
    level[enough] = np.nanmedian(kept[enough] - centre, axis=1) + float(np.median(centre))
    return level


def threshold_of(members: int) -> float:
    """|z| beyond which a member is an outlier, such that 1 of 100 healthy groups has one."""
    if members >= LARGE_GROUP:
        # There the scale is all but known, and the worst of n normal draws is what is left.
        return max(LARGE_GROUP_THRESHOLD, NormalDist().inv_cdf(1 - FALSE_ALARMS / (2 * members)) + 0.05)
    sizes = list(THRESHOLDS)
    return THRESHOLDS[sizes[bisect_right(sizes, members) - 1]]


def _correction(members: int) -> float:
    return MAD_CORRECTION.get(members, members / (members - 0.8))
