"""The catalogue: which signals there are, and which of them a store's metrics yield."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence, Set
from dataclasses import replace

from db.catalog.expressions import Composer
from db.catalog.signal import EXPORTER, JOB, Exporter, Missing, Resolved, Signal, Variant, Way
from db.config_types import suggest

WINDOW = "5m"


class UnknownSignal(ValueError):
    """No signal has that id, or it has no such label."""


class Catalog:
    """Signals and exporters by id."""

    def __init__(self, signals: Mapping[str, Signal], exporters: Mapping[str, Exporter]) -> None:
        self.signals = dict(signals)
        self.exporters = dict(exporters)
        self._variants = {signal.id: tuple(_variants(signal, exporters)) for signal in signals.values()}
        self._averaged = {
            name: any(variant.form != "value" for variant in variants)
            for name, variants in self._variants.items()
        }

    def signal(self, name: str) -> Signal:
        """Raises UnknownSignal."""
        found = self.signals.get(name)
        if found is None:
            raise UnknownSignal(f"no signal {name!r}{suggest(name, self.signals)}")
        return found

    def resolve(
        self,
        name: str,
        names: Set[str],
        *,
        by: Sequence[str] | None = None,
        window: str = WINDOW,
        has_series: Callable[[str], bool] = lambda _: True,
    ) -> Resolved | Missing:
        """PromQL for a signal in a store that has metrics of these names.

        by: labels of the signal's entity, `exporter`, `job`; by default the signal's own. window: the range
        of rates, a PromQL duration: at least four scrape intervals. has_series: has this selector any series?
        Raises UnknownSignal.
        """
        signal = self.signal(name)
        wanted = signal.by if by is None else tuple(by)
        for label in wanted:
            if label not in signal.entity and label not in (EXPORTER, JOB):
                known = ", ".join(signal.entity) or "no labels"
                raise UnknownSignal(f"{name} cannot be shown by {label!r}: it has {known}")
        return _Resolving(self, names, window, has_series).resolve(signal, wanted)

    def resolve_all(
        self, names: Set[str], window: str = WINDOW, has_series: Callable[[str], bool] = lambda _: True
    ) -> list[Resolved | Missing]:
        """Every signal, by its own labels."""
        resolving = _Resolving(self, names, window, has_series)
        return [resolving.resolve(signal, signal.by) for signal in self.signals.values()]

    def present(self, names: Collection[str]) -> list[Exporter]:
        """The exporters that are there."""
        return [exporter for exporter in self.exporters.values() if not exporter.detect.isdisjoint(names)]

    def metric_names(self) -> frozenset[str]:
        """Every metric name that some signal or exporter looks for."""
        found: set[str] = set()
        for exporter in self.exporters.values():
            found |= exporter.detect
            for variants in exporter.variants.values():
                found.update(*(variant.needs | variant.unless for variant in variants))
        return frozenset(found)

    def variants_of(self, signal: Signal) -> tuple[Variant, ...]:
        return self._variants[signal.id]

    def is_averaged(self, signal: Signal) -> bool:
        """Is it a ratio in some exporter, so that values of several entities must not be added?"""
        return self._averaged[signal.id]


class _Resolving:
    """One store's metrics; signals that others refer to are resolved once."""

    def __init__(
        self, catalog: Catalog, names: Set[str], window: str, has_series: Callable[[str], bool]
    ) -> None:
        self._catalog = catalog
        self._names = names
        self._window = window
        self._has_series = has_series
        self._by_entity: dict[str, Resolved | Missing] = {}

    def resolve(self, signal: Signal, by: tuple[str, ...]) -> Resolved | Missing:
        fitting = [variant for variant in self._catalog.variants_of(signal) if self._fits(variant)]
        if not fitting:
            return Missing(signal, tuple(self._ways(signal)))
        averaged = self._catalog.is_averaged(signal)
        found = Composer(signal, by, self._window, self._known_value_of, averaged).resolved(fitting)
        return replace(found, exporters=tuple(dict.fromkeys(self._exporters(fitting))))

    def _fits(self, variant: Variant) -> bool:
        return (
            variant.needs <= self._names
            and variant.unless.isdisjoint(self._names)
            and all(isinstance(self._used(name), Resolved) for name in variant.uses)
            and (not variant.where or any(self._has_series(selector) for selector in variant.where))
        )

    def _used(self, name: str) -> Resolved | Missing:
        """Another signal at the labels of its entity. `load` refuses circles."""
        if name not in self._by_entity:
            signal = self._catalog.signal(name)
            self._by_entity[name] = self.resolve(signal, signal.entity)
        return self._by_entity[name]

    def _known_value_of(self, name: str) -> str:
        found = self._used(name)
        return found.promql if isinstance(found, Resolved) else ""

    def _exporters(self, variants: Sequence[Variant]) -> Iterator[str]:
        """Who shows the metrics: what is made of other signals alone is of their exporters."""
        for variant in variants:
            for name in variant.uses:
                found = self._used(name)
                yield from found.exporters if isinstance(found, Resolved) else ()
            if variant.needs:
                yield variant.exporter

    def _ways(self, signal: Signal) -> Iterator[Way]:
        """Exporters that are there first, then those that say most; of each what its variants ask for."""
        present = {exporter.id for exporter in self._catalog.present(self._names)}
        found: dict[tuple[str, str], Way] = {}
        for variant in self._catalog.variants_of(signal):
            exporter = self._catalog.exporters[variant.exporter]
            there = exporter.id in present
            text = (variant.enable or _lacking(variant, self._names)) if there else exporter.install
            if text and (variant.needs or not variant.uses):
                found[exporter.id, text] = Way(exporter.id, exporter.title, there, text)
            for used in map(self._used, variant.uses):
                for way in used.ways if isinstance(used, Missing) else ():
                    found.setdefault((way.exporter, way.text), way)
        said = {name: len(exporter.variants) for name, exporter in self._catalog.exporters.items()}
        yield from sorted(found.values(), key=lambda way: (not way.present, -said[way.exporter]))


def _variants(signal: Signal, exporters: Mapping[str, Exporter]) -> Iterator[Variant]:
    """Those of the signal itself, and those of its distribution that can give this statistic."""
    for exporter in exporters.values():
        yield from exporter.variants.get(signal.id, ())
        for variant in exporter.variants.get(signal.family, ()) if signal.family else ():
            if variant.form == "histogram" or signal.quantile is None:
                yield variant


def _lacking(variant: Variant, names: Set[str]) -> str:
    lacking = sorted(variant.needs - names)
    return f"its page has no {', '.join(lacking)}" if lacking else ""
