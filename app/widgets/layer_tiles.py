"""The tiles of a layer page: a signal's value now and its change against the same time before, in words
where there is none."""

import re
from collections.abc import Mapping, Sequence
from typing import Literal

import streamlit as st

from app.summaries.layer_history import NoSource
from app.summaries.layer_page import TileSignal
from app.summaries.layer_tiles import Change, TileNow, change
from app.widgets.numbers import counted, exact
from app.widgets.signal_values import reading_text
from app.widgets.status import NO_DATA, Sign, short
from db.catalog.read import Reading
from db.catalog.signal import Good

TILE_WIDTH = 150
NO_SOURCE = Sign(NO_DATA.shape, "No source", NO_DATA.colour)
_COLOURS: Mapping[Good, Literal["normal", "inverse", "off"]] = {
    "high": "normal",
    "low": "inverse",
    "neither": "off",
}
# What the tile's title says already has no room beside the number.
_SHORT_UNITS = {
    "requests/s": "/s",
    "tokens/s": "/s",
    "1/s": "/s",
    "requests": "",
    "tokens": "",
    "events": "",
}
# A user's file may have written the unit, and tiles are read as Markdown.
_UNIT = re.compile(r"[\w/%° ]{0,20}")


def draw_layer_tiles(
    items: Sequence[TileSignal], tiles: Sequence[TileNow], before: str, zone_name: str
) -> None:
    """before: what the tiles are compared with, as "15 min before". zone_name: of the charts' times."""
    with st.grid(len(items), min_column_width=TILE_WIDTH, gap="xsmall"):
        for item, tile in zip(items, tiles, strict=True):
            delta = delta_text(change(tile))
            unchanged = delta.startswith("0")
            st.metric(
                item.title,
                value_words(item, tile),
                delta or None,
                delta_color="off" if unchanged else _COLOURS[tile.signal.good],
                delta_arrow="off" if unchanged else "auto",
                delta_description=description(tile, before),
                help=_help(tile),
                border=True,
                height="stretch",
            )
    st.caption(f"now, and the change against {before} · times in {zone_name}")
    missing = [
        (item.title, tile.missing)
        for item, tile in zip(items, tiles, strict=True)
        if tile.missing is not None
    ]
    unread = [tile.error for tile in tiles if tile.error]
    if unread:
        st.text(short(f"Not readable: {unread[0]}", 300))
    if missing:
        with st.expander(f"No source for {len(missing)} of these: what to switch on"):
            for line in way_lines(missing):
                st.text(line)


def value_words(item: TileSignal, tile: TileNow) -> str:
    """ "4.3 ms", "< 300.0 ms", or why there is no value."""
    words = {
        "no source": "No source",
        "unread": "Not read",
        "none": item.none,
        "stale": "Stale",
        "no traffic": "No traffic",
    }
    if tile.state != "value" or tile.now is None:
        return words[tile.state]
    return _text(tile.now, tile)


def delta_text(changed: Change | None) -> str:
    """ "+3.1 pt" of a ratio, "-12 %" of others; empty where it cannot be told."""
    if changed is None:
        return ""
    amount = changed.amount * 100
    if abs(amount) < 0.05:
        return "0 %" if changed.relative else "0 pt"
    return (
        f"{amount:+.0f} %"
        if changed.relative and abs(amount) >= 10
        else (f"{amount:+.1f} {'%' if changed.relative else 'pt'}")
    )


def description(tile: TileNow, before: str) -> str | None:
    """The tile's second line."""
    if tile.state in ("no source", "unread"):
        return None
    if tile.before is None or change(tile) is not None:
        return None
    return f"{_text(tile.before, tile)} {before}"


def _help(tile: TileNow) -> str | None:
    if tile.now is None or tile.state != "value":
        return None
    words = exact(tile.now.value, _unit(tile))
    if tile.now.bound:
        words = f"only a bound is known: {words}"
    if tile.now.observations is not None:
        words += f", of {tile.now.observations:,.0f} observations"
    return words


def _text(reading: Reading, tile: TileNow) -> str:
    unit = _unit(tile)
    return reading_text(reading, _SHORT_UNITS.get(unit, unit)).strip()


def _unit(tile: TileNow) -> str:
    return tile.signal.unit if _UNIT.fullmatch(tile.signal.unit) else ""


def way_lines(missing: Sequence[tuple[str, NoSource]]) -> list[str]:
    """A line for all titles that the same brings: what to install or switch on, the likeliest first. Plain
    text, since a user's file may have written it."""
    together: dict[tuple[str, ...], list[str]] = {}
    for title, item in missing:
        together.setdefault(item.ways, []).append(title)
    return [_way_line(titles, ways) for ways, titles in together.items()]


def _way_line(titles: Sequence[str], ways: Sequence[str]) -> str:
    named = short(", ".join(titles), 300)
    if not ways:
        return f"{named}: nothing known yields it"
    more = len(ways) - 1
    others = f" ({counted(more, 'other way')}: see Signals)" if more else ""
    return f"{named}: {short(ways[0], 500)}{others}"
