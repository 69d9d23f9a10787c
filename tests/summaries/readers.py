"""Readers of signals over a store that a test filled."""

import numpy as np

from app.summaries.signal_reader import SignalReader
from db.catalog.load import load_catalog
from db.catalog.presence import metric_names
from db.records import Series, SparseAppend
from db.store import SampleStore


def write(store: SampleStore, *series: Series) -> None:
    store.write(
        [
            SparseAppend(
                [item.labels], item.timestamps, item.values, np.zeros(len(item.timestamps), dtype=np.int64)
            )
            for item in series
        ]
    )


def reader(store: SampleStore, at: np.ndarray, *files) -> SignalReader:
    """files: of signals that a user added."""
    return SignalReader(load_catalog(files), store, metric_names(store, int(at[-1])), at)
