"""A quantile that is no bound is Prometheus's histogram_quantile, whatever the buckets are."""

import random
from collections.abc import Iterator

import pytest

from db.catalog.read import read_signal
from db.catalog.signal import Buckets, Resolved, Signal
from db.labels import Labels, labels_from
from db.promql.engine import instant
from db.store import SampleStore
from tests.db.catalog.pages import LAST_MS, Scrape, stored

# Ascending.
EDGES = ("-5", "-1", "0", "0.1", "0.10", "1e-1", "1", "1.0", "1.5", "2", "5", "0x1p3", "10", "100")
# What no reader can place, and what is placed before all.
ODD = ("", " 1", "1_0", "\u0663", "none", "-Inf")
COUNTS = (0.0, 0.0, 1.0, 1 / 3, 3.0, 1e6)


def histograms(seed: int, number: int) -> Iterator[tuple[Labels, float]]:
    """Buckets as pages have them, and as they should not have them: unordered counts, one edge written in two
    ways, no +Inf, nothing but +Inf."""
    chance = random.Random(seed)
    for index in range(number):
        edges = chance.sample(EDGES, chance.randint(0, len(EDGES)))
        edges += chance.choice([["+Inf"], ["+Inf"], ["+Inf"], ["Inf"], ["+Inf", "inf"], []])
        edges += chance.sample(ODD, 1) if chance.random() < 0.2 else []
        counts = [float(chance.randint(0, 9)) for _ in edges]
        if chance.random() < 0.6:
            counts = [sum(counts[: place + 1]) for place in range(len(edges))]
            edges.sort(key=lambda edge: EDGES.index(edge) if edge in EDGES else len(EDGES))
        elif chance.random() < 0.5:
            counts = [chance.choice(COUNTS) for _ in edges]
        for edge, count in zip(edges, counts, strict=True):
            yield labels_from({"h": str(index), "le": edge}, "x_bucket"), count


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SampleStore]:
    samples = dict(histograms(5, 1500))
    with stored(
        tmp_path_factory.mktemp("x") / "samples.db",
        [[Scrape(LAST_MS, list(samples), list(samples.values()))]],
    ) as opened:
        yield opened


@pytest.mark.parametrize("quantile", [0.01, 0.5, 0.95, 0.99])
def test_a_quantile_is_prometheus_own_or_a_bound(store: SampleStore, quantile: float):
    buckets = "sum by (h, le) (x_bucket)"
    signal = Signal("x_p95", "model", "X", "seconds", "low", "X.", ("h",), ("h",), "max", "x", quantile)
    resolved = Resolved(signal, ("h",), "5m", "", ("x",), (Buckets(buckets, 1.0, "x"),))
    found = {reading.labels: reading for reading in read_signal(store, resolved, LAST_MS)}
    answer = instant(store, f"histogram_quantile({quantile:g}, {buckets})", LAST_MS)
    theirs = dict(zip(map(tuple, answer.table.rows()), answer.values[:, 0].tolist(), strict=True))
    assert set(found) == set(theirs)
    wrong = {}
    for labels, value in theirs.items():
        mine = found[labels]
        if mine.bound == "below":
            right = value <= mine.value
        elif mine.bound == "above":
            right = value == mine.value
        else:
            right = mine.value == pytest.approx(value, rel=1e-9, nan_ok=True)
        if not right:
            wrong[labels] = (mine, value)
    assert wrong == {}
    assert {reading.bound for reading in found.values()} == {"", "below", "above"}
