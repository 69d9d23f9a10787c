"""Samples in a real store, and what queries over them give, short enough to be written down by hand."""

from collections.abc import Mapping, Sequence

import numpy as np

from db.labels import METRIC_NAME, Labels
from db.promql.answer import Answer
from db.promql.engine import Options, instant, ranged
from db.records import SparseAppend
from db.store import SampleStore
from tests.promql.notation import metric

_OPTIONS = Options()


def write(store: SampleStore, series: Mapping[str, Mapping[float, float]]) -> None:
    """`x{a="1"}` -> its value at each time in seconds."""
    for text, held in series.items():
        labels, _ = metric(text)
        times = np.array([round(time * 1000) for time in held], dtype=np.int64)
        store.write([SparseAppend([labels] * len(times), times, np.array(list(held.values()), dtype=float))])


def every_minute(values: Sequence[float]) -> dict[float, float]:
    """From time 0 on."""
    return {60.0 * number: value for number, value in enumerate(values)}


def at(
    store: SampleStore, query: str, seconds: float = 0, options: Options = _OPTIONS
) -> list[tuple[str, float]]:
    """An instant query's answer, in its order."""
    answer = instant(store, query, round(seconds * 1000), options)
    assert answer.there is None or answer.there.all()
    return list(zip(map(shown, answer.table.rows()), answer.values[:, 0].tolist(), strict=True))


def over(
    store: SampleStore, query: str, start: float, end: float, step: float, options: Options = _OPTIONS
) -> dict[str, list[float | None]]:
    """A range query's answer: what each series has at each step."""
    answer = ranged(store, query, *(round(each * 1000) for each in (start, end, step)), options)
    return rows_of(answer)


def rows_of(answer: Answer) -> dict[str, list[float | None]]:
    there = np.ones(answer.values.shape, dtype=bool) if answer.there is None else answer.there
    found = {
        shown(labels): [value if is_there else None for value, is_there in zip(values, mask, strict=True)]
        for labels, values, mask in zip(
            answer.table.rows(), answer.values.tolist(), there.tolist(), strict=True
        )
    }
    assert len(found) == answer.table.count
    return found


def shown(labels: Labels) -> str:
    """`x{a=1}`, `x`, `{}`"""
    name = dict(labels).get(METRIC_NAME, "")
    inner = ",".join(f"{key}={value}" for key, value in labels if key != METRIC_NAME)
    return f"{name}{{{inner}}}" if inner or not name else name
