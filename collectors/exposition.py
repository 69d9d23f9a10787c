"""A target's page in, series and values out: the parser that the scraper uses.

A target shows the same series in the same order at almost every scrape. So the parser remembers the
previous page's comments and series texts, strips the known series off the new lines, and reads what is left
as numbers, all in a handful of C-level passes. Whatever does not fit exactly goes through the whole-page
parse of its format, which also words the error: a warm read never decides anything that a cold one would
decide otherwise.
"""

import string
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain, compress
from typing import Literal

import numpy as np
import orjson

from collectors.openmetrics import parse_openmetrics, reread_openmetrics
from collectors.openmetrics_rules import ValueRules
from collectors.series_text import FIXED, PLAIN, ParsedPage, ParseError, labels_of
from collectors.text_format import parse_text, reread_text
from collectors.types import Metadata
from db.labels import Labels
from db.nan import NORMAL, FloatArray, IntArray

__all__ = ["NO_TIMESTAMP", "Format", "Page", "PageLayout", "PageParser", "ParseError", "format_of"]

Format = Literal["text", "openmetrics"]
NO_TIMESTAMP: int = -(2**63)
"""In `Page.timestamps`: this line gives none."""

_NUMERIC = (string.digits + "+-.eE \n").encode()
_PIECE_CHARACTERS = 1 << 17  # flat from 32 Ki to 512 Ki, slower above (`make bench`'s 30,000-line page)
_LETTERS_OF_SPECIALS = b"aAfFiInNtTyY"  # nan, inf, infinity


def format_of(content_type: str) -> Format:
    """The page's format by its Content-Type header; anything unknown is read as the text format."""
    media_type = content_type.partition(";")[0].strip().lower()
    return "openmetrics" if media_type == "application/openmetrics-text" else "text"


@dataclass(frozen=True, eq=False, slots=True)
class PageLayout:
    """Which series a page shows, in order. The same object means: same series, same order, same metadata."""

    keys: tuple[str, ...]
    """The series' text as on the page, one per sample line, e.g. 'up{job="x"}'; may hold duplicates."""
    metadata: tuple[Metadata, ...]
    """Families that the page declares, in page order; type "unknown" where it is untyped."""

    def labels(self, index: int) -> Labels:
        """Labels of sample `index`, name included: unescaped, sorted, empty values left out."""
        return labels_of(self.keys[index])


@dataclass(frozen=True, eq=False, slots=True)
class Page:
    """One scrape's samples in the layout's order."""

    layout: PageLayout
    values: FloatArray
    """float64[n]; every NaN has db.nan.NORMAL_BITS."""
    timestamps: IntArray | None
    """int64[n], milliseconds, NO_TIMESTAMP where a line gives none; None when no line gives one."""


class PageParser:
    """Parses the pages of one target, one after the other.

    `strict` holds a page to its format's conformance suite. `strict=False` takes what Prometheus's scraper
    takes: see the docstrings of `collectors.text_format` and `collectors.openmetrics` for the difference.
    """

    __slots__ = ("_known", "_strict", "whole_parses")

    def __init__(self, *, strict: bool = True) -> None:
        self.whole_parses = 0
        """Pages that could not be read as the previous one with new values; each costs ten times as much."""
        self._strict = strict
        self._known: _KnownPage | None = None

    def parse(self, body: bytes, format: Format) -> Page:
        """Read a whole page. Raises ParseError; the last good page is then still the one remembered."""
        text = _decode(body)
        known = self._known
        if known is not None and known.format == format:
            page = known.read(text)
            if page is not None:
                return page
        self.whole_parses += 1
        lines = text.split("\n")
        parsed, rules = (
            parse_openmetrics(lines, self._strict)
            if format == "openmetrics"
            else (parse_text(lines, self._strict), None)
        )
        keys = tuple(parsed.keys)
        if known is not None and known.layout.keys == keys and known.layout.metadata == parsed.metadata:
            layout = known.layout
        else:
            layout = PageLayout(keys, parsed.metadata)
        self._known = _KnownPage(format, layout, lines, parsed, rules)
        return _page(layout, np.array(parsed.values, dtype=np.float64), parsed.timestamps)


def _decode(body: bytes) -> str:
    try:
        return body.decode()
    except UnicodeDecodeError as error:
        line = body.count(b"\n", 0, error.start) + 1
        reason = f"not UTF-8 text: byte 0x{body[error.start]:02x} at offset {error.start} of the page"
        raise ParseError(line, reason) from None


def _page(layout: PageLayout, values: FloatArray, timestamps: dict[int, int]) -> Page:
    nan = np.isnan(values)
    if nan.any():
        values[nan] = NORMAL
    times: IntArray | None = None
    if timestamps:
        times = np.full(len(values), NO_TIMESTAMP, dtype=np.int64)
        times[list(timestamps)] = list(timestamps.values())
    return Page(layout, values, times)


class _KnownPage:
    """The previous page, kept as little as it takes to read the next one."""

    __slots__ = (
        "_is_fixed",
        "_is_plain",
        "_odd",
        "_plain_samples",
        "_prefix_characters",
        "_prefixes",
        "_repeats",
        "_rules",
        "format",
        "layout",
    )

    def __init__(
        self,
        page_format: Format,
        layout: PageLayout,
        lines: list[str],
        parsed: ParsedPage,
        rules: ValueRules | None,
    ) -> None:
        self.format: Format = page_format
        self.layout = layout
        self._rules = rules
        # OpenMetrics groups samples by timestamp: a page with some is read whole every time.
        self._repeats = page_format == "text" or not parsed.timestamps
        kinds = np.frombuffer(bytes(parsed.kinds), dtype=np.uint8)
        self._is_fixed = (kinds == FIXED).tobytes()
        self._is_plain = (kinds == PLAIN).tobytes()
        sample_lines = np.flatnonzero(kinds != FIXED)
        # What is taken off each line: all of a fixed one, the series of a plain one, nothing of an odd one.
        prefixes = list(lines)
        for line, key in zip(sample_lines.tolist(), layout.keys, strict=True):
            prefixes[line] = key if parsed.kinds[line] == PLAIN else ""
        self._prefixes = [*prefixes, ""]  # one more, so that a line too many gives a result too many
        self._prefix_characters = sum(map(len, prefixes))
        plain = kinds[sample_lines] == PLAIN
        self._plain_samples = None if plain.all() else np.flatnonzero(plain)
        odd = np.flatnonzero(~plain)
        self._odd = list(zip(sample_lines[odd].tolist(), odd.tolist(), strict=True))

    def read(self, text: str) -> Page | None:
        """The next page if only values and timestamps differ; None: it takes the whole-page parse."""
        if not self._repeats:
            return None
        rests = list(map(str.removeprefix, chain.from_iterable(_split_in_pieces(text)), self._prefixes))
        if len(rests) != len(self._is_fixed) or any(compress(rests, self._is_fixed)):
            return None
        plain = list(compress(rests, self._is_plain))
        numbers = "\n".join(plain)
        # A line that lacks its prefix is left whole, so the lengths add up only if every line had its own.
        left = len(numbers) - max(0, len(plain) - 1) + sum(len(rests[line]) for line, _ in self._odd)
        if len(text) != self._prefix_characters + len(rests) - 1 + left:
            return None
        values = _read_plain(plain, numbers)
        timestamps: dict[int, int] = {}
        if values is not None and self._plain_samples is not None:
            values = self._join_odd(values, self._plain_samples, rests, timestamps)
        if values is None or (self._rules is not None and self._rules.broken_by(values) is not None):
            return None
        return _page(self.layout, values, timestamps)

    def _join_odd(
        self, plain: FloatArray, plain_samples: IntArray, rests: list[str], timestamps: dict[int, int]
    ) -> FloatArray | None:
        keys = self.layout.keys
        values = np.empty(len(keys), dtype=np.float64)
        values[plain_samples] = plain
        reread = reread_openmetrics if self.format == "openmetrics" else reread_text
        for line, sample in self._odd:
            read = reread(rests[line], keys[sample])
            if read is None:
                return None
            values[sample], timestamp = read
            if timestamp is not None:
                timestamps[sample] = timestamp
        return values


def _split_in_pieces(text: str) -> Iterator[list[str]]:
    """The lines of a page, a cache's fill at a time: 40 % faster on a large page than one split."""
    start = 0
    while True:
        end = text.find("\n", start + _PIECE_CHARACTERS)
        if end < 0:
            yield text[start:].split("\n")
            return
        yield text[start:end].split("\n")
        start = end + 1


def _read_plain(rests: list[str], text: str) -> FloatArray | None:
    """What lines hold after their series as float64; None unless each is one space and one number.

    `text` is the same, one a line.

    `float` takes more than a page may hold, and every bit of it is excluded here: other white space and
    non-ASCII digits, underscores, a sign before NaN, a decimal beyond float64 (it would become infinite).
    """
    count = len(rests)
    if not count:
        return np.empty(0, dtype=np.float64)
    if text[:1] != " " or text.count("\n ") != count - 1 or text.count(" ") != count:
        return None
    letters = text.encode().translate(None, _NUMERIC)
    infinities = 0
    if letters:
        lower = text.lower()
        if letters.strip(_LETTERS_OF_SPECIALS) or "+n" in lower or "-n" in lower:
            return None
        infinities = lower.count("inf")
    else:
        values = _read_json_numbers(text, count)
        if values is not None:
            return values
    try:
        values = np.fromiter(map(float, rests), dtype=np.float64, count=count)
    except ValueError:
        return None
    return values if np.count_nonzero(np.isinf(values)) == infinities else None


def _read_json_numbers(text: str, count: int) -> FloatArray | None:
    """Numbers, one a line, all in JSON's grammar, which most pages keep to; None if one is not.

    orjson rounds as `float` does in a quarter of its time, but reads the integer -0 as 0.
    """
    if " -0\n" in text or text.endswith(" -0"):
        return None
    try:
        numbers = orjson.loads("[" + text.replace("\n", ",") + "]")
    except orjson.JSONDecodeError:
        return None
    # One rest that is only a space makes "[ ]", valid and empty.
    return np.fromiter(numbers, dtype=np.float64, count=count) if len(numbers) == count else None
