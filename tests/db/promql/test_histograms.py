import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from db.promql import histograms
from db.promql.errors import ExecutionError
from db.promql.vector import Scalar
from tests.db.promql import histogram_reference as reference
from tests.db.promql.function_calls import called, labels, shown, vector

NAN, INF = math.nan, math.inf


def bucket(le, **others):
    return labels("x_bucket", le=le, **others)


def histogram(counts, **others):
    """{"0.1": 5} -> the series of one histogram at one step."""
    return {bucket(le, **others): [float(count)] for le, count in counts.items()}


def quantiles(q, series, grid=(0,)):
    return shown(called("histogram_quantile", q, vector(series), grid=grid)[0])


def fractions(lower, upper, series):
    return shown(called("histogram_fraction", lower, upper, vector(series))[0])


def only(found):
    [[value]] = found.values()
    return value


POSITIVE = {"0.1": 50, ".2": 70, "1e0": 110, "+Inf": 120}
NEGATIVE = {"-.2": 10, "-0.1": 20, "0.3": 20, "+Inf": 30}
THIRD_POSITIVE = {"0": 0, "0.1": 50, ".2": 70, "1e0": 110, "+Inf": 110}
THIRD_NEGATIVE = {"-.25": 0, "-.2": 10, "-0.1": 20, "0.3": 20, "+Inf": 20}


# Prometheus's histograms.test.
@pytest.mark.parametrize(
    ("q", "positive", "negative"),
    [
        (0, 0, -0.2),
        (1, 1, 0.3),
        (0.2, 0.048, -0.2),
        (0.5, 0.15, -0.15),
        (0.8, 0.72, 0.3),
        (-0.1, -INF, -INF),
        (1.01, INF, INF),
        (NAN, NAN, NAN),
    ],
)
def test_quantiles_of_two_histograms_of_one_name(q, positive, negative):
    series = {**histogram(POSITIVE, start="positive"), **histogram(NEGATIVE, start="negative")}
    found = quantiles(q, series)
    assert list(found) == [labels(start="positive"), labels(start="negative")]
    assert [one for [one] in found.values()] == pytest.approx([positive, negative], nan_ok=True)


@pytest.mark.parametrize(
    ("q", "counts", "expected"),
    [
        (0, THIRD_NEGATIVE, -0.25),
        (0.25, THIRD_POSITIVE, 0.055),
        (0.25, THIRD_NEGATIVE, -0.225),
        (1 / 6, {"0": 0, "2": 10, "4": 20, "6": 30, "+Inf": 30}, 1),
        (0, {"0": 0, "2": 10, "+Inf": 10}, 0),
        (0, {"1": 0, "2": 10, "+Inf": 10}, NAN),
        (1e-323, {"1": 5e-324, "2": 2e-323, "+Inf": 1}, 2),  # below the normal numbers all are almost equal
        (0.5, {"+Inf": 10}, NAN),
        (0.5, {"1": 5, "2": 10}, NAN),
        (0.5, {"1": 0, "2": 0, "+Inf": 0}, NAN),
        (-1, {"1": 5}, -INF),
        (2, {"1": 5}, INF),
        (0.5, {"1": NAN, "2": NAN, "+Inf": NAN}, 2),
        (0.5, {"1": 3, "2": NAN, "+Inf": 8}, 2),
        (0.5, {"nan": 1, "1": 1, "+Inf": 2}, NAN),
        (0.25, {"0x1p0": 1, "+infinity": 2}, 0.5),
        (0.99, {"0.1": 20, "1": 10, "10": 50, "100": 40, "1000": 90, "+Inf": 80}, 979.75),
    ],
)
def test_quantiles(q, counts, expected):
    assert only(quantiles(q, histogram(counts))) == pytest.approx(expected, nan_ok=True)


# Prometheus's histograms.test, "Buckets with different representations of the same upper bound".
@pytest.mark.parametrize(("q", "expected"), [(0.5, 0.15), (0.75, 0.2), (1, 0.2)])
def test_bounds_written_differently_are_one_bucket(q, expected):
    counts = {"0.1": 1, "0.2": 1, "2e-1": 1, "2.0e-1": 1, "+Inf": 4}
    empty_one = {"+inf": 0, "+Inf": 0}
    series = {**histogram(counts, i="1"), **histogram(empty_one, i="2"), **histogram(POSITIVE, i="3")}
    found = quantiles(q, series)
    assert found[labels(i="1")] == pytest.approx([expected])
    assert math.isnan(found[labels(i="2")][0])


@pytest.mark.parametrize(
    ("lower", "upper", "counts", "expected"),
    [
        (0, 3.5, {"0": 0, "2": 10, "4": 20, "6": 30, "+Inf": 30}, 0.5833333333333334),
        (0, 0.2, THIRD_POSITIVE, 0.6363636363636364),
        (0, 0.2, THIRD_NEGATIVE, 0),
        (0, 1.5, {"1": 1, "2": 3, "3": 6, "+Inf": 100}, 0.02),
        (-4, -2, {"-3": 10, "-2": 12, "-1": 15, "+Inf": 100}, 0.02),
        (-INF, -1.5, {"-3": 10, "-2": 12, "-1": 15, "+Inf": 100}, 0.135),
        (-INF, INF, {"1": 1, "2": 3, "3": 6, "+Inf": 100}, 1),
        (-INF, INF, {"-3": 10, "-2": 12, "-1": 15, "+Inf": 100}, 1),
        (-INF, INF, {"-Inf": 1, "0": 1, "+Inf": 2}, 1),
        (4, 5, {"1": 1, "2": 3, "3": 6, "+Inf": 100}, 0),
        (2, 5, {"1": 1, "2": 3, "3": 6, "+Inf": 100}, 0.03),
        (400, INF, {"1": 1, "2": 3, "3": 6, "+Inf": 100}, 0.94),
        (2, 2, {"1": 1, "+Inf": 100}, 0),
        (3, 2, {"1": 1, "+Inf": 100}, 0),
        (0, 1, {"+Inf": 100}, 0),
        (0, 5, {"1": 0, "+Inf": 0}, NAN),
        (0, 5, {"1": 3}, NAN),
        (0.5, 2, {"1": 1, "2": 3, "3": 6, "+Inf": 100}, 0.025),
        (0.1, 0.75, {"0.5": 2.5, "1": 7.5, "+Inf": 100}, 0.045),
        (-1, 1, {"-2": 5, "-1": 10, "0": 15, "1": 20, "+Inf": 100}, 0.1),
        (NAN, 1, {"1": 1, "+Inf": 100}, NAN),
        (0, NAN, {"1": 1, "+Inf": 100}, NAN),
        (-10, -5, {"1": 1, "2": 3, "+Inf": 10}, 0),
        (0, 2, {"1": 1, "1.0": 1, "2": 3, "+Inf": 4}, 0.75),
    ],
)
def test_fractions(lower, upper, counts, expected):
    assert only(fractions(lower, upper, histogram(counts))) == pytest.approx(expected, nan_ok=True)


def notes_of(function, *arguments, grid=(0,)):
    _, notes = called(function, *arguments, grid=grid)
    return list(notes.warnings), list(notes.infos)


@pytest.mark.parametrize(("q", "shown_q"), [(NAN, "NaN"), (-0.1, "-0.1"), (1.01, "1.01"), (-INF, "-Inf")])
def test_a_quantile_outside_0_and_1_is_warned_of_even_over_nothing(q, shown_q):
    nothing = vector({bucket("1"): [None]}).without_empty()
    warning = f"PromQL warning: quantile value should be between 0 and 1, got {shown_q}"
    assert notes_of("histogram_quantile", q, nothing) == ([warning], [])


def test_quantiles_may_differ_from_step_to_step():
    series = {name: [value, value, value] for name, [value] in histogram(POSITIVE).items()}
    q = Scalar(np.array([0.2, 2.0, 0.5]))
    value, notes = called("histogram_quantile", q, vector(series), grid=(0, 1, 2))
    assert shown(value)[()] == pytest.approx([0.048, INF, 0.15])
    assert list(notes.warnings) == ["PromQL warning: quantile value should be between 0 and 1, got 2"]


@pytest.mark.parametrize("function", ["histogram_quantile", "histogram_fraction"])
@pytest.mark.parametrize(
    ("row", "said"),
    [
        (labels("series", ale="0.1"), 'of "" for metric name "series"'),
        (labels("series", le="Hello World"), 'of "Hello World" for metric name "series"'),
        (labels(le='a"b\n'), 'of "a\\"b\\n"'),
        (labels(le="1e400"), 'of "1e400"'),
        (labels(le=" 1"), 'of " 1"'),
        (labels(le="1_0"), 'of "1_0"'),
        (labels(le="+nan"), 'of "+nan"'),
        (labels(le="0x1"), 'of "0x1"'),
        (labels(le="١"), 'of "١"'),
    ],
)
def test_a_malformed_bound_is_left_out_and_said(function, row, said):
    arguments = [0.5] if function == "histogram_quantile" else [0, 1]
    series = {row: [2.0], **histogram(POSITIVE)}
    value, notes = called(function, *arguments, vector(series))
    assert list(notes.warnings) == [
        f'PromQL warning: bucket label "le" is missing or has a malformed value {said}'
    ]
    assert list(shown(value)) == [()]
    assert shown(called(function, *arguments, vector({row: [2.0]}))[0]) == {}


def test_a_malformed_bound_that_is_not_there_is_not_said():
    series = {labels("y", le="bad"): [None], **histogram(POSITIVE)}
    assert notes_of("histogram_quantile", 0.5, vector(series)) == ([], [])


def test_counts_that_fall_are_said_once_over_all_steps():
    falling = {"0.1": 20, "1": 10, "10": 50, "100": 40, "1000": 90, "+Inf": 80}
    series = {name: [value, 0.0, 100 * value] for name, [value] in histogram(falling).items()}
    warnings, infos = notes_of("histogram_quantile", 0.5, vector(series), grid=(0, 1_000, 3_661_999))
    assert warnings == []
    assert infos == [
        "PromQL info: input to histogram_quantile needed to be fixed for monotonicity (see "
        "https://prometheus.io/docs/prometheus/latest/querying/functions/#histogram_quantile), "
        "from buckets 1 to +Inf, with a max diff of 1e+03, over 2 samples "
        "from 1970-01-01T00:00:00Z to 1970-01-01T01:01:01Z"
    ]
    assert notes_of("histogram_fraction", 0, 1, vector(series), grid=(0, 1, 2)) == ([], [])


@pytest.mark.parametrize("q", [-1, 2])
def test_counts_that_fall_are_not_said_where_they_are_not_looked_at(q):
    series = histogram({"1": 2, "2": 1, "+Inf": 3})
    assert notes_of("histogram_quantile", q, vector(series))[1] == []
    assert notes_of("histogram_quantile", 0.5, vector(histogram({"1": 2, "2": 1})))[1] == []


def test_rounding_is_repaired_silently():
    counts = {"1": 1.0, "2": 1.0 - 1e-15, "3": 2.0, "4": 2.0 + 4e-15, "+Inf": 2.0}
    assert notes_of("histogram_quantile", 0.5, vector(histogram(counts))) == ([], [])
    assert only(quantiles(1, histogram(counts))) == 3
    assert only(quantiles(1, histogram({"1": 1, "2": 1 + 1e-15, "+Inf": 1 + 1e-15}))) == 1


def test_histograms_of_two_names_are_two_and_meet_without_the_name():
    series = {labels("a", le="1"): [1.0], labels("a", le="+Inf"): [2.0]}
    series |= {labels("b", le="1"): [2.0], labels("b", le="+Inf"): [2.0]}
    with pytest.raises(ExecutionError, match=r"^vector cannot contain metrics with the same labelset$"):
        quantiles(0.5, series)
    apart = {
        row: [value, None] if dict(row)["__name__"] == "a" else [None, value]
        for row, [value] in series.items()
    }
    assert quantiles(0.5, apart, grid=(0, 1)) == {(): [1.0, 0.5]}


def test_a_histogram_is_where_any_of_its_buckets_is():
    series = {
        bucket("1"): [1.0, None, 1.0, None],
        bucket("2"): [2.0, 2.0, None, None],
        bucket("+Inf"): [4.0, 4.0, None, None],
    }
    assert quantiles(0.25, series, grid=range(4)) == {(): pytest.approx([1.0, 1.0, NAN, None], nan_ok=True)}


BOUNDS = ["-2", "-1.0", "-1", "0", "0.5", ".5", "1", "1e0", "3", "100", "+Inf", "inf", "-Inf", "bad"]
COUNTS = st.one_of(
    st.integers(-3, 6).map(float), st.sampled_from([NAN, INF, -0.0, 1 + 1e-13, 1 - 1e-15, 0.3, 1e300, 5e-324])
)
LIMITS = st.one_of(st.sampled_from([NAN, -INF, INF, -1, 0, 0.5, 1, 3, 100]), st.floats(-4, 120))


@st.composite
def several(draw):
    """Up to four histograms over three steps, with any buckets and gaps."""
    series = {}
    cell = st.one_of(COUNTS, COUNTS, st.none())
    for number in range(draw(st.integers(1, 4))):
        for le in draw(st.lists(st.sampled_from(BOUNDS), unique=True, min_size=1)):
            values = draw(st.lists(cell, min_size=3, max_size=3))
            series[bucket(le, i=str(number))] = values
    return series


def at_step(series, step):
    """{"i": {bound: count}} as the reference takes it."""
    found = {}
    for row, values in series.items():
        bound = histograms.bucket_bound(dict(row)["le"])
        if bound is not None and values[step] is not None:
            held = found.setdefault(dict(row)["i"], {})
            held[bound] = held[bound] + values[step] if bound in held else values[step]
    return found


def same(found, expected):
    return found == pytest.approx(expected, rel=1e-12, abs=0, nan_ok=True)


@given(several(), st.lists(st.one_of(st.floats(0, 1), LIMITS), min_size=3, max_size=3))
def test_quantiles_are_those_of_one_histogram_at_a_time(series, q):
    value, notes = called(
        "histogram_quantile", Scalar(np.array(q, dtype=float)), vector(series), grid=(0, 1, 2)
    )
    found = shown(value)
    falls = 0
    for step in range(3):
        for number, one in at_step(series, step).items():
            expected, fall = reference.quantile(q[step], one)
            assert same(found[labels(i=number)][step], expected)
            falls += fall is not None
    present = {(row, step) for row, values in found.items() for step in range(3) if values[step] is not None}
    assert present == {(labels(i=number), step) for step in range(3) for number in at_step(series, step)}
    assert bool(notes.infos) == (falls > 0)
    assert not falls or f"over {falls} samples" in next(iter(notes.infos))


@given(several(), LIMITS, LIMITS)
def test_fractions_are_those_of_one_histogram_at_a_time(series, lower, upper):
    value, _ = called("histogram_fraction", lower, upper, vector(series), grid=(0, 1, 2))
    found = shown(value)
    for step in range(3):
        for number, one in at_step(series, step).items():
            assert same(found[labels(i=number)][step], reference.fraction(lower, upper, one))


@given(
    st.lists(
        st.lists(st.one_of(st.integers(0, 9).map(float), COUNTS), min_size=5, max_size=5),
        min_size=9,
        max_size=9,
    ),
    st.floats(0, 1),
)
def test_many_histograms_are_worked_on_in_parts(counts, q):
    # A line of `counts` is a histogram; so small parts that one holds two of them.
    series = {
        bucket(le, i=str(number)): [count, 2 * count]
        for number, line in enumerate(counts)
        for le, count in zip(["-1", "0.5", "1", "3", "+Inf"], line, strict=True)
    }
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(histograms, "_AT_ONCE", 25)
        found = quantiles(q, series, grid=(0, 1))
    for step in range(2):
        for number, one in at_step(series, step).items():
            assert same(found[labels(i=number)][step], reference.quantile(q, one)[0])
