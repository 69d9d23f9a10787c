"""Long-kept series beside young targets: a month of one series is read without reading the rest.

Here with 35 days; `tests.bench.store_year` does it with a year.
"""

from pathlib import Path

import pytest

from db.records import named
from db.store import SampleStore
from tests.bench.store_year import (
    BEGIN_MS,
    DAY_MS,
    KINDS,
    QUERY_DAYS,
    QUERY_LIMIT_BYTES,
    STEP_MS,
    fill,
    month_of_each_kind,
)

DAYS = 35


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path: Path = tmp_path_factory.mktemp("year") / "samples.db"
    fill(path, DAYS)
    return path


@pytest.mark.slow
def test_a_month_of_one_series_reads_under_two_megabytes(path: Path) -> None:
    found = month_of_each_kind(path, DAYS)
    assert set(found) == set(KINDS)
    for kind, (read, samples) in found.items():
        assert samples == QUERY_DAYS * DAY_MS // STEP_MS, kind
        assert 0 < read < QUERY_LIMIT_BYTES, kind


@pytest.mark.slow
def test_the_young_targets_are_there_beside_the_old(path: Path) -> None:
    store = SampleStore.open(path)
    now = BEGIN_MS + DAYS * DAY_MS
    assert len(store.latest([named("young")], now)) == 1_000
    assert len(store.latest([], now)) == 1_100
    young = store.select([named("young")], BEGIN_MS, now)
    assert {len(item.timestamps) for item in young} == {40}
    store.close()
