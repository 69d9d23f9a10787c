"""Oracles: published tables, and exact binomial and Poisson probabilities summed term by term."""

import math
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.analysis.evidence import Estimate
from app.analysis.intervals import (
    design_effect,
    difference,
    normal_quantile,
    poisson_rate,
    ratio,
    student_quantile,
    wilson,
)


def binomial(count, share):
    return [math.comb(count, k) * share**k * (1 - share) ** (count - k) for k in range(count + 1)]


def test_normal_quantile_is_the_tables():
    assert normal_quantile(0.95) == pytest.approx(1.959964, abs=1e-6)
    assert normal_quantile(0.99) == pytest.approx(2.575829, abs=1e-6)


@pytest.mark.parametrize(
    ("degrees", "t"),
    [(5, 2.570582), (9, 2.262157), (19, 2.093024), (29, 2.045230), (120, 1.979930)],
)
def test_student_quantile_is_the_tables(degrees, t):
    assert student_quantile(degrees, 0.95) == pytest.approx(t, abs=1e-3)


@pytest.mark.parametrize(
    ("hits", "trials", "low", "high"),
    # Newcombe 1998a, table I, method 3; and by hand: z²/(n + z²) above 0 of 10.
    [(81, 263, 0.2553, 0.3662), (15, 148, 0.0624, 0.1605), (0, 20, 0.0, 0.1611), (1, 29, 0.0061, 0.1718)],
)
def test_wilson_is_the_published_interval(hits, trials, low, high):
    found = wilson(hits, trials)
    assert (found.low, found.high) == pytest.approx((low, high), abs=6e-5)


@pytest.mark.parametrize(("trials", "share"), [(20, 0.02), (50, 0.1), (50, 0.5), (400, 0.01)])
def test_wilson_holds_the_true_share_about_as_often_as_it_says(trials, share):
    held = sum(
        mass
        for hits, mass in enumerate(binomial(trials, share))
        if wilson(hits, trials).low <= share <= wilson(hits, trials).high
    )
    assert 0.92 < held < 0.995


@pytest.mark.parametrize("mean", [1.0, 4.0, 30.0])
def test_poisson_rate_holds_the_true_rate_about_as_often_as_it_says(mean):
    mass = [math.exp(-mean + k * math.log(mean) - math.lgamma(k + 1)) for k in range(120)]
    intervals = [poisson_rate(k, 2.0) for k in range(120)]
    held = sum(m for m, found in zip(mass, intervals, strict=True) if found.low <= mean / 2 <= found.high)
    # 0.9197 at a mean of 1, where three events are already just outside.
    assert 0.915 < held < 0.985


def test_newcombes_difference_is_the_published_one():
    # Newcombe 1998b, table II, method 10: 56/70 - 48/80 is 0.0524 to 0.3339; 9/10 - 3/10 is 0.1705 to 0.8090.
    for first, second, low, high in [
        ((48, 80), (56, 70), 0.0524, 0.3339),
        ((3, 10), (9, 10), 0.1705, 0.8090),
        ((0, 10), (10, 10), 0.6075, 1.0),
    ]:
        found = difference(wilson(*first), wilson(*second))
        assert (found.low, found.high) == pytest.approx((low, high), abs=6e-5)


def test_newcombes_difference_holds_the_truth_over_every_outcome():
    p, q, m, n = 0.05, 0.2, 30, 25
    held = sum(
        x * y
        for (i, x), (j, y) in product(enumerate(binomial(m, p)), enumerate(binomial(n, q)))
        if (found := difference(wilson(i, m), wilson(j, n))).low <= q - p <= found.high
    )
    assert 0.93 < held < 0.985


def test_ratio_holds_the_truth_over_every_outcome():
    p, q, m, n = 0.2, 0.4, 40, 30
    outcomes = [
        (x * y, ratio(wilson(i, m), wilson(j, n)))
        for (i, x), (j, y) in product(enumerate(binomial(m, p)), enumerate(binomial(n, q)))
    ]
    told = sum(mass for mass, found in outcomes if found)
    held = sum(mass for mass, found in outcomes if found and found.low <= q / p <= found.high)
    assert told > 0.999
    assert 0.93 < held < 0.985


counts = st.tuples(st.integers(0, 60), st.integers(60, 400))


@given(counts, counts)
def test_ratio_and_difference_never_contradict_each_other(first, second):
    a, b = wilson(*first), wilson(*second)
    apart, quotient = difference(a, b), ratio(a, b)
    assert apart.low <= apart.value <= apart.high
    if quotient is None:
        assert a.value == 0
        return
    assert 0 <= quotient.low <= quotient.value <= quotient.high
    if abs(apart.low) > 1e-9 and abs(apart.high) > 1e-9:
        assert (apart.low > 0) == (quotient.low > 1)
        assert (apart.high < 0) == (quotient.high < 1)


@given(counts, counts)
def test_swapping_the_sides_turns_the_difference_round(first, second):
    forth = difference(wilson(*first), wilson(*second))
    back = difference(wilson(*second), wilson(*first))
    assert (forth.low, forth.high) == pytest.approx((-back.high, -back.low))


def test_bounds_alone_have_no_difference_in_closed_form():
    assert math.isnan(difference(Estimate(None, 1, 2), Estimate(1.0, 1, 1)).low)
    assert ratio(Estimate(None, 1, 2), Estimate(1.0, 1, 1)) is None


def test_design_effect_is_one_for_independent_errors():
    random = np.random.default_rng(7)
    requests = np.full(2000, 50.0)
    assert design_effect(random.binomial(50, 0.1, 2000).astype(float), requests) == pytest.approx(1, abs=0.12)


def test_design_effect_of_minutes_that_fail_whole_is_the_minutes_size():
    errors = np.zeros(1000)
    errors[::10] = 50.0
    # Every error drags its 49 fellows along: Kish's 1 + (m - 1) rho with rho = 1.
    assert design_effect(errors, np.full(1000, 50.0)) == pytest.approx(50, rel=0.01)


def test_design_effect_of_events_without_a_limit():
    events = np.array([0.0, 4.0, 0.0, 4.0])
    # By hand: rate 2, squares 4 each, 4/3 x 16 over the 8 a Poisson has.
    assert design_effect(events, np.ones(4), math.inf) == pytest.approx(8 / 3)


def test_design_effect_says_one_where_it_cannot_tell():
    nan = np.nan
    assert design_effect(np.array([nan, 3.0]), np.array([5.0, 5.0])) == 1.0
    assert design_effect(np.zeros(5), np.ones(5)) == 1.0
    assert design_effect(np.ones(5), np.ones(5)) == 1.0
