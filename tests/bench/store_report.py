"""The benchmark's rows and the table they make: Strata beside both peers, and what was asked for."""

import statistics
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

PEERS = ("Prometheus", "VictoriaMetrics")
Pair = tuple[float | None, float | None]
NOTHING: Pair = (None, None)


@dataclass(frozen=True, slots=True)
class Row:
    """One measurement of the three.

    unit: `samples/s` (more is better), `ms` or `B/sample` (less is better). least, aim: the ratios asked for
    beside Prometheus and VictoriaMetrics, as `times` below counts them; None where nothing was asked.
    """

    what: str
    unit: str
    strata: float
    peers: tuple[float, float]
    least: Pair = NOTHING
    aim: Pair = NOTHING

    @property
    def times(self) -> tuple[float, float]:
        """How many times as good as each peer; for a size, which share of the peer's."""
        if self.unit == "ms":
            return self.peers[0] / self.strata, self.peers[1] / self.strata
        return self.strata / self.peers[0], self.strata / self.peers[1]

    def reaches(self, asked: Pair) -> bool:
        return all(
            wanted is None or (got <= wanted if self.unit == "B/sample" else got >= wanted)
            for got, wanted in zip(self.times, asked, strict=True)
        )

    @property
    def verdict(self) -> str:
        if self.least == NOTHING:
            return ""
        if not self.reaches(self.least):
            return "**MISS**"
        return "aim" if self.reaches(self.aim) else "at least"


def median_ms(seconds: Sequence[float]) -> float:
    return statistics.median(seconds) * 1000


def timed(run: Callable[[], object]) -> float:
    started = time.perf_counter()
    run()
    return time.perf_counter() - started


def told(rows: Sequence[Row]) -> list[Row]:
    """The rows; each is written to stderr as it comes, since a whole run takes minutes."""
    for row in rows:
        print(_line(_cells(row)), file=sys.stderr, flush=True)
    return list(rows)


def markdown(rows: Sequence[Row]) -> str:
    head = ["", "Strata", *PEERS, "x Prom", "x VM", "at least", "aim", "reached"]
    lines = [_line(head), _line(["---", *["---:"] * 5, "---", "---", "---"])]
    return "\n".join(lines + [_line(_cells(row)) for row in rows])


def _cells(row: Row) -> list[str]:
    shares = row.unit == "B/sample"
    return [
        row.what,
        _number(row.strata, row.unit),
        *(_number(value, row.unit) for value in row.peers),
        *(f"{times:.2f}" if shares or times < 10 else f"{times:.0f}" for times in row.times),
        _asked(row.least, shares=shares),
        _asked(row.aim, shares=shares),
        row.verdict,
    ]


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def _number(value: float, unit: str) -> str:
    if unit == "samples/s":
        return f"{value / 1e6:.2f} M/s" if value >= 1e5 else f"{value / 1e3:.1f} k/s"
    if unit == "ms":
        return f"{value:.2f} ms" if value < 10 else f"{value:,.0f} ms" if value >= 100 else f"{value:.1f} ms"
    return f"{value:.3f} B"


def _asked(asked: Pair, *, shares: bool) -> str:
    return " / ".join("-" if wanted is None else _ratio(wanted, shares=shares) for wanted in asked).replace(
        "- / -", ""
    )


def _ratio(wanted: float, *, shares: bool) -> str:
    return f"<= {wanted:.2f}" if shares else f"{wanted:g}x"
