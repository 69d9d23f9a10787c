"""Prometheus text format 0.0.4: the whole-page parse.

Verdicts: prometheus/common's corpus and client_python's cases where they give one, else what Prometheus's
scraper does. `strict=False` gives up the rules that the scraper does not know either: a page without a final
line feed, a repeated HELP or TYPE, TYPE after samples, `le` and `quantile` that are no numbers.
"""

import re
from dataclasses import dataclass

from collectors.series_text import (
    NAME,
    ODD,
    PLAIN,
    STRING,
    TEXT_GRAMMAR,
    ParsedPage,
    ParseError,
    Series,
    Shapes,
    read_number,
    read_series,
    shown,
    unescape,
)
from collectors.types import Metadata

_META = re.compile(r"#[ \t]++(HELP|TYPE)[ \t]++")
_REST = re.compile(r"[ \t]*+([^ \t]++)(?:[ \t]++(-?[0-9]++))?[ \t]*+")
_HELP_ESCAPE = re.compile(r"\\[\\n]")
_TYPES = {
    "counter": "counter",
    "gauge": "gauge",
    "histogram": "histogram",
    "summary": "summary",
    "untyped": "unknown",
}
_INT64 = 2**63


def parse_text(lines: list[str], strict: bool) -> ParsedPage:
    """Parse a page given as its lines (split at line feeds). Raises ParseError at the first bad line."""
    page = ParsedPage(kinds=bytearray(len(lines)))
    families = _Families(strict)
    shapes = Shapes(TEXT_GRAMMAR)
    kinds, keys, values, bounds = page.kinds, page.keys, page.values, families.bounds
    for at, line in enumerate(lines):
        if not line:
            continue
        if line[0] == "#":
            families.comment(line, at + 1, shapes.names)
            continue
        parts = line.split('"')
        if len(parts) == 1:
            name, _, rest = line.partition(" ")
            shape = shapes.bare(name)
        else:
            rest = parts[-1][2:] if parts[-1][:2] == "} " else ""
            shape = shapes.find(tuple(parts[:-1:2])) if rest and len(parts) % 2 and "\\" not in line else None
        value = read_number(rest) if shape else None
        if shape is None or value is None:
            _careful(line, at, page, families, shapes)
            continue
        if shape.name in bounds:
            families.check_bound(at + 1, shape.name, shape.names, shape.values(parts))
        kinds[at] = PLAIN
        keys.append(line[: -len(rest) - 1])
        values.append(value)
    if strict and lines[-1].strip(" \t"):
        raise ParseError(len(lines), "the page does not end with a line feed: it may have been cut short")
    page.metadata = families.metadata()
    return page


def _careful(line: str, at: int, page: ParsedPage, families: "_Families", shapes: Shapes) -> None:
    """A line that is not simply series, space, number: blanks, escapes, quoted names, timestamps, errors."""
    indented, line = line, line.lstrip(" \t")
    if not line:
        return
    if line[0] == "#":
        families.comment(line, at + 1, shapes.names)
        return
    series = read_series(line, at + 1, TEXT_GRAMMAR)
    value, timestamp = _read_rest(line, series, at + 1)
    if series.name in families.bounds:
        labels = dict(series.pairs)
        families.check_bound(at + 1, series.name, tuple(labels), tuple(labels.values()))
    shapes.names.add(series.name)
    plain = line == indented and line[series.end] == " " and read_number(line[series.end + 1 :]) is not None
    page.kinds[at] = PLAIN if plain else ODD
    if timestamp is not None:
        page.timestamps[len(page.keys)] = timestamp
    page.keys.append(line[: series.end])
    page.values.append(value)


def _read_rest(line: str, series: Series, number: int) -> tuple[float, int | None]:
    rest = line[series.end :]
    if not rest.strip(" \t"):
        raise ParseError(number, f"expected a value after the series {shown(line[: series.end])}")
    found = reread_text(line, line[: series.end])
    if found is not None:
        return found
    value = rest.lstrip(" \t").replace("\t", " ").partition(" ")[0]
    if rest[0] not in " \t" and line[series.end - 1] != "}":
        reason = f"{shown(rest)} cannot follow the metric name {shown(series.name)}"
    elif read_number(value) is None:
        reason = f"expected a number as value, got {shown(value)}"
    elif _REST.fullmatch(rest):
        reason = f"the timestamp in {shown(rest)} is no 64-bit number of milliseconds"
    else:
        reason = f"expected nothing but a timestamp in milliseconds after the value, got {shown(rest)}"
    raise ParseError(number, reason)


def reread_text(line: str, key: str) -> tuple[float, int | None] | None:
    """Value and timestamp (ms) of a line of series `key`; None if the line is anything else."""
    line = line.lstrip(" \t")
    rest = line.removeprefix(key)
    if len(rest) + len(key) != len(line) or not (key[-1] == "}" or rest[:1] in (" ", "\t")):
        return None
    match = _REST.fullmatch(rest)
    value = read_number(match[1]) if match else None
    if match is None or value is None:
        return None
    if match[2] is None:
        return value, None
    timestamp = _int64(match[2])
    return None if timestamp is None else (value, timestamp)


def _int64(digits: str) -> int | None:
    short = digits.lstrip("-").lstrip("0")
    if len(short) > len(str(_INT64)):  # also keeps int() away from a megabyte of digits
        return None
    value = -int(short or "0") if digits[0] == "-" else int(short or "0")
    # -2**63 is the sentinel "no timestamp"; no clock shows it.
    return value if -_INT64 < value < _INT64 else None


@dataclass(slots=True)
class _Declared:
    type: str | None = None
    help: str | None = None


class _Families:
    """HELP and TYPE lines seen so far."""

    def __init__(self, strict: bool) -> None:
        self._strict = strict
        self._declared: dict[str, _Declared] = {}
        self.bounds: dict[str, str] = {}
        """Sample name -> the label of it that must be a number."""

    def metadata(self) -> tuple[Metadata, ...]:
        return tuple(
            Metadata(name, family.type or "unknown", family.help or "", "")
            for name, family in self._declared.items()
        )

    def check_bound(self, number: int, name: str, names: tuple[str, ...], values: tuple[str, ...]) -> None:
        label = self.bounds[name]
        if label in names:
            text = values[names.index(label)]
            if read_number(text) is None:
                raise ParseError(number, f"expected a number as {label} of {shown(name)}, got {shown(text)}")

    def comment(self, line: str, number: int, sampled: set[str]) -> None:
        """Take in a HELP or TYPE line; any other comment says nothing."""
        meta = _META.match(line)
        if meta is None:
            return
        keyword = meta[1]
        name_match = STRING.match(line, meta.end()) or NAME.match(line, meta.end())
        if name_match is None:
            if keyword == "HELP" and meta.end() == len(line):
                return  # "# HELP " names nothing; prometheus/common's corpus accepts it
            raise ParseError(
                number, f"expected a metric name after {keyword}, got {shown(line[meta.end() :])}"
            )
        name = unescape(name_match[0][1:-1]) if name_match[0][0] == '"' else name_match[0]
        text = line[name_match.end() :]
        if keyword == "TYPE":
            self._type(name, text, number, sampled)
        elif text[:1] in (" ", "\t"):  # else the name went on with a sign Prometheus stops at
            self._help(name, text.lstrip(" \t"), number)

    def _type(self, name: str, text: str, number: int, sampled: set[str]) -> None:
        kind = _TYPES.get(text.lstrip(" \t")) if text[:1] in (" ", "\t") else None
        if kind is None:
            raise ParseError(
                number, f"expected counter, gauge, histogram, summary or untyped, got {shown(text)}"
            )
        family = self._declared.setdefault(name, _Declared())
        if self._strict and family.type is not None:
            raise ParseError(number, f"a second TYPE line for {shown(name)}")
        if self._strict and name in sampled:
            raise ParseError(number, f"the TYPE line for {shown(name)} comes after its samples")
        family.type = kind
        if self._strict and kind == "histogram":
            self.bounds[name + "_bucket"] = "le"
        elif self._strict and kind == "summary":
            self.bounds[name] = "quantile"

    def _help(self, name: str, text: str, number: int) -> None:
        family = self._declared.setdefault(name, _Declared())
        if not text:
            return
        if self._strict and family.help is not None:
            raise ParseError(number, f"a second HELP line for {shown(name)}")
        family.help = _HELP_ESCAPE.sub(lambda match: "\\" if match[0] == "\\\\" else "\n", text)
