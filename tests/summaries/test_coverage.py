"""Coverage of many targets: those of a large job are looked up together, with the result of one by one."""

from pathlib import Path

import numpy as np

from app.summaries import coverage
from app.summaries.coverage import cover_targets
from db.catalog.load import load_catalog
from db.catalog.presence import metric_names_by_instance, target_metric_names
from db.labels import labels_from
from db.records import DenseAppend
from db.store import SampleStore
from tests.stores import report

NOW = 1_795_000_000_000
FULL = ("DCGM_FI_DEV_GPU_TEMP", "DCGM_FI_DEV_GPU_UTIL", "DCGM_FI_PROF_SM_ACTIVE", "not_of_the_catalogue")
BARE = FULL[:2]


def fill(store: SampleStore, targets: int) -> None:
    for number in range(targets):
        names = FULL if number % 3 else BARE
        instance = f"n{number}:9400"
        labels = [labels_from({"job": "dcgm", "instance": instance, "gpu": "0"}, name) for name in names]
        append = DenseAppend(instance, labels, NOW - 1000, np.ones(len(names)))
        store.write([append], [report("dcgm", instance, NOW)])


def test_many_targets_of_a_job(tmp_path: Path):
    store = SampleStore.open(tmp_path / "samples.db")
    fill(store, coverage._MANY + 10)
    rows = cover_targets(load_catalog(), store, store.sources(), NOW)
    dcgm = [row for row in rows if row.coverage.exporter == "dcgm"]
    assert sorted(len(row.targets) for row in dcgm) == [10, 20]
    bare, full = sorted(dcgm, key=lambda row: row.coverage.had)
    assert full.coverage.had == bare.coverage.had + 1
    assert ("dcgm", "n0:9400") in bare.targets
    assert ("dcgm", "n1:9400") in full.targets
    store.close()


def test_together_as_one_by_one(tmp_path: Path):
    store = SampleStore.open(tmp_path / "samples.db")
    fill(store, 7)
    wanted = load_catalog().metric_names()
    found = metric_names_by_instance(store, "dcgm", wanted, NOW)
    assert len(found) == 7
    for instance, names in found.items():
        assert names == target_metric_names(store, "dcgm", instance, NOW) & wanted
    store.close()
