"""histogram_quantile and histogram_fraction over classic histograms: series that differ only in `le`.

Which series make a histogram is worked out once for a table of labels; then all histograms with equally many
buckets are evaluated at once (`db.promql.buckets`). Native histograms do not exist here, so the functions
that look only at them give nothing.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from db.labels import METRIC_NAME
from db.nan import BoolArray, FloatArray, IntArray
from db.promql import buckets
from db.promql.ast import Call, Expression
from db.promql.context import Context, Notes
from db.promql.table import SeriesTable, numbered
from db.promql.vector import Vector, empty
from db.promql.wording import general, quoted

_BUCKET_LABEL = "le"
# Counts that are worked on at once: a few arrays of this size fit the processor's cache.
_AT_ONCE = 1 << 17
# What Go's strconv.ParseFloat takes, apart from infinities.
_DECIMAL = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_HEXADECIMAL = re.compile(r"[+-]?0[xX](?:[0-9a-fA-F]+\.?[0-9a-fA-F]*|\.[0-9a-fA-F]+)[pP][+-]?[0-9]+")
_INFINITE = re.compile(r"[+-]?inf(?:inity)?", re.IGNORECASE | re.ASCII)

# (bounds, counts, length, at) -> values, as in `db.promql.buckets`. at: int64[histograms or 1, steps], which
# steps of the query the counts are of.
Kernel = Callable[[FloatArray, FloatArray, IntArray, IntArray], FloatArray]


def histogram_quantile(context: Context, call: Call) -> Vector:
    """histogram_quantile(q, vector)"""
    q = context.scalar(call.arguments[0])
    asked = context.notes.at(call.arguments[0])
    for value in np.unique(q[~((q >= 0) & (q <= 1))]).tolist():
        asked.warn(f"quantile value should be between 0 and 1, got {general(value)}")
    repaired = _Repaired()

    def kernel(bounds: FloatArray, counts: FloatArray, length: IntArray, at: IntArray) -> FloatArray:
        values, forced = buckets.quantile(bounds, counts, length, q[at])
        if forced is not None:
            repaired.add(forced, context.grid[at])
        return values

    result = _of_each(context, call.arguments[1], kernel)
    repaired.tell(context.notes.at(call.arguments[1]))
    return result


def histogram_fraction(context: Context, call: Call) -> Vector:
    """histogram_fraction(lower, upper, vector)"""
    lower, upper = map(context.scalar, call.arguments[:2])

    def kernel(bounds: FloatArray, counts: FloatArray, length: IntArray, at: IntArray) -> FloatArray:
        return buckets.fraction(bounds, counts, length, lower[at], upper[at])

    return _of_each(context, call.arguments[2], kernel)


def of_native_only(context: Context, call: Call) -> Vector:
    """histogram_count(vector) and others: floats are left out, and there is nothing else."""
    context.vector(call.arguments[0])  # it may fail
    return empty(context.steps)


@dataclass(slots=True)
class _Repaired:
    """What was done to counts that fell, over all histograms and steps."""

    samples: int = 0
    least: float = np.inf
    greatest: float = -np.inf
    difference: float = 0.0
    start_ms: int = 0
    end_ms: int = 0

    def add(self, forced: buckets.Forced, times: IntArray) -> None:
        """times: int64[histograms or 1, steps], ms UTC."""
        where = forced.where
        when = np.broadcast_to(times, where.shape)[where]
        earliest, latest = int(when.min()), int(when.max())
        self.start_ms = min(self.start_ms, earliest) if self.samples else earliest
        self.end_ms = max(self.end_ms, latest) if self.samples else latest
        self.samples += len(when)
        self.least = min(self.least, float(forced.least[where].min()))
        self.greatest = max(self.greatest, float(forced.greatest[where].max()))
        self.difference = max(self.difference, float(forced.difference[where].max()))

    def tell(self, notes: Notes) -> None:
        if self.samples:
            notes.info(
                "input to histogram_quantile needed to be fixed for monotonicity (see "
                "https://prometheus.io/docs/prometheus/latest/querying/functions/#histogram_quantile), "
                f"from buckets {general(self.least)} to {general(self.greatest)}, "
                f"with a max diff of {self.difference:.2g}, "
                f"over {self.samples} samples from {_instant(self.start_ms)} to {_instant(self.end_ms)}"
            )


def _instant(time_ms: int) -> str:
    """RFC 3339, whole seconds, cut off towards zero as Go divides."""
    return f"{np.datetime64(int(time_ms / 1000), 's')}Z"


@dataclass(frozen=True, slots=True)
class _Stack:
    """Histograms with equally many buckets. histograms: int64[h], their places in the result. rows:
    int64[buckets, h], the buckets' places in the table, bounds: float64[buckets, h], ascending. repeated: has
    one of them a bound twice ("1" and "1.0")?"""

    histograms: IntArray
    rows: IntArray
    bounds: FloatArray
    repeated: bool

    def part(self, some: slice) -> "_Stack":
        return _Stack(self.histograms[some], self.rows[:, some], self.bounds[:, some], self.repeated)


@dataclass(frozen=True, slots=True)
class _Layout:
    """The histograms of a table. table: their labels. malformed: series that are no bucket, int64[k], by what
    is to be said of them."""

    table: SeriesTable
    stacks: list[_Stack]
    malformed: list[tuple[str, IntArray]] = field(default_factory=list)


def _of_each(context: Context, expression: Expression, kernel: Kernel) -> Vector:
    vector = context.vector(expression)
    layout = vector.table.remembered("classic histograms", lambda: _layout(vector.table))
    for text, rows in layout.malformed:
        if vector.there is None or vector.there[rows].any():
            context.notes.at(expression).warn(text)
    values = np.zeros((len(layout.table), context.steps))
    there = np.zeros(values.shape, dtype=np.bool_)
    for stack in layout.stacks:
        count, histograms = stack.rows.shape
        width = max(1, _AT_ONCE // (count * max(1, context.steps)))
        for begin in range(0, histograms, width):
            context.budget.check()
            part = stack.part(slice(begin, begin + width))
            _evaluate(part, vector, kernel, values, there)
    found = Vector(layout.table, values, None if there.all() else there)
    return found.without_empty().merged()


def _evaluate(stack: _Stack, vector: Vector, kernel: Kernel, values: FloatArray, there: BoolArray) -> None:
    """Fill in the rows of the stack's histograms."""
    counts = vector.values[stack.rows]
    size, _, steps = counts.shape
    length = np.full(len(stack.histograms), size)
    if vector.there is None and not stack.repeated:
        there[stack.histograms] = True
        values[stack.histograms] = kernel(stack.bounds, counts, length, np.arange(steps)[None])
        return
    mask = np.ones(counts.shape, dtype=np.bool_) if vector.there is None else vector.there[stack.rows]
    if stack.repeated:
        counts, mask = _coalesced(stack.bounds, counts, mask)
    some, whole = mask.any(axis=0), mask.all(axis=0)
    there[stack.histograms] = some
    # A histogram at one step is now taken for a histogram of its own.
    group, step = np.nonzero(whole)
    if len(group):
        found = kernel(stack.bounds[:, group], counts[:, group, step, None], length[group], step[:, None])
        values[stack.histograms[group], step] = found[:, 0]
    group, step = np.nonzero(some & ~whole)
    if len(group):
        mask = mask[:, group, step]
        length = mask.sum(axis=0)
        # The buckets that are there come first, the last of them fills the rest.
        order = np.argsort(~mask, axis=0, kind="stable")
        lane = np.arange(len(group))
        order = order[np.minimum(np.arange(size)[:, None], length - 1), lane]
        found = kernel(
            stack.bounds[order, group], counts[order, group, step][:, :, None], length, step[:, None]
        )
        values[stack.histograms[group], step] = found[:, 0]


def _coalesced(bounds: FloatArray, counts: FloatArray, mask: BoolArray) -> tuple[FloatArray, BoolArray]:
    """Of buckets with the same bound the last one counts for all, and the others are not there."""
    counts, mask = np.where(mask, counts, 0.0), mask.copy()
    for place in range(1, len(bounds)):
        same = np.flatnonzero(bounds[place] == bounds[place - 1])
        counts[place, same] += counts[place - 1, same]
        mask[place, same] |= mask[place - 1, same]
        mask[place - 1, same] = False
    return counts, mask


def _layout(table: SeriesTable) -> _Layout:
    column = table.column(_BUCKET_LABEL)
    # For each text, and last for the label's absence: the bound, and whether there is one.
    parsed, known = np.zeros(len(column.texts) + 1), np.zeros(len(column.texts) + 1, dtype=np.bool_)
    for code in np.unique(column.codes[column.codes >= 0]).tolist():
        bound = bucket_bound(column.texts[code])
        if bound is not None:
            parsed[code], known[code] = bound, True
    bounds, valid = parsed[column.codes], known[column.codes]
    rows = np.flatnonzero(valid)
    good = table.take(rows).drop((_BUCKET_LABEL,))
    groups = good.groups()
    order = np.lexsort((bounds[rows], groups.number))  # a bound of NaN comes last, there is then no +Inf
    sizes = np.bincount(groups.number, minlength=groups.count)
    starts = np.cumsum(sizes) - sizes
    stacks = []
    for size in np.unique(sizes).tolist():
        histograms = np.flatnonzero(sizes == size)
        chosen = rows[order[starts[histograms] + np.arange(size)[:, None]]]
        limits = bounds[chosen]
        stacks.append(_Stack(histograms, chosen, limits, bool((limits[1:] == limits[:-1]).any())))
    labels = good.nameless().take(groups.first)
    return _Layout(labels, stacks, _malformed(table, np.flatnonzero(~valid)))


def _malformed(table: SeriesTable, rows: IntArray) -> list[tuple[str, IntArray]]:
    bound, name = table.column(_BUCKET_LABEL).take(rows), table.column(METRIC_NAME).take(rows)
    groups = numbered([(column.codes, len(column.texts)) for column in (bound, name)], len(rows))
    members = np.split(
        rows[np.argsort(groups.number, kind="stable")], np.cumsum(np.bincount(groups.number))[:-1]
    )
    found = []
    texts = zip(bound.take(groups.first).get(), name.take(groups.first).get(), members, strict=False)
    for malformed, metric, mine in texts:
        text = f'bucket label "le" is missing or has a malformed value of {quoted(malformed)}'
        found.append((f"{text} for metric name {quoted(metric)}" if metric else text, mine))
    return found


def bucket_bound(text: str) -> float | None:
    """A bucket's bound as Go reads a number; None where it does not."""
    if text.lower() == "nan":
        return float("nan")
    if _INFINITE.fullmatch(text):
        return float(text)
    try:
        if _HEXADECIMAL.fullmatch(text):
            return float.fromhex(text)
    except OverflowError:
        return None
    if _DECIMAL.fullmatch(text) and np.isfinite(bound := float(text)):
        return bound
    return None


HISTOGRAM_FUNCTIONS = {
    "histogram_quantile": histogram_quantile,
    "histogram_fraction": histogram_fraction,
    "histogram_avg": of_native_only,
    "histogram_count": of_native_only,
    "histogram_sum": of_native_only,
    "histogram_stddev": of_native_only,
    "histogram_stdvar": of_native_only,
}
