"""A variant as a file gives it, checked: its PromQL, what that needs, and where its labels come from."""

from collections.abc import Iterator, Mapping

from db.catalog.document import LabelSourceSection, Place, VariantSection
from db.catalog.placeholders import metrics_in, parsed, signals_in, suffixed
from db.catalog.signal import Form, LabelSource, Variant
from db.promql.ast import ValueType, VectorSelector, value_type
from db.promql.errors import BadQuery
from db.promql.parse import parse

LabelSources = Mapping[str, tuple[LabelSource, ...]]


def variant_of(exporter: str, section: VariantSection, shared: LabelSources, place: Place) -> Variant:
    """shared: the exporter's own labels. Raises CatalogError."""
    form, texts = _form(section)
    try:
        names = frozenset().union(*_needed(form, texts))
    except (BadQuery, ValueError) as error:
        raise place.error(f"{texts[0]!r} cannot be used: {error}", form) from error
    needs = names if section.needs is None else frozenset(section.needs)
    uses = tuple(dict.fromkeys(name for text in texts for name in signals_in(text)))
    if not needs and not uses:
        reason = "it would be there in every store: say in 'needs' which metrics have to exist"
        raise place.error(reason, form if section.needs is None else "needs")
    for selector in section.where:
        _check_selector(selector, place)
    return Variant(
        exporter=exporter,
        form=form,
        texts=texts,
        scale=section.scale,
        needs=needs,
        unless=frozenset(section.unless),
        where=section.where,
        enable=section.enable,
        within=section.within,
        labels={**shared, **label_sources(section.labels)},
        uses=uses,
        place=str(place),
    )


def label_sources(sections: Mapping[str, tuple[LabelSourceSection, ...]]) -> LabelSources:
    return {
        canonical: tuple(LabelSource(source.label, source.match) for source in sources)
        for canonical, sources in sections.items()
    }


def _needed(form: Form, texts: tuple[str, ...]) -> Iterator[frozenset[str]]:
    """Raises BadQuery, ValueError."""
    for text in texts:
        if form == "histogram":
            yield metrics_in(suffixed(text, "_bucket"))
            continue
        kind = value_type(parsed(text))
        if kind is not ValueType.VECTOR:
            raise ValueError(f"it is a {kind.value}; write what gives an instant vector")
        yield metrics_in(text)


def _check_selector(text: str, place: Place) -> None:
    try:
        node = parse(text)
    except BadQuery as error:
        raise place.error(f"{text!r} cannot be used: {error}", "where") from error
    if not isinstance(node, VectorSelector):
        raise place.error(f"{text!r} is no selector: write a metric's name with its matchers", "where")


def _form(section: VariantSection) -> tuple[Form, tuple[str, ...]]:
    if section.value is not None:
        return "value", (section.value,)
    if section.histogram is not None:
        return "histogram", (section.histogram,)
    if section.ratio is not None:
        return "ratio", section.ratio
    assert section.mean is not None  # noqa: S101  the section checks that one of the four is given
    return "mean", section.mean
