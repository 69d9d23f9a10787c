"""count_values: a series for each different value of a group."""

import numpy as np

from db.labels import METRIC_NAME
from db.nan import NORMAL_BITS, IntArray
from db.promql.ast import Aggregate
from db.promql.context import Context
from db.promql.errors import ExecutionError
from db.promql.numbers import format_values
from db.promql.table import CodeArray, Column, SeriesTable, numbered
from db.promql.vector import Vector, empty
from db.promql.wording import quoted


def count_values(context: Context, node: Aggregate) -> Vector:
    assert node.parameter is not None, "the parser asks for it"  # noqa: S101
    label = context.text(node.parameter)
    if not _is_label_name(label):
        raise ExecutionError(f"invalid label name {quoted(label)}")
    vector = context.vector(node.expression)
    there = vector.mask()
    rows, steps = np.nonzero(there)
    if not len(rows):
        return empty(context.steps)
    table = _kept(vector.table, node, label)
    column, codes = _texts(vector, rows, steps)
    # With `without` the values' own label goes, too, when it is one of those named.
    labelled = not node.without or label not in (*node.labels, METRIC_NAME)
    columns: list[tuple[CodeArray, int]] = [(table.groups().number[rows].astype(np.int32), len(table))]
    if labelled:
        columns.append((codes, len(column)))
    groups = numbered(columns, len(rows))
    context.budget.take(groups.count * context.steps)
    cells = groups.number * context.steps + steps
    count = np.bincount(cells, minlength=groups.count * context.steps).reshape(groups.count, -1)
    found = table.take(rows[groups.first])
    if labelled:
        found = found.with_column(label, Column(codes[groups.first], column))
    return Vector(found, count.astype(np.float64), None if count.all() else count > 0)


def _kept(table: SeriesTable, node: Aggregate, label: str) -> SeriesTable:
    """The labels that groups have besides the value's."""
    if node.without:
        return table.drop((*node.labels, label, METRIC_NAME))
    return table.keep([name for name in node.labels if name != label])


def _texts(vector: Vector, rows: IntArray, steps: IntArray) -> tuple[list[str], CodeArray]:
    """The different values as texts, and which one each cell has. Bits are compared: -0 is not 0."""
    values = vector.values[rows, steps]
    bits = values.view(np.int64)
    bits[np.isnan(values)] = NORMAL_BITS
    different, codes = np.unique(bits, return_inverse=True)
    return format_values(different.view(np.float64)), codes.reshape(-1).astype(np.int32)


def _is_label_name(name: str) -> bool:
    """Any text in UTF-8 that is not empty, since Prometheus 3."""
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return name != ""
