"""The small notations inside Slurm's answers: host lists, generic resources, task lists, durations.

They are the same in the text and in the JSON of every version from 20.02 to 25.05.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice, product
from typing import Final

MAX_HOSTS: Final = 100_000
MAX_INDICES: Final = 4096  # of one node: more than any node has
MAX_TEXT_LENGTH: Final = 64
_NOTHING: Final = frozenset({"", "(null)", "null", "N/A", "n/a", "None assigned", "(none)", "none"})
_BRACKETS: Final = re.compile(r"\[([^\[\]]*)\]")
_GRES: Final = re.compile(r"([^:(]+)(?::([^:(]+))?(?::([^:(]+))?(?:\((.*)\))?")
_COUNT: Final = re.compile(r"(\d{1,12})([KMGT]?)")
_UNITS: Final = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}
_LIMIT: Final = re.compile(r"(?:(\d{1,9})-)?(?:(\d{1,9}):)?(\d{1,9}):(\d{1,2})")


@dataclass(frozen=True, slots=True)
class Gpus:
    """`gpu:h100:2(IDX:0-1)`: GPUs of one type on one node; `indices` empty where Slurm does not say which."""

    type: str
    count: int
    indices: tuple[int, ...]


def absent(text: str) -> str:
    """The text, or "" where it is one of Slurm's words for nothing."""
    return "" if text.strip() in _NOTHING else text.strip()


def label(text: str, length: int = MAX_TEXT_LENGTH) -> str:
    """Text that anybody may choose, as a label: printable, on one line and short."""
    kept = "".join(one if one.isprintable() else " " for one in text[: 4 * length])
    return absent(" ".join(kept.split())[:length])


def hosts(text: str) -> tuple[str, ...]:
    """`gpu[001-003,7],login1` as names, in Slurm's order; at most MAX_HOSTS."""
    names = (name for part in _split(absent(text)) for name in _expand(part))
    return tuple(islice(names, MAX_HOSTS))


def gpus(text: str) -> tuple[Gpus, ...]:
    """The GPUs in a list of generic resources such as `gpu:h100:8(S:0-1),shard:4`; others are left out."""
    found = []
    for part in _split(absent(text)):
        match = _GRES.fullmatch(part.removeprefix("gres:").removeprefix("gres/"))
        if match is None or match[1] != "gpu":
            continue
        kind, number, details = match[2] or "", match[3], match[4] or ""
        if number is None and _COUNT.fullmatch(kind):
            kind, number = "", kind
        indices = _indices(details.removeprefix("IDX:")) if details.startswith("IDX:") else ()
        found.append(Gpus(kind, _count(number) if number else len(indices) or 1, indices))
    return tuple(found)


def records(text: str, start: re.Pattern[str]) -> Iterator[tuple[str, str]]:
    """What the pattern's group is and the text from there to the pattern's next place."""
    places = list(start.finditer(text))
    for at, place in enumerate(places):
        end = places[at + 1].start() if at + 1 < len(places) else len(text)
        yield place[1], text[place.end() : end]


def tasks(text: str) -> int:
    """How many jobs a pending record stands for: `1-3,7%2` is 4, "" is 1; a cut list counts what it shows."""
    listed, _, _ = absent(text).partition("%")
    total = 0
    for part in listed.split(","):
        first, dash, rest = part.partition("-")
        last, _, step = rest.partition(":")
        if dash and first.isdecimal() and last.isdecimal() and (not step or step.isdecimal()):
            total += max(0, int(last) - int(first)) // (int(step or 1) or 1) + 1
        elif part.isdecimal():
            total += 1
    return total or 1


def limit_seconds(text: str) -> float | None:
    """`7-00:00:00`, `2:00:00`, `30:00`; None for UNLIMITED, NOT_SET, INVALID."""
    match = _LIMIT.fullmatch(text.strip())
    if match is None:
        return None
    days, hours, minutes, seconds = (int(part or 0) for part in match.groups())
    return float(((days * 24 + hours) * 60 + minutes) * 60 + seconds)


def _split(text: str) -> Iterator[str]:
    """At commas outside brackets."""
    depth, start = 0, 0
    for at, one in enumerate(text):
        if one in "[(":
            depth += 1
        elif one in "])":
            depth -= 1
        elif one == "," and depth == 0:
            yield text[start:at].strip()
            start = at + 1
    if text[start:].strip():
        yield text[start:].strip()


def _expand(part: str) -> Iterator[str]:
    pieces = _BRACKETS.split(part)  # fixed, list, fixed, list, ..., fixed
    choices = [
        list(islice(_numbers(piece), MAX_HOSTS)) if at % 2 else [piece] for at, piece in enumerate(pieces)
    ]
    return ("".join(chosen) for chosen in product(*choices))


def _numbers(listed: str) -> Iterator[str]:
    for part in listed.split(","):
        first, dash, last = part.partition("-")
        if dash and first.isdecimal() and last.isdecimal():
            end = min(int(last), int(first) + MAX_HOSTS)
            yield from (str(number).zfill(len(first)) for number in range(int(first), end + 1))
        elif part:
            yield part


def _indices(text: str) -> tuple[int, ...]:
    numbers = (int(one) for one in _numbers(text) if one.isdecimal())
    return tuple(islice(numbers, MAX_INDICES))


def _count(text: str) -> int:
    match = _COUNT.fullmatch(text)
    return int(match[1]) * _UNITS[match[2]] if match else 0
