"""The order of series by their labels: Prometheus's storage gives a selection in it, and a few of its answers
show that order."""

import numpy as np

from db.nan import IntArray
from db.promql.table import SeriesTable


def places_by_labels(table: SeriesTable) -> IntArray:
    """int64[series]: each one's place if all were sorted by labels, compared name by name and text by text;
    whose labels end first comes first. Remembered with the table."""
    return table.remembered("places by labels", lambda: _places(table))


def _places(table: SeriesTable) -> IntArray:
    keys = [np.zeros(table.count, dtype=np.int64)]
    later = np.zeros(table.count, dtype=np.bool_)
    for name in sorted(table.columns, reverse=True):
        column = table.columns[name]
        used = np.unique(column.codes[column.codes >= 0]).tolist()
        rank = np.zeros(len(column.texts) + 1, dtype=np.int64)
        rank[sorted(used, key=column.texts.__getitem__)] = np.arange(1, len(used) + 1)
        # Without this label: the next one's name is larger, or there is no further label at all.
        keys.append(np.where((column.codes < 0) & later, len(used) + 1, rank[column.codes]))
        later |= column.codes >= 0
    places = np.empty(table.count, dtype=np.int64)
    places[np.lexsort(keys)] = np.arange(table.count)
    return places
