"""Who a GPU process is: its user and a short command, from /proc.

A command line is other people's text and may hold secrets, so only its first words up to the first option are
kept, without directories and control characters, and never more than 64 characters. A process may end between
the driver's list and this look: it then has no user and no command.
"""

import pwd
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import Final

MAX_COMMAND_LENGTH: Final = 64
MAX_COMMAND_WORDS: Final = 3
_MAX_CMDLINE_BYTES: Final = 4096


@dataclass(frozen=True, slots=True)
class ProcessOwner:
    """`user` and `command` are "" where they cannot be known."""

    user: str
    command: str


def describe(pid: int, proc: Path) -> ProcessOwner:
    """User and short command of a process; reads `proc`/PID/status and cmdline."""
    try:
        status = (proc / str(pid) / "status").read_text(errors="replace")
        with (proc / str(pid) / "cmdline").open("rb") as file:
            command_line = file.read(_MAX_CMDLINE_BYTES)
    except OSError:
        return ProcessOwner("", "")
    facts = dict(line.split(":\t", 1) for line in status.splitlines() if ":\t" in line)
    words = command_line.decode(errors="replace").split("\0")
    command = " ".join(islice(_leading_words(words), MAX_COMMAND_WORDS)) or facts.get("Name", "")
    uid = facts.get("Uid", "").split("\t")[0]  # the real one, as ps shows it
    return ProcessOwner(_user_name(uid), _printable(command)[:MAX_COMMAND_LENGTH])


def _leading_words(words: list[str]) -> Iterator[str]:
    """The program and its plain arguments; "python -m module" keeps its module."""
    for word in words:
        if word.startswith("-") and word != "-m":
            return
        if short := word.rstrip("/").rsplit("/", 1)[-1].strip():
            yield short


def _printable(text: str) -> str:
    return "".join(character for character in text if character.isprintable())


@lru_cache(maxsize=1024)  # a directory service behind pwd may take milliseconds a user
def _user_name(uid: str) -> str:
    try:
        return pwd.getpwuid(int(uid)).pw_name
    except (KeyError, ValueError, OverflowError):
        return uid
