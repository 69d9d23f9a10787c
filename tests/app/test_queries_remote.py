"""Pages over an engine show what they would show over a store with the same samples."""

from contextlib import closing

import pytest

from app import queries
from app.context import PageContext, install
from db.errors import StoreUnreachable
from db.joined_source import JoinedSource
from db.promql.errors import SourceUnavailable
from db.store import SampleStore
from tests.stored_engine import StoredEngine
from tests.stores import Box, report
from tests.views.pages import NOW
from tests.views.pages import site as opened_site


@pytest.fixture
def site(tmp_path):
    with opened_site(tmp_path) as opened:
        yield opened


def gpu_values(gpus):
    """What the engine's samples say of each; its own stale marks and times are not asked for."""
    return [
        (
            gpu.uuid,
            gpu.instance,
            gpu.host,
            gpu.newest_ms,
            gpu.utilisation_ratio.value,
            gpu.memory_used_bytes.value,
            gpu.memory_total_bytes,
            gpu.power_watts.trend.tobytes(),
        )
        for gpu in gpus
    ]


def serving_values(targets):
    return [
        (
            target.serving.engine,
            target.serving.running.value,
            target.serving.generated_per_second.trend.tobytes(),
            target.duration.value,
        )
        for target in targets
        if target.serving
    ]


def test_what_pages_show_is_read_from_the_engine(site, tmp_path):
    Box(site.store).fill(NOW - 60_000, NOW)
    window = queries.trend_window(NOW, 900.0)
    gpus = gpu_values(queries.gpus(window))
    hosts = [(host.instance, host.cores) for host in queries.hosts(window)]
    serving = serving_values(queries.targets(window))
    assert len(gpus) == 2
    assert hosts
    assert [engine for engine, *_ in serving] == ["vLLM"]
    with closing(SampleStore.open(tmp_path / "own.db")) as own:
        own.write([], [report("vllm", "127.0.0.1:8000", NOW)])
        engine = StoredEngine(site.store)
        joined = JoinedSource(own, engine)
        install(PageContext(lambda: joined, list, lambda: NOW))
        window = queries.trend_window(NOW, 900.0)
        assert gpu_values(queries.gpus(window)) == gpus
        assert serving_values(queries.targets(window)) == serving
        assert queries.unanswered(window) == []
        chart = queries.chart_window(NOW, 300.0, 5.0)
        del engine.asked[:]
        assert len(queries.history("gpu_power", window, chart).lines) == 2
        assert all('instance=~"box' in text for text in engine.asked)
        assert len(queries.history("tokens", window, chart).lines) == 1
        assert [(host.instance, host.cores) for host in queries.hosts(window)] == hosts
        assert [one.pool for one in queries.sources()] == ["vllm"]


class Silent(StoredEngine):
    """An engine that has stopped answering queries, and still says which names it has."""

    def instant(self, text, at_ms, lookback_ms):
        raise SourceUnavailable("engine.example does not answer")

    def ranged(self, text, start_ms, end_ms, step_ms, lookback_ms):
        raise SourceUnavailable("engine.example does not answer")


def test_an_engine_that_does_not_answer_is_unreachable_and_not_empty(site, tmp_path):
    Box(site.store).fill(NOW - 60_000, NOW)
    with closing(SampleStore.open(tmp_path / "own.db")) as own:
        joined = JoinedSource(own, Silent(site.store))
        install(PageContext(lambda: joined, list, lambda: NOW))
        with pytest.raises(StoreUnreachable, match=r"engine\.example does not answer"):
            queries.gpus(queries.trend_window(NOW, 900.0))
