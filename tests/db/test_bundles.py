"""A series has one place in one bundle for as long as it lives."""

from pathlib import Path

import numpy as np
import pytest
from sqlalchemy import Engine

from db.bundles import BUNDLE_SERIES, GROUP_SERIES, Placer
from db.engine import open_samples, writing
from db.index import intern_series
from db.labels import Labels
from db.nan import IntArray
from tests.db.interruptions import meanwhile
from tests.db.stored_content import gauges


@pytest.fixture
def engine(tmp_path: Path):
    opened = open_samples(tmp_path / "samples.db")
    yield opened
    opened.dispose()


def ids_of(engine: Engine, series: list[Labels]) -> IntArray:
    with writing(engine) as connection:
        return np.sort(intern_series(connection, series))


def test_series_of_one_metric_share_bundles_of_64(engine: Engine) -> None:
    ids = ids_of(engine, gauges(150))
    found = Placer().place(engine, [(ids, 100)])
    _, members = np.unique(found.bundle, return_counts=True)
    assert members.tolist() == [BUNDLE_SERIES, BUNDLE_SERIES, 150 - 2 * BUNDLE_SERIES]
    assert len(np.unique(found.group)) == 1
    assert len({*zip(found.bundle.tolist(), found.place.tolist(), strict=True)}) == 150
    assert found.place.max() < BUNDLE_SERIES


def test_metrics_have_bundles_of_their_own(engine: Engine) -> None:
    one, two = ids_of(engine, gauges(3, "one")), ids_of(engine, gauges(3, "two"))
    found = Placer().place(engine, [(np.concatenate([one, two]), 10)])
    assert not set(found.bundle[:3].tolist()) & set(found.bundle[3:].tolist())


def test_a_place_is_kept(engine: Engine) -> None:
    placer = Placer()
    ids = ids_of(engine, gauges(70))
    first = placer.place(engine, [(ids, 100)])
    more = ids_of(engine, gauges(90))
    placer.place(engine, [(more, 100)])
    again = Placer().place(engine, [(ids, 7)])  # another process
    assert again.bundle.tolist() == first.bundle.tolist()
    assert again.place.tolist() == first.place.tolist()


def test_targets_of_other_pace_are_stored_apart(engine: Engine) -> None:
    slow, fast = ids_of(engine, gauges(3, job="slow")), ids_of(engine, gauges(3, job="fast"))
    found = Placer().place(engine, [(slow, 5), (fast, 300)])
    assert found.group[0] != found.group[3]


def test_a_group_does_not_grow_without_end(engine: Engine) -> None:
    placer = Placer()
    first = placer.place(engine, [(ids_of(engine, gauges(GROUP_SERIES, job="a")), 5)])
    second = placer.place(engine, [(ids_of(engine, gauges(10, job="b")), 5)])
    assert set(first.group.tolist()).isdisjoint(second.group.tolist())


def test_two_processes_that_meet_the_same_new_series_place_it_once(engine: Engine) -> None:
    """One of them loads, the other seals: a series in two bundles would lose the order of its samples."""
    ids = ids_of(engine, gauges(10))
    beside = open_samples(Path(str(engine.url.database)))
    with meanwhile(engine, 2, lambda: Placer().place(beside, [(ids, 100)]) and None):
        found = Placer().place(engine, [(ids, 100)])
    with engine.connect() as connection:
        rows = connection.exec_driver_sql("SELECT series_id, bundle_id FROM bundle_member").fetchall()
    assert sorted(row[0] for row in rows) == ids.tolist()
    assert set(found.bundle.tolist()) == {row[1] for row in rows}
    beside.dispose()
