"""Answers as plain series, and whether they are what a case expects."""

import math
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from db.labels import METRIC_NAME, Labels
from db.nan import is_stale
from db.promql.answer import Answer
from db.promql.printer import quoted
from tests.promql.notation import Item
from tests.promql.script import Eval

# Prometheus's own tolerance in these tests (promqltest's defaultEpsilon).
EPSILON = 1e-6


class Unexpected(Exception):
    """An answer is not what it should be. expected, got: for the report."""

    def __init__(self, expected: str, got: str) -> None:
        super().__init__(f"expected {expected}, got {got}")
        self.expected, self.got = expected, got


@dataclass(frozen=True, slots=True)
class Line:
    """One series of an answer. points: (ms UTC, value)."""

    labels: Labels
    points: tuple[tuple[int, float], ...]


def lines(answer: Answer) -> list[Line]:
    """The series in the answer's order."""
    there = np.ones(answer.values.shape, dtype=np.bool_) if answer.there is None else answer.there
    times = answer.timestamps
    found = []
    for row, labels in enumerate(answer.table.rows()):
        some = there[row]
        points = zip(times[some].tolist(), answer.values[row, some].tolist(), strict=True)
        found.append(Line(labels, tuple(points)))
    return found


def almost_equal(one: float, other: float, epsilon: float = EPSILON) -> bool:
    """Relative to the sum of both magnitudes; staleness markers equal only each other, other NaNs any."""
    stale = [bool(is_stale(np.array([value]))[0]) for value in (one, other)]
    if any(stale):
        return all(stale)
    if math.isnan(one) and math.isnan(other):
        return True
    if one == other:
        return True
    total, apart = abs(one) + abs(other), abs(one - other)
    if one == 0 or other == 0 or total < sys.float_info.min:
        return apart < epsilon * sys.float_info.min
    return apart / min(total, sys.float_info.max) < epsilon


def shown(labels: Labels) -> str:
    """As Prometheus prints a series."""
    name = next((value for key, value in labels if key == METRIC_NAME), "")
    inner = ", ".join(f"{key}={quoted(value)}" for key, value in labels if key != METRIC_NAME)
    return f"{name}{{{inner}}}" if inner or not name else name


def shown_lines(found: Iterable[Line]) -> str:
    parts = [f"{shown(line.labels)} {_points(line)}" for line in found]
    return "; ".join(parts) or "nothing"


def _points(line: Line) -> str:
    if len(line.points) == 1:
        return f"{line.points[0][1]!r}"
    return " ".join(f"{value!r}@{time / 1000:g}" for time, value in line.points)


def shown_items(items: Sequence[Item]) -> str:
    return " ".join("_" if item is None else str(item) for item in items)


def check_kind(case: Eval, answer: Answer) -> None:
    """Raises Unexpected where a number or text is expected and something else came, or the reverse."""
    if answer.kind == "string":
        if answer.text != (case.text or ""):
            raise Unexpected(f"string {case.text!r}", f"string {answer.text!r}")
    elif case.text is not None:
        raise Unexpected(f"string {case.text!r}", _shown_answer(answer))
    elif answer.kind == "scalar":
        check_scalar(case, float(answer.values[0, 0]))
    elif case.scalar is not None:
        raise Unexpected(f"scalar {case.scalar!r}", _shown_answer(answer))


def check_scalar(case: Eval, got: float) -> None:
    if case.scalar is None:
        raise Unexpected("a vector or matrix", f"scalar {got!r}")
    if not almost_equal(case.scalar, got):
        raise Unexpected(f"scalar {case.scalar!r}", f"scalar {got!r}")


def check_vector(case: Eval, found: Sequence[Line]) -> None:
    """One value a series."""
    expected = "; ".join(
        f"{shown(labels)} {shown_items(items)}" for labels, (_, items) in case.series.items()
    )
    for place, line in enumerate(found, 1):
        position, items = case.series.get(line.labels, (0, ()))
        right = bool(items) and isinstance(items[0], float) and almost_equal(items[0], line.points[0][1])
        if not right or (case.ordered and position != place):
            ordered = " in this order" if case.ordered else ""
            raise Unexpected((expected or "nothing") + ordered, shown_lines(found))
    if case.series.keys() - {line.labels for line in found}:
        raise Unexpected(expected, shown_lines(found))


def check_matrix(case: Eval, found: Sequence[Line]) -> None:
    """The case's values stand at start, start + step, ...; the series are sorted."""
    if case.ordered:
        raise Unexpected("an ordered vector", "a matrix")
    if [line.labels for line in found] != sorted(line.labels for line in found):
        raise Unexpected("series sorted by labels", shown_lines(found))
    wanted = [_wanted(case, labels, items) for labels, (_, items) in case.series.items()]
    for line in found:
        one = next((one for one in wanted if one.labels == line.labels), Line(line.labels, ()))
        same_times = [time for time, _ in one.points] == [time for time, _ in line.points]
        pairs = zip(one.points, line.points, strict=False)
        if not same_times or not all(almost_equal(a[1], b[1]) for a, b in pairs):
            what = shown_lines([one]) if one.points else f"no series {shown(line.labels)}"
            raise Unexpected(what, shown_lines([line]))
    missing = [one for one in wanted if one.labels not in {line.labels for line in found}]
    if missing:
        raise Unexpected(shown_lines(missing), shown_lines(found))


def _wanted(case: Eval, labels: Labels, items: Sequence[Item]) -> Line:
    if items and case.start_ms + (len(items) - 1) * case.step_ms > case.end_ms:
        raise Unexpected(f"{len(items)} points for {shown(labels)}", "a time range that cannot give so many")
    points = [
        (case.start_ms + place * case.step_ms, item)
        for place, item in enumerate(items)
        if isinstance(item, float)
    ]
    return Line(labels, tuple(points))


def _shown_answer(answer: Answer) -> str:
    if answer.kind == "scalar":
        return f"scalar {float(answer.values[0, 0])!r}"
    return f"{answer.kind} {shown_lines(lines(answer))}"
