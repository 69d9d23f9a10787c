"""What a target's page lacks of what its exporter could say, and the setting that adds it.

An exporter's default set is seldom the whole: dcgm-exporter's is utilisation, and says nothing of health.
"""

from collections.abc import Iterator, Set
from dataclasses import dataclass

from db.catalog.catalog import Catalog
from db.catalog.signal import Exporter, Variant


@dataclass(frozen=True, slots=True)
class Gap:
    """Signals that one change would add. titles: of these signals. mend: the change, in words."""

    signals: tuple[str, ...]
    titles: tuple[str, ...]
    mend: str


@dataclass(frozen=True, slots=True)
class Coverage:
    """An exporter on one target. had: signals that its page yields; of: those that it could."""

    exporter: str
    title: str
    had: int
    of: int
    gaps: tuple[Gap, ...]


def cover(catalog: Catalog, names: Set[str]) -> list[Coverage]:
    """Each exporter that a page with metrics of these names comes from."""
    return [_cover(catalog, exporter, names) for exporter in catalog.present(names)]


def _cover(catalog: Catalog, exporter: Exporter, names: Set[str]) -> Coverage:
    had = of = 0
    lacking: dict[str, list[tuple[str, str]]] = {}
    for name, title, variants in _signals(catalog, exporter):
        of += 1
        if any(variant.needs <= names and variant.unless.isdisjoint(names) for variant in variants):
            had += 1
        else:
            lacking.setdefault(_mend(variants, names), []).append((name, title))
    gaps = [
        Gap(tuple(name for name, _ in signals), tuple(title for _, title in signals), mend)
        for mend, signals in lacking.items()
    ]
    return Coverage(exporter.id, exporter.title, had, of, tuple(gaps))


def _signals(catalog: Catalog, exporter: Exporter) -> Iterator[tuple[str, str, tuple[Variant, ...]]]:
    """Signals and whole distributions that the exporter yields by itself: what is made of other signals is
    not the page's to have."""
    for name, variants in exporter.variants.items():
        own = tuple(variant for variant in variants if not variant.uses)
        if own:
            yield name, _title(catalog, name), own


def _title(catalog: Catalog, name: str) -> str:
    signal = catalog.signals.get(name)
    if signal is not None:
        return signal.title
    return catalog.signals[f"{name}_mean"].title.removesuffix(", mean")


def _mend(variants: tuple[Variant, ...], names: Set[str]) -> str:
    """The first setting that somebody wrote down; else which metrics its version does not have."""
    for variant in variants:
        if variant.enable:
            return variant.enable
    return f"this version's page has no {', '.join(sorted(variants[0].needs - names))}"
