"""The numbers of `status/tsdb` follow from what was written."""

import numpy as np
from sqlalchemy import text

from db.index_statistics import read_statistics
from db.labels import labels_from
from db.maintenance import Maintainer
from db.records import SparseAppend
from db.store import SampleStore
from tests.db.stored_content import BEGIN, HOUR


def test_of_an_empty_store(store: SampleStore) -> None:
    found = read_statistics(store.engine, 10)
    assert (found.series, found.label_pairs, found.blocks) == (0, 0, 0)
    assert (found.first_ms, found.last_ms) == (None, None)
    assert list(found.series_by_metric) == []


def test_counts(store: SampleStore, maintainer: Maintainer) -> None:
    """The series' postings are in two chunks, which end at the id 65,535."""
    with store.engine.begin() as connection:
        connection.execute(text("UPDATE store_state SET next_series_id = 65500"))
    many = [labels_from({"n": str(number), "job": "a"}, "many") for number in range(70)]
    few = [labels_from({"n": str(number), "job": "bé"}, "few") for number in range(3)]
    store.write([SparseAppend(many, np.full(70, BEGIN), np.zeros(70))])
    store.write([SparseAppend(few, np.full(3, BEGIN + HOUR), np.zeros(3))])
    found = read_statistics(store.engine, 3)
    assert (found.series, found.label_pairs) == (73, 70 + 2 + 2)
    assert (found.first_ms, found.last_ms) == (BEGIN, BEGIN + HOUR)
    assert list(found.series_by_metric) == [("many", 70), ("few", 3)]
    assert list(found.values_by_label) == [("n", 70), ("__name__", 2), ("job", 2)]
    assert dict(found.bytes_by_label)["job"] == len("abé".encode())
    assert list(found.series_by_pair) == [("__name__=many", 70), ("job=a", 70), ("__name__=few", 3)]
    maintainer.seal(BEGIN + 2 * HOUR, kept_ms=60_000)
    sealed = read_statistics(store.engine, 3)
    assert sealed.blocks > 0
    assert (sealed.first_ms, sealed.last_ms) == (BEGIN, BEGIN + HOUR)
