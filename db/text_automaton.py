"""Common patterns tried on very many texts at once: a byte of every text, then the next byte of every text.

RE2 searches fast and reports slowly: a call from Python for each text or each match costs more than a
microsecond, of which a million label values that match here and there make seconds. A pattern of a simple
form (`db.text_pattern`) is made an automaton here, whose table `bytes.translate` looks up for all texts
together. For every other pattern there is none, and RE2 stays what says whether a pattern is valid. Which
repetition is greedy does not matter for whole texts.
"""

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from db.nan import BoolArray, IntArray
from db.regex import compile_anchored
from db.text_pattern import OTHER, Positions, positions_of

# What the table may have: up to `_SMALL` entries `bytes.translate` looks up ten times as fast.
_SMALL, _LARGE = 256, 4_096
# Fewer texts than this are left to RE2 one by one: a step for a few costs as much as for some hundred.
_FEW = 256
# Bytes of UTF-8 behind a character's first.
_CONTINUED = range(0x80, 0xC0)
_NEWLINE = 10
# Whether texts are done is looked at after the first bytes, and then now and then.
_SELDOM = 8


@dataclass(frozen=True, slots=True, eq=False)
class TextAutomaton:
    """A state is the place of its row in the table. pattern: for the texts that are left. backwards: whether
    texts are read from their ends. classes: for each byte its column. table: the next state, at the sum of
    state and column. accepted, settled: at each state, whether texts that end there match, and whether
    nothing leads out of it."""

    pattern: str
    backwards: bool
    classes: bytes
    table: NDArray[np.uint8 | np.uint16]
    accepted: BoolArray
    settled: BoolArray

    def matches(self, lines: bytes) -> BoolArray:
        """Which lines match as a whole: bool[lines].

        lines: UTF-8 texts without newlines, joined by newlines.
        """
        data = np.frombuffer(lines, dtype=np.uint8)
        newlines = np.flatnonzero(data == _NEWLINE)
        starts = np.append(0, newlines + 1)
        lengths = np.append(newlines, len(data)) - starts
        found = np.zeros(len(starts), dtype=np.bool_)
        # The longest first: those that go on are the first ones at every step.
        rows = np.argsort(-lengths, kind="stable")
        left = lengths[rows]
        place = starts[rows] + (left - 1 if self.backwards else 0)
        way = -1 if self.backwards else 1
        # Of texts of one length the next bytes lie at equal distances.
        stride = int(left[0]) + 1 if left[0] == left[-1] else 0
        state = np.zeros(len(rows), dtype=self.table.dtype)
        step = 0
        while True:
            chosen: slice | IntArray = slice(0, len(rows))
            if len(rows) and left[-1] <= step:
                chosen = slice(0, int(np.searchsorted(-left, -step)))
                found[rows[chosen.stop :]] = self.accepted[state[chosen.stop :]]
                state = state[chosen]
            open_ = self._open(state) if step & (step - 1) == 0 or step % _SELDOM == 0 else None
            if open_ is not None:
                found[rows[: len(state)]] = self.accepted[state]
                chosen, state, stride = open_, state[open_], 0
            rows, left, place = rows[chosen], left[chosen], place[chosen]
            if len(rows) < _FEW:
                break
            if stride:
                begin = int(place[0]) + way * step
                state = self._next(data[begin::stride], state)
            else:
                state = self._next(data.take(place + way * step), state)
            step += 1
        one = compile_anchored(self.pattern)
        for row in rows.tolist():
            text = lines[starts[row] : starts[row] + lengths[row]].decode()
            found[row] = one.fullmatch(text) is not None
        return found

    def _next(self, data: NDArray[np.uint8], state: NDArray[Any]) -> NDArray[Any]:
        column = np.frombuffer(data.tobytes().translate(self.classes), dtype=np.uint8)
        if self.table.dtype != np.uint8:
            return self.table[state + column]
        return np.frombuffer((state + column).tobytes().translate(self.table.tobytes()), dtype=np.uint8)

    def _open(self, state: NDArray[Any]) -> IntArray | None:
        """Which texts still have something to say, if they are the fewer."""
        settled = self.settled[state] if self.table.dtype != np.uint8 else self._settled_bytes(state)
        if 2 * int(np.count_nonzero(settled)) <= len(state):
            return None
        return np.flatnonzero(~settled)

    def _settled_bytes(self, state: NDArray[Any]) -> BoolArray:
        return np.frombuffer(state.tobytes().translate(self.settled.tobytes()), dtype=np.bool_)


@lru_cache(maxsize=256)
def text_automaton(pattern: str) -> TextAutomaton | None:
    """None for a pattern that is not simple or takes too large a table. Raises RegexError."""
    compile_anchored(pattern)
    positions = positions_of(pattern)
    if positions is None:
        return None
    # What begins with anything is decided at its end.
    backwards = pattern.startswith(".")
    return _built(pattern, positions.reversed() if backwards else positions, backwards)


def _built(pattern: str, positions: Positions, backwards: bool) -> TextAutomaton | None:
    """By the construction of subsets."""
    columns, members = _columns(positions.sets)
    width = len(members) + 1
    start = 1 << len(positions.sets)  # before the first character
    follow = [*positions.follow, positions.first]
    accepting = positions.last | (start if positions.empty else 0)
    numbers = {start: 0}
    rows: list[list[int]] = []
    states = [start]
    for number, state in enumerate(states):
        if (number + 1) * width > _LARGE:
            return None
        after = 0
        for place in _places(state):
            after |= follow[place]
        rows.append([])
        for inside in members:
            following = after & inside
            if following not in numbers:
                numbers[following] = len(states)
                states.append(following)
            rows[-1].append(numbers[following])
        rows[-1].append(number)  # the rest of a character that has been looked at
    entries = len(rows) * width
    table: NDArray[Any] = np.zeros(max(entries, _SMALL), dtype=np.uint8 if entries <= _SMALL else np.uint16)
    table[:entries] = (np.array(rows) * width).reshape(-1)
    accepted, settled = np.zeros((2, len(table)), dtype=np.bool_)
    accepted[:entries:width] = [state & accepting != 0 for state in states]
    settled[:entries:width] = [set(row) == {number} for number, row in enumerate(rows)]
    return TextAutomaton(pattern, backwards, columns, table, accepted, settled)


def _columns(sets: list[int]) -> tuple[bytes, list[int]]:
    """For each byte its column, and for each column the positions that its characters may be at."""
    members: dict[int, int] = {}
    columns = []
    for character in range(OTHER + 1):
        inside = sum(1 << place for place, some in enumerate(sets) if some >> character & 1)
        columns.append(members.setdefault(inside, len(members)))
    others = columns.pop()
    continued = len(members)
    columns += [continued if byte in _CONTINUED else others for byte in range(OTHER, 256)]
    return bytes(columns), list(members)


def _places(positions: int) -> list[int]:
    return [place for place in range(positions.bit_length()) if positions >> place & 1]
