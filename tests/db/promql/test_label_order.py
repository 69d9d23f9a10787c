"""Series in the order of their labels."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from db.labels import METRIC_NAME, labels_from
from db.promql.label_order import places_by_labels
from db.promql.table import SeriesTable

names = st.sampled_from(["A", METRIC_NAME, "a", "b", "ä"])
texts = st.sampled_from(["", "B", "a", "b", "ü", "\U0001f600", "\uffee"])


@given(st.lists(st.dictionaries(names, texts)), st.data())
def test_places_are_those_of_the_sorted_labels(series, data):
    rows = [labels_from({name: text for name, text in labels.items() if text}) for labels in series]
    table = SeriesTable.of(rows)
    wanted = sorted(range(len(rows)), key=lambda row: (rows[row], row))
    assert [wanted.index(row) for row in range(len(rows))] == places_by_labels(table).tolist()


def test_a_part_of_a_table_is_sorted_by_itself():
    table = SeriesTable.of([labels_from({"i": text}) for text in ("c", "a", "b")])
    assert places_by_labels(table).tolist() == [2, 0, 1]
    assert places_by_labels(table.take(np.array([0, 2]))).tolist() == [1, 0]
