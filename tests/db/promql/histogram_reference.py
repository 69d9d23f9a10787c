"""One classic histogram at one step, in plain Python: what the vectorised functions are compared with."""

import math
import sys
from collections.abc import Mapping
from dataclasses import dataclass

NAN, INF = math.nan, math.inf

# Bounds with the counts of all series that have them, in the order of the series.
Histogram = Mapping[float, float]


@dataclass
class Fall:
    """Counts that were raised: at which bounds, by how much at most."""

    bounds: list[float]
    difference: float


def almost_equal(left: float, right: float) -> bool:
    if (math.isnan(left) and math.isnan(right)) or left == right:
        return True
    total, difference = abs(left) + abs(right), abs(left - right)
    if left == 0 or right == 0 or total < sys.float_info.min:
        return difference < 1e-12 * sys.float_info.min
    return difference / min(total, sys.float_info.max) < 1e-12


def repaired(counts: list[float], bounds: list[float]) -> tuple[list[float], Fall | None]:
    found, fall = counts[:1], Fall([], 0.0)
    for count, bound in zip(counts[1:], bounds[1:], strict=True):
        held = found[-1]
        if almost_equal(held, count):
            found.append(held)
        elif count < held:
            found.append(held)
            fall = Fall([*fall.bounds, bound], max(fall.difference, held - count))
        else:
            found.append(count)
    return found, fall if fall.bounds else None


def quotient(left: float, right: float) -> float:
    if right == 0:
        return NAN if left == 0 or math.isnan(left) else math.copysign(INF, left) * math.copysign(1, right)
    return left / right


def quantile(q: float, histogram: Histogram) -> tuple[float, Fall | None]:
    if math.isnan(q):
        return NAN, None
    if q < 0 or q > 1:
        return math.copysign(INF, q), None
    bounds = sorted(histogram)
    if bounds[-1] != INF:
        return NAN, None
    counts, fall = repaired([histogram[bound] for bound in bounds], bounds)
    if len(bounds) < 2 or counts[-1] == 0:
        return NAN, fall
    rank, last = q * counts[-1], len(bounds) - 1
    low, high = 0, last
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if counts[middle] >= rank else (middle + 1, high)
    if low == last:
        return bounds[last - 1], fall
    if low == 0 and bounds[0] <= 0:
        return bounds[0], fall
    start, below = (bounds[low - 1], counts[low - 1]) if low else (0.0, 0.0)
    return start + (bounds[low] - start) * quotient(rank - below, counts[low] - below), fall


def fraction(lower: float, upper: float, histogram: Histogram) -> float:
    bounds = sorted(histogram)
    total = histogram[bounds[-1]]
    if bounds[-1] != INF or total == 0 or math.isnan(lower) or math.isnan(upper):
        return NAN
    if lower >= upper:
        return 0.0
    ranks: dict[str, float] = {}
    rank, start = 0.0, -INF if bounds[0] <= 0 else 0.0
    for end in bounds:
        count = histogram[end]
        for name, limit in (("lower", lower), ("upper", upper)):
            if name in ranks:
                continue
            if start >= limit:
                ranks[name] = rank
            elif end > limit:
                inside = rank + (count - rank) * (limit - start) / (end - start) if start != -INF else count
                ranks[name] = inside
        rank, start = count, end
    low, high = (
        total if name not in ranks or ranks[name] > total else ranks[name] for name in ("lower", "upper")
    )
    return quotient(high - low, total)
