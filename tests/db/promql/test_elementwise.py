import math

import numpy as np
import pytest

from db.promql.elementwise import ELEMENTWISE

NAN, INF = math.nan, math.inf


def apply(name, value, *parameters):
    found = ELEMENTWISE[name](np.array([[value]]), [np.array([one]) for one in parameters])
    assert found.shape == (1, 1)
    assert found.dtype == np.float64
    return float(found[0, 0])


def same(found, expected):
    """Equal to the last bits, NaN like NaN, and 0 not like -0."""
    if math.isnan(expected) or math.isinf(expected) or expected == 0:
        assert repr(found) == repr(expected)
    else:
        assert found == pytest.approx(expected, rel=1e-14)


def test_all_functions_of_one_number_are_there():
    expected = (
        "abs ceil floor exp ln log2 log10 sqrt sgn round sin cos tan asin acos atan sinh cosh tanh asinh"
    )
    assert set(ELEMENTWISE) == {*expected.split(), "acosh", "atanh", "deg", "rad"}


# Prometheus's own trig_functions.test, and what a real Prometheus answers.
@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("sin", 10.0, -0.5440211108893699),
        ("cos", 20.0, 0.40808206181339196),
        ("tan", 10.0, 0.6483608274590867),
        ("asin", 10 - 10.1, -0.10016742116155944),
        ("asin", 9.9, NAN),
        ("acos", 10 - 10.1, 1.670963747956456),
        ("acos", -1.5, NAN),
        ("atan", 20.0, 1.5208379310729538),
        ("sinh", 10.0, 11013.232874703393),
        ("sinh", -1000.0, -INF),
        ("cosh", 20.0, 2.4258259770489514e08),
        ("cosh", -1000.0, INF),
        ("tanh", 10.0, 0.9999999958776927),
        ("tanh", -INF, -1.0),
        ("asinh", 20.0, 3.6895038689889055),
        ("acosh", 10.0, 2.993222846126381),
        ("acosh", 0.5, NAN),
        ("atanh", 10 - 10.1, -0.10033534773107522),
        ("atanh", 1.0, INF),
        ("atanh", -1.0, -INF),
        ("atanh", 2.0, NAN),
        ("rad", 10.0, 0.17453292519943295),
        ("deg", -10.0, -572.9577951308232),
        ("deg", 1e308, INF),
        ("sin", INF, NAN),
        ("exp", 1000.0, INF),
        ("exp", -INF, 0.0),
        ("ln", 0.0, -INF),
        ("ln", -1.0, NAN),
        ("log2", -0.0, -INF),
        ("log2", 8.000000000000002, 3.0000000000000004),
        ("log2", 1e-310, -1029.7977094150824),
        ("log10", 1000.0, 3.0),
        ("log10", INF, INF),
        ("sqrt", -0.0, -0.0),
        ("sqrt", -1.0, NAN),
        ("abs", -0.0, 0.0),
        ("abs", -INF, INF),
        ("ceil", -0.5, -0.0),
        ("floor", -0.5, -1.0),
        ("floor", -INF, -INF),
        ("sgn", -INF, -1.0),
        ("sgn", 1e-300, 1.0),
        ("sgn", -0.0, -0.0),
        ("sgn", 0.0, 0.0),
    ],
)
def test_values_are_those_of_prometheus(name, value, expected):
    same(apply(name, value), expected)


@pytest.mark.parametrize("name", sorted(ELEMENTWISE))
def test_nan_stays_nan(name):
    assert math.isnan(apply(name, NAN))


@pytest.mark.parametrize(
    ("value", "parameters", "expected"),
    [
        (2.5, (), 3.0),
        (-2.5, (), -2.0),
        (-0.5, (), 0.0),
        (0.15, (0.1,), 0.2),
        (0.3, (0.1,), 0.3),
        (5.0, (-2.0,), 4.0),
        (5.0, (0.0,), NAN),
        (5.0, (NAN,), NAN),
        (INF, (), INF),
        (2135.0, (10.0,), 2140.0),
        (1.0, (INF,), NAN),
    ],
)
def test_round_goes_upwards_at_ties(value, parameters, expected):
    assert repr(apply("round", value, *parameters)) == repr(expected)


def test_round_takes_a_parameter_of_each_step():
    found = ELEMENTWISE["round"](np.array([[7.0, 7.0], [12.0, 12.0]]), [np.array([5.0, 10.0])])
    assert found.tolist() == [[5.0, 10.0], [10.0, 10.0]]


def test_the_values_that_were_given_are_not_changed():
    values = np.array([[-1.5, NAN]])
    for function in ELEMENTWISE.values():
        function(values, [])
    assert values[0, 0] == -1.5
