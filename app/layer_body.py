"""What the four layer pages do alike: read signals for a time range and a filter, then draw them.

A page is opened once a run; its tiles and each of its bands are fragments that tick by themselves.
"""

from dataclasses import dataclass

import streamlit as st

from app import layer_queries, queries
from app.layer_queries import Steps
from app.summaries.infrastructure_panels import HEAT_SIGNALS
from app.summaries.layer_page import LayerPage, PanelBand
from app.widgets import notices
from app.widgets.fleet_band import choose_heat, draw_fleet, draw_heat
from app.widgets.layer_filter import choose_one, said_of_nothing
from app.widgets.layer_panels import draw_panels, opened_band
from app.widgets.layer_tiles import draw_layer_tiles
from app.widgets.numbers import lapse, zone_name
from app.widgets.summary_line import draw_summary, summary_sign
from app.widgets.toolbar import View, toolbar
from db.errors import StoreError
from db.promql.errors import QueryError


@dataclass(frozen=True, slots=True)
class OpenPage:
    """A page as it is asked for. chosen: the filter's value, "" for everything."""

    page: LayerPage
    view: View
    chosen: str
    known: bool

    def draw_tiles(self) -> None:
        st.fragment(self._tiles, run_every=self._every)()

    def draw_bands(self) -> None:
        for band in self.page.bands:
            self._fragment_of(band)

    def draw_fleet(self) -> None:
        """The heat map and the table of every GPU."""
        st.fragment(self._fleet, run_every=self._every)()

    @property
    def _every(self) -> float | None:
        return self.view.every(layer_queries.TICK_SECONDS)

    @property
    def _now(self) -> int:
        return self.view.paused_at_ms or queries.now_ms()

    def _fragment_of(self, band: PanelBand) -> None:
        def drawn() -> None:
            self._band(band)

        st.fragment(drawn, run_every=self._every)()

    def _tiles(self) -> None:
        now = self._now
        with self.view.summary:
            line = st.empty()
        try:
            moment = queries.moment(queries.sources(), now)
            at = _steps(self.view, now)
            if at is None:
                notices.empty(queries.processes(), now)
                return
            label, items = self.page.filter_label, self.page.tiles
            tiles = [layer_queries.tile(item, label, self.chosen, at) for item in items]
            processes = queries.processes() if moment.stale else []
        except StoreError as error:
            notices.unreachable(error)
            return
        except QueryError as error:
            notices.unanswered(error)
            return
        if moment.newest_ms is not None:
            with line:
                sign = summary_sign(moment.freshness, live=self.view.live)
                draw_summary(sign, moment.newest_ms, now, [])
            if moment.stale:
                notices.stale(moment.newest_ms, processes, now)
        if not self.known:
            said_of_nothing(self.page.filter_label, self.chosen)
        draw_layer_tiles(items, tiles, f"{lapse(at.span_ms)} before", zone_name(at.at_ms, queries.zone()))

    def _band(self, band: PanelBand) -> None:
        try:
            at = _steps(self.view, self._now)
            if at is None:
                return
            with opened_band(band) as wanted:
                if not wanted:
                    return
                label = self.page.filter_label
                histories = [layer_queries.panel(item, label, self.chosen, at) for item in band.panels]
                draw_panels(band.panels, histories, lapse(at.window_ms), queries.zone())
        except (StoreError, QueryError):
            return  # said above

    def _fleet(self) -> None:
        try:
            at = _steps(self.view, self._now)
            if at is None:
                return
            st.header("Fleet", anchor=False)
            title = choose_heat()
            signal = HEAT_SIGNALS[title]
            heat = layer_queries.fleet_heat(signal, self.chosen, at)
            draw_heat(title, layer_queries.unit_of(signal), heat, queries.zone())
            draw_fleet(*layer_queries.fleet_table(self.chosen, at))
        except StoreError:
            return  # said above
        except QueryError as error:
            notices.unanswered(error)


def open_page(page: LayerPage) -> OpenPage:
    """Draw the toolbar and the filter."""
    view = toolbar(page.title, queries.now_ms())
    found: list[str] = []
    try:
        at = _steps(view, view.paused_at_ms or queries.now_ms())
        found = [] if at is None else layer_queries.choices(page, at)
    except (StoreError, QueryError):
        pass  # the tiles say it
    chosen = choose_one(page.filter_label, found)
    return OpenPage(page, view, chosen, not chosen or chosen in found)


def _steps(view: View, now: int) -> Steps | None:
    """None where there is nothing yet. Raises StoreError, QueryError."""
    moment = queries.moment(queries.sources(), now)
    if moment.newest_ms is None and not layer_queries.any_metric():
        return None
    return layer_queries.steps(moment.shown_ms, view.span_seconds, moment.pace_seconds)
