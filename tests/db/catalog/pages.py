"""Stores filled from exporters' pages: one page as if it had been scraped for ten minutes, or a recorded
sequence."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from collectors.exposition import Page, PageParser
from db.labels import Labels, labels_from
from db.records import DenseAppend
from db.series_lookup import label_values
from db.store import SampleStore
from tests.collectors.pages import format_of_file

FIXTURES = Path(__file__).parents[2] / "fixtures"
SHARED = Path(__file__).parents[4] / "shared" / "fixtures"

FIRST_MS = 1_795_000_000_000
STEP_MS = 15_000
STEPS = 40  # ten minutes
LAST_MS = FIRST_MS + STEP_MS * STEPS
_GROWING = ("_count", "_sum", "_bucket", "_total")


@dataclass(frozen=True, slots=True)
class Scrape:
    """What a target showed at one time."""

    at_ms: int
    labels: Sequence[Labels]
    values: Sequence[float]


def fixture(name: str) -> Path:
    """A page of the repository, or one beside the checkout whose licence keeps it there."""
    if (FIXTURES / name).exists():
        return FIXTURES / name
    if not (SHARED / name).exists():
        pytest.skip(f"needs the shared fixtures beside the checkout: {name}")
    return SHARED / name


def read_page(path: Path) -> Page:
    body = path.read_bytes()
    return PageParser(strict=False).parse(body, format_of_file(path))


def as_scraped(page: Page, target: Mapping[str, str]) -> list[Labels]:
    """With the target's labels, which rename those of the page as a scrape does."""
    found = []
    for index in range(len(page.values)):
        own = dict(page.layout.labels(index))
        for name in target:
            if name in own:
                own[f"exported_{name}"] = own.pop(name)
        found.append(labels_from({**own, **target}))
    return found


def ramped(page: Page, target: Mapping[str, str]) -> Iterator[Scrape]:
    """The page every 15 s for ten minutes. What counts grows evenly from 0 to the page's value: its rate is
    value / 600."""
    labels = as_scraped(page, target)
    grows = _growing(page)
    for step in range(STEPS + 1):
        shares = np.where(grows, step / STEPS, 1.0)
        yield Scrape(FIRST_MS + STEP_MS * step, labels, np.where(grows, page.values * shares, page.values))


def recorded(paths: Iterable[Path], target: Mapping[str, str]) -> Iterator[Scrape]:
    """A file a scrape, named by its time in unix ms."""
    for path in sorted(paths):
        page = read_page(path)
        yield Scrape(int(path.stem), as_scraped(page, target), page.values)


def _growing(page: Page) -> np.ndarray:
    types = {item.family: item.type for item in page.layout.metadata}

    def grows(labels: Labels) -> bool:
        name = dict(labels)["__name__"]
        if name in types:
            return types[name] == "counter"
        for end in _GROWING:
            kind = types.get(name.removesuffix(end)) if name.endswith(end) else None
            if kind in ("counter", "histogram", "summary"):
                return True
        return False

    return np.array([grows(page.layout.labels(index)) for index in range(len(page.values))], dtype=bool)


@contextmanager
def stored(path: Path, targets: Iterable[Iterable[Scrape]]) -> Iterator[SampleStore]:
    """A store with these targets' scrapes."""
    store = SampleStore.open(path)
    try:
        for number, scrapes in enumerate(targets):
            _write(store, f"target {number}", list(scrapes))
        yield store
    finally:
        store.close()


def _write(store: SampleStore, name: str, scrapes: Sequence[Scrape]) -> None:
    """Series that a scrape lacks have no sample there: each set of series is a layout of its own."""
    known: dict[tuple[Labels, ...], str] = {}
    appends = []
    for scrape in scrapes:
        unique: dict[Labels, float] = dict(zip(scrape.labels, scrape.values, strict=True))
        order = tuple(unique)
        new: Sequence[Labels] = ()
        if order not in known:
            known[order], new = f"{name} {len(known)}", order
        appends.append(DenseAppend(known[order], list(new), scrape.at_ms, np.array(list(unique.values()))))
    store.write(appends)


def names_of(store: SampleStore) -> frozenset[str]:
    return frozenset(label_values(store.engine, "__name__", [], 0, 2**62))
