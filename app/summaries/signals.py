"""What each signal of the catalogue is now, which exporter it comes from, or what would bring it."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from db.catalog.catalog import Catalog
from db.catalog.read import Reading, read_signal
from db.catalog.signal import Missing, Resolved, Signal
from db.promql.answer import Answer
from db.promql.engine import Options
from db.promql.errors import QueryError
from db.promql.limits import Limits
from db.promql.source import Source

# Of one row of a table that holds many.
_OPTIONS = Options(limits=Limits(seconds=5.0))


@dataclass(frozen=True, slots=True)
class SignalNow:
    """One signal. exporters: their titles. readings: one for each of its series. error: why it could not be
    read. ways: how to get it, where no exporter that is there has it."""

    signal: Signal
    promql: str
    exporters: tuple[str, ...]
    readings: tuple[Reading, ...]
    error: str
    ways: tuple[str, ...]

    @property
    def there(self) -> bool:
        return bool(self.promql)

    @property
    def span(self) -> tuple[Reading, Reading] | None:
        """The readings of the lowest and the highest value; None where nothing has one."""
        valued = [reading for reading in self.readings if not math.isnan(reading.value)]
        if not valued:
            return None
        return min(valued, key=lambda item: item.value), max(valued, key=lambda item: item.value)


def read_signals(
    catalog: Catalog,
    source: Source,
    names: frozenset[str],
    has_series: Callable[[str], bool],
    layer: str,
    at_ms: int,
    *,
    together: bool = False,
) -> list[SignalNow]:
    """The signals of a layer, in the catalogue's order. together: one value over everything each, where there
    are too many series for a table."""
    found = []
    known: dict[str, Answer] = {}
    for signal in catalog.signals.values():
        if signal.layer == layer:
            by: Sequence[str] | None = () if together else None
            answer = catalog.resolve(signal.id, names, by=by, has_series=has_series)
            found.append(_read(catalog, source, answer, at_ms, known))
    return found


def _read(
    catalog: Catalog, source: Source, answer: Resolved | Missing, at_ms: int, known: dict[str, Answer]
) -> SignalNow:
    if isinstance(answer, Missing):
        ways = tuple(f"{way.title}: {way.text}" for way in answer.ways)
        return SignalNow(answer.signal, "", (), (), "", ways)
    titles = tuple(catalog.exporters[exporter].title for exporter in answer.exporters)
    try:
        readings, error = tuple(read_signal(source, answer, at_ms, _OPTIONS, known=known)), ""
    except QueryError as problem:
        readings, error = (), str(problem)
    return SignalNow(answer.signal, answer.promql, titles, readings, error, ())
