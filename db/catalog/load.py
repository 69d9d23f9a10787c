"""Reads the catalogue: the vocabulary, an exporter a file, then the user's own files over both.

A user's signal replaces the built-in one of that id, a user's variants of a signal in an exporter replace
that exporter's, a user's labels of an exporter hold for all of its variants; everything else is added.
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path

from db.catalog.catalog import Catalog
from db.catalog.document import (
    CatalogError,
    ExporterSection,
    Place,
    SignalSection,
    VariantSection,
    read_catalog_file,
)
from db.catalog.references import check_references
from db.catalog.signal import STATISTICS, Exporter, Signal, Variant
from db.catalog.variants import LabelSources, label_sources, variant_of
from db.config_types import suggest

_FOLDER = Path(__file__).parent


def load_catalog(files: Sequence[Path] = ()) -> Catalog:
    """The built-in catalogue and what these files add or change, later ones over earlier ones. Raises
    CatalogError."""
    return _load(tuple(files)) if files else _built_in()


@cache
def _built_in() -> Catalog:
    return _load(())


def _load(files: tuple[Path, ...]) -> Catalog:
    building = _Building()
    for path in (_FOLDER / "signals.yaml", *sorted((_FOLDER / "exporters").glob("*.yaml")), *files):
        building.add(path)
    return building.finished()


class _Building:
    """What the files gave so far. Exporters name signals of later files, too: they are checked at the end."""

    def __init__(self) -> None:
        self._entities: dict[str, tuple[str, ...]] = {}
        self._signals: dict[str, Signal] = {}
        self._families: set[str] = set()
        self._exporters: dict[str, Exporter] = {}
        self._labels: dict[str, LabelSources] = {}
        self._named_labels: list[tuple[str, Place]] = []

    def add(self, path: Path) -> None:
        file, document = read_catalog_file(path)
        self._entities.update(file.entities)
        for name, section in file.signals.items():
            self._add_signal(name, section, Place(path, document, ("signals", name)))
        for name, exporter in file.exporters.items():
            self._add_exporter(name, exporter, Place(path, document, ("exporters", name)))

    def finished(self) -> Catalog:
        """Raises CatalogError for what refers to what nobody defines."""
        labels = {label for entity in self._entities.values() for label in entity}
        for label, place in self._named_labels:
            if label not in labels:
                raise place.error(f"no entity has a label {label!r}{suggest(label, labels)}", label)
        known = set(self._signals) | self._families
        for exporter in self._exporters.values():
            for name, variants in exporter.variants.items():
                if name not in known:
                    raise CatalogError(variants[0].place, f"no signal {name!r}{suggest(name, known)}")
                for variant in variants:
                    self._check(name, variant)
        catalog = Catalog(self._signals, self._exporters)
        check_references(catalog)
        return catalog

    def _add_signal(self, name: str, section: SignalSection, place: Place) -> None:
        if section.entity not in self._entities:
            hint = suggest(section.entity, self._entities)
            raise place.error(f"no entity {section.entity!r}{hint}", "entity")
        entity = self._entities[section.entity]
        foreign = [label for label in section.by if label not in entity]
        if foreign:
            raise place.error(f"{foreign[0]!r} is no label of a {section.entity}", "by")
        self._check_kind(name, section, place)
        self._forget(name)
        if section.kind == "value":
            self._signals[name] = _signal(name, section, entity, section.title)
            return
        self._families.add(name)
        for statistic, quantile in STATISTICS.items():
            title = f"{section.title}, {statistic}"
            whole = f"{name}_{statistic}"
            self._signals[whole] = _signal(whole, section, entity, title, family=name, quantile=quantile)

    def _check_kind(self, name: str, section: SignalSection, place: Place) -> None:
        """Exporters have variants of the kind that is known."""
        former = self._signals.get(name)
        if former is not None and former.family:
            raise place.error(f"{name} is a statistic of {former.family}: choose another id")
        distribution = section.kind == "distribution"
        if (former is not None and distribution) or (name in self._families and not distribution):
            raise place.error(f"{name} is known as another kind: choose another id, or keep its kind")
        for whole in (f"{name}_{statistic}" for statistic in STATISTICS) if distribution else ():
            taken = self._signals.get(whole)
            if taken is not None and taken.family != name:
                raise place.error(f"its {whole} is a signal already: choose another id")

    def _forget(self, name: str) -> None:
        self._families.discard(name)
        for known, signal in list(self._signals.items()):
            if name in (known, signal.family):
                del self._signals[known]

    def _add_exporter(self, name: str, section: ExporterSection, place: Place) -> None:
        former = self._exporters.get(name)
        title = section.title or (former.title if former is not None else None)
        if title is None:
            raise place.error("'title' is missing")
        own = label_sources(section.labels)
        inherited = self._labels.get(name, {})
        shared = self._labels[name] = {**inherited, **own}
        self._named_labels += [(label, place.of("labels")) for label in section.labels]
        variants = {
            signal: tuple(_relabelled(variant, inherited, own) for variant in some)
            for signal, some in (former.variants if former is not None else {}).items()
        }
        for signal, given in section.signals.items():
            where = place.of("signals", signal)
            variants[signal] = tuple(
                self._variant(name, item, shared, where.of(number) if len(given) > 1 else where)
                for number, item in enumerate(given)
            )
        detect = frozenset(section.detect) | (former.detect if former is not None else frozenset())
        install = section.install or (former.install if former is not None else "")
        self._exporters[name] = Exporter(name, title, detect, install, variants)

    def _variant(self, exporter: str, section: VariantSection, shared: LabelSources, place: Place) -> Variant:
        self._named_labels += [(label, place.of("labels")) for label in section.labels]
        return variant_of(exporter, section, shared, place)

    def _check(self, name: str, variant: Variant) -> None:
        distribution = name in self._families
        if variant.form == "value" and distribution:
            reason = f"{name} is a distribution: give histogram or mean, or a value for {name}_p95 and so on"
            raise CatalogError(variant.place, reason)
        if variant.form in ("histogram", "mean") and not distribution:
            raise CatalogError(variant.place, f"{name} is no distribution: give value or ratio")
        for used in variant.uses:
            if used not in self._signals:
                raise CatalogError(variant.place, f"no signal {used!r}{suggest(used, self._signals)}")


def _signal(
    name: str,
    section: SignalSection,
    entity: tuple[str, ...],
    title: str,
    family: str = "",
    quantile: float | None = None,
) -> Signal:
    return Signal(
        id=name,
        layer=section.layer,
        title=title,
        unit=section.unit,
        good=section.good,
        means=section.means,
        entity=entity,
        by=section.by,
        combine=section.combine or "max",
        family=family,
        quantile=quantile,
    )


def _relabelled(variant: Variant, inherited: LabelSources, own: LabelSources) -> Variant:
    """With the exporter's new labels in place of those that it had from it."""
    changed = {
        label: sources for label, sources in own.items() if variant.labels.get(label) == inherited.get(label)
    }
    return replace(variant, labels={**variant.labels, **changed}) if changed else variant
