"""Signals that are made of signals: refused where that has no end, or where their PromQL would have none."""

from db.catalog.catalog import Catalog
from db.catalog.document import CatalogError
from db.catalog.placeholders import mentions

# A signal of a signal of a signal ...
_MAX_DEPTH = 20
# Each mention is written out: without a limit a few lines could mean gigabytes of PromQL.
_MAX_CHARACTERS = 1_000_000


def check_references(catalog: Catalog) -> None:
    """Raises CatalogError for a signal that is made of itself, or of too many others."""
    known: dict[str, tuple[int, int]] = {}

    def measured(name: str, above: tuple[str, ...]) -> tuple[int, int]:
        """Signals in one another, and characters."""
        if name in known:
            return known[name]
        deepest = total = 0
        for variant in catalog.variants_of(catalog.signals[name]):
            total += sum(map(len, variant.texts))
            for used in mentions(variant.texts):
                if used in (*above, name):
                    raise CatalogError(variant.place, f"{used} is made of itself: {name} refers to it")
                # Those above count, too: it does not recurse further than that.
                depth, size = measured(used, (*above, name)) if len(above) < _MAX_DEPTH else (_MAX_DEPTH, 0)
                deepest, total = max(deepest, depth + 1), total + size
                if deepest > _MAX_DEPTH:
                    reason = f"{name} is made of more than {_MAX_DEPTH} signals in one another"
                    raise CatalogError(variant.place, reason)
            if total > _MAX_CHARACTERS:
                reason = f"{name} would be more than {_MAX_CHARACTERS} characters of PromQL"
                raise CatalogError(variant.place, reason)
        known[name] = deepest, total
        return known[name]

    for name in catalog.signals:
        measured(name, ())
