"""The values of a label as pages of text, so that a pattern can be tried on a million of them at once.

Reading them one by one from `label_pair` costs several times what matching them costs. A page is a row of
`posting` under the pair ("", label name), chunk -1 - p for the values whose pairs have the ids p * 4096 and
up: uint16 n, then n little-endian uint16 (id less p * 4096), then the values in UTF-8 joined by newlines. A
value that has a newline itself is a row of its own: chunk -2^40 - id, and its text.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

import numpy as np
from sqlalchemy import Connection, text

from db.nan import IntArray
from db.sole_series import SOLE

_PAGE_BITS = 12
_LOW = (1 << _PAGE_BITS) - 1
_ALONE = -(1 << 40)
_WORD = np.dtype("<u2")
_WORD_BYTES = 2

# Pages that are handed out together: some megabytes.
_TOGETHER_BYTES = 1 << 21

_PAGES = text("SELECT chunk, ids FROM posting WHERE pair_id = :label AND chunk < 0 AND chunk > :sole")
_PAGE = text("SELECT ids FROM posting WHERE pair_id = :label AND chunk = :chunk")
_EVERY_LABEL = text(
    "INSERT INTO label_pair (name, value) SELECT DISTINCT '', name FROM label_pair WHERE name <> '' "
    "ON CONFLICT DO NOTHING"
)
_LABELS = text("SELECT value, id FROM label_pair WHERE name = ''")
_PAIRS_FROM = text(
    "SELECT id, name, value FROM label_pair WHERE id >= :first AND id < :end AND name <> '' ORDER BY name, id"
)
_LAST_PAIR = text("SELECT coalesce(max(id), 0) FROM label_pair")
_PUT = "INSERT OR REPLACE INTO posting (pair_id, chunk, ids) VALUES (?, ?, ?)"
_DROP = "DELETE FROM posting WHERE pair_id = ? AND chunk = ?"


@dataclass(frozen=True, slots=True)
class Page:
    """Values of one label: ids int64[n] of their pairs, and the values in UTF-8.

    joined: whether `values` is n texts without newlines, joined by newlines, or one text that has some.
    """

    ids: IntArray
    values: bytes
    joined: bool

    def texts(self) -> list[bytes]:
        return self.values.split(b"\n") if self.joined else [self.values]


def value_pages(connection: Connection, label_id: int) -> Iterator[Page]:
    """All values of the label, several stored pages as one; label_id: the pair ("", name)."""
    together: list[Page] = []
    size = 0
    for chunk, blob in connection.execute(_PAGES, {"label": label_id, "sole": SOLE}):
        page = _page(chunk, blob)
        if not page.joined:
            yield page
            continue
        together.append(page)
        size += len(blob)
        if size >= _TOGETHER_BYTES:
            yield _merged(together)
            together, size = [], 0
    if together:
        yield _merged(together)


def _merged(pages: Sequence[Page]) -> Page:
    ids = np.concatenate([page.ids for page in pages])
    return Page(ids, b"\n".join([page.values for page in pages]), joined=True)


def add_values(
    connection: Connection, pairs: Iterable[tuple[int, str, str]], label_ids: dict[str, int], fresh_from: int
) -> None:
    """Write new pairs (id, name, value), those of a label together and ascending, to the labels' pages.

    label_ids: name -> the pair ("", name). fresh_from: pairs from this id on are new.
    """
    rows: list[tuple[int, int, bytes]] = []
    for (name, number), members in groupby(pairs, key=lambda pair: (pair[1], pair[0] >> _PAGE_BITS)):
        label_id = label_ids[name]
        plain: list[tuple[int, bytes]] = []
        for pair_id, _, value in members:
            if "\n" in value:
                rows.append((label_id, _ALONE - pair_id, value.encode()))
            else:
                plain.append((pair_id, value.encode()))
        if not plain:
            continue
        ids, values = [pair_id for pair_id, _ in plain], [value for _, value in plain]
        if number << _PAGE_BITS < fresh_from and label_id < fresh_from:
            held = connection.execute(_PAGE, {"label": label_id, "chunk": -1 - number}).scalar()
            if held is not None:
                page = _page(-1 - number, held)
                ids, values = page.ids.tolist() + ids, [page.values, *values]
        rows.append((label_id, -1 - number, _blob(ids, values)))
    if rows:
        connection.exec_driver_sql(_PUT, rows)


def drop_values(
    connection: Connection, pairs: Sequence[tuple[int, str, str]], label_ids: dict[str, int]
) -> None:
    """Take pairs (id, name, value) out of their labels' pages."""
    # Only these: to look in vain among large rows costs SQLite the reading of some of them.
    alone = [(label_ids[name], _ALONE - pair_id) for pair_id, name, value in pairs if "\n" in value]
    if alone:
        connection.exec_driver_sql(_DROP, alone)
    ordered = sorted(pairs, key=lambda pair: (pair[1], pair[0]))
    for (name, number), members in groupby(ordered, key=lambda pair: (pair[1], pair[0] >> _PAGE_BITS)):
        label_id, chunk = label_ids[name], -1 - number
        gone = np.array([pair_id for pair_id, _, _ in members], dtype=np.int64)
        held = connection.execute(_PAGE, {"label": label_id, "chunk": chunk}).scalar()
        if held is None:
            continue
        page = _page(chunk, held)
        kept = np.flatnonzero(~np.isin(page.ids, gone)).tolist()
        if kept:
            texts = page.texts()
            blob = _blob(page.ids[kept].tolist(), [texts[place] for place in kept])
            connection.exec_driver_sql(_PUT, (label_id, chunk, blob))
        else:
            connection.exec_driver_sql(_DROP, (label_id, chunk))


def repack_values(connection: Connection) -> None:
    """Build every page anew from the label pairs."""
    connection.execute(_EVERY_LABEL)
    label_ids = {row[0]: row[1] for row in connection.execute(_LABELS)}
    last = int(connection.execute(_LAST_PAIR).scalar_one())
    for first in range(0, last + 1, 1 << _PAGE_BITS):
        bounds = {"first": first, "end": first + (1 << _PAGE_BITS)}
        rows = [(row[0], row[1], row[2]) for row in connection.execute(_PAIRS_FROM, bounds)]
        add_values(connection, rows, label_ids, fresh_from=first)


def _page(chunk: int, blob: bytes) -> Page:
    if chunk <= _ALONE:
        return Page(np.array([_ALONE - chunk], dtype=np.int64), blob, joined=False)
    count = int.from_bytes(blob[:_WORD_BYTES], "little")
    ids = np.frombuffer(blob, dtype=_WORD, count=count, offset=_WORD_BYTES).astype(np.int64)
    return Page((-1 - chunk << _PAGE_BITS) + ids, blob[_WORD_BYTES * (1 + count) :], joined=True)


def _blob(ids: list[int], values: list[bytes]) -> bytes:
    low = (np.array(ids, dtype=np.int64) & _LOW).astype(_WORD)
    return len(ids).to_bytes(_WORD_BYTES, "little") + low.tobytes() + b"\n".join(values)
