"""A tile's five ways to have no value, and when a change can be told."""

import pytest

from app.summaries.layer_history import NoSource
from app.summaries.layer_tiles import Change, TileNow, change
from db.catalog.load import load_catalog
from db.catalog.read import Reading

NAN = float("nan")
CATALOG = load_catalog()
RATE, RATIO = CATALOG.signal("requests_per_second"), CATALOG.signal("request_success_ratio")


def tile(now: float | None, before: float | None, signal=RATE, **more) -> TileNow:
    def reading(value: float | None) -> Reading | None:
        return None if value is None else Reading((), value)

    return TileNow(signal, reading(now), reading(before), **more)


@pytest.mark.parametrize(
    ("found", "state"),
    [
        (tile(0.0, None), "value"),
        (tile(NAN, 1.0), "no traffic"),
        (tile(None, None), "none"),
        (tile(None, 1.0), "stale"),
        (tile(None, 1.0, comes_and_goes=True), "none"),
        (tile(None, None, missing=NoSource("x", ())), "no source"),
        (tile(None, None, error="timed out"), "unread"),
    ],
)
def test_nothing_to_show_says_why(found, state):
    assert found.state == state


@pytest.mark.parametrize(
    ("now", "before", "amount"),
    [(12.0, 10.0, 0.2), (5.0, 10.0, -0.5), (10.0, 10.0, 0.0), (0.0, 0.0, 0.0), (0.0, 10.0, -1.0)],
)
def test_a_change_is_a_share_of_the_former_value(now, before, amount):
    assert change(tile(now, before)) == Change(pytest.approx(amount), relative=True)


def test_a_ratio_changes_by_points():
    assert change(tile(0.9, 0.95, RATIO)) == Change(pytest.approx(-0.05), relative=False)


@pytest.mark.parametrize(
    ("now", "before"), [(1.0, None), (None, 1.0), (1.0, 0.0), (NAN, 1.0), (1.0, NAN), (110.0, 10.0)]
)
def test_what_cannot_be_told_is_not(now, before):
    assert change(tile(now, before)) is None


def test_no_change_is_made_of_bounds():
    signal = CATALOG.signal("ttft_p95")
    known, bound = Reading((), 0.5), Reading((), 0.3, "below", 9.0)
    assert change(TileNow(signal, known, bound)) is None
    assert change(TileNow(signal, bound, known)) is None
    assert change(TileNow(signal, known, known)) == Change(0.0, relative=True)
