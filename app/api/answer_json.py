"""The `data` object of a query's answer, piece by piece: an answer may have a hundred megabytes."""

from collections.abc import Iterable, Iterator

import numpy as np
import orjson

from app.api.sample_text import number_text, number_texts, time_text, time_texts
from db.promql.answer import Answer
from db.promql.table import SeriesTable

# Where one sample ends and the next begins; the first one of a series has no end before it.
_END = b'"],'


def encode(answer: Answer) -> Iterator[bytes]:
    """UTF-8 JSON, a piece for each series."""
    yield b'{"resultType":"' + answer.kind.encode() + b'","result":'
    if answer.kind == "scalar":
        yield _pair(answer, number_text(float(answer.values[0, 0])))
    elif answer.kind == "string":
        yield _pair(answer, answer.text)
    else:
        yield b"["
        yield from _separated(_vector(answer) if answer.kind == "vector" else _matrix(answer))
        yield b"]"
    yield b"}"


def metrics(table: SeriesTable) -> Iterator[bytes]:
    """The labels of each series as a JSON object; every label pair is made into text once."""
    columns = []
    for name in sorted(table.columns):
        column = table.columns[name]
        front = orjson.dumps(name) + b":"
        texts = np.empty(len(column.texts) + 1, dtype=np.object_)
        texts[:] = [*(front + orjson.dumps(text) for text in column.texts), b""]
        columns.append(texts[column.codes].tolist())  # -1, the label is absent, takes the last one
    rows = zip(*columns, strict=True) if columns else ((),) * table.count
    for row in rows:
        yield b"{" + b",".join(filter(None, row)) + b"}"


def _pair(answer: Answer, value: str) -> bytes:
    return f"[{time_text(int(answer.timestamps[0]))},".encode() + orjson.dumps(value) + b"]"


def _vector(answer: Answer) -> Iterator[bytes]:
    front = f',"value":[{time_text(int(answer.timestamps[0]))},"'.encode() if answer.table.count else b""
    for metric, value in zip(metrics(answer.table), number_texts(answer.values[:, 0]), strict=True):
        yield b'{"metric":' + metric + front + value + b'"]}'


def _matrix(answer: Answer) -> Iterator[bytes]:
    fronts = np.empty(len(answer.timestamps), dtype=np.object_)
    fronts[:] = [_END + b"[" + text + b',"' for text in time_texts(answer.timestamps.tolist())]
    everywhere = fronts.tolist()
    for row, metric in enumerate(metrics(answer.table)):
        values, before = answer.values[row], everywhere
        if answer.there is not None and not answer.there[row].all():
            at = np.flatnonzero(answer.there[row])
            values, before = values[at], fronts[at].tolist()
        pieces = [b""] * (2 * len(before))
        pieces[0::2] = before
        pieces[1::2] = number_texts(values)
        samples = b"".join(pieces)[len(_END) :] + b'"]' if before else b""
        yield b'{"metric":' + metric + b',"values":[' + samples + b"]}"


def _separated(pieces: Iterable[bytes]) -> Iterator[bytes]:
    separator = b""
    for piece in pieces:
        yield separator + piece
        separator = b","
