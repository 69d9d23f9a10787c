"""Functions of ranges against plain Python written from their definitions, for one window at a time."""

import math
from collections.abc import Callable, Sequence

import numpy as np

from db.promql.context import Notes
from db.promql.range_function import RangeFunction
from db.promql.windows import WindowPart, parts_of

NAN, INF = math.nan, math.inf
# The samples of one window, (ms, value); its edges and the time of evaluation, ms; the scalar arguments.
Samples = list[tuple[int, float]]
Reference = Callable[[Samples, int, int, int, Sequence[float]], float | None]


class Case:
    """Some series, a window for each step, and what is asked of them. values: float64[series, n]; there: of
    the same shape; ends: the windows' ends, range_ms long; at: times of evaluation."""

    def __init__(
        self,
        timestamps: Sequence[int],
        values: Sequence[Sequence[float]],
        ends: Sequence[int],
        range_ms: int,
        there: Sequence[Sequence[bool]] | None = None,
        shift_ms: int = 0,
    ) -> None:
        self.timestamps = np.array(timestamps, dtype=np.int64)
        self.values = np.array(values, dtype=np.float64).reshape(-1, len(self.timestamps))
        self.there = np.ones(self.values.shape, dtype=np.bool_) if there is None else np.array(there)
        self.ends = np.array(ends, dtype=np.int64)
        self.starts = self.ends - range_ms
        self.at = self.ends + shift_ms

    def parts(self) -> list[WindowPart]:
        rows = np.arange(len(self.values))
        return parts_of(rows, self.timestamps, self.values, self.there, self.starts, self.ends, self.at)

    def window(self, row: int, step: int) -> Samples:
        start, end = self.starts[step], self.ends[step]
        return [
            (time, value)
            for time, value, there in zip(
                self.timestamps.tolist(), self.values[row].tolist(), self.there[row], strict=True
            )
            if there and start < time <= end
        ]

    def expected(
        self, reference: Reference, parameters: Sequence[Sequence[float]]
    ) -> list[list[float | None]]:
        found: list[list[float | None]] = []
        for row in range(len(self.values)):
            found.append([])
            for step in range(len(self.ends)):
                samples = self.window(row, step)
                edges = int(self.starts[step]), int(self.ends[step]), int(self.at[step])
                scalars = [float(parameter[step]) for parameter in parameters]
                found[-1].append(reference(samples, *edges, scalars) if samples else None)
        return found

    def computed(
        self, function: RangeFunction, parameters: Sequence[Sequence[float]] = (), notes: Notes | None = None
    ) -> list[list[float | None]]:
        found: list[list[float | None]] = [[None] * len(self.ends) for _ in self.values]
        scalars = [np.array(parameter, dtype=np.float64) for parameter in parameters]
        for part in self.parts():
            values, there = function.kernel(part, scalars, notes or Notes())
            assert values.shape == part.shape
            there = np.broadcast_to(there, part.shape)
            for place, row in enumerate(part.rows.tolist()):
                pairs = zip(values[place].tolist(), there[place].tolist(), strict=True)
                found[row] = [value if exists else None for value, exists in pairs]
        return found


def some_case(seed: int, *, counters: bool = False) -> Case:
    """Series with gaps, NaN, infinities, repeated and very different values, resets; windows that overlap, or
    are empty, or hold all."""
    random = np.random.default_rng(seed)
    series, samples = int(random.integers(1, 6)), int(random.integers(1, 40))
    timestamps = np.cumsum(random.choice((1, 999, 15_000, 15_001, 60_000), samples)) + random.integers(0, 5)
    if counters:
        values = np.cumsum(random.choice((0.0, 1.0, 0.1, 37.5), (series, samples)), axis=1)
        for _ in range(int(random.integers(0, 6))):
            row, place = random.integers(0, series), random.integers(0, samples)
            values[row, place:] -= values[row, place] * random.choice((1.0, 0.5))
    else:
        kinds = (
            random.normal(size=(series, samples)),
            random.integers(-3, 4, (series, samples)).astype(float),
            random.normal(size=(series, samples)) * 10.0 ** random.integers(-9, 20, (series, samples)),
            np.full((series, samples), 0.1) * random.integers(1, 9),
        )
        values = kinds[int(random.integers(0, len(kinds)))]
    for special in (NAN, INF, -INF):
        if random.random() < 0.25:
            values = np.where(random.random(values.shape) < 0.1, special, values)
    there = random.random(values.shape) >= random.choice((0.0, 0.0, 0.1, 0.7))
    there[random.random(series) < 0.3] = True
    span = int(timestamps[-1]) + 1
    ends = np.cumsum(random.integers(1, max(2, span // 4), int(random.integers(1, 9))))
    if random.random() < 0.3:
        ends = random.choice(timestamps, len(ends))  # windows end, and begin, exactly at samples
    range_ms = int(random.choice((1, 15_000, 60_000, span)))
    return Case(timestamps, values, ends, range_ms, there, int(random.choice((0, 300_000, -7))))


def same(found: float | None, wanted: float | None, scale: float = 0.0) -> bool:
    """scale: how large the numbers were that may have cancelled each other."""
    if found is None or wanted is None:
        return found is wanted
    if math.isnan(found) or math.isnan(wanted):
        return math.isnan(found) and math.isnan(wanted)
    return found == wanted or math.isclose(found, wanted, rel_tol=1e-12, abs_tol=1e-13 * scale)


def scrapes(every_s: int, values: Sequence[float], at_s: int, range_s: int, shift_s: int = 0) -> Case:
    """One series from time zero on, one window, as Prometheus's own tests have it."""
    times = [number * every_s * 1000 for number in range(len(values))]
    return Case(times, [values], [at_s * 1000], range_s * 1000, shift_ms=shift_s * 1000)


def rising(begin: float, by: float, times: int) -> list[float]:
    """Prometheus's notation 0+10x3: 0 10 20 30."""
    return [begin + by * number for number in range(times + 1)]


def increased(value: float, total: float, lost: float) -> tuple[float, float]:
    """Kahan's summation as Neumaier has it."""
    following = total + value
    if math.isinf(following):
        return following, 0.0
    if abs(total) >= abs(value):
        return following, lost + ((total - following) + value)
    return following, lost + ((value - following) + total)
