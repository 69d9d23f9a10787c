"""topk and bottomk over values that repeat, in a real Prometheus and in ours: which of equal series are kept.

Prometheus changed that in 2.44 (it replaces the root of its heap in place since), and Debian's is older. So
one heap of the tests is compared with both: as the older one has it with Prometheus, as the newer one has it
with ours; where the two choose alike, Prometheus and ours are compared with each other.
"""

import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from db.labels import Labels, labels_from
from db.nan import NORMAL
from db.promql.source import Source
from tests.db.promql.heap_reference import chosen
from tests.genuine_prometheus import prometheus
from tests.promql.compare import Given, asked_here, asked_there, opened
from tests.promql.grammar import Question
from tests.promql.pushed import push
from tests.promql.samples import FIRST_MS, Samples

COUNT = 40
STEP_MS = 60_000
TIMES = [FIRST_MS + STEP_MS * (step + 1) for step in range(COUNT)]
SELECTORS = ("m", "last_over_time(m[1m])", 'm{host!="b"}')


def series() -> list[Samples]:
    """Not in the order of their labels."""
    rng = np.random.default_rng(8)
    labels = [
        labels_from({"host": host, "job": job, **({"Zone": "x"} if host in "bd" else {})}, "m")
        for host in "abcdefghij"
        for job in ("y", "x")
    ]
    times = FIRST_MS + 15_137 + STEP_MS * np.arange(COUNT, dtype=np.int64)
    found = []
    for place in rng.permutation(len(labels)).tolist():
        values = rng.choice([0.0, 1.0, 2.0, 3.0, NORMAL], COUNT, p=[0.3, 0.3, 0.2, 0.1, 0.1])
        there = rng.random(COUNT) < 0.8
        found.append(Samples(labels[place], times[there], values[there]))
    return found


@pytest.fixture(scope="module")
def both() -> Iterator[tuple[str, Source]]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        config = folder / "prometheus.yml"
        config.write_text("")
        with (
            prometheus(config, folder, "--web.enable-remote-write-receiver") as server,
            opened(folder / "ours.db", series()) as ours,
        ):
            push(server.url, series())
            yield server.url, ours


def kept(given: Given) -> list[set[Labels]]:
    """At each of TIMES."""
    points = {labels: {time for time, _ in held} for labels, held in given.series.items()}
    return [{labels for labels, held in points.items() if time in held} for time in TIMES]


def wanted(op: str, k: int, by: str, inner: Given, *, old: bool) -> list[set[Labels]]:
    found = []
    for time in TIMES:
        groups: dict[str, list[tuple[Labels, float]]] = {}
        for labels in sorted(inner.series):
            for value in (value for at, value in inner.series[labels] if at == time):
                groups.setdefault(dict(labels)["job"] if by else "", []).append((labels, value))
        kept = (labels for group in groups.values() for labels, _ in chosen(op, k, group, old=old))
        found.append(set(kept))
    return found


@pytest.mark.server
@pytest.mark.parametrize("op", ["topk", "bottomk"])
@pytest.mark.parametrize("by", ["", " by (job)"])
def test_of_equal_series_those_of_prometheus_are_kept(both: tuple[str, Source], op: str, by: str):
    url, ours = both
    alike = 0
    for selector in SELECTORS:
        inner = asked_there(url, Question(selector, TIMES[0], TIMES[-1], STEP_MS))
        for k in range(1, 7):
            text = f"{op}{by}({k}, {selector})"
            asked = Question(text, TIMES[0], TIMES[-1], STEP_MS)
            older, newer = (wanted(op, k, by, inner, old=old) for old in (True, False))
            theirs, here = kept(asked_there(url, asked)), kept(asked_here(ours, asked))
            assert (text, theirs) == (text, older)
            assert (text, here) == (text, newer)
            alike += sum(one == other for one, other in zip(theirs, here, strict=True))
            at = TIMES[k * 5]
            alone = Question(text, at, at, 0)
            assert set(asked_there(url, alone).series) == older[k * 5]
            assert set(asked_here(ours, alone).series) == newer[k * 5]
    assert alike > COUNT * 6
