"""A series' identity: its sorted label pairs, the metric name among them as `__name__`."""

from collections.abc import Iterable, Mapping

Labels = tuple[tuple[str, str], ...]

METRIC_NAME = "__name__"


def labels_from(pairs: Mapping[str, str] | Iterable[tuple[str, str]], name: str | None = None) -> Labels:
    """Sort pairs into canonical order; an empty value means "label absent", as Prometheus has it."""
    items = dict(pairs)
    if name is not None:
        items[METRIC_NAME] = name
    return tuple(sorted((key, value) for key, value in items.items() if value != ""))


def metric_name(labels: Labels) -> str:
    for key, value in labels:
        if key == METRIC_NAME:
            return value
    return ""
