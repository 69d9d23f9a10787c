"""Aggregation operators: one series for each group of series (`ranking` has those that choose or sort)."""

from collections.abc import Callable

import numpy as np

from db.nan import FloatArray, IntArray
from db.promql import group_sums
from db.promql.ast import Aggregate
from db.promql.context import Context
from db.promql.count_values import count_values
from db.promql.grouping import Block, Grouping, counts, folded, grouped
from db.promql.ranking import largest_or_smallest, quantile
from db.promql.vector import Vector, empty


def aggregate(context: Context, node: Aggregate) -> Vector:
    """Raises ExecutionError for a parameter that means nothing, LimitExceeded for too many values that
    count_values would make series of."""
    context.budget.check()
    match node.op:
        case "topk" | "bottomk":
            return largest_or_smallest(context, node)
        case "quantile":
            return quantile(context, node)
        case "count_values":
            return count_values(context, node)
    vector = context.vector(node.expression)
    if not len(vector.table):
        return empty(context.steps)
    grouping = grouped(vector.table, node.labels, node.without)
    count = counts(vector, grouping)
    values = _KERNELS[node.op](vector, grouping, count)
    return Vector(grouping.table, values, None if count.all() else count > 0).without_empty()


# The vector, its groups and how many of each are there -> float64[groups, steps].
_Kernel = Callable[[Vector, Grouping, IntArray], FloatArray]


def _sum(vector: Vector, grouping: Grouping, _: IntArray) -> FloatArray:
    return group_sums.total(vector, grouping)


def _count(vector: Vector, grouping: Grouping, count: IntArray) -> FloatArray:
    return _everywhere(vector, grouping, count.astype(np.float64))


def _group(vector: Vector, grouping: Grouping, _: IntArray) -> FloatArray:
    return _everywhere(vector, grouping, np.float64(1.0))


def _everywhere(vector: Vector, grouping: Grouping, values: FloatArray | np.float64) -> FloatArray:
    return np.broadcast_to(values, (grouping.count, vector.values.shape[1]))


def _smallest(vector: Vector, grouping: Grouping, _: IntArray) -> FloatArray:
    return folded(vector, grouping, np.fmin, _or_nan)


def _largest(vector: Vector, grouping: Grouping, _: IntArray) -> FloatArray:
    return folded(vector, grouping, np.fmax, _or_nan)


def _or_nan(block: Block) -> FloatArray:
    """NaN where nothing is: it loses against everything, as the NaN that are there."""
    return block.values if block.there is None else np.where(block.there, block.values, np.nan)


def _variance(vector: Vector, grouping: Grouping, count: IntArray) -> FloatArray:
    """Of the population. By the differences from the group's smallest value, which are exactly 0 where all
    values are equal, and not in one pass: one pass over values much larger than their spread loses digits."""
    base = _smallest(vector, grouping, count)

    def above(block: Block) -> FloatArray:
        found = block.values - base[block.groups]
        return found if block.there is None else np.where(block.there, found, 0.0)

    with np.errstate(all="ignore"):
        middle = folded(vector, grouping, np.add, above) / count

        def squares(block: Block) -> FloatArray:
            found = np.square(above(block) - middle[block.groups])
            return found if block.there is None else np.where(block.there, found, 0.0)

        return folded(vector, grouping, np.add, squares) / count


def _deviation(vector: Vector, grouping: Grouping, count: IntArray) -> FloatArray:
    with np.errstate(all="ignore"):
        return np.sqrt(_variance(vector, grouping, count))


_KERNELS: dict[str, _Kernel] = {
    "sum": _sum,
    "avg": group_sums.mean,
    "count": _count,
    "group": _group,
    "min": _smallest,
    "max": _largest,
    "stdvar": _variance,
    "stddev": _deviation,
}
