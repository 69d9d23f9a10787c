"""Binary operators: arithmetic, comparisons and set operators between scalars and vectors."""

from collections.abc import Callable
from weakref import ref

import numpy as np

from db.nan import BoolArray, FloatArray, IntArray
from db.promql.ast import Binary
from db.promql.context import Context
from db.promql.errors import ExecutionError
from db.promql.grouping import BLOCK
from db.promql.matching import (
    MANY_MATCHES,
    NOT_UNIQUE,
    Match,
    NameRule,
    check_one_side,
    matched,
    signatures,
)
from db.promql.table import SeriesTable
from db.promql.vector import Scalar, Vector, empty

_Arithmetic = Callable[[FloatArray, FloatArray], FloatArray]
_Comparison = Callable[[FloatArray, FloatArray], BoolArray]

# `%` has the sign of the dividend, as in Go and C.
_ARITHMETIC: dict[str, _Arithmetic] = {
    "+": np.add,
    "-": np.subtract,
    "*": np.multiply,
    "/": np.divide,
    "%": np.fmod,
    "^": np.power,
    "atan2": np.arctan2,
}
_COMPARISONS: dict[str, _Comparison] = {
    "==": np.equal,
    "!=": np.not_equal,
    ">": np.greater,
    "<": np.less,
    ">=": np.greater_equal,
    "<=": np.less_equal,
}


def binary(context: Context, node: Binary) -> Vector | Scalar:
    """Raises ExecutionError where labels match more than one series, and where results have equal labels."""
    context.budget.check()
    left, right = context.evaluate(context, node.left), context.evaluate(context, node.right)
    with np.errstate(all="ignore"):
        match left, right:
            case Scalar(), Scalar():
                return Scalar(_values(node, left.values, right.values))
            case Vector(), Scalar():
                return _with_scalar(node, left, left.values, right.values)
            case Scalar(), Vector():
                return _with_scalar(node, right, left.values, right.values)
            case Vector(), Vector():
                match node.op:
                    case "and":
                        return _and(node, left, right)
                    case "unless":
                        return _unless(node, left, right)
                    case "or":
                        return _or(node, left, right)
                return _with_vector(context, node, left, right)
    raise AssertionError("operands are scalars and vectors: the parser has checked the types")


def _values(node: Binary, left: FloatArray, right: FloatArray) -> FloatArray:
    """Of arithmetic, or of a comparison 1 and 0."""
    if node.op in _ARITHMETIC:
        return _ARITHMETIC[node.op](left, right)
    return _COMPARISONS[node.op](left, right).astype(np.float64)


def _with_scalar(node: Binary, vector: Vector, left: FloatArray, right: FloatArray) -> Vector:
    """left, right: the operands' values, float64[series, steps] or float64[steps]. A filter keeps the
    vector's value, on whatever side it is."""
    if node.op in _ARITHMETIC or node.returns_bool:
        return Vector(vector.table.nameless(), _values(node, left, right), vector.there).merged()
    return vector.only(_COMPARISONS[node.op](left, right)).without_empty()


def _with_vector(context: Context, node: Binary, left: Vector, right: Vector) -> Vector:
    if not len(left.table) or not len(right.table):
        return empty(context.steps)
    swapped = node.matching.cardinality == "one-to-many"
    many, one = (right, left) if swapped else (left, right)
    name: NameRule = "kept"
    if node.op in _ARITHMETIC:
        name = "dropped first"
    elif node.returns_bool:
        name = "dropped last"
    check_one_side(many, one, node.matching)
    match = matched(many.table, one.table, node.matching, name)
    if not len(match.many):
        return empty(context.steps)
    if len(match.many) > len(many.table):
        context.budget.take(len(match.many) * context.steps)
    found = _computed(node, many, _slots(one, match), match, swapped)
    if match.rivals.meet(found.there):
        raise ExecutionError(MANY_MATCHES if node.matching.cardinality == "one-to-one" else NOT_UNIQUE)
    return found.without_empty().merged()


def _slots(one: Vector, match: Match) -> Vector:
    """The one side by slots instead of series."""
    if match.lone is not None:
        whole = len(match.lone) == len(one.table) and bool((match.lone == np.arange(len(match.lone))).all())
        return one if whole else one.take(match.lone)
    shape = (match.slots, one.values.shape[1])
    values, there = np.zeros(shape), np.zeros(shape, dtype=np.bool_)
    rows, steps = np.nonzero(one.mask())
    values[match.slot[rows], steps] = one.values[rows, steps]
    there[match.slot[rows], steps] = True
    return Vector(SeriesTable(match.slots, {}), values, there)


def _computed(node: Binary, many: Vector, one: Vector, match: Match, swapped: bool) -> Vector:
    """The results of all pairs, in blocks of them."""
    pairs, steps = len(match.many), many.values.shape[1]
    filters = node.op in _COMPARISONS and not node.returns_bool
    values = np.empty((pairs, steps))
    there = np.ones((pairs, steps), dtype=np.bool_)
    rows = max(1, BLOCK // max(1, steps))
    for start in range(0, pairs, rows):
        block = slice(start, start + rows)
        ours, theirs = match.many[block], match.one[block]
        sides = (_rows(many.values, ours), _rows(one.values, theirs))
        left, right = sides[::-1] if swapped else sides
        if filters:
            values[block] = left
            there[block] = _COMPARISONS[node.op](left, right)
        else:
            values[block] = _values(node, left, right)
        if many.there is not None:
            there[block] &= many.there[ours]
        if one.there is not None:
            there[block] &= one.there[theirs]
    return Vector(match.table, values, None if there.all() else there)


def _rows(values: FloatArray, rows: IntArray) -> FloatArray:
    return values.take(rows, axis=0) if values.flags.c_contiguous else values[rows]


def _and(node: Binary, left: Vector, right: Vector) -> Vector:
    if not len(left.table) or not len(right.table):
        return empty(left.values.shape[1])
    found = signatures(left.table, right.table, node.matching)
    return _where(left, found.on_the_right(right)[found.left])


def _unless(node: Binary, left: Vector, right: Vector) -> Vector:
    if not len(left.table) or not len(right.table):
        return left
    found = signatures(left.table, right.table, node.matching)
    return _where(left, ~found.on_the_right(right)[found.left])


def _or(node: Binary, left: Vector, right: Vector) -> Vector:
    if not len(left.table) or not len(right.table):
        return right if len(right.table) else left
    found = signatures(left.table, right.table, node.matching)
    more = _where(right, ~found.on_the_left(left)[found.right])
    if not len(more.table):
        return left
    table = left.table.remembered(
        ("joined", ref(more.table)), lambda: SeriesTable.joined([left.table, more.table])
    )
    there = None
    if left.there is not None or more.there is not None:
        there = np.concatenate([left.mask(), more.mask()])
    return Vector(table, np.concatenate([left.values, more.values]), there).merged()


def _where(vector: Vector, there: BoolArray) -> Vector:
    """there: bool[series, steps or 1]"""
    if there.shape[1] == 1:
        whole = there[:, 0]
        return vector if whole.all() else vector.take(np.flatnonzero(whole))
    return vector.only(there).without_empty()
