"""Turns what is wrong with a configuration into one line that names the place and the mend."""

from collections.abc import Callable
from typing import Any

from pydantic import ValidationError

from db.logs import printable
from db.yaml_lines import KeyPath

_PREFIXES = ("Value error, ", "Assertion failed, ")


class SettingsError(ValueError):
    """A configuration that cannot be used; str() is one printable line, `place: what and the mend`."""

    def __init__(self, place: str, reason: str) -> None:
        super().__init__(placed(place, reason))


def placed(place: str, reason: str) -> str:
    """`place: reason` on one printable line."""
    return f"{printable(place)}: {printable(reason)}"


def first_error(error: ValidationError, line_of: Callable[[KeyPath], int]) -> tuple[KeyPath, str]:
    """Path and reason of the error that stands first in its file.

    line_of: line of a path, e.g. `Document.line`.
    """
    found = [_explain(detail) for detail in error.errors(include_url=False)]
    return min(found, key=lambda place_and_reason: line_of(place_and_reason[0]))


def _explain(detail: Any) -> tuple[KeyPath, str]:
    """One pydantic error, as (path, reason); the reason names the key it is about."""
    kind = detail["type"]
    path: KeyPath = tuple(part for part in detail["loc"] if part != "[key]")
    message = str(detail["msg"])
    for prefix in _PREFIXES:
        message = message.removeprefix(prefix)
    if kind == "unknown_key":
        return (*path, detail["ctx"]["key"]), message
    if kind == "missing":
        return path[:-1], f"'{path[-1]}' is missing"
    message = message.replace("Input should be a valid list", "has to be a list ('- item' lines)")
    message = message.replace("Input should be a valid tuple", "has to be a list ('- item' lines)")
    message = message.replace(
        "Input should be a valid dictionary", "has to be a section of 'key: value' lines"
    )
    message = message.replace("Input should be", "has to be")
    return path, f"{_subject(path)}{message}"


def _subject(path: KeyPath) -> str:
    """`'sample_limit' `, `'targets' item 2 `; nothing for the whole file."""
    names = [index for index, part in enumerate(path) if isinstance(part, str)]
    if not names:
        return f"item {path[0] + 1} " if path and isinstance(path[0], int) else ""
    items = [part for part in path[names[-1] + 1 :] if isinstance(part, int)]
    return f"'{path[names[-1]]}' " + "".join(f"item {item + 1} " for item in items)
