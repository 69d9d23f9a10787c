"""What OpenMetrics demands between the lines of a page: families in one piece, histograms whole, values sane.

Split by what the next page can change. With the same series and the same comments only values differ, so all
rules about values are kept as index arrays (`ValueRules`) and asked again in a few NumPy steps; every other
rule has been decided once.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from collectors.series_text import ParseError, read_number, shown
from db.nan import FloatArray, IntArray

_SUFFIXES: dict[str, tuple[str, ...]] = {
    "counter": ("_total", "_created"),
    "summary": ("", "_count", "_sum", "_created"),
    "histogram": ("_count", "_sum", "_bucket", "_created"),
    "gaugehistogram": ("_gcount", "_gsum", "_bucket"),
    "info": ("_info",),
}
_HISTOGRAMS = ("histogram", "gaugehistogram")
_NOT_NAN = frozenset(("_total", "_sum", "_count", "_bucket", "_gcount", "_gsum"))
_NOT_NEGATIVE = _NOT_NAN - {"_gsum"}
_WHOLE = frozenset(("_count", "_bucket", "_gcount"))


@dataclass(slots=True)  # not frozen: one is made for every line of a page
class SampleLine:
    """One sample as the rules see it; `values` belong to `names`, which are sorted; timestamp in seconds."""

    number: int
    index: int
    name: str
    names: tuple[str, ...]
    values: tuple[str, ...]
    timestamp: float | None = None
    exemplar: bool = False


class ValueRules:
    """Which samples must hold which values, by sample index."""

    __slots__ = ("_pairs", "_singles")

    def __init__(self, singles: dict[str, list[int]], pairs: dict[str, list[tuple[int, int]]]) -> None:
        self._singles = {rule: np.array(at, dtype=np.int32) for rule, at in singles.items() if at}
        self._pairs = {rule: np.array(at, dtype=np.int32).T for rule, at in pairs.items() if at}

    def broken_by(self, values: Sequence[float] | FloatArray) -> tuple[int, str] | None:
        """First sample that breaks a rule, and how; None if all hold. `values`: float64[samples]."""
        array = np.asarray(values, dtype=np.float64)
        found: tuple[int, str] | None = None
        for rule, at in self._singles.items():
            found = _earlier(found, at[~_HOLDS[rule](array[at])], rule)
        for rule, (first, second) in self._pairs.items():
            kept = array[second] >= array[first] if rule == FALLS else array[second] == array[first]
            found = _earlier(found, second[~kept], rule)
        return found


NOT_NAN, NEGATIVE, FRACTION = "cannot be NaN", "cannot be negative", "must be a whole number"
NOT_ONE, NOT_BIT = "is an info and must be 1", "is a state and must be 0 or 1"
FALLS = "is less than the bucket before it"
UNEQUAL = "differs from the +Inf bucket"

_HOLDS = {
    NOT_NAN: lambda v: v == v,
    NEGATIVE: lambda v: ~(v < 0),
    FRACTION: lambda v: np.isfinite(v) & (np.floor(v) == v),
    NOT_ONE: lambda v: v == 1,
    NOT_BIT: lambda v: (v == 0) | (v == 1),
}


def _earlier(found: tuple[int, str] | None, broken: IntArray, rule: str) -> tuple[int, str] | None:
    if broken.size and (found is None or broken.min() < found[0]):
        return int(broken.min()), rule
    return found


@dataclass(slots=True)
class _Histogram:
    """The buckets, count and sum of one label set at one timestamp."""

    group: object
    number: int
    bound: float | None = None
    bucket: int | None = None
    negative_bounds: bool = False
    counts: list[int] = field(default_factory=list)
    sums: list[int] = field(default_factory=list)
    gsums: list[int] = field(default_factory=list)


@dataclass(slots=True)
class _Family:
    name: str
    number: int
    type: str | None = None
    help: str | None = None
    unit: str | None = None
    suffixes: dict[str, str] = field(default_factory=dict)
    """Sample name -> suffix, for the sample names this family may have."""
    sampled: bool = False
    group: object = None
    timestamp: float | None = None
    groups: set[object] = field(default_factory=set)
    in_group: set[object] = field(default_factory=set)
    histogram: _Histogram | None = None

    def declare(self, kind: str) -> None:
        self.type = kind
        self.suffixes = {self.name + suffix: suffix for suffix in _SUFFIXES.get(kind, ("",))}


class Families:
    """Follows a page's families in order; each method raises ParseError when the line breaks a rule."""

    def __init__(self) -> None:
        self._family: _Family | None = None
        self._taken: set[str] = set()
        self._singles: dict[str, list[int]] = {rule: [] for rule in _HOLDS}
        self._pairs: dict[str, list[tuple[int, int]]] = {FALLS: [], UNEQUAL: []}

    def value_rules(self) -> ValueRules:
        return ValueRules(self._singles, self._pairs)

    def metadata(self, keyword: str, name: str, text: str, number: int) -> None:
        family = self._family
        if family is None or family.name != name:
            family = self._start(_Family(name, number, suffixes={name: ""}))
        elif family.sampled:
            raise ParseError(number, f"{keyword} of {shown(name)} comes after its samples")
        said = {"HELP": family.help, "TYPE": family.type, "UNIT": family.unit}[keyword]
        if said is not None:
            raise ParseError(number, f"a second {keyword} line for {shown(name)}")
        if keyword == "HELP":
            family.help = text
        elif keyword == "UNIT":
            family.unit = text
        else:
            family.declare(text)

    def native_histogram(self, name: str, number: int) -> None:
        family = self._family
        if family is None or family.type != "histogram" or family.name != name:
            raise ParseError(
                number, f"a native histogram {shown(name)} outside a histogram family of that name"
            )
        family.sampled = True

    def sample(self, line: SampleLine) -> None:
        family = self._family
        if family is None or line.name not in family.suffixes:
            family = self._start(_Family(line.name, line.number))
            family.declare("unknown")
        suffix = family.suffixes[line.name]
        special = _special_label(family, suffix)
        group: object = None  # the samples of an info cannot be told apart into groups
        if special is not None:
            group = _without(line, special)
        elif family.type != "info":
            group = (line.names, line.values)
        if suffix == "" and family.type == "summary":
            _check_quantile(line)
        self._check_group(family, group, line)
        if line.exemplar and not (
            (family.type in _HISTOGRAMS and suffix == "_bucket")
            or (family.type == "counter" and suffix == "_total")
        ):
            raise ParseError(line.number, f"{shown(line.name)} cannot carry an exemplar")
        self._note_values(family, suffix, line.index)
        if family.type in _HISTOGRAMS:
            self._follow_histogram(family, suffix, group, line)
        family.timestamp = line.timestamp

    def close(self) -> None:
        """The current family ends here."""
        family, self._family = self._family, None
        if family is None:
            return
        kind = family.type or "unknown"
        if family.histogram is not None:
            self._check_histogram(family.histogram, family.name)
        for suffix in {"", *_SUFFIXES.get(kind, ())}:
            if family.name + suffix in self._taken:
                raise ParseError(
                    family.number, f"{shown(family.name + suffix)} clashes with an earlier family on the page"
                )
            self._taken.add(family.name + suffix)
        if family.unit and kind in ("info", "stateset"):
            raise ParseError(family.number, f"{shown(family.name)} is of type {kind}, which has no unit")

    def _start(self, family: _Family) -> _Family:
        self.close()
        self._family = family
        return family

    def _check_group(self, family: _Family, group: object, line: SampleLine) -> None:
        """Samples with the same labels stand together, and their timestamps never go back."""
        if not family.sampled or group != family.group:
            if group in family.groups:
                raise ParseError(
                    line.number, f"the samples of {shown(line.name)} with these labels are not in one piece"
                )
            family.groups.add(group)
            family.in_group.clear()
        elif (line.timestamp is None) != (family.timestamp is None):
            raise ParseError(line.number, f"{shown(line.name)} has samples with and without timestamp")
        elif (
            line.timestamp is not None
            and family.timestamp is not None
            and line.timestamp < family.timestamp
            and family.type != "info"
        ):
            raise ParseError(line.number, f"the timestamps of {shown(line.name)} go back")
        family.sampled = True
        family.group = group

    def _note_values(self, family: _Family, suffix: str, index: int) -> None:
        singles = self._singles
        if family.type == "stateset":
            singles[NOT_BIT].append(index)
        elif family.type == "info":
            singles[NOT_ONE].append(index)
        elif family.type == "summary" and suffix == "":
            singles[NEGATIVE].append(index)
        elif suffix in _NOT_NAN:
            singles[NOT_NAN].append(index)
            if suffix in _NOT_NEGATIVE:
                singles[NEGATIVE].append(index)
            if suffix in _WHOLE:
                singles[FRACTION].append(index)

    def _follow_histogram(self, family: _Family, suffix: str, group: object, line: SampleLine) -> None:
        series = (line.name, line.names, line.values)
        if line.timestamp != family.timestamp:
            family.in_group.clear()
        repeated = series in family.in_group
        family.in_group.add(series)
        if repeated:  # the same series again within the timestamp's resolution: no part of the histogram
            return
        histogram = family.histogram
        if histogram is None or histogram.group != (group, line.timestamp):
            if histogram is not None:
                self._check_histogram(histogram, family.name)
            histogram = family.histogram = _Histogram((group, line.timestamp), line.number)
        if suffix == "_bucket":
            self._add_bucket(histogram, line)
        elif suffix in ("_count", "_gcount"):
            histogram.counts.append(line.index)
        elif suffix == "_sum":
            histogram.sums.append(line.index)
        elif suffix == "_gsum":
            histogram.gsums.append(line.index)

    def _add_bucket(self, histogram: _Histogram, line: SampleLine) -> None:
        text = line.values[line.names.index("le")]
        bound = read_number(text)
        if bound is None or math.isnan(bound) or (bound == math.inf and text != "+Inf"):
            raise ParseError(
                line.number, f"expected a number or +Inf as le of {shown(line.name)}, got {shown(text)}"
            )
        if histogram.bound is not None and bound <= histogram.bound:
            raise ParseError(line.number, f"{shown(line.name)} has its bucket {shown(text)} out of order")
        histogram.negative_bounds |= bound < 0
        if histogram.bucket is not None:
            self._pairs[FALLS].append((histogram.bucket, line.index))
        histogram.bound, histogram.bucket = bound, line.index

    def _check_histogram(self, histogram: _Histogram, name: str) -> None:
        what, number = f"the histogram {shown(name)}", histogram.number
        has_sum = bool(histogram.sums or histogram.gsums)
        if histogram.bound != math.inf or histogram.bucket is None:
            raise ParseError(number, f"{what} has no +Inf bucket")
        if has_sum != bool(histogram.counts):
            raise ParseError(number, f"{what} has only one of sum and count")
        if histogram.negative_bounds and histogram.sums:
            raise ParseError(number, f"{what} has a sum, which negative buckets forbid")
        self._pairs[UNEQUAL].extend((histogram.bucket, count) for count in histogram.counts[-1:])
        if not histogram.negative_bounds:
            self._singles[NEGATIVE].extend(histogram.gsums)


def _special_label(family: _Family, suffix: str) -> str | None:
    """The label that tells a sample's part of its group and is no part of the group's labels."""
    if suffix == "_bucket":
        return "le"
    if suffix == "" and family.type == "summary":
        return "quantile"
    return family.name if family.type == "stateset" else None


def _without(line: SampleLine, label: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    if label not in line.names:
        raise ParseError(line.number, f"{shown(line.name)} needs the label {shown(label)}")
    at = line.names.index(label)
    return line.names[:at] + line.names[at + 1 :], line.values[:at] + line.values[at + 1 :]


def _check_quantile(line: SampleLine) -> None:
    text = line.values[line.names.index("quantile")]
    quantile = read_number(text)
    if quantile is None or not 0 <= quantile <= 1:
        raise ParseError(
            line.number, f"expected a quantile from 0 to 1 of {shown(line.name)}, got {shown(text)}"
        )
