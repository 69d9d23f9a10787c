"""Prometheus's test scripts (promql/promqltest) as commands: load, clear, eval.

What is not understood becomes a Broken command that fails as a case of its own: one strange line must not
hide the rest of a file.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from db.labels import Labels
from tests.promql.notation import BadNotation, Item, Sequence, duration_ms, metric, series, unquoted

_LOAD = re.compile(r"load(?:_(with_nhcb))?\s+(.+?)\Z")
_INSTANT = re.compile(r"eval(?:_(fail|warn|ordered|info))?\s+instant\s+(?:at\s+(.+?))?\s+(.+)\Z")
_RANGE = re.compile(r"eval(?:_(fail|warn|info))?\s+range\s+from\s+(.+)\s+to\s+(.+)\s+step\s+(.+?)\s+(.+)\Z")
_EXPECT = re.compile(r"expect\s+(ordered|fail|warn|no_warn|info|no_info)(?:\s+(regex|msg):(.+))?\Z")
_EXPECT_RANGE = re.compile(r"expect range vector\s+from\s+(.+)\s+to\s+(.+)\s+step\s+(.+)\Z")
_START_TIMES = re.compile(r"\S*@st\s")


@dataclass(frozen=True, slots=True)
class Message:
    """What an error or annotation must say: exactly `text`, or the pattern somewhere in it; anything."""

    text: str | None = None
    pattern: re.Pattern[str] | None = None

    def fits(self, said: str) -> bool:
        if self.text is not None:
            return self.text == said
        return self.pattern is None or self.pattern.search(said) is not None

    def __str__(self) -> str:
        if self.text is not None:
            return repr(self.text)
        return "any" if self.pattern is None else f"/{self.pattern.pattern}/"


@dataclass(frozen=True, slots=True)
class Load:
    """start_times: series (or () for all of the command) that were given start timestamps."""

    line: int
    step_ms: int
    series: tuple[Sequence, ...]
    with_nhcb: bool = False
    start_times: tuple[Labels, ...] = ()


@dataclass(frozen=True, slots=True)
class Clear:
    line: int


@dataclass(slots=True)
class Eval:
    """One case. at_ms is an instant query's time; a range query has start_ms, end_ms, step_ms, which an
    instant query has when it expects a range vector. scalar: the expected number, or None."""

    line: int
    expression: str
    at_ms: int | None = None
    start_ms: int = 0
    end_ms: int = 0
    step_ms: int = 0
    range_vector: bool = False
    ordered: bool = False
    fail: Message | None = None
    warn: list[Message] = field(default_factory=list)
    info: list[Message] = field(default_factory=list)
    no_warn: bool = False
    no_info: bool = False
    scalar: float | None = None
    text: str | None = None
    series: dict[Labels, tuple[int, tuple[Item, ...]]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Broken:
    line: int
    text: str
    why: str


Command = Load | Clear | Eval | Broken


def read(path: Path) -> list[Command]:
    return list(commands(path.read_text("utf-8", "surrogateescape")))


def commands(text: str) -> Iterator[Command]:
    """The commands of a script. A block ends at an empty line or a comment."""
    lines = [line.strip() for line in text.split("\n")]
    lines = ["" if line.startswith("#") else line for line in lines]
    at = 0
    while at < len(lines):
        line, number = lines[at], at + 1
        at += 1
        if not line:
            continue
        word = line.split(maxsplit=1)[0].lower()
        block = _Block(lines, at)
        try:
            if word == "clear":
                yield Clear(number)
            elif word.startswith("load"):
                yield _load(line, number, block)
            elif word.startswith("eval"):
                yield _eval(line, number, block)
            else:
                raise BadNotation("not a command")
        except (BadNotation, re.error) as error:
            block.skip()
            yield Broken(number, line, str(error))
        at = block.at


class _Block:
    """The lines below a command."""

    def __init__(self, lines: list[str], at: int) -> None:
        self.at = at
        self._lines = lines

    def __iter__(self) -> Iterator[str]:
        while self.at < len(self._lines) and self._lines[self.at]:
            self.at += 1
            yield self._lines[self.at - 1]

    def skip(self) -> None:
        for _ in self:
            pass


def _load(line: str, number: int, block: _Block) -> Load:
    found = _LOAD.match(line)
    if found is None:
        raise BadNotation("invalid load command")
    step_ms = duration_ms(found[2])
    # A series that is named twice in one command is what was said last.
    loaded: dict[Labels, Sequence] = {}
    start_times: list[Labels] = []
    for text in block:
        if _START_TIMES.match(text):
            described = text.split("@st", 1)[0]
            start_times.append(metric(described)[0] if described else ())
            continue
        sequence = series(text)
        loaded[sequence.labels] = sequence
    return Load(number, step_ms, tuple(loaded.values()), found[1] is not None, tuple(start_times))


def _eval(line: str, number: int, block: _Block) -> Eval:
    if instant := _INSTANT.match(line):
        mode, at, expression = instant.groups()
        at_ms = duration_ms(at or "")
        case = Eval(number, expression, at_ms, at_ms, at_ms)
    elif ranged := _RANGE.match(line):
        mode, start, end, step, expression = ranged.groups()
        case = Eval(number, expression, None, *_range(start, end, step))
    else:
        raise BadNotation("invalid evaluation command")
    case.ordered = mode == "ordered"
    case.fail = Message() if mode == "fail" else None
    case.warn = [Message()] if mode == "warn" else []
    case.info = [Message()] if mode == "info" else []
    position = 0
    for text in block:
        if mode == "fail" and text.startswith(("expected_fail_message", "expected_fail_regexp")):
            kind, _, said = text.partition(" ")
            said = said.strip()
            case.fail = Message(said) if kind.endswith("message") else Message(pattern=re.compile(said))
            break
        if text.startswith("expect range vector"):
            found = _EXPECT_RANGE.match(text)
            if found is None:
                raise BadNotation(f"invalid range vector definition: {text}")
            case.start_ms, case.end_ms, case.step_ms = _range(*found.groups())
            case.at_ms, case.range_vector = case.end_ms, True
        elif text.startswith("expect string"):
            case.text = unquoted(text.removeprefix("expect string").strip())
        elif text.split(" ")[0] == "expect":
            _expect(case, text)
        elif (value := _number(text)) is not None:
            case.scalar = value
            break
        else:
            position += 1
            sequence = series(text)
            if len(sequence.items) > 1 and case.at_ms is not None and not case.range_vector:
                raise BadNotation("expecting multiple values in instant evaluation not allowed")
            case.series[sequence.labels] = (position, sequence.items)
    return case


def _range(start: str, end: str, step: str) -> tuple[int, int, int]:
    start_ms, end_ms = duration_ms(start), duration_ms(end)
    if end_ms < start_ms:
        raise BadNotation(f"the end ({end}) is before the start ({start})")
    return start_ms, end_ms, duration_ms(step)


def _expect(case: Eval, text: str) -> None:
    found = _EXPECT.match(text)
    if found is None:
        raise BadNotation(f"invalid expect statement: {text}")
    what, how, said = found[1], found[2], (found[3] or "").strip()
    message = Message()
    if how:
        message = Message(said) if how == "msg" else Message(pattern=re.compile(said))
    match what:
        case "ordered":
            case.ordered = True
        case "fail":
            if case.fail is not None:
                raise BadNotation("multiple expect fail lines are not allowed")
            case.fail = message
        case "warn":
            case.warn.append(message)
        case "info":
            case.info.append(message)
        case "no_warn":
            case.no_warn = True
        case "no_info":
            case.no_info = True
    if (case.warn and case.no_warn) or (case.info and case.no_info):
        raise BadNotation("an annotation cannot be both expected and excluded")


def _number(text: str) -> float | None:
    for read_as in (lambda: float(int(text, 0)), lambda: float(text)):
        try:
            return read_as()
        except (ValueError, OverflowError):
            continue
    return None
