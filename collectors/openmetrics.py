"""OpenMetrics 1.0: the whole-page parse, line by line. The rules module has what binds lines together.

Verdicts: the OpenMetrics conformance suite and client_python's cases. `strict=False` keeps the grammar and
gives up the rules between lines and about values, which Prometheus's scraper does not enforce.
A native histogram has no float64 value: its line is checked and yields no sample.
"""

import math
import re

from collectors.openmetrics_rules import Families, SampleLine, ValueRules
from collectors.series_text import (
    NAME,
    ODD,
    PLAIN,
    STRING,
    Grammar,
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

_STRICT = Grammar(loose=False, trailing_comma=False)
_LENIENT = Grammar(loose=False, trailing_comma=True)
_EOF = "# EOF"
_META = re.compile(r"# (HELP|TYPE|UNIT) ")
_REST = re.compile(r" ([^ ]++)(?: (?!#)([^ ]++))?( # .*+)?")
_EXEMPLAR_REST = re.compile(r" ([^ ]++)(?: ([^ ]++))?")
_EXEMPLAR_CHARACTERS = 128  # OpenMetrics 1.0, "Exemplars": the combined length of label names and values
_NATIVE = re.compile(r" \{([a-z_]++:(?:\[[0-9:,-]*+\]|[^\[\]{},]++)(?:,(?=[a-z]))?)++\}")
_NATIVE_FIELD = re.compile(r"([a-z_]++):(\[[0-9:,-]*+\]|[^\[\]{},]++)")
_NATIVE_NUMBERS = ("count", "sum", "schema", "zero_threshold", "zero_count")
_INT64_MAX = 2**63 - 1


def parse_openmetrics(lines: list[str], strict: bool) -> tuple[ParsedPage, ValueRules | None]:
    """Parse a page given as its lines; raises ParseError.

    Returns the page and, when strict, the rules its values met, to be asked again of the next page's values.
    """
    page = ParsedPage(kinds=bytearray(len(lines)))
    reader = _Reader(page, strict)
    ended = False
    for at, line in enumerate(lines):
        if ended:
            if line or at + 1 < len(lines):
                raise ParseError(at + 1, f"text after {_EOF}: {shown(line)}")
        elif line == _EOF:
            ended = True
        elif line[:1] == "#":
            reader.comment(line, at + 1)
        elif line:
            reader.sample(line, at)
        elif at + 1 < len(lines):
            raise ParseError(at + 1, "a blank line, which OpenMetrics does not allow")
    if not ended:
        raise ParseError(len(lines), f"the page does not end with {_EOF}: it may have been cut short")
    page.metadata = reader.metadata()
    return page, reader.check_values()


class _Reader:
    """Reads lines into a page and shows each to the families' rules."""

    def __init__(self, page: ParsedPage, strict: bool) -> None:
        self._page = page
        self._grammar = _STRICT if strict else _LENIENT
        self._shapes = Shapes(self._grammar)
        self._rules = Families() if strict else None
        self._declared: dict[str, dict[str, str]] = {}

    def metadata(self) -> tuple[Metadata, ...]:
        return tuple(
            Metadata(name, said.get("TYPE", "unknown"), said.get("HELP", ""), said.get("UNIT", ""))
            for name, said in self._declared.items()
        )

    def check_values(self) -> ValueRules | None:
        if self._rules is None:
            return None
        self._rules.close()
        rules = self._rules.value_rules()
        broken = rules.broken_by(self._page.values)
        if broken is not None:
            index, reason = broken
            samples = [at for at, kind in enumerate(self._page.kinds, 1) if kind]
            raise ParseError(samples[index], f"{shown(self._page.keys[index])} {reason}")
        return rules

    def comment(self, line: str, number: int) -> None:
        meta = _META.match(line)
        if meta is None:
            raise ParseError(number, f"only HELP, TYPE, UNIT and EOF may follow '#', got {shown(line)}")
        name_match = STRING.match(line, meta.end()) or NAME.match(line, meta.end())
        if name_match is None or name_match[0] == '""':
            raise ParseError(
                number, f"expected a metric name after {meta[1]}, got {shown(line[meta.end() :])}"
            )
        name = unescape(name_match[0][1:-1]) if name_match[0][0] == '"' else name_match[0]
        text = line[name_match.end() :]
        if text[:1] != " ":
            raise ParseError(number, f"expected a space after the name {shown(name)}, got {shown(text)}")
        text = text[1:]
        if meta[1] == "TYPE" and text not in _TYPES:
            raise ParseError(number, f"expected one of {', '.join(_TYPES)}, got {shown(text)}")
        if meta[1] == "UNIT" and text and not name.endswith("_" + text):
            raise ParseError(number, f"{shown(name)} does not end with its unit, '_' and {shown(text)}")
        if self._rules is not None:
            self._rules.metadata(meta[1], name, text, number)
        said = self._declared.setdefault(name, {})
        said[meta[1]] = unescape(text) if meta[1] == "HELP" else text

    def sample(self, line: str, at: int) -> None:
        parts = line.split('"')
        if len(parts) == 1:
            name, _, rest = line.partition(" ")
            shape = self._shapes.bare(name)
        else:
            rest = parts[-1][2:] if parts[-1][:2] == "} " else ""
            shape = (
                self._shapes.find(tuple(parts[:-1:2]))
                if rest and len(parts) % 2 and "\\" not in line
                else None
            )
        value = read_number(rest) if shape else None
        if shape is None or value is None:
            self._careful(line, at)
            return
        page = self._page
        if self._rules is not None:
            self._rules.sample(
                SampleLine(at + 1, len(page.keys), shape.name, shape.names, shape.values(parts))
            )
        page.kinds[at] = PLAIN
        page.keys.append(line[: -len(rest) - 1])
        page.values.append(value)

    def _careful(self, line: str, at: int) -> None:
        page, number = self._page, at + 1
        series = read_series(line, number, self._grammar)
        rest = line[series.end :]
        if rest.startswith(" {"):
            _check_native_histogram(rest, number)
            if self._rules is not None:
                self._rules.native_histogram(series.name, number)
            return
        value, seconds, exemplar = _read_rest(rest, series, number, self._grammar)
        if self._rules is not None:
            pairs = sorted(series.pairs)
            names, values = tuple(pair[0] for pair in pairs), tuple(pair[1] for pair in pairs)
            self._rules.sample(
                SampleLine(number, len(page.keys), series.name, names, values, seconds, exemplar)
            )
        page.kinds[at] = PLAIN if seconds is None and not exemplar else ODD
        if seconds is not None:
            page.timestamps[len(page.keys)] = _milliseconds(seconds)
        page.keys.append(line[: series.end])
        page.values.append(value)


_TYPES = ("counter", "gauge", "histogram", "gaugehistogram", "summary", "info", "stateset", "unknown")


def _read_rest(rest: str, series: Series, number: int, grammar: Grammar) -> tuple[float, float | None, bool]:
    """What follows the series: value, timestamp in seconds, is there an exemplar."""
    if not rest.strip():
        raise ParseError(number, f"expected a value after the series {shown(series.name)}")
    if rest[0] != " ":
        raise ParseError(number, f"{shown(rest)} cannot follow the series {shown(series.name)}")
    match = _REST.fullmatch(rest)
    if match is None:
        raise ParseError(
            number,
            f"expected one space, a number and at most a timestamp and an exemplar, got {shown(rest)}",
        )
    value = read_number(match[1])
    if value is None:
        raise ParseError(number, f"expected a number as value, got {shown(match[1])}")
    seconds = None if match[2] is None else _read_timestamp(match[2], number)
    if match[3] is not None:
        _check_exemplar(match[3][3:], number, grammar)
    return value, seconds, match[3] is not None


def reread_openmetrics(line: str, key: str) -> tuple[float, None] | None:
    """Value of a line of series `key`, which may carry an exemplar; None if the line is anything else."""
    rest = line.removeprefix(key)
    if len(rest) + len(key) != len(line):
        return None
    try:
        value, seconds, _ = _read_rest(rest, Series(key, (), len(key)), 1, _STRICT)
    except ParseError:
        return None
    return (value, None) if seconds is None else None


def _check_exemplar(text: str, number: int, grammar: Grammar) -> None:
    # The label set of an exemplar is that of a series without a name; one is lent to it.
    if not text.startswith("{"):
        raise ParseError(number, f"expected the exemplar's labels after ' # ', got {shown(text)}")
    try:
        labels = read_series("_" + text, number, grammar)
    except ParseError as error:
        raise ParseError(number, f"in the exemplar: {error.reason}") from None
    match = _EXEMPLAR_REST.fullmatch(text, labels.end - 1)
    if match is None or read_number(match[1]) is None:
        raise ParseError(number, f"expected the exemplar's value, got {shown(text[labels.end - 1 :])}")
    if match[2] is not None:
        _read_timestamp(match[2], number)
    length = sum(len(name) + len(value) for name, value in labels.pairs)
    if length > _EXEMPLAR_CHARACTERS and grammar is _STRICT:
        raise ParseError(
            number, f"the exemplar's labels have {length} characters, allowed are {_EXEMPLAR_CHARACTERS}"
        )


def _check_native_histogram(rest: str, number: int) -> None:
    fields = dict(_NATIVE_FIELD.findall(rest)) if _NATIVE.fullmatch(rest) else {}
    for name in _NATIVE_NUMBERS:
        if read_number(fields.get(name, "")) is None:
            raise ParseError(number, f"a native histogram without a number as {name}: {shown(rest)}")


def _read_timestamp(text: str, number: int) -> float:
    seconds = read_number(text)
    if seconds is None or not math.isfinite(seconds):
        raise ParseError(number, f"expected a timestamp in seconds, got {shown(text)}")
    return seconds


def _milliseconds(seconds: float) -> int:
    # Cut, as Prometheus cuts, but from the decimal on the page: 1700215884.373 * 1000 alone ends in ...372.9.
    return max(-_INT64_MAX, min(_INT64_MAX, int(round(seconds * 1000, 3))))
