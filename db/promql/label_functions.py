"""label_replace and label_join: a label made of others. Work is done once for each distinct text, not for
each series, and what came out is remembered with the table it came from."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from db.promql.ast import Call
from db.promql.context import Context
from db.promql.errors import ExecutionError
from db.promql.table import Column, SeriesTable, numbered
from db.promql.vector import Vector
from db.regex import RegexError, compile_anchored

# In place of a code: the series keeps the label that it has.
_KEEP = -2


def label_replace(context: Context, call: Call) -> Vector:
    """label_replace(vector, destination, replacement, source, regex). Raises ExecutionError."""
    destination, replacement, source, pattern = map(context.text, call.arguments[1:])
    try:
        compiled = compile_anchored(pattern)
    except RegexError as error:
        raise ExecutionError(f"invalid regular expression in label_replace(): {pattern}") from error
    _check(destination, "destination", "label_replace")
    vector = context.vector(call.arguments[0])
    table = vector.table.remembered(
        ("label_replace", destination, replacement, source, pattern),
        lambda: (
            _copied(vector.table, destination, replacement, source, pattern)
            or _replaced(vector.table, destination, Template.of(replacement), source, compiled)
        ),
    )
    return Vector(table, vector.values, vector.there).merged()


def label_join(context: Context, call: Call) -> Vector:
    """label_join(vector, destination, separator, source, ...). Raises ExecutionError."""
    destination, separator, *sources = map(context.text, call.arguments[1:])
    for source in sources:
        _check(source, "source", "label_join")
    _check(destination, "destination", "label_join")
    vector = context.vector(call.arguments[0])
    table = vector.table.remembered(
        ("label_join", destination, separator, *sources),
        lambda: _joined(vector.table, destination, separator, sources),
    )
    return Vector(table, vector.values, vector.there).merged()


def _check(name: str, which: str, function: str) -> None:
    """Any UTF-8 text but the empty one is a label's name."""
    try:
        valid = name.encode() != b""
    except UnicodeEncodeError:
        valid = False
    if not valid:
        shown = name.encode(errors="backslashreplace").decode()
        raise ExecutionError(f"invalid {which} label name in {function}(): {shown}")


@dataclass(frozen=True, slots=True)
class Template:
    """A replacement as Go's regexp.Expand reads it. pieces: literal text, or a group by number or name; a
    group that there is not gives nothing."""

    pieces: tuple[tuple[str, int | str], ...]

    @classmethod
    def of(cls, text: str) -> "Template":
        """`$1`, `${1}`, `$name`, `${name}`, `$$` for a dollar; a name is as long as it can be, and a dollar
        before anything else is a dollar."""
        pieces: list[tuple[str, int | str]] = []
        while True:
            before, dollar, text = text.partition("$")
            pieces.append(("text", before))
            if not dollar:
                return cls(tuple(pieces))
            if text.startswith("$"):
                pieces.append(("text", "$"))
                text = text[1:]
                continue
            name, rest = _name_at(text)
            if name:
                pieces.append(("group", _group(name)))
                text = rest
            else:
                pieces.append(("text", "$"))

    def expanded(self, match: Any, names: dict[str, int]) -> str:
        """match, names: of google-re2."""
        found = []
        for kind, what in self.pieces:
            if kind == "text":
                found.append(str(what))
                continue
            number = what if isinstance(what, int) else names.get(what, -1)
            if 0 <= number <= match.re.groups:
                found.append(match.group(number) or "")
        return "".join(found)


def _name_at(text: str) -> tuple[str, str]:
    """A group's name at the text's beginning, and what follows it; no name where there is none."""
    braced = text.startswith("{")
    begin = end = 1 if braced else 0
    while end < len(text) and (text[end] == "_" or text[end].isalpha() or text[end].isdecimal()):
        end += 1
    if braced:
        return (text[begin:end], text[end + 1 :]) if text[end : end + 1] == "}" else ("", text)
    return text[begin:end], text[end:]


def _group(name: str) -> int | str:
    """A number if it is one without a leading zero, else a name."""
    is_number = name.isascii() and name.isdigit() and (name == "0" or name[0] != "0") and len(name) < 10
    return int(name) if is_number else name


def _copied(
    table: SeriesTable, destination: str, replacement: str, source: str, pattern: str
) -> SeriesTable | None:
    """The table where the whole of one label becomes another: the column as it is, without a look at its
    texts. None where it is not as simple as that."""
    if replacement != "$1" or pattern not in ("(.+)", "(.*)"):
        return None
    column = table.column(source)
    if pattern == "(.+)":  # series without the source keep what they have, which must be nothing, too
        lacking = column.codes < 0
        if (table.column(destination).codes[lacking] >= 0).any():
            return None
    return table.with_column(destination, column)


def _replaced(
    table: SeriesTable, destination: str, template: Template, source: str, compiled: Any
) -> SeriesTable:
    column, held = table.column(source), table.column(destination)
    names = dict(compiled.groupindex)
    places: dict[str, int] = {}
    # For each text of the source, and last for its absence: the new label's code.
    codes = np.full(len(column.texts) + 1, _KEEP, dtype=np.int32)
    for code in np.unique(column.codes).tolist():
        match = compiled.fullmatch(column.texts[code] if code >= 0 else "")
        if match is not None:
            codes[code] = _place(places, template.expanded(match, names))
    chosen = codes[column.codes]
    keeps = chosen == _KEEP
    if keeps.all():
        return table
    kept = np.full(len(held.texts) + 1, -1, dtype=np.int32)
    for code in np.unique(held.codes[keeps & (held.codes >= 0)]).tolist():
        kept[code] = _place(places, held.texts[code])
    return table.with_column(destination, Column(np.where(keeps, kept[held.codes], chosen), list(places)))


def _joined(table: SeriesTable, destination: str, separator: str, sources: Sequence[str]) -> SeriesTable:
    columns = [table.column(source) for source in sources]
    groups = numbered([(column.codes, len(column.texts)) for column in columns], len(table))
    texts = [column.take(groups.first).get() for column in columns]
    joined = map(separator.join, zip(*texts, strict=True)) if texts else [""] * groups.count
    places: dict[str, int] = {}
    codes = np.array([_place(places, text) for text in joined], dtype=np.int32)
    return table.with_column(destination, Column(codes[groups.number], list(places)))


def _place(places: dict[str, int], text: str) -> int:
    """The code of a label's text, a new one if need be; an empty label is none."""
    return places.setdefault(text, len(places)) if text else -1


LABEL_FUNCTIONS = {"label_replace": label_replace, "label_join": label_join}
