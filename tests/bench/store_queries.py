"""The five questions asked of Strata in PromQL, each ending in a labelled DataFrame; every answer is compared
with the one that Prometheus gives in the same run."""

from collections.abc import Callable

import numpy as np
import pandas as pd

from db.frames import matrix_frame, vector_frame
from db.promql.engine import instant, ranged
from db.store import SampleStore
from tests.bench.store_clients import RESOLUTION_MS, Question, columns

_ALLOWED_RELATIVE_ERROR = 1e-6


def reader(store: SampleStore, question: Question) -> Callable[[], pd.DataFrame]:
    """Answers one of the questions."""
    if question.kind == "raw":
        return lambda: raw(store, question.promql, question.end_ms)
    if question.kind == "range":
        return lambda: steps(store, question.promql, question.start_ms, question.end_ms)
    return lambda: latest(store, question.promql, question.end_ms)


def raw(store: SampleStore, promql: str, at_ms: int) -> pd.DataFrame:
    """Every sample of a window, a column for each series."""
    answer = instant(store, promql, at_ms)
    return matrix_frame(answer).set_axis(columns(list(answer.table.rows())), axis=1)


def steps(store: SampleStore, promql: str, start_ms: int, end_ms: int) -> pd.DataFrame:
    """A value a minute, a column for each series."""
    answer = ranged(store, promql, start_ms, end_ms, RESOLUTION_MS)
    return matrix_frame(answer).set_axis(columns(list(answer.table.rows())), axis=1)


def latest(store: SampleStore, promql: str, at_ms: int) -> pd.DataFrame:
    """The value of every series at one time, a column for each label."""
    return vector_frame(instant(store, promql, at_ms))


def differs(ours: pd.DataFrame, theirs: pd.DataFrame) -> str:
    """What is not the same in two answers up to one part in a million; empty when nothing."""
    if "timestamp" in ours:
        ours = by_labels(ours)
    if len(ours) != len(theirs) or set(ours.columns) != set(theirs.columns):
        return f"shape {ours.shape} against {theirs.shape}, or other columns"
    if isinstance(theirs.index, pd.DatetimeIndex):
        if not (ours.index == theirs.index).all():
            return "other timestamps"
    elif set(ours.index) != set(theirs.index):
        return "other series"
    aligned = ours[theirs.columns].reindex(theirs.index)
    left, right = aligned.to_numpy(), theirs.to_numpy()
    if (np.isnan(left) != np.isnan(right)).any():
        return "values where the other has none"
    error = np.abs(left - right) / np.maximum(np.abs(right), 1e-9)
    worst = float(np.nanmax(error, initial=0.0))
    return "" if worst < _ALLOWED_RELATIVE_ERROR else f"relative error {worst:.2g}"


def by_labels(frame: pd.DataFrame) -> pd.DataFrame:
    """A table with a column for each label, as the peers' answers have it."""
    names = [name for name in frame.columns if name not in ("timestamp", "value")]
    rows = frame[names].astype(object).where(frame[names].notna(), "").to_numpy()
    labels = [
        tuple(sorted(pair for pair in zip(names, row, strict=True) if pair[1])) for row in rows.tolist()
    ]
    return pd.DataFrame({"value": frame["value"].to_numpy()}, columns(labels))
