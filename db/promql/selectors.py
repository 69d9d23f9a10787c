"""What selectors give at the steps of a query: newest samples, windows of samples, windows of subqueries."""

import numpy as np

from db.nan import BoolArray, FloatArray, IntArray, is_absent, is_stale
from db.promql.ast import At, MatrixSelector, Subquery, VectorSelector
from db.promql.context import Context
from db.promql.gather import gathered
from db.promql.source import gives_ragged
from db.promql.table import SeriesTable
from db.promql.vector import Vector
from db.promql.windows import WindowPart, Windows, parts_of
from db.ragged import Ragged
from db.records import Rectangle


def instant_selector(context: Context, selector: VectorSelector) -> Vector:
    """The newest sample of each series at each step."""
    times = _times(context, selector.at, selector.offset_ms)
    if times[0] == times[-1]:
        latest = context.source.latest_columns(selector.matchers, int(times[0]), context.lookback_ms)
        context.budget.take(len(latest.values))
        values = np.broadcast_to(latest.values[:, None], (len(latest.values), len(times)))
        return Vector(SeriesTable.of(latest.series), values)
    step = int(times[1] - times[0])
    steps = context.source.at_steps(
        selector.matchers, int(times[0]), int(times[-1]), step, context.lookback_ms
    )
    context.budget.take(steps.values.size)
    if steps.whole:
        return Vector(SeriesTable.of(steps.series), steps.values)
    there = ~is_absent(steps.values)
    return Vector(SeriesTable.of(steps.series), steps.values, None if there.all() else there)


def selector_timestamps(context: Context, selector: VectorSelector) -> Vector:
    """The times of the samples that `instant_selector` gives, in seconds. With `@` the offset does not count:
    so Prometheus has it here, and only here (prometheus/prometheus, promql/engine.go)."""
    times = _times(context, selector.at, 0 if selector.at is not None else selector.offset_ms)
    if times[0] == times[-1]:
        latest = context.source.latest_columns(selector.matchers, int(times[0]), context.lookback_ms)
        context.budget.take(len(latest.values))
        newest_ms = np.broadcast_to(latest.timestamps[:, None], (len(latest.values), len(times)))
        return Vector(SeriesTable.of(latest.series), newest_ms / 1000)
    windows = _windows(context, selector, times, context.lookback_ms, stale=True)

    def newest(part: WindowPart) -> tuple[FloatArray, BoolArray]:
        last = part.end - 1
        there = (part.count > 0) & ~is_stale(part.value(last))
        return np.broadcast_to(part.time(last) / 1000, part.shape), there

    return windows.each(newest)


def matrix_selector(context: Context, node: MatrixSelector) -> Windows:
    """The samples of each series in (t - range, t], shifted by offset and `@`."""
    times = _times(context, node.selector.at, node.selector.offset_ms)
    return _windows(context, node.selector, times, node.range_ms, stale=False)


def subquery(context: Context, node: Subquery) -> Windows:
    """The expression at the multiples of the subquery's step, in windows."""
    ends = _times(context, node.at, node.offset_ms)
    starts = ends - node.range_ms
    step = node.step_ms or context.default_step_ms
    first = (int(starts.min()) // step + 1) * step  # the window is open at its beginning
    last = int(ends.max())
    if first > last:
        return Windows(SeriesTable(0, {}), context.steps, [])
    context.budget.take((last - first) // step + 1)
    grid = np.arange(first, last + 1, step, dtype=np.int64)
    vector = context.at(grid).vector(node.expression)
    context.budget.take(vector.values.size)
    rows = np.arange(len(vector.table))
    there = vector.there
    return Windows(
        vector.table, context.steps, parts_of(rows, grid, vector.values, there, starts, ends, context.grid)
    )


def _times(context: Context, at: At | None, offset_ms: int) -> IntArray:
    """int64[steps]: for which time each step asks the samples."""
    if at is None:
        return context.grid - offset_ms
    ends = {"start": context.start_ms, "end": context.end_ms}
    fixed = at if isinstance(at, int) else ends[at]
    return np.full(context.steps, fixed - offset_ms, dtype=np.int64)


def _windows(
    context: Context, selector: VectorSelector, ends: IntArray, range_ms: int, *, stale: bool
) -> Windows:
    """stale: keep the markers that say where a series ended."""
    starts = ends - range_ms
    bounds = int(starts.min()) + 1, int(ends.max())
    source, matchers = context.source, selector.matchers
    found: Ragged | list[Rectangle]
    if gives_ragged(source):
        series, found = source.ragged(matchers, *bounds)
    else:
        series, found = source.rectangles(matchers, *bounds)
    edges = starts, ends, context.grid
    if isinstance(found, Ragged):
        context.budget.take(len(found.values))
        return Windows(SeriesTable.of(series), context.steps, _of_ragged(found, stale, *edges))
    parts = []
    for rectangle in found:
        context.budget.take(rectangle.values.size)
        there = _there(rectangle.values, stale)
        parts += parts_of(rectangle.rows, rectangle.timestamps, rectangle.values, there, *edges)
    return Windows(SeriesTable.of(series), context.steps, gathered(parts))


def _of_ragged(
    found: Ragged, stale: bool, starts: IntArray, ends: IntArray, at: IntArray
) -> list[WindowPart]:
    begin, times, values = found.begin, found.timestamps, found.values
    there = None if stale else _there(values, stale)
    if there is not None:
        begin = np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(there)])[begin]
        times, values = times[there], values[there]
    if not len(times):
        return []
    # One ascending number for series and time: then a single search finds the edges of all series.
    oldest, newest = int(times.min()) - 1, int(times.max())
    span = newest - oldest + 1
    series = np.arange(len(found.rows))
    keys = np.repeat(series, np.diff(begin)) * span + (times - oldest)
    first, end = (
        keys.searchsorted(series[:, None] * span + (np.clip(edge, oldest, newest) - oldest), side="right")
        for edge in (starts, ends)
    )
    return [WindowPart(found.rows, times, values, first, end, starts, ends, at)]


def _there(values: FloatArray, stale: bool) -> BoolArray | None:
    """Where samples are; None when everywhere."""
    if not np.isnan(values).any():
        return None
    missing = is_absent(values)
    if not stale:
        missing |= is_stale(values)
    return ~missing if missing.any() else None
