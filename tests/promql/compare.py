"""`python -m tests.promql.compare --queries 2000 --seed 1`: random queries over random series, answered by a
real Prometheus and by our evaluator over the same samples.

A difference is put aside for one of two reasons, which are counted by name:

no digits left        our own answer moves by as much when every sample that is no integer is changed by
                      one part in 10^13: the query asks for digits that no float64 has, such as the equality
                      of two sums or the rest of a nearly complete cancellation. In `x - time()` with a small
                      x so small a change moves nothing: if the query names `time()` and the answers share six
                      digits, these samples are moved by up to 2^-20 instead, the last two bits of such a
                      difference. Prometheus's one pass for `stdvar` is wrong by some parts in 10^9 there
contradicts itself    asked for each step alone, Prometheus gives what we give for the range: 2.42 has such
                      errors in `predict_linear(x[5m] @ 0, 1)` and `count_values by (x)` behind the first step
"""

import argparse
import json
import math
import sys
import tempfile
import urllib.error
import urllib.parse
import urllib.request
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
from hypothesis import HealthCheck, Phase, given, seed, settings

from db.labels import Labels
from db.promql.engine import instant, ranged
from db.promql.errors import QueryError
from db.promql.source import Source
from db.records import SparseAppend
from db.store import SampleStore
from tests.genuine_prometheus import prometheus
from tests.promql.grammar import Question, question
from tests.promql.pushed import push
from tests.promql.results import lines, shown
from tests.promql.samples import Samples, perturbed, random_series

TOLERANCE = 1e-9
# The last digits of the time now in seconds, and the most that they explain: all that is asked about `time()`
# would else be put aside.
_CLOCK_DIGITS = 2.0**-20
_ROUNDING = 1e-6
Points = tuple[tuple[int, float], ...]
Verdict = Literal["equal", "differs", "no digits left", "contradicts itself"]


@dataclass(frozen=True, slots=True)
class Given:
    """What an engine gave: its series by labels, or why none. order: of an instant vector."""

    kind: str
    series: Mapping[Labels, Points]
    order: tuple[Labels, ...] = ()
    error: str = ""


@dataclass(frozen=True, slots=True)
class Compared:
    question: Question
    verdict: Verdict
    failed: bool = False
    difference: str = ""


def questions(count: int, number: int) -> list[Question]:
    """So many different ones, always the same for a seed."""
    found: dict[str, Question] = {}
    while len(found) < count:

        @seed(number)
        @settings(
            max_examples=count,
            database=None,
            phases=[Phase.generate],
            deadline=None,
            suppress_health_check=list(HealthCheck),
        )
        @given(question())
        def note(one: Question) -> None:
            found.setdefault(one.text, one)

        note()
        number += 1_000_003
    return list(found.values())[:count]


@contextmanager
def opened(folder: Path, series: Sequence[Samples]) -> Iterator[SampleStore]:
    """A store of its own with these samples."""
    store = SampleStore.open(folder)
    try:
        index = np.repeat(np.arange(len(series)), [len(one.values) for one in series])
        times = np.concatenate([one.timestamps for one in series])
        values = np.concatenate([one.values for one in series])
        store.write([SparseAppend([one.labels for one in series], times, values, index)])
        yield store
    finally:
        store.close()


@dataclass(frozen=True, slots=True)
class Engines:
    """url: of Prometheus. moved: our store with the last digits of its samples changed; rounded: with those
    changed that samples lose in a difference to the time."""

    url: str
    ours: Source
    moved: Source
    rounded: Source

    def compare(self, one: Question) -> Compared:
        theirs, ours = asked_there(self.url, one), asked_here(self.ours, one)
        difference = different(theirs, ours)
        if difference is None:
            return Compared(one, "equal", failed=bool(theirs.error))
        if self.has_no_digits(one, theirs, ours):
            return Compared(one, "no digits left")
        if one.step_ms and not ours.error and all(self._agrees_at(one, ours, at) for at in one.times()):
            return Compared(one, "contradicts itself")
        return Compared(one, "differs", difference=difference)

    def has_no_digits(self, one: Question, theirs: Given, ours: Given) -> bool:
        """Do the last digits of what it is asked about explain why the answers differ?"""
        if theirs.error or ours.error:
            return False
        moved = asked_here(self.moved, one)
        if not moved.error and _explained(theirs, ours, moved):
            return True
        if "time()" not in one.text or not _nearly_equal(theirs, ours):
            return False
        moved = asked_here(self.rounded, one)
        return not moved.error and _explained(theirs, ours, moved)

    def _agrees_at(self, one: Question, ours: Given, at_ms: int) -> bool:
        """Does Prometheus give, for this step alone, what we give there?"""
        text = one.text
        for word, edge in (("start", one.start_ms), ("end", one.times()[-1])):
            text = text.replace(f"@ {word}()", f"@ {edge // 1000}")
        alone = asked_there(self.url, Question(text, at_ms, at_ms, 0))
        points = {labels: dict(series) for labels, series in ours.series.items()}
        there = {labels: ((at_ms, found[at_ms]),) for labels, found in points.items() if at_ms in found}
        return different(alone, Given(alone.kind, there, alone.order)) is None


@contextmanager
def engines(number: int) -> Iterator[Engines]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        config = folder / "prometheus.yml"
        config.write_text("")
        with (
            prometheus(config, folder, "--web.enable-remote-write-receiver") as server,
            engines_at(server.url, folder, number) as found,
        ):
            push(server.url, random_series(number))
            yield found


@contextmanager
def engines_at(url: str, folder: Path, number: int) -> Iterator[Engines]:
    """With stores of their own in the folder, and nothing asked of the url."""
    series = random_series(number)
    with (
        opened(folder / "ours.db", series) as ours,
        opened(folder / "moved.db", perturbed(series, number)) as moved,
        opened(folder / "rounded.db", perturbed(series, number, 0.0, _CLOCK_DIGITS)) as rounded,
    ):
        yield Engines(url, ours, moved, rounded)


def asked_here(source: Source, one: Question) -> Given:
    try:
        if one.step_ms:
            answer = ranged(source, one.text, one.start_ms, one.end_ms, one.step_ms)
        else:
            answer = instant(source, one.text, one.start_ms)
    except QueryError as error:
        return Given("error", {}, error=f"{error.kind}: {error}")
    if answer.kind == "scalar":
        return Given("scalar", {(): ((one.start_ms, float(answer.values[0, 0])),)})
    found = lines(answer)
    series = {line.labels: line.points for line in found}
    if len(series) < len(found):
        return Given("error", {}, error="two series with the same labels in one answer")
    return Given(answer.kind, series, tuple(line.labels for line in found))


def asked_there(url: str, one: Question) -> Given:
    text = one.text.replace("double_exponential_smoothing(", "holt_winters(")
    fields: dict[str, object] = {"query": text}
    if one.step_ms:
        path = "query_range"
        fields |= {"start": one.start_ms / 1000, "end": one.end_ms / 1000, "step": one.step_ms / 1000}
    else:
        path = "query"
        fields["time"] = one.start_ms / 1000
    body = urllib.parse.urlencode(fields).encode()
    try:
        with urllib.request.urlopen(f"{url}/api/v1/{path}", body, timeout=60) as response:
            data = json.load(response)["data"]
    except urllib.error.HTTPError as error:
        said = json.load(error)
        return Given("error", {}, error=f"{said['errorType']}: {said['error']}")
    result = data["result"]
    if data["resultType"] == "scalar":
        return Given("scalar", {(): (_point(result),)})
    series = {
        tuple(sorted(item["metric"].items())): tuple(map(_point, item.get("values") or [item["value"]]))
        for item in result
    }
    return Given(data["resultType"], series, tuple(series))


def _point(pair: tuple[float, str]) -> tuple[int, float]:
    return round(pair[0] * 1000), float(pair[1])


def close(one: float, other: float, tolerance: float = TOLERANCE) -> bool:
    if math.isnan(one) or math.isnan(other):
        return math.isnan(one) and math.isnan(other)
    if math.isinf(one) or math.isinf(other):
        return one == other
    return abs(one - other) <= tolerance * max(abs(one), abs(other))


def different(theirs: Given, ours: Given) -> str | None:
    """The first difference in words."""
    if theirs.error or ours.error:
        if theirs.error and ours.error:
            return None
        return f"Prometheus: {theirs.error or 'an answer'}; ours: {ours.error or 'an answer'}"
    if theirs.kind != ours.kind:
        return f"Prometheus: a {theirs.kind}; ours: a {ours.kind}"
    for labels in theirs.series.keys() ^ ours.series.keys():
        who = "Prometheus" if labels in theirs.series else "ours"
        points = theirs.series.get(labels) or ours.series[labels]
        return f"only {who}: {shown(labels)} {points[:3]}"
    for labels, points in theirs.series.items():
        got = ours.series[labels]
        apart = next((pair for pair in zip(points, got, strict=False) if not _same(*pair)), None)
        if apart is not None or len(points) != len(got):
            pair = apart or (len(points), len(got))
            return f"{shown(labels)} Prometheus: {pair[0]}; ours: {pair[1]}"
    if theirs.kind == "vector" and _ranks(theirs) != _ranks(ours):
        return f"the order: Prometheus: {_ranks(theirs)}; ours: {_ranks(ours)}"
    return None


def _same(one: tuple[int, float], other: tuple[int, float]) -> bool:
    return one[0] == other[0] and close(one[1], other[1])


def _ranks(given: Given) -> list[str]:
    """The values in the answer's order where it means something: they rise or fall throughout."""
    values = [given.series[labels][0][1] for labels in given.order]
    return [f"{value:.9g}" for value in values] if values in (sorted(values), sorted(values)[::-1]) else []


def _explained(theirs: Given, ours: Given, moved: Given) -> bool:
    """Is our answer shaky wherever it is not Prometheus's?"""
    there, here, shaken = map(_by_place, (theirs, ours, moved))
    wrong = [key for key in there.keys() | here.keys() if not _equal(there.get(key), here.get(key))]
    return all(not _equal(here.get(key), shaken.get(key)) for key in wrong)


def _nearly_equal(theirs: Given, ours: Given) -> bool:
    there, here = _by_place(theirs), _by_place(ours)
    return there.keys() == here.keys() and all(close(there[key], here[key], _ROUNDING) for key in there)


def _by_place(given: Given) -> dict[tuple[Labels, int], float]:
    """The values by series and time."""
    return {(labels, time): value for labels, points in given.series.items() for time, value in points}


def _equal(one: float | None, other: float | None) -> bool:
    return one is other if one is None or other is None else close(one, other)


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.promql.compare", description=__doc__)
    parser.add_argument("--queries", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=1, help="of the queries and of the samples")
    options = parser.parse_args(arguments)
    asked = questions(options.queries, options.seed)
    found = []
    with engines(options.seed) as both:
        for one in asked:
            compared = both.compare(one)
            found.append(compared)
            if compared.verdict == "differs":
                print(f"{one}\n    {compared.difference}", flush=True)
    counts = Counter(one.verdict for one in found)
    print(f"{sum(one.failed for one in found)} of the equal are errors on both sides")
    print(f"{counts['no digits left']} put aside: the answer has no digits left")
    print(f"{counts['contradicts itself']} put aside: Prometheus contradicts itself")
    print(f"{counts['equal']} equal, {counts['differs']} differ")
    return 1 if counts["differs"] else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
