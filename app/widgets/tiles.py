"""One number as a tile: value, a second line, its recent past, and the exact value in the tooltip; and the
card that holds the tiles of one host, GPU or target."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import streamlit as st

from app.widgets.status import Sign, short
from db.nan import FloatArray

# The narrowest that holds "1,023 MiB/s" at the tile's letter size.
TILE_WIDTH = 118
# More tiles than this are a wall nobody reads: then a table takes over.
MAX_TILES = 16
# A sparkline scales to its own extremes; rounding errors must not become mountains.
_DIGITS = 3


@dataclass(frozen=True, slots=True)
class Tile:
    """label, value, note: trusted text (numbers and our own words). exact: for the tooltip."""

    label: str
    value: str
    exact: str
    note: str = ""
    trend: FloatArray | None = None


def draw_card(sign: Sign, name: str, age: str, tiles: Sequence[Tile], story: str = "") -> None:
    """sign, age, tiles: ours. name, story: anybody's text, shown letter by letter."""
    with st.container(border=True, gap="xsmall", height="stretch"):
        with st.container(
            horizontal=True, horizontal_alignment="distribute", vertical_alignment="center", gap="xsmall"
        ):
            with st.container(horizontal=True, vertical_alignment="center", gap="xsmall", width="content"):
                st.markdown(f"**{sign.markdown}**", width="content")
                st.text(short(name, 100))
            st.markdown(f":gray[{age}]", width="content")
        draw_tiles(tiles)
        if story:
            st.text(short(story))


def draw_tiles(tiles: Sequence[Tile]) -> None:
    with st.grid(len(tiles), min_column_width=TILE_WIDTH, gap="xsmall"):
        for tile in tiles:
            st.metric(
                tile.label,
                tile.value,
                delta_description=tile.note or None,
                chart_data=sparkline(tile.trend),
                chart_type="area",
                help=tile.exact,
            )


def sparkline(trend: FloatArray | None) -> list[float] | None:
    """What a tile draws: nothing for fewer than two points; gaps are closed, since a sparkline has no axis
    to show them on (the charts below the tiles keep them)."""
    if trend is None:
        return None
    known = trend[~np.isnan(trend)]
    if len(known) < 2:
        return None
    highest = float(np.abs(known).max())
    decimals = _DIGITS - int(np.ceil(np.log10(highest))) if highest > 0 else 0
    return [float(value) for value in known.round(decimals)]
