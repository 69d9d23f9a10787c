"""YAML that remembers the line of every value, so that a wrong one can be named by its line.

Plain scalars stay text (`Plain`) and are typed by the field that takes them, as Prometheus's own loader
does: a label `rack: 012` is "012" and `version: 1.10` is "1.10", never a number.

Built from parser events: PyYAML's composer recurses in C and dies of deep nesting, which a discovery file
written by somebody else must not be able to do.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

MAX_VALUES = 2_000_000  # aliases multiply: a few lines can name billions of values
MAX_DEPTH = 60

Key = str | int
KeyPath = tuple[Key, ...]

_Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # 8 times faster where libyaml is present
_NULLS = frozenset({"", "~", "null", "Null", "NULL"})


class YamlError(ValueError):
    """The text is not usable YAML; `line` counts from 1."""

    def __init__(self, reason: str, line: int) -> None:
        super().__init__(reason)
        self.reason = reason
        self.line = line


class Plain(str):
    """An unquoted scalar: the only kind that may become a number or a switch."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Document:
    """Parsed YAML: dicts, lists, `Plain`, str and None, and where each of them stands."""

    data: Any
    lines: dict[KeyPath, int]

    def line(self, path: KeyPath) -> int:
        """Line of the value (or its key) at `path`, else of the nearest section around it; from 1."""
        for length in range(len(path), -1, -1):
            found = self.lines.get(path[:length])
            if found is not None:
                return found
        return 1


def parse_yaml(text: str) -> Document:
    """Parse one document; an empty one has data None. Raises YamlError."""
    builder = _Builder(text)
    try:
        return Document(builder.document(), builder.lines)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        reason = " ".join(part for part in (error.context, error.problem) if part)
        raise YamlError(f"not valid YAML: {reason}", mark.line + 1 if mark else 1) from error
    except yaml.YAMLError as error:
        line = text.count("\n", 0, getattr(error, "position", 0)) + 1
        raise YamlError(f"not valid YAML: {getattr(error, 'reason', error)}", line) from error


def read_yaml(path: Path) -> Document:
    """Parse a file. Raises YamlError (also for bytes that are no UTF-8), OSError."""
    content = path.read_bytes()
    try:
        return parse_yaml(content.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise YamlError("not UTF-8 text", line) from error


class _Builder:
    def __init__(self, text: str) -> None:
        self.lines: dict[KeyPath, int] = {}
        self._events: Iterator[yaml.Event] = iter(yaml.parse(text, Loader=_Loader))
        self._anchors: dict[str, tuple[Any, int]] = {}  # value, number of values in it
        self._values = 0

    def document(self) -> Any:
        data = None
        for event in self._events:
            if isinstance(event, yaml.DocumentStartEvent):
                if self.lines:
                    raise YamlError("a second document ('---'); one file holds one", _line(event))
                data = self._build(next(self._events), ())
        return data

    def _build(self, event: yaml.Event, path: KeyPath) -> Any:
        line = _line(event)
        self.lines.setdefault(path, line)  # a mapping's value already has the line of its key
        if len(path) > MAX_DEPTH:
            raise YamlError(f"nested deeper than {MAX_DEPTH} levels", line)
        if isinstance(event, yaml.AliasEvent):
            if event.anchor not in self._anchors:
                raise YamlError(f"alias '*{event.anchor}' has no anchor before it", line)
            value, size = self._anchors[event.anchor]
            self._count(size, line)
            return value
        before = self._values
        self._count(1, line)
        if isinstance(event, yaml.ScalarEvent):
            value = _scalar(event)
        elif isinstance(event, yaml.SequenceStartEvent):
            value = []
            while not isinstance(item := next(self._events), yaml.SequenceEndEvent):
                value.append(self._build(item, (*path, len(value))))
        else:
            value = self._mapping(path)
        anchor = getattr(event, "anchor", None)
        if anchor is not None:
            self._anchors[anchor] = (value, self._values - before)
        return value

    def _count(self, values: int, line: int) -> None:
        self._values += values
        if self._values > MAX_VALUES:
            raise YamlError(f"more than {MAX_VALUES} values once aliases are expanded", line)

    def _mapping(self, path: KeyPath) -> dict[str, Any]:
        given: dict[str, Any] = {}
        merged: dict[str, Any] = {}
        while not isinstance(event := next(self._events), yaml.MappingEndEvent):
            line = _line(event)
            if not isinstance(event, yaml.ScalarEvent):
                raise YamlError("a key has to be plain text", line)
            key = str(event.value)
            if key == "<<" and event.implicit[0]:
                merged = {**_merge_sources(self._build(next(self._events), (*path, key)), line), **merged}
                continue
            if key in given:
                raise YamlError(f"key '{key}' is given twice; keep one of them", line)
            self.lines[(*path, key)] = line
            given[key] = self._build(next(self._events), (*path, key))
        return {**merged, **given}


def _line(event: yaml.Event) -> int:
    return event.start_mark.line + 1 if event.start_mark is not None else 1


def _merge_sources(value: Any, line: int) -> dict[str, Any]:
    sources = value if isinstance(value, list) else [value]
    result: dict[str, Any] = {}
    for source in reversed(sources):  # the first named wins
        if not isinstance(source, dict):
            raise YamlError("'<<' takes a section, or a list of sections", line)
        result.update(source)
    return result


def _scalar(event: yaml.ScalarEvent) -> str | None:
    if not event.implicit[0]:  # quoted, or tagged as text
        return str(event.value)
    return None if event.value in _NULLS else Plain(event.value)
