"""PromQL for a signal out of the variants that fit: raw labels become canonical ones, series become entities,
entities become what is asked for.

Where several exporters fit, each is first reduced to the entity's labels and then joined by `or`, so that a
thing that two exporters report counts once. Buckets of two exporters are never added: their edges differ.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from db.catalog.placeholders import WINDOW, filled, suffixed
from db.catalog.signal import EXPORTER, Buckets, Combine, LabelSource, Resolved, Signal, Variant
from db.promql.printer import quoted

Labels = tuple[str, ...]

# Labels that every scrape puts on its series: often all that tells those of two targets apart.
_OF_TARGETS = frozenset({"job", "instance"})
# Labels of our own that are gone from every result.
_KEPT = "raw_"
_PART = "part"


@dataclass(frozen=True, slots=True)
class Composer:
    """Writes one signal's PromQL. value_of: another signal's, at the labels of its entity. averaged: the
    signal is a ratio somewhere, so that values of several entities are never added."""

    signal: Signal
    by: Labels
    window: str
    value_of: Callable[[str], str]
    averaged: bool

    def resolved(self, variants: Sequence[Variant]) -> Resolved:
        exporters = tuple(dict.fromkeys(variant.exporter for variant in variants))
        if self.signal.quantile is not None:
            buckets = [self._buckets(item) for item in variants if item.form == "histogram"]
            ready = [item for item in variants if item.form != "histogram"]
            plain = self._values(ready) if ready else ""
            text = self._quantile(buckets, plain)
            return Resolved(self.signal, self.by, self.window, text, exporters, tuple(buckets), plain)
        added = self.signal.combine == "sum" or bool(self.signal.family)
        if added and all(item.form != "value" for item in variants):
            text = self._ratio_of_sums(variants)
        else:
            text = self._values(variants)
        return Resolved(self.signal, self.by, self.window, text, exporters)

    def _quantile(self, buckets: Sequence[Buckets], plain: str) -> str:
        """Of several exporters the largest: no fewer requests were as quick as that."""
        parts = [
            scaled(f"histogram_quantile({self.signal.quantile:g}, {item.promql})", item.scale)
            for item in buckets
        ]
        if len(parts) == 1 and not plain:
            return parts[0]
        # Numbered, so that none hides another of the same labels from `max`.
        apart = [
            f'label_replace({part}, "{_PART}", "{number}", "", "")'
            for number, part in enumerate(parts, start=1)
        ]
        return reduced("max", self.by, " or ".join([*apart, *([plain] if plain else [])]))

    def _buckets(self, variant: Variant) -> Buckets:
        rates = self._text(f"rate({suffixed(variant.texts[0], '_bucket')}[{WINDOW}])")
        if variant.within is None:
            named = canonical(rates, self.by, variant)
        else:
            named = self._entities(variant, rates, variant.within, ("le",))
        return Buckets(reduced("sum", (*self.by, "le"), named), variant.scale, variant.exporter)

    def _ratio_of_sums(self, variants: Sequence[Variant]) -> str:
        pairs = [self._pair(variant) for variant in variants]
        above = self._together("sum", [(item, pair[0]) for item, pair in zip(variants, pairs, strict=True)])
        below = self._together("sum", [(item, pair[1]) for item, pair in zip(variants, pairs, strict=True)])
        return f"{above} / {below}"

    def _pair(self, variant: Variant) -> tuple[str, str]:
        """Numerator, scaled, and denominator."""
        if variant.form == "histogram":
            [family] = variant.texts
            above, below = (f"rate({suffixed(family, end)}[{WINDOW}])" for end in ("_sum", "_count"))
        else:
            above, below = variant.texts
        return scaled(self._text(above), variant.scale), self._text(below)

    def _values(self, variants: Sequence[Variant]) -> str:
        combine: Combine = self.signal.combine
        if self.averaged and combine == "sum":
            combine = "avg"
        if len(variants) == 1 and variants[0].form == "value" and combine != "avg":
            [variant] = variants
            text = scaled(self._text(variant.texts[0]), variant.scale)
            return self._together(combine, [(variant, text)])
        whole = " or ".join(self._entity_values(variant, combine) for variant in variants)
        if set(self.by) == {*self.signal.entity}:
            return whole
        if combine != "avg":
            return reduced(combine, self.by, whole)
        # What has no traffic is 0/0: the average is of the others. Where nothing has any, it is still there.
        known = reduced("avg", self.by, f"({whole}) >= -Inf")
        return f"{known} or {reduced('avg', self.by, whole)}" if self.averaged else known

    def _entity_values(self, variant: Variant, combine: Combine) -> str:
        if variant.form == "value":
            text = scaled(self._text(variant.texts[0]), variant.scale)
            return self._entities(variant, text, variant.within or combine)
        above, below = (
            self._entities(variant, text, variant.within or "sum") for text in self._pair(variant)
        )
        return f"{above} / {below}"

    def _together(self, combine: Combine, given: Sequence[tuple[Variant, str]]) -> str:
        if len(given) == 1:
            [(variant, text)] = given
            if variant.within in (None, combine):
                return reduced(combine, self.by, canonical(text, self.by, variant))
        parts = [self._entities(variant, text, variant.within or combine) for variant, text in given]
        return reduced(combine, self.by, " or ".join(parts))

    def _entities(self, variant: Variant, text: str, within: Combine, besides: Labels = ()) -> str:
        labels = (*self.signal.entity, *(label for label in self.by if label not in self.signal.entity))
        return reduced(within, (*labels, *besides), canonical(text, labels, variant))

    def _text(self, text: str) -> str:
        return filled(text, self.window, self.value_of)


def reduced(operator: Combine, labels: Labels, text: str) -> str:
    """The aggregation down to these labels."""
    return f"{operator} by ({', '.join(labels)}) ({text})" if labels else f"{operator}({text})"


def scaled(text: str, scale: float) -> str:
    return text if scale == 1.0 else f"({text}) * {scale!r}"


def canonical(text: str, wanted: Labels, variant: Variant) -> str:
    """The same series with the wanted labels under their canonical names. What is written last wins, so the
    best source is written last. A label that is written over is kept under another name where it may be what
    tells two series apart, or where another one is taken from it."""
    replaced = {label: variant.labels[label] for label in wanted if _is_replaced(label, variant)}
    kept = {label for label in replaced if label in _OF_TARGETS or _is_source(label, replaced)}
    for label in wanted:
        if label in kept:
            text = _labelled(text, _KEPT + label, label, "(.+)")
    if EXPORTER in wanted:
        text = f'label_replace({text}, "{EXPORTER}", "{variant.exporter}", "", "")'
    for label, sources in replaced.items():
        best_last = sources[::-1]
        for source in best_last[1:] if best_last[0] == LabelSource(label) else best_last:
            raw = _KEPT + source.label if source.label in kept else source.label
            text = _labelled(text, label, raw, source.match)
    return text


def _labelled(text: str, label: str, raw: str, match: str) -> str:
    return f'label_replace({text}, "{label}", "$1", {quoted(raw)}, {quoted(match)})'


def _is_replaced(label: str, variant: Variant) -> bool:
    return label != EXPORTER and variant.labels.get(label, ()) not in ((), (LabelSource(label),))


def _is_source(label: str, replaced: Mapping[str, tuple[LabelSource, ...]]) -> bool:
    return any(source.label == label for sources in replaced.values() for source in sources)
