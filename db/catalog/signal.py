"""What a signal is, and the ways in which exporters yield it: small frozen records.

Nothing here reads files or asks a store; `db.catalog.load` makes these, `db.catalog.resolve` uses them.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

Layer = Literal["client", "application", "model", "infrastructure", "training", "cost"]
Good = Literal["high", "low", "neither"]
Combine = Literal["sum", "avg", "max", "min"]
Form = Literal["value", "ratio", "histogram", "mean"]
Kind = Literal["value", "distribution"]

# The label that says which exporter a value came from, where somebody asks for it.
EXPORTER = "exporter"
# The label of the scrape's job, for whoever looks for the target that a value came from. A thing that two
# jobs report is then two.
JOB = "job"
# What a distribution is made into; the mean has no quantile.
STATISTICS: Mapping[str, float | None] = {"p50": 0.5, "p95": 0.95, "p99": 0.99, "mean": None}


@dataclass(frozen=True, slots=True)
class Signal:
    """Something that can be known, whichever exporter reports it.

    entity: the labels that tell one thing that has the value from another. by: the labels that it is shown
    by. combine: how values of several entities become one. good: which direction is good. family: the
    distribution that it is a statistic of, "" for others. quantile: of that distribution, None for its mean.
    """

    id: str
    layer: Layer
    title: str
    unit: str
    good: Good
    means: str
    entity: tuple[str, ...]
    by: tuple[str, ...]
    combine: Combine
    family: str = ""
    quantile: float | None = None


@dataclass(frozen=True, slots=True)
class LabelSource:
    """A raw label that a canonical one is taken from: what group 1 of `match` (RE2, anchored) gives."""

    label: str
    match: str = "(.+)"


@dataclass(frozen=True, slots=True)
class Variant:
    """One way to a signal in one exporter's own metrics.

    texts: PromQL with `$window` and `{{signal}}` in it: one for a value, two for a ratio or a mean (sum and
    count); for a histogram the selector of the family without its suffix. scale: from the exporter's unit to
    the signal's. needs: metrics that must exist, all of them. unless: metrics of which none may exist. where:
    selectors, one of which has to have a series. enable: what to switch on so that they exist. within: how
    several series of one entity become one. labels: where canonical labels come from, the best source first;
    those not named keep their name. uses: the signals in the texts. place: file and line.
    """

    exporter: str
    form: Form
    texts: tuple[str, ...]
    scale: float
    needs: frozenset[str]
    unless: frozenset[str]
    where: tuple[str, ...]
    enable: str
    within: Combine | None
    labels: Mapping[str, tuple[LabelSource, ...]]
    uses: tuple[str, ...]
    place: str


@dataclass(frozen=True, slots=True)
class Exporter:
    """A program that exposes metrics. detect: metrics of which any says that it is there. install: what to
    do when it is not. variants: by signal or distribution."""

    id: str
    title: str
    detect: frozenset[str]
    install: str
    variants: Mapping[str, tuple[Variant, ...]]


@dataclass(frozen=True, slots=True)
class Buckets:
    """Where a quantile's buckets come from. promql: cumulative counts a second, by the wanted labels and
    `le`. scale: from the buckets' edges to the signal's unit."""

    promql: str
    scale: float
    exporter: str


@dataclass(frozen=True, slots=True)
class Resolved:
    """A signal in the metrics that a store has.

    promql: a vector with exactly the labels `by`. exporters: which it comes from, by id. window: the range
    of its rates. buckets: of a quantile, so that a reader can tell a value from a bound. plain: PromQL of the
    quantile where exporters give it ready-made, "" where none does.
    """

    signal: Signal
    by: tuple[str, ...]
    window: str
    promql: str
    exporters: tuple[str, ...]
    buckets: tuple[Buckets, ...] = ()
    plain: str = ""


@dataclass(frozen=True, slots=True)
class Way:
    """How to get a signal that is not there. present: the exporter is there, and lacks it."""

    exporter: str
    title: str
    present: bool
    text: str


@dataclass(frozen=True, slots=True)
class Missing:
    """No exporter that is there yields the signal. ways: how to get it, first in exporters that are there."""

    signal: Signal
    ways: tuple[Way, ...]
