"""Patterns of a simple form as positions: what each character of a match may be, and which may follow which.

The form: ASCII characters, `.`, classes, \\d \\w \\s, groups that capture or do not, alternatives, and the
repetitions * + ? {n} {n,} {n,m}, greedy or not; ^ and $ where they say what is so anyway. What RE2 and others
read in different ways is left out, and RE2 has said before that the pattern is valid. The positions are those
of Glushkov's construction: one for each character of the written-out pattern.
"""

import re
from dataclasses import dataclass, field

# A set of characters is an integer, with a bit for each ASCII character and one for all others.
OTHER = 128
ANY = (1 << OTHER + 1) - 1
# Sets of positions are integers too, a bit each. With more than these the automaton would be too large.
_MOST_POSITIONS = 200
# Of a repeated group of nothing there could be very many. Groups within groups are read by recursion.
_MOST_ATOMS, _DEEPEST = 1_000, 20

_REPEAT = re.compile(r"([*+?]|\{(\d{1,3})(,(\d{0,3}))?\})\??")
_SIGNS: dict[str, tuple[int, int | None]] = {"*": (0, None), "+": (1, None), "?": (0, 1)}
_GROUP = re.compile(r"\((?:\?:|\?P?<\w+>)?")
_LITERAL = re.compile(r"[A-Za-z0-9 !\"#%&',/:;<=>@_`~-]")
_ESCAPED = re.compile(r"\\([!-/:-@\[-`{-~])")
_CLASS = re.compile(r"\[(\^?)((?:[A-Za-z0-9 !\"#%&'()*+,./:;<=>?@_`{|}~$-]|\\[!-/:-@\[-`{-~dws])+)\]")
_CLASS_ITEM = re.compile(r"\\?.")


def _set(characters: str) -> int:
    return sum(1 << ord(character) for character in characters)


_DIGITS = "0123456789"
_LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_KINDS = {"d": _set(_DIGITS), "w": _set(_DIGITS + _LETTERS + "_"), "s": _set("\t\n\f\r ")}
_KINDS |= {letter.upper(): ANY ^ inside for letter, inside in _KINDS.items()}


class _NotSimple(Exception):
    """RE2 may know it."""


@dataclass(slots=True)
class Positions:
    """sets: for each position the characters that it may be. follow: for each the positions that may come
    next. first, last: where a match may begin and end. empty: whether no character at all is a match."""

    sets: list[int] = field(default_factory=list)
    follow: list[int] = field(default_factory=list)
    first: int = 0
    last: int = 0
    empty: bool = False

    def reversed(self) -> "Positions":
        """Of the matches read from their ends."""
        before = [
            sum(1 << other for other, after in enumerate(self.follow) if after >> place & 1)
            for place in range(len(self.sets))
        ]
        return Positions(self.sets, before, self.last, self.first, self.empty)


def positions_of(pattern: str) -> Positions | None:
    """None for a pattern of any other form; pattern: one that RE2 takes."""
    reader = _Reader(pattern)
    try:
        part = reader.alternatives(0)
    except _NotSimple:
        return None
    if reader.at < len(pattern):
        return None
    found = reader.found
    found.first, found.last, found.empty = part.first, part.last, part.empty
    return found


@dataclass(frozen=True, slots=True)
class _Part:
    """Of a pattern, as Positions has them."""

    first: int
    last: int
    empty: bool


_NOTHING = _Part(0, 0, True)


class _Reader:
    def __init__(self, pattern: str) -> None:
        self._pattern = pattern
        self.at = 0
        self._atoms = 0
        self.found = Positions()

    def alternatives(self, depth: int) -> _Part:
        if depth > _DEEPEST:
            raise _NotSimple
        first = last = 0
        empty = False
        while True:
            part = self._sequence(depth)
            first, last, empty = first | part.first, last | part.last, empty or part.empty
            if not self._takes("|"):
                return _Part(first, last, empty)

    def _sequence(self, depth: int) -> _Part:
        found = _NOTHING
        if depth == 0:
            self._takes("^")
        while self.at < len(self._pattern) and self._pattern[self.at] not in "|)":
            if depth == 0 and self._pattern[self.at :].startswith("$") and self._ends_branch():
                self.at += 1
                break
            found = self._joined(found, self._repeated(depth))
        return found

    def _ends_branch(self) -> bool:
        return self._pattern[self.at + 1 : self.at + 2] in ("", "|")

    def _takes(self, character: str) -> bool:
        if self._pattern[self.at : self.at + 1] != character:
            return False
        self.at += 1
        return True

    def _repeated(self, depth: int) -> _Part:
        begin = self.at
        part = self._atom(depth)
        repeat = _REPEAT.match(self._pattern, self.at)
        if repeat is None:
            return part
        sign, low, comma, high = repeat.groups()
        least, most = _SIGNS[sign] if low is None else (int(low), int(low))
        if comma:
            most = int(high) if high else None
        found = _NOTHING
        copies = max(least, most or 0, 1)
        for number in range(copies):
            if number:
                self.at = begin
                part = self._atom(depth)
            if most is None and number == copies - 1:
                self._linked(part.last, part.first)
            if number >= least:
                part = _Part(part.first, part.last, True)
            found = self._joined(found, part)
        self.at = repeat.end()
        if _REPEAT.match(self._pattern, self.at):
            raise _NotSimple
        return _NOTHING if most == 0 else found

    def _atom(self, depth: int) -> _Part:
        self._atoms += 1
        if self._atoms > _MOST_ATOMS:
            raise _NotSimple
        group = _GROUP.match(self._pattern, self.at)
        if group is not None:
            self.at = group.end()
            found = self.alternatives(depth + 1)
            if not self._takes(")"):
                raise _NotSimple
            return found
        return self._position(self._characters())

    def _characters(self) -> int:
        pattern, at = self._pattern, self.at
        if self._takes("."):
            return ANY
        if match := _LITERAL.match(pattern, at) or _ESCAPED.match(pattern, at):
            found = _set(match[0][-1])
        elif pattern[at : at + 1] == "\\" and pattern[at + 1 : at + 2] in _KINDS:
            self.at += 2
            return _KINDS[pattern[at + 1]]
        elif match := _CLASS.match(pattern, at):
            found = _of_class(match[2])
            if match[1]:
                found ^= ANY
        else:
            raise _NotSimple
        self.at = match.end()
        return found

    def _position(self, characters: int) -> _Part:
        if len(self.found.sets) == _MOST_POSITIONS:
            raise _NotSimple
        place = 1 << len(self.found.sets)
        self.found.sets.append(characters)
        self.found.follow.append(0)
        return _Part(place, place, False)

    def _joined(self, one: _Part, other: _Part) -> _Part:
        self._linked(one.last, other.first)
        return _Part(
            one.first | (other.first if one.empty else 0),
            other.last | (one.last if other.empty else 0),
            one.empty and other.empty,
        )

    def _linked(self, last: int, first: int) -> None:
        for place in range(last.bit_length()):
            if last >> place & 1:
                self.found.follow[place] |= first


def _of_class(inside: str) -> int:
    items = _CLASS_ITEM.findall(inside)
    found = 0
    while items:
        item = items.pop(0)
        if item[0] == "\\" and item[1] in _KINDS:
            found |= _KINDS[item[1]]
            if items and items[0] == "-":
                raise _NotSimple
        elif len(items) > 1 and items[0] == "-":
            last = items[1]
            if last[0] == "\\" and last[1] in _KINDS:
                raise _NotSimple
            del items[:2]
            found |= sum(1 << code for code in range(ord(item[-1]), ord(last[-1]) + 1))
        else:
            found |= 1 << ord(item[-1])
    return found
