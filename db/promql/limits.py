"""What one query may use. The limits of time and memory are enforced from outside, too (`db.promql.workers`),
since NumPy does not look at a clock."""

from collections.abc import Callable
from dataclasses import dataclass
from time import monotonic

from db.promql.errors import LimitExceeded, QueryTimeout, TooManySteps


@dataclass(frozen=True, slots=True)
class Limits:
    """points: steps of a range query (Prometheus's 11,000). samples: read or computed at once for one
    selector or subquery, together over the query. seconds: of wall time."""

    points: int = 11_000
    samples: int = 50_000_000
    seconds: float = 120.0


class Budget:
    """What is left of the limits while a query runs."""

    def __init__(self, limits: Limits, clock: Callable[[], float] = monotonic) -> None:
        self.limits = limits
        self._clock = clock
        self._ends = clock() + limits.seconds
        self._samples = 0

    def take(self, samples: int) -> None:
        """Count samples that are about to be held. Raises LimitExceeded or QueryTimeout."""
        self.check()
        self._samples += samples
        if self._samples > self.limits.samples:
            raise LimitExceeded(
                f"the query needs more than {self.limits.samples:,} samples at once; "
                "select fewer series, a shorter time or a larger step"
            )

    def check(self) -> None:
        """Raises QueryTimeout."""
        if self._clock() > self._ends:
            raise QueryTimeout(
                f"the query took longer than {self.limits.seconds:g} s; "
                "select fewer series, a shorter time or a larger step"
            )

    def check_steps(self, steps: int) -> None:
        """Raises TooManySteps."""
        if steps > self.limits.points:
            raise TooManySteps(
                f"exceeded maximum resolution of {self.limits.points:,} points per timeseries: {steps:,}. "
                "Try decreasing the query resolution (?step=XX)"
            )
