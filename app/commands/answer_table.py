"""A query's answer as lines for people. Labels are anybody's text: what a terminal would obey is escaped."""

import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, tzinfo

from app.api.sample_text import number_text, number_texts
from db.labels import METRIC_NAME, Labels
from db.logs import printable
from db.promql.answer import Answer

_METRIC = re.compile(r"[A-Za-z_:][A-Za-z0-9_:]*")
_LABEL = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
# One series with a label of a megabyte must not put a megabyte of blanks behind every other.
_WIDEST = 160


def lines(answer: Answer, zone: tzinfo) -> Iterator[str]:
    """The answer for people, without a line's end. Times are of the zone."""
    if answer.kind == "scalar":
        yield number_text(float(answer.values[0, 0]))
    elif answer.kind == "string":
        yield printable(answer.text)
    elif answer.table.count == 0:
        yield "no series"
    elif answer.kind == "vector":
        names = [_series(labels) for labels in answer.table.rows()]
        values = [text.decode() for text in number_texts(answer.values[:, 0])]
        name_width, value_width = min(_WIDEST, max(map(len, names))), max(map(len, values))
        for name, value in zip(names, values, strict=True):
            yield f"{name:<{name_width}}  {value:>{value_width}}"
    else:
        times = [_time(at_ms, zone) for at_ms in answer.timestamps.tolist()]
        for row, labels in enumerate(answer.table.rows()):
            yield _series(labels)
            values = [text.decode() for text in number_texts(answer.values[row])]
            there = [True] * len(values) if answer.there is None else answer.there[row].tolist()
            width = max(len(value) for value, shown in zip(values, there, strict=True) if shown)
            for at, value, shown in zip(times, values, there, strict=True):
                if shown:
                    yield f"  {at}  {value:>{width}}"


def _series(labels: Labels) -> str:
    """As PromQL writes it."""
    pairs = dict(labels)
    name = pairs.pop(METRIC_NAME, "")
    if name and not _METRIC.fullmatch(name):
        pairs = {METRIC_NAME: name, **pairs}
        name = ""
    quoted = [f"{_label_name(key)}={_text(value)}" for key, value in pairs.items()]
    return f"{name}{{{', '.join(quoted)}}}" if quoted or not name else name


def _label_name(name: str) -> str:
    return name if _LABEL.fullmatch(name) else _text(name)


def _text(value: str) -> str:
    escaped = value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{printable(escaped)}"'


def _time(timestamp_ms: int, zone: tzinfo) -> str:
    try:
        moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=timestamp_ms)
        return moment.astimezone(zone).isoformat(
            timespec="milliseconds" if timestamp_ms % 1000 else "seconds"
        )
    except (OverflowError, ValueError):  # beyond the years that have a date
        return f"{timestamp_ms / 1000:.3f}"
