"""The steps that the layer pages read, and that a look costs one read."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from app import layer_queries
from app.context import current, install
from app.summaries.layer_panels import APPLICATION, LAYER_PAGES
from db.catalog.load import load_catalog
from tests.stores import Box, Target, host_samples
from tests.views.pages import NOW, Site
from tests.views.pages import site as opened_site

QUEUE = APPLICATION.bands[0].panels[1]


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    with opened_site(tmp_path) as opened:
        yield opened


@pytest.mark.parametrize(
    ("span", "pace", "step", "window"),
    [
        (300, 5, 5_000, "5m"),
        (900, 15, 15_000, "5m"),
        (86_400, 15, 300_000, "5m"),
        (86_400, 0, 300_000, "5m"),
        (7 * 86_400, 15, 3_600_000, "3600s"),
        (900, 120, 120_000, "480s"),
    ],
)
def test_steps_are_no_more_than_a_screen_shows_and_rates_miss_nothing(site, span, pace, step, window):
    at = layer_queries.steps(NOW, float(span), float(pace))
    assert (at.step_ms, at.window) == (step, window)
    assert at.start_ms % step == at.end_ms % step == 0
    assert NOW - step < at.end_ms <= NOW
    assert at.span_ms // step <= 288


def test_charts_stand_still_until_their_next_step(site):
    box = Box(site.store)
    box.fill(NOW - 60_000, NOW)
    first = layer_queries.panel(QUEUE, "model", "", layer_queries.steps(NOW, 86_400.0, 5.0))
    box.fill(NOW + 5_000, NOW + 30_000)
    later = layer_queries.panel(QUEUE, "model", "", layer_queries.steps(NOW + 30_000, 86_400.0, 5.0))
    assert first.times.tolist() == later.times.tolist()


def test_every_panel_names_signals_and_labels_that_there_are():
    catalog = load_catalog()
    for page in LAYER_PAGES.values():
        keys = [panel.key for band in page.bands for panel in band.panels]
        assert len(keys) == len(set(keys))
        for name in (*page.filter_signals, *(item.signal for item in page.tiles)):
            catalog.signal(name)
        assert all(page.filter_label in catalog.signal(name).entity for name in page.filter_signals)
        for panel in (panel for band in page.bands for panel in band.panels):
            assert len(panel.names) in (0, len(panel.signals))
            units = {catalog.signal(name).unit for name in panel.signals}
            assert len(units) == 1, panel.key
            for name in panel.signals:
                assert {*panel.by, *panel.chosen_by} <= {*catalog.signal(name).entity}, panel.key


def test_a_panel_one_of_whose_queries_fails_says_so_and_draws_the_others(site, tmp_path):
    path = tmp_path / "own.yaml"
    path.write_text(
        """\
exporters:
  own:
    title: Own
    detect: [node_load1]
    install: Install it.
    signals:
      requests_running: {value: node_load1}
      requests_waiting: {value: node_disk_read_bytes_total * on () node_disk_read_bytes_total}
"""
    )
    catalog = load_catalog([path])
    install(replace(current(), catalog=lambda: catalog))
    site.store.write([Target("node", "box-1").append(NOW, host_samples(60.0))])
    found = layer_queries.panel(QUEUE, "model", "", layer_queries.steps(NOW, 300.0, 5.0))
    assert [line.name for line in found.lines] == ["no model running"]
    assert "many-to-many" in found.error or "duplicate" in found.error
