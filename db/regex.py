"""Regular expressions as Prometheus has them: RE2 (linear time on hostile patterns), anchored at both ends.

The one importer of google-re2. Besides matching one text, it says what can be known of a pattern without
trying it (`literals`, `possible_range`), and tries it on many texts in one call (`line_pattern`): a call of
RE2 from Python for each of a million label values would cost seconds.
"""

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import re2

from db.nan import IntArray

_OPTIONS = re2.Options()
_OPTIONS.log_errors = False
_OPTIONS.dot_nl = True  # Prometheus compiles "^(?s:...)$"

# For whole lines. `never_nl` keeps the pattern itself from matching the newline between two lines.
_LINE_OPTIONS = re2.Options()
_LINE_OPTIONS.log_errors = False
_LINE_OPTIONS.dot_nl = True
_LINE_OPTIONS.never_nl = True
_LINE_OPTIONS.never_capture = True
# For runs of lines: the newlines between them are in the pattern, so it must not be able to match one itself.
_RUN_OPTIONS = re2.Options()
_RUN_OPTIONS.log_errors = False
_RUN_OPTIONS.never_capture = True

# Steps through a pattern: an escape, the begin of a group, or any one character.
_TOKEN = re.compile(r"\\.|\(\?P?<\w+>|\(\?[^:)]*[:)]?|.", re.DOTALL)
# Groups and flags that mean the same for a line of a text as for a text. Not `-m`: it binds ^ and $ to the
# text's ends.
_GROUP_ON_LINES = re.compile(r"\(\?(?:[isU]*[:)]|P?<\w+>)")
_GROUP_WITHOUT_NEWLINE = re.compile(r"\(\?(?:i*[:)]|P?<\w+>)")
# The text's ends; a byte, which may be a newline whatever the options say; quoting, which hides pieces.
_NOT_ON_LINES = {r"\A", r"\z", r"\C", r"\Q", r"\E"}
# Escapes by letter that cannot match a newline; those of punctuation never do.
_WITHOUT_NEWLINE = {r"\d", r"\w", r"\S", r"\b", r"\B"}
_ASSERTIONS = frozenset({r"\b", r"\B", r"\A", r"\z", r"\Q", "^", "$"})
_SPECIAL = frozenset(r"\.+*?()|[]{}^$")
_RANGE_BYTES = 64
# RE2 measures a pattern only when it has spread it out: 16 KiB of `\pL` or of `{1,1000}` take it up to a
# second and 200 MB, 128 KiB ten seconds and 2 GB. 128 KiB of anything else are read in half a second.
_LONG = 16_384
_WIDE = re.compile(r"\{|\\[pP]")


class RegexError(ValueError):
    """The pattern is not RE2; the message says why."""


@lru_cache(maxsize=4096)
def compile_anchored(pattern: str) -> Any:
    """Compile a pattern that has to match the whole text; `.fullmatch`, `.groupindex` as in `re`.

    Raises RegexError.
    """
    if len(pattern) > _LONG and _WIDE.search(pattern):
        raise RegexError(
            f"a regular expression of {len(pattern):,} characters: "
            f"with more than {_LONG:,} it may have neither {{...}} nor \\p"
        )
    try:
        if ")" in pattern:
            re2.compile(pattern, _OPTIONS)  # `a)|(b` is none, though it is one in parentheses
        return re2.compile(f"^(?:{pattern})$", _OPTIONS)
    except re2.error as error:
        text = error.args[0] if error.args else error
        reason = text.decode() if isinstance(text, bytes) else str(text)
        raise RegexError(f"not a valid RE2 expression {pattern!r}: {reason}") from error
    except UnicodeEncodeError as error:
        raise RegexError(f"not a valid RE2 expression {pattern!r}: it is not Unicode text") from error


def fullmatch(pattern: str, text: str) -> bool:
    """Does the whole text match? Raises RegexError."""
    return compile_anchored(pattern).fullmatch(text) is not None


def literals(pattern: str) -> list[str] | None:
    """The texts that a pattern of the form `a|b|c` or `(a|b|c)` matches; None for any other form."""
    if pattern.startswith("(?:") and pattern.endswith(")"):
        pattern = pattern[3:-1]
    elif pattern.startswith("(") and pattern.endswith(")"):
        pattern = pattern[1:-1]
    found = [""]
    for piece in _TOKEN.findall(pattern):
        if piece == "|":
            found.append("")
        elif piece[0] == "\\" and len(piece) == 2 and piece[1] in _SPECIAL | {"-", "/", ":"}:
            found[-1] += piece[1]
        elif piece in _SPECIAL or len(piece) > 1:
            return None
        else:
            found[-1] += piece
    return found


def possible_range(pattern: str) -> tuple[bytes, bytes] | None:
    """UTF-8 texts between which, both included, every match lies; None when nothing is known.

    Raises RegexError.
    """
    # RE2 mistakes what may follow them: for `a\b.*` it gives a range without "a".
    if not _ASSERTIONS.isdisjoint(_TOKEN.findall(pattern)):
        return None
    try:
        least, most = compile_anchored(pattern).possiblematchrange(_RANGE_BYTES)
    except re2.error:
        return None
    return least, most


@dataclass(frozen=True, slots=True)
class LinePattern:
    """A pattern that finds the matching lines of a text in one pass."""

    _compiled: Any

    def spans(self, lines: bytes) -> IntArray:
        """Where matching lines begin and end: int64[k, 2]; a span is a line or several in a row.

        lines: UTF-8 texts without newlines, joined by newlines.
        """
        found = [match.span() for match in self._compiled.finditer(lines)]
        return np.array(found, dtype=np.int64).reshape(-1, 2)


@lru_cache(maxsize=256)
def line_pattern(pattern: str) -> LinePattern | None:
    """The pattern for whole lines; None when on a line of a text it might mean something else than alone."""
    pieces = _TOKEN.findall(pattern)
    if not _whole(pattern) or not all(_same_on_lines(piece) for piece in pieces):
        return None
    if all(map(_without_newline, pieces)) and "[^" not in pattern and "[:" not in pattern:
        # Neighbours in an index mostly match together: a match for each run of them saves most of the time.
        inner = f"(?-s:{pattern})"
        compiled = _compiled(f"(?m)^{inner}(?:\\n{inner})*$", _RUN_OPTIONS)
        if compiled is not None:
            return compiled
    return _compiled(f"(?m)^(?:{pattern})$", _LINE_OPTIONS)


def _whole(pattern: str) -> bool:
    """Is it an expression by itself? `a)|(b` is one only between the parentheses that anchor it."""
    try:
        re2.compile(pattern, _OPTIONS)
    except re2.error:
        return False
    return True


def _same_on_lines(piece: str) -> bool:
    return piece not in _NOT_ON_LINES and (piece[:2] != "(?" or _GROUP_ON_LINES.fullmatch(piece) is not None)


def _without_newline(piece: str) -> bool:
    if piece[0] == "\\":
        return piece in _WITHOUT_NEWLINE or not (piece[1:].isalnum() or piece[1:].isspace())
    if piece[:2] == "(?":
        return _GROUP_WITHOUT_NEWLINE.fullmatch(piece) is not None
    return piece >= " "


def _compiled(pattern: str, options: Any) -> LinePattern | None:
    try:
        return LinePattern(re2.compile(pattern.encode(), options))
    except re2.error:  # twice the pattern may be more than RE2 takes
        return None
