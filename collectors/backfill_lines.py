"""OpenMetrics lines in, columns of samples out: the reader behind `strata import openmetrics`.

A file holds the same series thousands of times, one series after the other or page after page. So a line is
first compared with the series that stood one period earlier, and only what is left of it is read, all lines
of a block together. What does not fit exactly is read by the page parser, which also words the error.
"""

from bisect import bisect_right
from contextlib import suppress
from dataclasses import dataclass, field

import numpy as np
import orjson

from collectors.openmetrics import parse_openmetrics
from collectors.series_text import Grammar, ParsedPage, ParseError, Shapes, read_series, shown
from collectors.types import Metadata
from db.labels import Labels, labels_from
from db.nan import NORMAL, FloatArray, IntArray

_EOF = "# EOF"
_BLANK = "a blank line, which OpenMetrics does not allow"
# What promtool takes: Prometheus's own OpenMetrics lexer allows the trailing comma.
_GRAMMAR = Grammar(loose=False, trailing_comma=True)
_NUMERIC = b"0123456789+-.eE \n"
_LETTERS_OF_SPECIALS = b"aAfFiInNtTyY"  # nan, inf, infinity
_SPACE, _LINE_FEED = 32, 10
# Seconds in float64 are this close to the millisecond that the decimal names; anything farther is cut.
_MILLISECOND_SLACK = 0.0005
# Reading so few together costs as much as one by one.
_LINE_BY_LINE = 32
# Lines whose series are remembered beyond two pages of the file.
_HISTORY_LINES = 65_536


@dataclass(frozen=True, slots=True)
class Columns:
    """Samples in the file's order.

    series: int64[n], places in `SeriesTable.labels`; timestamps: int64[n], ms UTC; values: float64[n].
    """

    series: IntArray
    timestamps: IntArray
    values: FloatArray


@dataclass(slots=True)
class SeriesTable:
    """The series met so far. A key is a series as the file spells it; several may be one series."""

    labels: list[Labels] = field(default_factory=list)
    keys: dict[bytes, int] = field(default_factory=dict)
    place_of_key: list[int] = field(default_factory=list)
    _places: dict[Labels, int] = field(default_factory=dict)
    _pairs: dict[tuple[str, str], tuple[str, str]] = field(default_factory=dict)

    def add(self, key: bytes, labels: Labels) -> int:
        """The new key's number."""
        place = self._places.get(labels)
        if place is None:
            # Most pairs belong to many series: kept once, a series takes a fraction of the memory.
            labels = tuple([self._pairs.setdefault(pair, pair) for pair in labels])
            place = self._places[labels] = len(self.labels)
            self.labels.append(labels)
        number = self.keys[key] = len(self.place_of_key)
        self.place_of_key.append(place)
        return number


@dataclass(slots=True)
class _Block:
    """The lines of a block, taken apart: per sample its key's number and what stands behind the key."""

    lines: list[bytes]
    first: int
    numbers: list[int] = field(default_factory=list)
    rests: list[bytes] = field(default_factory=list)
    keys: IntArray = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    """The numbers once more, int64[samples]."""
    skipped: list[int] = field(default_factory=list)
    """For every line without sample: how many samples stand before it."""

    def line_of(self, sample: int) -> int:
        """Index of the line that holds a sample."""
        return sample + bisect_right(self.skipped, sample)


class LineReader:
    """Reads a file block by block.

    latest_ms: a later sample is an error. `metadata`: families declared since it was last taken;
    `ended`: the end mark was read.
    """

    def __init__(self, latest_ms: int) -> None:
        self._latest_ms = latest_ms
        self.metadata: dict[str, Metadata] = {}
        self.ended = False
        self.forget_series()

    def forget_series(self) -> None:
        """Begin again with an empty table."""
        self.table = SeriesTable()
        self._shapes = Shapes(_GRAMMAR)
        self._keys: list[bytes] = []  # of the last lines, and their numbers
        self._numbers: list[int] = []
        self._dropped = 0  # lines that are remembered no more
        self._last_seen = np.zeros(1024, dtype=np.int64)  # by key number: the line after it
        self._places = np.empty(0, dtype=np.int64)  # by key number
        self._period = 1

    def read(self, lines: list[bytes], first: int) -> tuple[list[Columns], ParseError | None]:
        """Samples of the block whose first line has the number `first`; with an error, those before it."""
        block = _Block(lines, first)
        error = self._take_apart(block)
        found: list[Columns] = []
        try:
            self._read_rests(block, 0, len(block.rests), found)
        except ParseError as earlier:
            error = earlier
        return found, error

    def _take_apart(self, block: _Block) -> ParseError | None:
        lines = block.lines
        start, at = self._dropped + len(self._keys), 0
        error = None
        while at < len(lines):
            at += self._take_run(block, at)
            if at == len(lines):
                break
            line = lines[at]
            try:
                key, number = self._identify(line, block.first + at)
            except ParseError as found:
                error = found
                break
            if number is None:
                block.skipped.append(len(block.numbers))
            else:
                block.numbers.append(number)
                block.rests.append(line[len(key) :])
                self._remember(key, number)
            at += 1
        block.keys = np.fromiter(block.numbers, dtype=np.int64, count=len(block.numbers))
        self._last_seen[block.keys] = np.arange(start + 1, start + 1 + len(block.keys))
        if len(self._places) != len(self.table.place_of_key):
            self._places = np.array(self.table.place_of_key, dtype=np.int64)
        self._forget_lines()
        return error

    def _take_run(self, block: _Block, at: int) -> int:
        """Take apart the lines that repeat what stood one period earlier; returns how many they are."""
        lines, period = block.lines, self._period
        if self.ended or period > len(self._keys) or not lines[at].startswith(self._keys[-period]):
            return 0
        pattern = self._keys[-period:]
        low, high = 0, len(lines) - at - 1
        while low < high:  # to the last line that fits, as if those that fit stood together
            middle = (low + high + 1) // 2
            if lines[at + middle].startswith(pattern[middle % period]):
                low = middle
            else:
                high = middle - 1
        count = low + 1
        times = -(-count // period)
        expected = (pattern * times)[:count]
        rests = list(map(bytes.removeprefix, lines[at : at + count], expected))
        if (b"\n" + b"\n".join(rests)).count(b"\n ") != count:
            count = next(place for place, rest in enumerate(rests) if rest[:1] != b" ")
            del rests[count:], expected[count:]
        numbers = (self._numbers[-period:] * times)[:count]
        block.rests += rests
        block.numbers += numbers
        self._keys += expected
        self._numbers += numbers
        return count

    def _remember(self, key: bytes, number: int) -> None:
        after = self._dropped + len(self._keys) + 1
        if number >= len(self._last_seen):
            grown = np.zeros(2 * number, dtype=np.int64)
            grown[: len(self._last_seen)] = self._last_seen
            self._last_seen = grown
        seen = int(self._last_seen[number])
        # A series that was never seen before moves all that follow it by one.
        self._period = after - seen if seen else self._period + 1
        self._last_seen[number] = after
        self._keys.append(key)
        self._numbers.append(number)

    def _forget_lines(self) -> None:
        keep = 2 * len(self.table.keys) + _HISTORY_LINES
        if len(self._keys) > 2 * keep:
            self._dropped += len(self._keys) - keep
            del self._keys[:-keep], self._numbers[:-keep]

    def _identify(self, line: bytes, number: int) -> tuple[bytes, int | None]:
        """Key and key number of a line; None for a line without sample. Raises ParseError."""
        if self.ended or not line:
            what = f"text after {_EOF}: {shown(_text(line, number))}" if self.ended else _BLANK
            raise ParseError(number, what)
        if line.startswith(b"#"):
            self._comment(_text(line, number), number)
            return line, None
        key = line.rsplit(b" ", 2)[0]
        known = self.table.keys.get(key)
        return (key, known) if known is not None else self._first_sight(line, key, number)

    def _comment(self, text: str, number: int) -> None:
        if text == _EOF:
            self.ended = True
            return
        for said in _parse(text, number).metadata:
            known = self.metadata.get(said.family, said)
            self.metadata[said.family] = Metadata(
                said.family,
                known.type if said.type == "unknown" else said.type,
                said.help or known.help,
                said.unit or known.unit,
            )

    def _first_sight(self, line: bytes, key: bytes, number: int) -> tuple[bytes, int]:
        parts = _text(key, number).split('"')
        if parts[-1] == "}" and len(parts) % 2 and b"\\" not in key:
            shape = self._shapes.find(tuple(parts[:-1:2]))
            if shape is not None:
                pairs = zip(shape.names, shape.values(parts), strict=True)
                return key, self.table.add(key, labels_from(pairs, shape.name))
        series, text = None, _text(line, number)
        with suppress(ParseError):
            series = read_series(text, number, _GRAMMAR)
        if series is None or len(text[: series.end].encode()) != len(key):
            page = _parse(text, number)  # has the word on what is no series, value and timestamp
            series = read_series(page.keys[0], number, _GRAMMAR)
            key = page.keys[0].encode()
            known = self.table.keys.get(key)
            if known is not None:
                return key, known
        return key, self.table.add(key, labels_from(series.pairs, series.name))

    def _read_rests(self, block: _Block, start: int, end: int, found: list[Columns]) -> None:
        """Read what stands behind the keys, in ever smaller parts around what is not as usual."""
        if start == end:
            return
        columns = self._read_together(block.keys[start:end], block.rests[start:end])
        if columns is not None:
            found.append(columns)
        elif end - start <= _LINE_BY_LINE:
            for sample in range(start, end):
                line = block.line_of(sample)
                key = block.keys[sample : sample + 1]
                found += self._read_line(block.lines[line], key, block.first + line)
        else:
            middle = (start + end) // 2
            self._read_rests(block, start, middle, found)
            self._read_rests(block, middle, end, found)

    def _read_together(self, keys: IntArray, rests: list[bytes]) -> Columns | None:
        """All samples at once; None unless each rest is space, value, space, timestamp."""
        count = len(rests)
        text = b"\n".join(rests)
        codes = np.frombuffer(text, dtype=np.uint8)
        gaps = np.flatnonzero((codes == _SPACE) | (codes == _LINE_FEED))
        if len(gaps) != 3 * count - 1:
            return None
        line_feeds = gaps[2::3]
        if (
            gaps[0] != 0
            or (gaps[3::3] != line_feeds + 1).any()
            or text.count(b"\n") != count - 1
            or (codes[line_feeds] != _LINE_FEED).any()
        ):
            return None
        numbers = _read_numbers(text, 2 * count)
        milliseconds = None if numbers is None else _milliseconds(numbers[1::2], self._latest_ms)
        if numbers is None or milliseconds is None:
            return None
        values = np.ascontiguousarray(numbers[::2])
        values[np.isnan(values)] = NORMAL
        return Columns(self._places[keys], milliseconds, values)

    def _read_line(self, line: bytes, key: IntArray, number: int) -> list[Columns]:
        page = _parse(_text(line, number), number)
        timestamp = page.timestamps.get(0)
        if timestamp is None:
            raise ParseError(
                number, f"{shown(page.keys[0])} has no timestamp; write it in seconds after the value"
            )
        if timestamp < 0:
            raise ParseError(number, "the timestamp lies before 1970")
        if timestamp > self._latest_ms:
            raise ParseError(
                number, "the timestamp lies more than 10 minutes ahead of this clock; it has to be in seconds"
            )
        values = np.array(page.values, dtype=np.float64)
        values[np.isnan(values)] = NORMAL
        return [Columns(self._places[key], np.array([timestamp]), values)]


def _text(line: bytes, number: int) -> str:
    try:
        return line.decode()
    except UnicodeDecodeError as error:
        raise ParseError(number, f"not UTF-8 text: byte 0x{line[error.start]:02x}") from None


def _parse(text: str, number: int) -> ParsedPage:
    """A page of one line."""
    try:
        page, _ = parse_openmetrics([text, _EOF], strict=False)
    except ParseError as error:
        raise ParseError(number, error.reason) from None
    if text[:1] != "#" and not page.keys:
        raise ParseError(number, "a native histogram, which is not supported; take the line out")
    return page


def _read_numbers(text: bytes, count: int) -> FloatArray | None:
    """`count` numbers between single spaces and line feeds, exactly as float() reads them; else None."""
    letters = text.translate(None, _NUMERIC)
    try:
        # orjson rounds as float() does in a quarter of its time, but reads the integer -0 as 0.
        if not letters and b" -0 " not in text:
            # Each line begins with a space, which is the comma between the lines.
            commas = text.replace(b"\n", b"").replace(b" ", b",")
            return np.fromiter(orjson.loads(b"[" + commas[1:] + b"]"), dtype=np.float64, count=count)
    except (orjson.JSONDecodeError, OverflowError, ValueError):
        pass
    lower = text.lower()
    if letters.strip(_LETTERS_OF_SPECIALS) or b"+n" in lower or b"-n" in lower:
        return None
    try:
        numbers = np.fromiter(map(float, text.split()), dtype=np.float64, count=count)
    except ValueError:
        return None
    # A decimal beyond float64 would become infinite.
    return numbers if np.count_nonzero(np.isinf(numbers)) == lower.count(b"inf") else None


def _milliseconds(seconds: FloatArray, latest_ms: int) -> IntArray | None:
    """int64[n], as the page parser cuts seconds; None if one is no time in 1970 .. latest_ms."""
    exact = seconds * 1000.0
    if not ((exact >= 0) & (exact < latest_ms + 1)).all():
        return None
    nearest = np.rint(exact)
    milliseconds = np.where(np.abs(exact - nearest) < _MILLISECOND_SLACK, nearest, np.floor(exact))
    return milliseconds.astype(np.int64) if (milliseconds <= latest_ms).all() else None
