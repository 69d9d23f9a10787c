"""Prometheus's relabelling: rules compiled once, then applied to label sets.

Semantics are those of prometheus/model/relabel with Prometheus 3's label names (any non-empty text):
anchored RE2, Go's Expand templates (`$1`, `${1}`, `${name}`, `$$`), an empty value deletes a label.
A page repeats a few names and values thousands of times, so every rule remembers its latest answers: an RE2
call from Python costs about 3 us, a remembered answer 0.1 us.
"""

import hashlib
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from typing import Any

from db.regex import compile_anchored
from db.relabel_settings import DEFAULT_REGEX, DEFAULT_REPLACEMENT, RelabelConfig

_REMEMBERED = 1024  # answers a rule


class _Working:
    """A label set being changed, in the order in which Prometheus walks it: untouched ones, then changed."""

    __slots__ = ("changed", "values")

    def __init__(self, labels: Mapping[str, str]) -> None:
        self.values = {name: labels[name] for name in sorted(labels) if labels[name]}
        self.changed: set[str] = set()

    def set(self, name: str, value: str) -> None:
        if not value:
            self.values.pop(name, None)
            self.changed.discard(name)
        elif name in self.changed:
            self.values[name] = value
        else:
            self.values.pop(name, None)
            self.values[name] = value
            self.changed.add(name)


_Step = Callable[[_Working], bool]


class Relabeller:
    """A list of rules, applied in order."""

    def __init__(self, configs: Iterable[RelabelConfig]) -> None:
        self._steps = tuple(_compile(config) for config in configs)

    def __bool__(self) -> bool:
        """Is there any rule?"""
        return bool(self._steps)

    def __call__(self, labels: Mapping[str, str]) -> dict[str, str] | None:
        """The new labels, or None when a rule drops the set. Empty values count as absent."""
        working = _Working(labels)
        for step in self._steps:
            if not step(working):
                return None
        return working.values


def relabel(labels: Mapping[str, str], configs: Iterable[RelabelConfig]) -> dict[str, str] | None:
    """Apply rules once; keep a `Relabeller` where they are applied again."""
    return Relabeller(configs)(labels)


def _compile(config: RelabelConfig) -> _Step:
    return _ACTIONS[config.action](config)


def _source(config: RelabelConfig) -> Callable[[_Working], str]:
    names = config.source_labels or ()
    separator = config.separator
    if len(names) == 1:
        only = names[0]
        return lambda working: working.values.get(only, "")
    return lambda working: separator.join([working.values.get(name, "") for name in names])


def _replace(config: RelabelConfig) -> _Step:
    source = _source(config)
    expression = compile_anchored(config.regex)
    target = _template(config.target_label, expression)
    replacement = _template(config.replacement, expression)
    if config.regex == DEFAULT_REGEX and isinstance(target, str):
        if config.replacement == DEFAULT_REPLACEMENT:
            return _always(lambda working: working.set(target, source(working)))
        if isinstance(replacement, str):
            return _always(lambda working: working.set(target, replacement))

    @lru_cache(_REMEMBERED)
    def assignment(text: str) -> tuple[str, str] | None:
        match = expression.fullmatch(text)
        return None if match is None else (_expand(target, match), _expand(replacement, match))

    def step(working: _Working) -> bool:
        assigned = assignment(source(working))
        if assigned is not None and assigned[0]:
            working.set(*assigned)
        return True

    return step


def _keep(config: RelabelConfig) -> _Step:
    source, matches = _source(config), _matcher(config)
    return lambda working: matches(source(working))


def _drop(config: RelabelConfig) -> _Step:
    source, matches = _source(config), _matcher(config)
    return lambda working: not matches(source(working))


def _keepequal(config: RelabelConfig) -> _Step:
    source, target = _source(config), config.target_label
    return lambda working: working.values.get(target, "") == source(working)


def _dropequal(config: RelabelConfig) -> _Step:
    source, target = _source(config), config.target_label
    return lambda working: working.values.get(target, "") != source(working)


def _lowercase(config: RelabelConfig) -> _Step:
    source, target = _source(config), config.target_label
    return _always(lambda working: working.set(target, _lower(source(working))))


def _uppercase(config: RelabelConfig) -> _Step:
    source, target = _source(config), config.target_label
    return _always(lambda working: working.set(target, _upper(source(working))))


def _hashmod(config: RelabelConfig) -> _Step:
    source, target, modulus = _source(config), config.target_label, config.modulus

    def step(working: _Working) -> bool:
        digest = hashlib.md5(source(working).encode(), usedforsecurity=False).digest()
        working.set(target, str(int.from_bytes(digest[8:], "big") % modulus))
        return True

    return step


def _labelmap(config: RelabelConfig) -> _Step:
    expression = compile_anchored(config.regex)
    replacement = _template(config.replacement, expression)

    @lru_cache(_REMEMBERED)
    def new_name(name: str) -> str | None:
        match = expression.fullmatch(name)
        return None if match is None else _expand(replacement, match)

    def step(working: _Working) -> bool:
        for name, value in list(working.values.items()):
            renamed = new_name(name)
            if renamed:
                working.set(renamed, value)
        return True

    return step


def _labeldrop(config: RelabelConfig) -> _Step:
    matches = _matcher(config)
    return _always(lambda working: _remove(working, matches))


def _labelkeep(config: RelabelConfig) -> _Step:
    matches = _matcher(config)
    return _always(lambda working: _remove(working, lambda name: not matches(name)))


_ACTIONS: Mapping[str, Callable[[RelabelConfig], _Step]] = {
    "replace": _replace,
    "keep": _keep,
    "drop": _drop,
    "keepequal": _keepequal,
    "dropequal": _dropequal,
    "lowercase": _lowercase,
    "uppercase": _uppercase,
    "hashmod": _hashmod,
    "labelmap": _labelmap,
    "labeldrop": _labeldrop,
    "labelkeep": _labelkeep,
}


def _matcher(config: RelabelConfig) -> Callable[[str], bool]:
    fullmatch = compile_anchored(config.regex).fullmatch
    return lru_cache(_REMEMBERED)(lambda text: fullmatch(text) is not None)


def _always(change: Callable[[_Working], None]) -> _Step:
    def step(working: _Working) -> bool:
        change(working)
        return True

    return step


def _remove(working: _Working, unwanted: Callable[[str], bool]) -> None:
    for name in [name for name in working.values if unwanted(name)]:
        working.set(name, "")


def _lower(text: str) -> str:
    """Go's ToLower: one character for one character, whatever stands around it."""
    return text.lower() if text.isascii() else "".join(letter.lower()[0] for letter in text)


def _upper(text: str) -> str:
    """Go's ToUpper: letters without a single upper-case form (ß) stay as they are."""
    return text.upper() if text.isascii() else "".join(_upper_letter(letter) for letter in text)


def _upper_letter(letter: str) -> str:
    return next((form for form in (letter.upper(), letter.title()) if len(form) == 1), letter)


_Template = str | tuple[str | int, ...]  # text, or pieces of text and group numbers


def _template(text: str, expression: Any) -> _Template:
    """Parse a Go Expand template; names that are no group of the expression expand to nothing."""
    pieces: list[str | int] = []
    rest = text
    while rest:
        before, dollar, rest = rest.partition("$")
        pieces.append(before)
        if not dollar:
            break
        if rest.startswith("$"):
            pieces.append("$")
            rest = rest[1:]
            continue
        name, length = _reference(rest)
        if not length:
            pieces.append("$")  # not a reference: the sign itself
            continue
        rest = rest[length:]
        group = _group(name, expression)
        if group is not None:
            pieces.append(group)
    if all(isinstance(piece, str) for piece in pieces):
        return "".join(str(piece) for piece in pieces)
    return tuple(piece for piece in pieces if piece != "")


def _reference(text: str) -> tuple[str, int]:
    """Name and length of the reference behind a `$`, `name` or `{name}`; length 0 when there is none."""
    braced = text.startswith("{")
    start = end = 1 if braced else 0
    while end < len(text) and (text[end] == "_" or text[end].isalpha() or text[end].isdecimal()):
        end += 1
    if end == start or (braced and text[end : end + 1] != "}"):
        return "", 0
    return text[start:end], end + 1 if braced else end


def _group(name: str, expression: Any) -> int | None:
    if name.isascii() and name.isdigit() and (name == "0" or name[0] != "0"):
        number = int(name)
        return number if number <= expression.groups else None
    group: int | None = expression.groupindex.get(name)
    return group


def _expand(template: _Template, match: Any) -> str:
    if isinstance(template, str):
        return template
    return "".join(piece if isinstance(piece, str) else (match.group(piece) or "") for piece in template)
