"""When the newest sample behind a thing's signals was taken: for "newest sample 4 s ago".

A signal's own value cannot tell: it stands for five minutes after the last sample. Asked is each metric that
a signal is made of, the first that its PromQL names.
"""

from collections.abc import Iterator, Sequence, Set

from db.catalog.catalog import Catalog
from db.catalog.expressions import canonical, reduced
from db.catalog.placeholders import filled
from db.catalog.signal import Variant
from db.labels import METRIC_NAME
from db.promql.parse import parse
from db.promql.printer import selector_text
from db.promql.walk import selectors
from db.records import Matcher


def newest_promql(catalog: Catalog, signals: Sequence[str], names: Set[str], by: Sequence[str]) -> str:
    """PromQL that gives seconds since 1970 by these labels (canonical ones; `instance` and `job` of the
    target they are of); "" where the store has none of the signals' metrics. names: metrics that it has.

    What a variant makes of its labels within its PromQL is not seen: its things have those labels that the
    exporter declares. Raises UnknownSignal.
    """
    parts: dict[str, None] = {}
    for name in signals:
        for variant in catalog.variants_of(catalog.signal(name)):
            metric = _metric(variant)
            if metric in names and variant.needs <= names and variant.unless.isdisjoint(names):
                time = f"timestamp({selector_text([Matcher(METRIC_NAME, '=', metric)])})"
                parts[reduced("max", tuple(by), canonical(time, tuple(by), variant))] = None
    return " or ".join(parts)


def _metric(variant: Variant) -> str:
    """ "" for what is made of other signals."""
    if variant.uses or variant.form == "histogram":
        return ""
    return next(_names(variant.texts[0]), "")


def _names(text: str) -> Iterator[str]:
    for selector in selectors(parse(filled(text, "5m", lambda _: "vector(0)"))):
        for matcher in selector.matchers:
            if matcher.name == METRIC_NAME and matcher.operator == "=":
                yield matcher.value
