"""What a collector is: one method that yields small frozen records.

Error tree (STYLE habit 7)::

    CollectorError
    +-- NoData        nothing to report right now; not a failure
    +-- Unsupported   this machine cannot ever report it (no driver); said once, not an error
    +-- CollectFailed it should have worked and did not; shown with its reason
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, Protocol, runtime_checkable

from db.settings import Settings

MetricType = Literal[
    "counter", "gauge", "histogram", "gaugehistogram", "summary", "info", "stateset", "unknown"
]
LabelPairs = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Sample:
    """One value of one series; `labels` in the order in which they are printed, without the name."""

    name: str
    labels: LabelPairs
    value: float
    timestamp_ms: int | None = None


@dataclass(frozen=True, slots=True)
class Family:
    """A metric family: its metadata and its samples."""

    name: str
    type: MetricType
    help: str
    samples: tuple[Sample, ...]
    unit: str = ""


@dataclass(frozen=True, slots=True)
class Metadata:
    """TYPE, HELP and UNIT of one family as a page declares them ("" where it does not)."""

    family: str
    type: str
    help: str
    unit: str


class CollectorError(Exception):
    """Root of everything a collector may raise on purpose."""


class NoData(CollectorError):
    """Nothing to report right now."""


class Unsupported(CollectorError):
    """This machine cannot report it; the message says what is missing."""


class CollectFailed(CollectorError):
    """It should have worked; the message says what broke and the mend."""


class Collector(Protocol):
    """A source on this machine. `collect` may block: the runner calls it in a thread of its own."""

    name: str
    job: str

    def collect(self) -> Iterable[Family]:
        """Yield families.

        Raises NoData, Unsupported or CollectFailed.
        """
        ...


@runtime_checkable
class Configured(Protocol):
    """What a collector may have besides: it is told the settings before its first collection and whenever
    they change, between two collections or during one."""

    def configure(self, settings: Settings) -> None: ...


@runtime_checkable
class Remarks(Protocol):
    """What a collector may have besides: words for its row on the Sources page, as of its last collection.

    note: what the operator should know. trouble: what is wrong with what it watches, "" when nothing is; its
    samples are taken all the same, since they are what shows the trouble over time.
    """

    note: str
    trouble: str
