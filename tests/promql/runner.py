"""Runs test scripts over a real store in a temporary folder, as Prometheus's own runner does: every instant
case is asked again with `@` from other times and as the middle step of a range query."""

import re
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np

from db.labels import Labels
from db.nan import FloatArray, IntArray
from db.promql.answer import Answer
from db.promql.ast import Expression
from db.promql.engine import instant, ranged
from db.promql.errors import QueryError
from db.promql.parse import parse
from db.promql.vector import SAME_LABELS
from db.records import SparseAppend
from db.store import SampleStore
from tests.promql.experimental import counts, drops_several_names, reads_dropped_names
from tests.promql.native import Watched, marks
from tests.promql.notation import Native
from tests.promql.pinned import variants
from tests.promql.results import (
    Unexpected,
    check_kind,
    check_matrix,
    check_scalar,
    check_vector,
    lines,
)
from tests.promql.script import Broken, Clear, Command, Eval, Load, Message, read

NOT_SUPPORTED = "not supported: "
DELAYED_NAMES = f"{NOT_SUPPORTED}delayed removal of metric names: it is experimental in Prometheus 3"
START_TIMES = f"{NOT_SUPPORTED}start timestamps: they are experimental in Prometheus 3"
_RANGE_MS = 60_000
# These mean something else in a range query.
_OF_THE_QUERY = re.compile(r"(start|end|range|step)\(\)")
_POSITION = re.compile(r" \(\d+:\d+\)")
# The same written in a pattern.
_FIXED = re.compile(r" \\\(\d+:\d+\\\)")


class Skipped(Exception):
    """The case needs what Strata leaves out on purpose; str() says what."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a case. detail: expected and got, or the reason to skip it."""

    file: str
    line: int
    expression: str
    status: Literal["passed", "failed", "skipped"]
    detail: str = ""

    def __str__(self) -> str:
        detail = f": {self.detail}" if self.detail else ""
        return f"{self.file}:{self.line}: {self.status}: {self.expression}{detail}"


class Data:
    """What was loaded so far; `clear` begins with an empty store."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._empty = folder / "empty.db"
        SampleStore.open(self._empty).close()
        self._made = 0
        self._open = ExitStack()
        self.clear()

    def clear(self) -> None:
        self.close()
        self.store = self._new()
        self.shadow: SampleStore | None = None
        self.start_times: set[Labels] = set()

    def close(self) -> None:
        self._open.close()

    def load(self, load: Load) -> None:
        columns = []
        for sequence in load.series:
            places = [place for place, item in enumerate(sequence.items) if isinstance(item, float)]
            values = [item for item in sequence.items if isinstance(item, float)]
            times = load.step_ms * np.array(places, dtype=np.int64)
            columns.append((sequence.labels, times, np.array(values)))
        _write(self.store, columns)
        marked = marks(load)
        if marked:
            self.shadow = self.shadow or self._new()
            _write(self.shadow, marked)
        if load.start_times:
            every = () in load.start_times
            self.start_times |= {one.labels for one in load.series} if every else set(load.start_times)

    def _new(self) -> SampleStore:
        """Copied, since setting up the schema takes longer than most scripts."""
        self._made += 1
        path = self._folder / f"{self._made}.db"
        shutil.copy(self._empty, path)
        store = SampleStore.open(path)
        self._open.callback(store.close)
        return store


def _write(store: SampleStore, columns: Sequence[tuple[Labels, IntArray, FloatArray]]) -> None:
    columns = [column for column in columns if len(column[1])]
    if columns:
        counts = [len(times) for _, times, _ in columns]
        times = np.concatenate([times for _, times, _ in columns])
        values = np.concatenate([values for _, _, values in columns])
        series = [labels for labels, _, _ in columns]
        store.write([SparseAppend(series, times, values, np.repeat(np.arange(len(series)), counts))])


def run_file(path: Path) -> Iterator[Outcome]:
    return run(read(path), str(path))


def run(commands: Sequence[Command], file: str) -> Iterator[Outcome]:
    """One outcome a case, in the script's order."""
    with tempfile.TemporaryDirectory() as folder:
        data = Data(Path(folder))
        try:
            for command in commands:
                match command:
                    case Clear():
                        data.clear()
                    case Load():
                        data.load(command)
                    case Eval():
                        yield _outcome(command, file, data)
                    case Broken(line, text, why):
                        yield Outcome(file, line, text, "failed", f"cannot be read: {why}")
        finally:
            data.close()


def _outcome(case: Eval, file: str, data: Data) -> Outcome:
    def outcome(status: Literal["passed", "failed", "skipped"], detail: str = "") -> Outcome:
        return Outcome(file, case.line, case.expression, status, detail.replace("\n", "\\n"))

    try:
        _check_case(case, data)
    except Skipped as reason:
        return outcome("skipped", str(reason))
    except Unexpected as wrong:
        return outcome("failed", str(wrong))
    except Exception as error:  # noqa: BLE001  a crash is one failing case, not the end of the run
        return outcome("failed", f"expected no crash, got {type(error).__name__}: {error}")
    return outcome("passed")


def _check_case(case: Eval, data: Data) -> None:
    expression = _parsed(case)
    if expression is not None and reads_dropped_names(expression):
        raise Skipped(DELAYED_NAMES)
    for labels, (_, items) in case.series.items():
        if Native.SAMPLE in items:
            raise Skipped(f"native histogram: expected as {dict(labels)}")
    if case.at_ms is None:
        answer = _asked(case, data, case.expression, None)
        if answer is not None:
            _check_notes(case, answer)
            check_matrix(case, lines(answer))
        return
    _check_instant(case, data, case.expression, case.at_ms)
    for query, at_ms in _moved(case, case.at_ms):
        try:
            _check_instant(case, data, query, at_ms, moved=True)
        except Unexpected as wrong:
            where = f"{wrong.got} (asked as {query} at {at_ms / 1000:g} s)"
            raise Unexpected(wrong.expected, where) from wrong


def _parsed(case: Eval) -> Expression | None:
    """None where that fails, which is for the engine to say."""
    try:
        return parse(case.expression)
    except QueryError:
        return None


def _moved(case: Eval, at_ms: int) -> Sequence[tuple[str, int]]:
    try:
        return variants(case.expression, at_ms)
    except QueryError:
        if case.fail is None:
            raise
        return ()  # it is refused before it has a time


def _check_instant(case: Eval, data: Data, query: str, at_ms: int, *, moved: bool = False) -> None:
    answer = _asked(case, data, query, at_ms, moved=moved)
    if answer is None:
        return
    _check_notes(case, answer, moved=moved)
    check_kind(case, answer)
    if answer.kind == "vector":
        check_vector(case, lines(answer))
    elif answer.kind == "matrix":
        check_matrix(case, lines(answer))
    excluded = case.range_vector or case.text is not None or _OF_THE_QUERY.search(query)
    if not excluded and not case.ordered:
        _check_middle(case, data, query, at_ms, scalar=answer.kind == "scalar")


def _check_middle(case: Eval, data: Data, query: str, at_ms: int, *, scalar: bool) -> None:
    """The same as one step of a range query. A native histogram at the other steps matters to nobody."""
    try:
        answer = ranged(data.store, query, at_ms - _RANGE_MS, at_ms + _RANGE_MS, _RANGE_MS)
    except QueryError as error:
        raise Unexpected("an answer as a range query", f"the error {str(error)!r}") from error
    middle = []
    for line in lines(answer):
        points = tuple(point for point in line.points if point[0] == at_ms)
        if points:
            middle.append(type(line)(line.labels, points))
    try:
        if scalar:
            check_scalar(case, middle[0].points[0][1])
        else:
            check_vector(case, middle)
    except Unexpected as wrong:
        raise Unexpected(wrong.expected, f"{wrong.got} (as a range query)") from wrong


def _asked(case: Eval, data: Data, query: str, at_ms: int | None, *, moved: bool = False) -> Answer | None:
    """The answer; None when the query failed as expected. Raises Skipped or Unexpected."""
    source = Watched(data.store, data.shadow, data.start_times)
    try:
        if at_ms is None:
            answer = ranged(source, query, case.start_ms, case.end_ms, case.step_ms)
        else:
            answer = instant(source, query, at_ms)
    except QueryError as error:
        if NOT_SUPPORTED in str(error):
            raise Skipped(str(error)) from error
        if source.touched:
            raise Skipped(f"native histogram: {source.touched}") from error
        if case.fail is None and str(error) == SAME_LABELS and drops_several_names(parse(query)):
            raise Skipped(DELAYED_NAMES) from error
        if case.fail is None:
            raise Unexpected("an answer", f"the error {str(error)!r}") from error
        if not _fits(case.fail, str(error), moved):
            raise Unexpected(f"the error {case.fail}", f"the error {str(error)!r}") from error
        return None
    if source.touched:
        raise Skipped(f"native histogram: {source.touched}")
    if source.started and counts(parse(query)):
        raise Skipped(START_TIMES)
    if case.fail is not None:
        raise Unexpected(f"the error {case.fail}", "an answer")
    return answer


def _check_notes(case: Eval, answer: Answer, *, moved: bool = False) -> None:
    _check_said("warning", case.warn, case.no_warn, answer.warnings, moved)
    _check_said("info", case.info, case.no_info, answer.infos, moved)


def _check_said(kind: str, wanted: Sequence[Message], none: bool, said: Sequence[str], moved: bool) -> None:
    """All that is said must be wanted, all that is wanted must be said."""
    if none and said:
        raise Unexpected(f"no {kind}", f"{kind} {list(said)}")
    if not wanted:
        return
    missing = [one for one in wanted if not any(_fits(one, text, moved) for text in said)]
    surplus = [text for text in said if not any(_fits(one, text, moved) for one in wanted)]
    if missing or surplus:
        raise Unexpected(f"{kind} {', '.join(map(str, wanted))}", f"{kind} {list(said)}")


def _fits(message: Message, said: str, moved: bool) -> bool:
    """moved: the query's text is not the case's own, so that positions in the message differ."""
    if not moved:
        return message.fits(said)
    if message.text is not None:
        return _POSITION.sub("", message.text) == _POSITION.sub("", said)
    return message.pattern is None or re.search(_FIXED.sub("", message.pattern.pattern), said) is not None
