"""What the query API of an engine answers, from JSON to columns.

Series whose timestamps are the same, as those of a range query mostly are, are laid into one rectangle.
Native histograms are not read; the answer's warnings say so.
"""

from collections import OrderedDict
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from threading import Lock
from typing import Any

import numpy as np

from db.labels import Labels
from db.nan import ABSENT, NORMAL, BoolArray, FloatArray, IntArray
from db.promql.answer import Answer
from db.promql.errors import SourceUnavailable
from db.promql.table import SeriesTable
from db.series_set import SeriesSet

HISTOGRAMS = "native histograms are not supported: the series that consist of them are left out"
_KINDS = ("vector", "matrix", "scalar", "string")
_REMEMBERED = 256


class BadAnswer(ValueError):
    """The JSON is not what the query API gives."""


@dataclass(frozen=True, slots=True, eq=False)
class Points:
    """One series of an answer. timestamps: int64[n], ms UTC; values: float64[n]."""

    labels: Labels
    timestamps: IntArray
    values: FloatArray


@dataclass(frozen=True, slots=True, eq=False)
class Decoded:
    """kind: resultType; text: of a string."""

    kind: str
    points: Sequence[Points]
    warnings: tuple[str, ...] = ()
    infos: tuple[str, ...] = ()
    text: str = ""


def decode(document: Mapping[str, Any]) -> Decoded:
    """Raises BadAnswer."""
    warnings, infos = _texts(document.get("warnings")), _texts(document.get("infos"))
    try:
        data = document["data"]
        kind, result = data["resultType"], data["result"]
        if kind not in _KINDS:
            raise BadAnswer(f"its resultType is {str(kind)[:40]!r}")
        if kind == "string":
            return Decoded(kind, (), warnings, infos, str(result[1]))
        if kind == "scalar":
            return Decoded(kind, (_points({}, [result]),), warnings, infos)
        field = "value" if kind == "vector" else "values"
        points = []
        for item in result:
            held = item.get(field)
            if held is None:
                if HISTOGRAMS not in warnings:
                    warnings = (*warnings, HISTOGRAMS)
                continue
            points.append(_points(item["metric"], [held] if kind == "vector" else held))
        return Decoded(kind, points, warnings, infos)
    except (KeyError, TypeError, IndexError, AttributeError, ValueError, OverflowError) as error:
        if isinstance(error, BadAnswer):
            raise
        raise BadAnswer(f"{type(error).__name__}: {error}") from error


def _points(metric: Mapping[str, str], pairs: Sequence[Sequence[Any]]) -> Points:
    labels = tuple(sorted((name, value) for name, value in metric.items() if value != ""))
    times = np.array([pair[0] for pair in pairs], dtype=np.float64)
    # float() reads the API's NaN, +Inf and -Inf as they are meant.
    values = np.array([float(pair[1]) for pair in pairs], dtype=np.float64)
    values[np.isnan(values)] = NORMAL
    return Points(labels, np.rint(times * 1000).astype(np.int64), values)


def _texts(value: Any) -> tuple[str, ...]:
    return tuple(str(item) for item in value) if isinstance(value, list) else ()


def answer(decoded: Decoded, at_ms: int, grid: IntArray | None = None) -> Answer:
    """As `db.promql.engine` gives it. grid: of a range query; its matrix is ordered by labels."""
    warnings, infos = decoded.warnings, decoded.infos
    now = np.array([at_ms], dtype=np.int64)
    none = SeriesTable(0, {})
    match decoded.kind:
        case "string":
            return Answer("string", none, now, np.zeros((0, 1)), None, decoded.text, warnings, infos)
        case "scalar":
            values = decoded.points[0].values[None]
            return Answer("scalar", none, now, values, warnings=warnings, infos=infos)
        case "vector":
            values = np.array([point.values[0] for point in decoded.points]).reshape(-1, 1)
            table = SeriesTable.of([point.labels for point in decoded.points])
            return Answer("vector", table, now, values, warnings=warnings, infos=infos)
        case _:
            points = sorted(decoded.points, key=lambda point: point.labels)
            times = union(points) if grid is None else grid
            values, there = matrix(points, times)
            table = SeriesTable.of([point.labels for point in points])
            mask = None if there.all() else there
            return Answer("matrix", table, times, values, mask, warnings=warnings, infos=infos)


def union(points: Sequence[Points]) -> IntArray:
    """int64[n]: the times that any of the series has."""
    if not points:
        return np.zeros(0, dtype=np.int64)
    return np.unique(np.concatenate([point.timestamps for point in points]))


def matrix(points: Sequence[Points], times: IntArray) -> tuple[FloatArray, BoolArray]:
    """float64[series, n], ABSENT where a series has no value; bool[series, n], where it has. Values at other
    times are left out."""
    values = np.full((len(points), len(times)), ABSENT)
    there = np.zeros(values.shape, dtype=np.bool_)
    for row, point in enumerate(points):
        if len(point.timestamps) == len(times) and bool((point.timestamps == times).all()):
            values[row], there[row] = point.values, True
            continue
        at = times.searchsorted(point.timestamps)
        inside = at < len(times)
        inside[inside] = times[at[inside]] == point.timestamps[inside]
        values[row, at[inside]], there[row, at[inside]] = point.values[inside], True
    return values, there


class SeriesMemory:
    """Gives the same SeriesSet for the same selection while its series stay the same. Safe for threads."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._held: OrderedDict[Hashable, tuple[tuple[Labels, ...], SeriesSet]] = OrderedDict()

    def of(self, key: Hashable, series: Sequence[Labels]) -> SeriesSet:
        labels = tuple(series)
        with self._lock:
            held = self._held.get(key)
            if held is None or held[0] != labels:
                held = self._held[key] = (labels, SeriesSet(labels))
            self._held.move_to_end(key)
            while len(self._held) > _REMEMBERED:
                self._held.popitem(last=False)
            return held[1]


def decoded_by(name: str, document: Mapping[str, Any]) -> Decoded:
    """`decode` for the engine called `name`. Raises SourceUnavailable."""
    try:
        return decode(document)
    except BadAnswer as error:
        raise SourceUnavailable(f"{name} gave an answer that cannot be read: {error}") from error
