"""Writes the tables of docs/signals.md: `python -m tests.db.catalog.reference`."""

from collections.abc import Iterator
from pathlib import Path

from db.catalog.catalog import Catalog
from db.catalog.load import load_catalog
from db.catalog.signal import STATISTICS, Signal

PAGE = Path(__file__).parents[3] / "docs" / "signals.md"
BEGIN = "<!-- written by tests/db/catalog/reference.py -->\n"


def tables(catalog: Catalog) -> str:
    """A table for each layer, and one of the exporters."""
    parts = []
    for layer in dict.fromkeys(signal.layer for signal in catalog.signals.values()):
        rows = [_row(catalog, name, signal) for name, signal in _named(catalog) if signal.layer == layer]
        parts.append(f"### {layer.capitalize()}\n\n{_table(('signal', 'unit', 'by', 'means', 'from'), rows)}")
    rows = [
        (f"`{exporter.id}`", exporter.title, str(len(exporter.variants)), exporter.install)
        for exporter in sorted(catalog.exporters.values(), key=lambda item: item.id)
    ]
    parts.append(f"### Exporters\n\n{_table(('id', 'exporter', 'signals', 'how to get it'), rows)}")
    return "\n\n".join(parts) + "\n"


def _named(catalog: Catalog) -> Iterator[tuple[str, Signal]]:
    """A distribution is one row."""
    statistics = ", ".join(f"_{name}" for name in STATISTICS)
    for name, signal in catalog.signals.items():
        if not signal.family:
            yield f"`{name}`", signal
        elif signal.quantile is None:
            yield f"`{signal.family}` ({statistics})", signal


def _row(catalog: Catalog, name: str, signal: Signal) -> tuple[str, ...]:
    exporters = dict.fromkeys(
        variant.exporter
        for statistic in catalog.signals.values()
        if statistic is signal or (signal.family and statistic.family == signal.family)
        for variant in catalog.variants_of(statistic)
    )
    return name, signal.unit, ", ".join(signal.by) or "-", signal.means, ", ".join(exporters) or "-"


def _table(head: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    lines = [head, ("---",) * len(head), *rows]
    return "\n".join(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in line)} |" for line in lines)


def page(catalog: Catalog, text: str) -> str:
    """The page with its tables written anew."""
    return text[: text.index(BEGIN) + len(BEGIN)] + "\n" + tables(catalog)


if __name__ == "__main__":
    PAGE.write_text(page(load_catalog(), PAGE.read_text()))
