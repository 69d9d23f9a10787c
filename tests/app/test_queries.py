"""Cached reads: fresh after a commit, shared within a tick, and true to what the store holds."""

import pytest

from app import queries
from app.context import PageContext, install
from app.summaries.history import CHARTS, MAX_LINES
from tests.stores import Box, Target, collector_report, gpu_samples, many_targets, report
from tests.views.pages import NOW
from tests.views.pages import site as opened_site


@pytest.fixture
def site(tmp_path):
    with opened_site(tmp_path) as opened:
        yield opened


def test_a_commit_is_seen_at_once(site):
    assert queries.sources() == []
    site.store.write([], [report("node", "a", NOW)])
    assert [one.instance for one in queries.sources()] == ["a"]


def test_one_moment_is_read_once(site):
    Box(site.store).fill(NOW - 30_000, NOW)
    first = queries.trend_window(NOW, 900.0)
    assert first == queries.trend_window(NOW + 1, 900.0)
    assert first != queries.trend_window(NOW + 2_000, 900.0)
    asked = 0
    store = queries.current().store()

    def counted():
        nonlocal asked
        asked += 1
        return store

    install(PageContext(counted, list, lambda: NOW))
    window = queries.trend_window(NOW, 900.0)
    found = queries.gpus(window)
    assert len(found) == 2
    before = asked
    assert [gpu.uuid for gpu in queries.gpus(window)] == [gpu.uuid for gpu in found]
    assert asked == before


def test_the_window_holds_the_newest_sample_of_the_tick(site):
    window = queries.trend_window(NOW + 1_999, 900.0)
    assert window.end_ms == NOW + 2_000
    assert window.start_ms == NOW - 898_000
    assert window.grid()[-1] == window.end_ms


@pytest.mark.parametrize(("age", "freshness"), [(0, "live"), (20_000, "live"), (20_001, "stale")])
def test_the_moment_goes_by_the_fastest_source(site, age, freshness):
    reports = [report("slow", "a", NOW - 60_000, interval_seconds=600.0), report("fast", "b", NOW)]
    moment = queries.moment(reports, NOW + age)
    assert moment.freshness == freshness
    assert moment.pace_seconds == 5.0
    assert moment.shown_ms == (NOW if freshness == "stale" else NOW + age)


def test_nothing_ever_arrived(site):
    moment = queries.moment([report("a", "a", NOW, state="waiting", last_success_ms=None)], NOW)
    assert (moment.newest_ms, moment.freshness, moment.stale) == (None, "never", False)


def test_no_gpu_driver_is_what_the_collector_said(site):
    assert queries.no_gpu_driver([collector_report("nvml", NOW, state="unsupported")])
    assert not queries.no_gpu_driver([collector_report("nvml", NOW)])
    assert not queries.no_gpu_driver([report("nvml", "a", NOW, state="unsupported")])


def test_many_sources_tick_slower_and_look_less_far_back(site):
    assert queries.tick_seconds() == queries.TICK_SECONDS
    many_targets(site.store, 60, NOW)
    assert queries.tick_seconds() == queries.TABLE_TICK_SECONDS
    assert queries.trend_seconds(queries.sources(), 86_400.0) == 900.0
    assert queries.trend_seconds(queries.sources()[:3], 86_400.0) == 86_400.0


def test_a_chart_reads_only_what_it_draws(site):
    devices = [Target("dcgm", f"gpu-{n:02d}:9400") for n in range(8)]
    for at in (NOW - 10_000, NOW - 5_000):
        site.store.write(
            [one.append(at, gpu_samples(n, 8, host=one.instance)) for n, one in enumerate(devices)]
        )
    recent = queries.trend_window(NOW, 900.0)
    history = queries.history("gpu_power", recent, queries.chart_window(NOW, 900.0, 5.0))
    assert history.total == 64
    assert len(history.lines) == MAX_LINES
    powers = sorted((gpu.power_watts.value for gpu in queries.gpus(recent)), reverse=True)
    assert [line.values[-1] for line in history.lines] == powers[:MAX_LINES]


def test_every_chart_can_be_read(site):
    Box(site.store).fill(NOW - 60_000, NOW)
    recent, window = queries.trend_window(NOW, 300.0), queries.chart_window(NOW, 300.0, 5.0)
    for key in CHARTS:
        assert queries.history(key, recent, window).lines, key
