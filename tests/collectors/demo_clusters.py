"""Simulated clusters for tests: small, at a fixed time, without faults but the ordered ones; and pages read
as the scraper reads them."""

from collections.abc import Iterator

from collectors.demo import DemoOptions, build_simulation
from collectors.demo_model import Simulation
from collectors.demo_server import ClusterPages
from collectors.exposition import PageParser

START = 1_795_000_000.0
Samples = dict[str, float]
"""A sample's text as on the page -> its value."""


def quiet(gpus: int = 32, *faults: str, seed: int = 1, start: float = START) -> Simulation:
    """A cluster in which only the ordered faults happen."""
    return build_simulation(DemoOptions(gpus, seed, chosen_faults=False, faults=faults), start)


class Scraper:
    """Reads a simulation's pages at times of its own."""

    def __init__(self, simulation: Simulation) -> None:
        self.simulation = simulation
        self.now = simulation.start_seconds
        self.pages = ClusterPages(simulation, lambda: self.now)

    def at(self, second: int) -> "Scraper":
        self.now = self.simulation.start_seconds + second
        while self.simulation.second < second:
            self.simulation.advance(self.now)
        return self

    def text(self, path: str) -> bytes:
        page = self.pages.page(path)
        assert page is not None
        return page

    def samples(self, path: str) -> Samples:
        page = PageParser().parse(self.text(path), "text")
        return dict(zip(page.layout.keys, page.values.tolist(), strict=True))

    def dcgm(self, node: int = 1) -> Samples:
        return self.samples(f"/dcgm/node{node}:9400/metrics")

    def node(self, node: int = 1) -> Samples:
        return self.samples(f"/node/node{node}:9100/metrics")

    def vllm(self, instance: str = "node1:8000") -> Samples:
        return self.samples(f"/vllm/{instance}/metrics")


def metric(samples: Samples, name: str) -> list[float]:
    """The values of one metric name, in page order."""
    return [value for key, value in samples.items() if key.partition("{")[0] == name]


def one(samples: Samples, name: str, *parts: str) -> float:
    """The value of the only sample of this name whose labels have all these parts."""
    (value,) = (
        value
        for key, value in samples.items()
        if key.partition("{")[0] == name and all(part in key for part in parts)
    )
    return value


def seconds(scraper: Scraper, first: int, last: int) -> Iterator[int]:
    """Each second from first to last, simulated."""
    for second in range(first, last + 1):
        scraper.at(second)
        yield second
