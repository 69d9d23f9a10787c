"""The scraped targets: a card each, or a table when there are many; serving engines in numbers."""

from collections.abc import Sequence

import numpy as np
import pandas as pd
import streamlit as st

from app.summaries.targets import Target
from app.widgets.numbers import ago, count_text, exact, seconds_text
from app.widgets.status import SOURCE_SIGNS, short
from app.widgets.tiles import Tile, draw_card

MAX_CARDS = 12
CARD_WIDTH = 400
_HEIGHT = 420


def draw_targets(targets: Sequence[Target], now_ms: int) -> None:
    """Problems first where there are many."""
    st.header("Targets", anchor=False)
    if not targets:
        st.caption("No target is scraped yet: what answers on the usual local ports is found by itself.")
        return
    if len(targets) <= MAX_CARDS:
        with st.grid("auto", min_column_width=CARD_WIDTH, gap="xsmall") as grid:
            for target in targets:
                with grid.cell():
                    draw_card(
                        SOURCE_SIGNS[target.status],
                        target_name(target),
                        f"last success {ago(target.report.last_success_ms, now_ms)}",
                        target_tiles(target),
                        target.report.error,
                    )
        return
    serving = any(target.serving for target in targets)
    st.dataframe(
        _table(targets, now_ms),
        hide_index=True,
        column_config=_COLUMNS,
        column_order=[name for name in _COLUMNS if serving or name not in _SERVING],
        placeholder="",
        height=_HEIGHT,
        alt=f"{len(targets)} scraped targets with state, scrape duration and serving numbers",
    )


def target_name(target: Target) -> str:
    """Untrusted text; a user's file may have given the engine its title."""
    engine = (target.serving.engine,) if target.serving else ()
    return " · ".join((target.job, target.instance, *engine))


def target_tiles(target: Target) -> list[Tile]:
    """Serving numbers where the target is a serving engine, then what the scrape itself says."""
    tiles = []
    serving = target.serving
    if serving is not None:
        tiles = [
            Tile(
                "Running",
                count_text(serving.running.value),
                exact(serving.running.value, "requests"),
                f"{count_text(serving.waiting.value)} waiting",
                serving.running.trend,
            ),
            Tile(
                "Tokens/s",
                count_text(serving.generated_per_second.value),
                exact(serving.generated_per_second.value, "tokens per second"),
                "generated",
                serving.generated_per_second.trend,
            ),
        ]
    duration = target.report.duration_seconds
    tiles.append(
        Tile(
            "Scrape",
            seconds_text(duration),
            exact(duration, "seconds"),
            f"{count_text(target.report.samples)} samples",
            target.duration.trend,
        )
    )
    return tiles


def _table(targets: Sequence[Target], now_ms: int) -> pd.DataFrame:
    severity = {"down": 0, "stale": 1}
    ordered = sorted(targets, key=lambda target: severity.get(target.status, 2))
    return pd.DataFrame(
        {
            "state": [SOURCE_SIGNS[target.status].plain for target in ordered],
            "job": [short(target.job) for target in ordered],
            "instance": [short(target.instance) for target in ordered],
            "duration": [_milliseconds(target.report.duration_seconds) for target in ordered],
            "recent": [np.nan_to_num(target.duration.trend * 1000).round(2).tolist() for target in ordered],
            "samples": [target.report.samples for target in ordered],
            "running": [target.serving.running.value if target.serving else None for target in ordered],
            "waiting": [target.serving.waiting.value if target.serving else None for target in ordered],
            "tokens": [
                target.serving.generated_per_second.value if target.serving else None for target in ordered
            ],
            "success": [ago(target.report.last_success_ms, now_ms) for target in ordered],
            "error": [short(target.report.error) for target in ordered],
        }
    )


def _milliseconds(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds * 1000, 1)


_SERVING = {"running", "waiting", "tokens"}
_COLUMNS = {
    "state": st.column_config.TextColumn("State", width="small"),
    "job": st.column_config.TextColumn("Job"),
    "instance": st.column_config.TextColumn("Instance", width="medium"),
    "duration": st.column_config.NumberColumn("Scrape", format="%.1f ms"),
    "recent": st.column_config.LineChartColumn("Recent", width="small"),
    "samples": st.column_config.NumberColumn("Samples", format="localized"),
    "running": st.column_config.NumberColumn("Running", format="%.0f"),
    "waiting": st.column_config.NumberColumn("Waiting", format="%.0f"),
    "tokens": st.column_config.NumberColumn("Tokens/s", format="%.1f"),
    "success": st.column_config.TextColumn("Last success", alignment="right"),
    "error": st.column_config.TextColumn("Error", width="large"),
}
