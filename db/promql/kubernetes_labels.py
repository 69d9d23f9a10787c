"""Label names on an engine whose exporters were scraped through Kubernetes with honorLabels off.

A GPU exporter says which pod uses a GPU: `pod`, `namespace`, `container`. kube-prometheus's ServiceMonitors
put the scraped target's own labels of these names in their place, the exporter's, and what the exporter said
moves to `exported_pod`, `exported_namespace`, `exported_container`. An expression that asks for `pod` and
means the user of the GPU would then get the exporter for every one of them.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

from db.labels import METRIC_NAME
from db.promql.ast import Aggregate, Binary, Call, Expression, Text, ValueType, VectorSelector, value_type
from db.promql.walk import selectors, with_parts

_MOVED = ("pod", "namespace", "container")
_PREFIX = "exported_"
_EXPORTER = "DCGM_"
Affected = Callable[[VectorSelector], bool]


def moved_labels(label_names: Iterable[str]) -> dict[str, str]:
    """What an expression calls a label -> what the engine calls it. label_names: of the GPU metrics there."""
    there = set(label_names)
    return {name: _PREFIX + name for name in _MOVED if _PREFIX + name in there}


def of_gpu_exporter(selector: VectorSelector) -> bool:
    """Does it select by name from the GPU exporter's metrics?"""
    return any(
        item.name == METRIC_NAME and item.operator == "=" and item.value.startswith(_EXPORTER)
        for item in selector.matchers
    )


def with_moved_labels(
    expression: Expression, moved: Mapping[str, str], affected: Affected = of_gpu_exporter
) -> Expression:
    """The expression as it has to be asked there, with the labels it would have given.

    What only reads the exporter's metrics is asked with the moved names (in matchers, by and without, on,
    ignoring and group_left) and gets the plain ones back by label_replace, so that what surrounds it, a join
    with other metrics above all, stays as it was written.
    """
    if not moved or not any(map(affected, selectors(expression))):
        return expression
    if value_type(expression) is ValueType.VECTOR and all(map(affected, selectors(expression))):
        named = _labels_named(expression)
        inner = _renamed(expression, moved)
        for name in (name for name in moved if name in named or not _groups(expression)):
            # A GPU that nobody uses has none: then the exporter's own must not stay, either.
            inner = Call("label_replace", (inner, Text(name), Text("$1"), Text(moved[name]), Text("(.*)")))
        return inner
    if isinstance(expression, VectorSelector):
        return expression
    if value_type(expression) is ValueType.MATRIX and all(map(affected, selectors(expression))):
        return _renamed(expression, moved)
    return with_parts(expression, lambda part: with_moved_labels(part, moved, affected))


def _renamed(expression: Expression, moved: Mapping[str, str]) -> Expression:
    match expression:
        case VectorSelector():
            matchers = [replace(item, name=moved.get(item.name, item.name)) for item in expression.matchers]
            return replace(expression, matchers=tuple(matchers))
        case Aggregate():
            expression = replace(expression, labels=_names(expression.labels, moved))
        case Binary():
            matching = expression.matching
            matching = replace(
                matching, labels=_names(matching.labels, moved), include=_names(matching.include, moved)
            )
            expression = replace(expression, matching=matching)
        case _:
            pass
    return with_parts(expression, lambda part: _renamed(part, moved))


def _names(labels: Sequence[str], moved: Mapping[str, str]) -> tuple[str, ...]:
    return tuple(moved.get(label, label) for label in labels)


def _groups(expression: Expression) -> bool:
    """Does it keep only the labels that it names?"""
    return isinstance(expression, Aggregate) and not expression.without


def _labels_named(expression: Expression) -> frozenset[str]:
    return frozenset(expression.labels) if isinstance(expression, Aggregate) else frozenset()
