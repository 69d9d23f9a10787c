"""The functions of one number: each value of a vector by itself, with the edge values of Go's `math`.

Every function takes float64[series, steps] and its parameters, float64[steps] each, and gives
float64[series, steps]. Out of the domain the result is NaN, never a warning.
"""

from collections.abc import Callable, Sequence

import numpy as np

from db.nan import FloatArray

Elementwise = Callable[[FloatArray, Sequence[FloatArray]], FloatArray]


def _plain(function: Callable[[FloatArray], FloatArray]) -> Elementwise:
    """A function without parameters."""

    def apply(values: FloatArray, _parameters: Sequence[FloatArray]) -> FloatArray:
        with np.errstate(all="ignore"):
            return function(values)

    return apply


def _round(values: FloatArray, parameters: Sequence[FloatArray]) -> FloatArray:
    """To the nearest multiple of the parameter (1 if there is none), ties upwards."""
    nearest = parameters[0] if parameters else np.ones(1)
    with np.errstate(all="ignore"):
        inverse = 1.0 / nearest  # multiplying by it rounds better than dividing: 0.15 to 0.1 gives 0.2
        result: FloatArray = np.floor(values * inverse + 0.5) / inverse
    return result


def _sign(values: FloatArray) -> FloatArray:
    """-1 and 1; 0, -0 and NaN are themselves, which np.sign does not keep."""
    return np.where(values < 0, -1.0, np.where(values > 0, 1.0, values))


ELEMENTWISE: dict[str, Elementwise] = {
    "abs": _plain(np.abs),
    "ceil": _plain(np.ceil),
    "floor": _plain(np.floor),
    "exp": _plain(np.exp),
    "ln": _plain(np.log),
    "log2": _plain(np.log2),
    "log10": _plain(np.log10),
    "sqrt": _plain(np.sqrt),
    "sgn": _plain(_sign),
    "round": _round,
    "sin": _plain(np.sin),
    "cos": _plain(np.cos),
    "tan": _plain(np.tan),
    "asin": _plain(np.arcsin),
    "acos": _plain(np.arccos),
    "atan": _plain(np.arctan),
    "sinh": _plain(np.sinh),
    "cosh": _plain(np.cosh),
    "tanh": _plain(np.tanh),
    "asinh": _plain(np.arcsinh),
    "acosh": _plain(np.arccosh),
    "atanh": _plain(np.arctanh),
    # Not np.degrees and np.radians: the order of the operations decides the last bit.
    "deg": _plain(lambda values: values * 180 / np.pi),
    "rad": _plain(lambda values: values * np.pi / 180),
}
