"""Pages over an engine show what they would show over a store with the same samples."""

from contextlib import closing

import pytest

from app import queries
from app.context import PageContext, install
from db.joined_source import JoinedSource
from db.store import SampleStore
from tests.stored_engine import StoredEngine
from tests.stores import Box, report
from tests.views.pages import NOW
from tests.views.pages import site as opened_site


@pytest.fixture
def site(tmp_path):
    with opened_site(tmp_path) as opened:
        yield opened


def test_hosts_and_gpus_are_read_from_the_engine(site, tmp_path):
    Box(site.store).fill(NOW - 60_000, NOW)
    window = queries.trend_window(NOW, 900.0)
    gpus = [gpu.uuid for gpu in queries.gpus(window)]
    hosts = [(host.instance, host.cores) for host in queries.hosts(window)]
    assert gpus
    assert hosts
    with closing(SampleStore.open(tmp_path / "own.db")) as own:
        own.write([], [report("engine", "box", NOW)])
        joined = JoinedSource(own, StoredEngine(site.store))
        install(PageContext(lambda: joined, list, lambda: NOW))
        window = queries.trend_window(NOW, 900.0)
        assert [gpu.uuid for gpu in queries.gpus(window)] == gpus
        assert [(host.instance, host.cores) for host in queries.hosts(window)] == hosts
        assert [one.pool for one in queries.sources()] == ["engine"]
