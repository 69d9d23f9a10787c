import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.analysis.buckets import Buckets
from app.analysis.evidence import Estimate, NotEnough
from app.analysis.slo import burn_rate, error_budget, goodput, seconds_left, share_within

EDGES = np.array([0.1, 0.5, 1.0, 5.0, math.inf])


def fill(observations):
    return Buckets(EDGES, np.array([(np.asarray(observations) <= edge).sum() for edge in EDGES], dtype=float))


def test_a_budget_by_hand():
    found = error_budget(250, 1_000_000, 0.999)
    assert found.allowed == pytest.approx(1000)
    assert found.left == pytest.approx(0.75)
    assert found.burn_rate == pytest.approx(0.25)
    assert found.good_share == pytest.approx(0.99975)


def test_a_budget_overspent_is_negative():
    assert error_budget(3000, 1_000_000, 0.999).left == pytest.approx(-2.0)


def test_no_requests_is_neither_good_nor_bad():
    assert error_budget(0, 0, 0.99) == NotEnough("no requests")
    assert error_budget(math.nan, 10, 0.99) == NotEnough("no requests")


@pytest.mark.parametrize(("rate", "hours", "spent"), [(14.4, 1, 0.02), (6, 6, 0.05), (1, 72, 0.10)])
def test_burn_rates_of_the_workbook_spend_its_shares_of_a_30_day_budget(rate, hours, spent):
    (found,) = burn_rate(np.array([rate * 10.0]), np.array([10_000.0]), 0.999)
    assert found == pytest.approx(rate)
    period = 30 * 24 * 3600
    # At that rate all is gone after hours / spent.
    assert seconds_left(1.0, found, period) == pytest.approx(hours * 3600 / spent, rel=1e-6)


def test_burn_rate_without_requests_is_nan():
    found = burn_rate(np.array([0.0, 1.0]), np.array([0.0, 100.0]), 0.99)
    assert np.isnan(found[0])
    assert found[1] == pytest.approx(1.0)


def test_seconds_left_at_the_ends():
    assert seconds_left(0.5, 0.0, 100.0) == math.inf
    assert seconds_left(-0.1, 5.0, 100.0) == 0.0
    assert seconds_left(0.5, 2.0, 100.0) == 25.0


@pytest.mark.parametrize("objective", [0.0, 1.0, 99.9])
def test_an_objective_is_a_share(objective):
    with pytest.raises(ValueError, match="above 0 and below 1"):
        error_budget(1, 10, objective)
    with pytest.raises(ValueError, match="above 0 and below 1"):
        burn_rate(np.ones(1), np.ones(1), objective)


def test_share_within_is_exact_at_an_edge_and_bounds_elsewhere():
    buckets = fill([0.3] * 60 + [0.7] * 30 + [9.0] * 10)
    assert share_within(0.5, buckets) == Estimate(0.6, 0.6, 0.6)
    assert share_within(0.8, buckets) == Estimate(None, 0.6, 0.9)
    assert share_within(7.0, buckets) == Estimate(None, 0.9, 1.0)


def test_requests_without_a_value_did_not_meet_it():
    assert share_within(0.5, fill([0.3] * 60), requests=80) == Estimate(0.75, 0.75, 0.75)
    # A scrape apart the histogram may be ahead of the request counter: never above 1.
    assert share_within(0.5, fill([0.3] * 60), requests=50) == Estimate(1.0, 1.0, 1.0)
    assert share_within(0.5, fill([]), requests=50) == Estimate(0.0, 0.0, 0.0)
    assert share_within(0.5, fill([])) == NotEnough("no requests")


def test_goodput_by_hand():
    exact = [Estimate(0.9, 0.9, 0.9), Estimate(0.8, 0.8, 0.8)]
    found = goodput(exact)
    assert found.value is None
    assert (found.low, found.high) == pytest.approx((0.7, 0.8))
    assert goodput([Estimate(0.3, 0.3, 0.3)] * 3).low == 0.0
    assert goodput(exact[:1]) == Estimate(pytest.approx(0.9), pytest.approx(0.9), pytest.approx(0.9))
    assert goodput([Estimate(1.0, 1.0, 1.0), Estimate(1.0, 1.0, 1.0)]).value == 1.0


def test_goodput_of_nothing_is_refused():
    with pytest.raises(ValueError, match="at least one"):
        goodput([])


@given(st.lists(st.tuples(st.floats(0, 9), st.floats(0, 9), st.booleans()), min_size=1, max_size=60))
def test_the_true_goodput_lies_within_the_bounds(requests):
    within = [
        share_within(0.5, fill([first for first, _, _ in requests])),
        share_within(0.7, fill([last for _, last, _ in requests])),
    ]
    answered = sum(ok for _, _, ok in requests) / len(requests)
    true = sum(first <= 0.5 and last <= 0.7 and ok for first, last, ok in requests) / len(requests)
    found = goodput([*within, Estimate(answered, answered, answered)])
    assert found.low - 1e-9 <= true <= found.high + 1e-9


@given(st.lists(st.floats(0, 1), min_size=1, max_size=4))
def test_frechets_bounds_can_be_met(shares):
    """All failures apart from each other reach the lower bound, all on the same requests the upper one."""
    cells = 10_000
    apart, together = np.ones(cells, dtype=bool), np.ones(cells, dtype=bool)
    at = 0
    for share in shares:
        failed = round((1 - share) * cells)
        apart[np.arange(at, at + failed) % cells] = False
        together[:failed] = False
        at += failed
    found = goodput([Estimate(share, share, share) for share in shares])
    assert found.low == pytest.approx(apart.mean(), abs=1e-3)
    assert found.high == pytest.approx(together.mean(), abs=1e-3)
