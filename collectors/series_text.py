"""One series as an exposition page writes it, and what both formats share about reading it.

A page is hostile text: every pattern here is anchored and possessive, so that no input makes it backtrack,
and `line.split('"')` (never a search for strings) takes the usual line apart.
"""

import math
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from operator import itemgetter

from collectors.types import Metadata
from db.labels import METRIC_NAME, Labels, labels_from

FIXED, PLAIN, ODD = 0, 1, 2
"""What a line is to the next page: must be equal · key, one space, number · a sample in any other shape."""

_NAME = r"[a-zA-Z_:][a-zA-Z0-9_:]*+"
_LABEL = r"[a-zA-Z_][a-zA-Z0-9_]*+"
_STRING = r'"[^"\\]*+(?:\\.[^"\\]*+)*+"'
NAME = re.compile(_NAME)
STRING = re.compile(_STRING)
BLANKS = re.compile(r"[ \t]*+")
_LABEL_NAME = re.compile(_LABEL)
_NUMBER = re.compile(r"[+-]?(?:[0-9]++(?:\.[0-9]*+)?|\.[0-9]++)(?:[eE][+-]?[0-9]++)?")
_SPECIAL_NUMBERS = {
    "nan": math.nan,
    **dict.fromkeys(("inf", "+inf", "infinity", "+infinity"), math.inf),
    **dict.fromkeys(("-inf", "-infinity"), -math.inf),
}
_ESCAPE = re.compile(r'\\[\\n"]')
_ESCAPED = {"\\\\": "\\", "\\n": "\n", '\\"': '"'}
_PAIR = re.compile(rf'({_LABEL})[ \t]*+=[ \t]*+"([^"]*+)"')
_MESSAGE_CHARACTERS = 60


class ParseError(ValueError):
    """A page is malformed: `line` (1-based) and `reason`, one clear sentence."""

    def __init__(self, line: int, reason: str) -> None:
        super().__init__(line, reason)
        self.line = line
        self.reason = reason

    def __str__(self) -> str:
        return f"line {self.line}: {self.reason}"


def shown(text: str) -> str:
    """Hostile text as a message may carry it: quoted, escaped, shortened; names a stray carriage return."""
    if not text:
        return "nothing"
    short = text if len(text) <= _MESSAGE_CHARACTERS else text[:_MESSAGE_CHARACTERS] + "..."
    return ascii(short) + (" (lines end with a line feed alone, not CR LF)" if text.endswith("\r") else "")


def read_number(text: str) -> float | None:
    """A float as Go's ParseFloat reads it without hexadecimal and underscores; None if it is none.

    A decimal beyond float64 is refused as Go refuses it; one too small becomes 0.
    """
    if _NUMBER.fullmatch(text):
        value = float(text)
        return None if math.isinf(value) else value
    return _SPECIAL_NUMBERS.get(text.lower()) if len(text) <= len("+infinity") else None


def unescape(text: str) -> str:
    r"""Resolve \\, \" and \n; any other backslash stays, as Prometheus leaves it."""
    return _ESCAPE.sub(lambda match: _ESCAPED[match[0]], text) if "\\" in text else text


@dataclass(frozen=True, slots=True)
class Grammar:
    """Where the two formats write a series differently."""

    loose: bool
    """Blanks between tokens, and a comma may be left out (the text format's lexer allows both)."""
    trailing_comma: bool


TEXT_GRAMMAR = Grammar(loose=True, trailing_comma=True)


@dataclass(frozen=True, slots=True)
class Series:
    """A series read from a line: text[: end] is its key; pairs unescaped, in page order, without the name."""

    name: str
    pairs: tuple[tuple[str, str], ...]
    end: int


def read_series(line: str, number: int, grammar: Grammar) -> Series:
    """Read the series that `line` starts with, token by token. Raises ParseError."""
    match = NAME.match(line)
    name = match[0] if match else None
    end = match.end() if match else 0
    brace = _skip(line, end, grammar.loose)
    if line[brace : brace + 1] != "{":
        if name is None:
            raise ParseError(number, f"expected a metric name, got {shown(line)}")
        return Series(name, (), end)
    return _read_braces(line, number, name, brace + 1, grammar)


def _read_braces(line: str, number: int, name: str | None, position: int, grammar: Grammar) -> Series:
    loose = grammar.loose
    quoted_name = name is None
    pairs: dict[str, str] = {}
    position = _skip(line, position, loose)
    if loose and line[position : position + 1] == ",":
        # "{,}" is what some template-made pages print for "no labels"; a comma before a label stays an error.
        after = _skip(line, position + 1, loose)
        position = after if line[after : after + 1] == "}" else position
    while line[position : position + 1] != "}":
        start = position
        match = STRING.match(line, position) or _LABEL_NAME.match(line, position)
        if match is None:
            raise ParseError(number, f"expected a label name, got {shown(line[position:])}")
        quoted = match[0][0] == '"'
        label = unescape(match[0][1:-1]) if quoted else match[0]
        position = _skip(line, match.end(), loose)
        if quoted and line[position : position + 1] in (",", "}"):
            if name is not None:
                raise ParseError(number, f"a second metric name {shown(label)} beside {shown(name)}")
            name = label
        else:
            position = _read_value(line, number, label, position, loose, pairs)
        if line[position : position + 1] == ",":
            position = _skip(line, position + 1, loose or quoted_name)
            if line[position : position + 1] == "}" and not grammar.trailing_comma:
                raise ParseError(number, f"a comma before the closing brace: {shown(line[start:])}")
        elif line[position : position + 1] != "}" and not loose:
            raise ParseError(number, f"expected a comma or a closing brace, got {shown(line[position:])}")
    if not name:
        raise ParseError(number, f"the series has no metric name: {shown(line)}")
    return Series(name, tuple(pairs.items()), position + 1)


def _read_value(line: str, number: int, label: str, position: int, loose: bool, pairs: dict[str, str]) -> int:
    if line[position : position + 1] != "=":
        raise ParseError(
            number, f"expected '=' after the label name {shown(label)}, got {shown(line[position:])}"
        )
    position = _skip(line, position + 1, loose)
    match = STRING.match(line, position)
    if match is None:
        raise ParseError(
            number, f"expected a quoted value of label {shown(label)}, got {shown(line[position:])}"
        )
    if label in pairs:
        raise ParseError(number, f"label {shown(label)} is given twice")
    if label in ("", METRIC_NAME):
        raise ParseError(number, f"{shown(label)} cannot be a label's name")
    pairs[label] = unescape(match[0][1:-1])
    return _skip(line, match.end(), loose)


def _skip(line: str, position: int, blanks: bool) -> int:
    match = BLANKS.match(line, position) if blanks else None
    return match.end() if match else position


def labels_of(key: str) -> Labels:
    """The canonical labels of a key that a page was accepted with, name included."""
    if "\\" not in key and key[:1] != "{":
        pairs = _PAIR.findall(key)
        if key.count('"') == 2 * len(pairs):
            return labels_from(pairs, key.partition("{")[0].rstrip(" \t"))
    series = read_series(key, 1, TEXT_GRAMMAR)
    return labels_from(series.pairs, series.name)


@dataclass(frozen=True, slots=True)
class Shape:
    """A line with its strings taken out, checked once: which names, where their values stand in the split."""

    name: str
    names: tuple[str, ...]
    """Label names, sorted."""
    values: Callable[[list[str]], tuple[str, ...]]
    """From `line.split('"')` to the label values in the order of `names`."""


def _no_values(_parts: list[str]) -> tuple[str, ...]:
    return ()


class Shapes:
    """The shapes seen on one page: a label block is checked once for its names, not once a line."""

    def __init__(self, grammar: Grammar) -> None:
        blanks = r"[ \t]*+" if grammar.loose else ""
        self._first = re.compile(rf"({_NAME}){blanks}\{{{blanks}({_LABEL}){blanks}={blanks}")
        self._next = re.compile(rf"{blanks},{blanks}({_LABEL}){blanks}={blanks}")
        self._known: dict[tuple[str, ...] | str, Shape | None] = {}
        self.names: set[str] = set()
        """Every metric name met so far among these shapes."""

    def find(self, pieces: tuple[str, ...]) -> Shape | None:
        """Shape of `line.split('"')[:-1:2]`; None if it takes the careful reading to decide."""
        try:
            return self._known[pieces]
        except KeyError:
            shape = self._known[pieces] = self._check(pieces)
            return shape

    def bare(self, name: str) -> Shape | None:
        """Shape of a series without braces; None if it is no metric name."""
        try:
            return self._known[name]
        except KeyError:
            shape = self._known[name] = Shape(name, (), _no_values) if NAME.fullmatch(name) else None
            if shape:
                self.names.add(name)
            return shape

    def _check(self, pieces: tuple[str, ...]) -> Shape | None:
        first = self._first.fullmatch(pieces[0])
        rest = [self._next.fullmatch(piece) for piece in pieces[1:]]
        if first is None or None in rest:
            return None
        names = [first[2], *(match[1] for match in rest if match)]
        if METRIC_NAME in names or len(set(names)) != len(names):
            return None
        places = [2 * place + 1 for place in sorted(range(len(names)), key=names.__getitem__)]
        self.names.add(first[1])
        return Shape(first[1], tuple(sorted(names)), _picker(places))


def _picker(places: list[int]) -> Callable[[list[str]], tuple[str, ...]]:
    if len(places) == 1:
        only = places[0]
        return lambda parts: (parts[only],)
    return itemgetter(*places)


@dataclass(slots=True)
class ParsedPage:
    """What reading a whole page yields; sample k is the k-th line that is not FIXED."""

    kinds: bytearray
    keys: list[str] = field(default_factory=list)
    values: list[float] = field(default_factory=list)
    timestamps: dict[int, int] = field(default_factory=dict)
    """Milliseconds by sample, only where the line gives one."""
    metadata: tuple[Metadata, ...] = ()
