"""Every exporter's page: what each signal is on it, computed by hand or by Prometheus.

A file of `expected/` names the page (or several targets' pages, or a recorded sequence) and every signal that
resolves on it, by the labels of its entity.
"""

import math
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from db.catalog.catalog import Catalog
from db.catalog.load import load_catalog
from db.catalog.read import Reading, read_signal
from db.catalog.signal import Missing, Resolved
from tests.db.catalog.pages import LAST_MS, Scrape, fixture, names_of, ramped, read_page, recorded, stored

EXPECTED = sorted((Path(__file__).parent / "expected").glob("*.yaml"))
_RELATIVE = 1e-6
_OF_READING = ("value", "bound", "observations")


def targets_of(expected: Mapping[str, Any]) -> Iterator[tuple[int, Iterable[Scrape]]]:
    """Each target's scrapes, and the time of its last."""
    for target in expected.get("targets", [expected]):
        labels = {"job": target["job"], "instance": target["instance"], **target.get("labels", {})}
        if "series" in target:
            paths = [fixture(name) for name in target["series"]]
            yield max(int(path.stem) for path in paths), recorded(paths, labels)
        else:
            yield LAST_MS, ramped(read_page(fixture(target["page"])), labels)


def resolved_on(catalog: Catalog, store: Any) -> dict[str, Resolved]:
    """By the labels of their entity, the signals that the store's metrics yield."""
    names = names_of(store)
    found = {}
    for signal in catalog.signals.values():
        answer = catalog.resolve(signal.id, names, by=signal.entity)
        if not isinstance(answer, Missing):
            found[signal.id] = answer
    return found


def as_written(reading: Reading) -> dict[str, Any]:
    written: dict[str, Any] = {**dict(reading.labels), "value": reading.value}
    if reading.bound:
        written["bound"] = reading.bound
    return written


@pytest.mark.parametrize("path", EXPECTED, ids=[path.stem for path in EXPECTED])
def test_the_signals_of_a_page(path: Path, tmp_path: Path):
    expected = yaml.safe_load(path.read_text())
    given = list(targets_of(expected))
    at_ms = expected.get("at_ms", max(last_ms for last_ms, _ in given))
    with stored(tmp_path / "samples.db", [scrapes for _, scrapes in given]) as store:
        resolved = resolved_on(load_catalog(), store)
        wrong = []
        for name in sorted(set(resolved) | set(expected["signals"])):
            if name not in resolved:
                wrong.append(f"{name}: does not resolve")
            elif name not in expected["signals"]:
                wrong.append(f"{name}: not expected: {_shown(read_signal(store, resolved[name], at_ms))}")
            else:
                found = read_signal(store, resolved[name], at_ms)
                wrong += [f"{name}: {line}" for line in differences(expected["signals"][name], found)]
    assert wrong == []


def differences(wanted: list[dict[str, Any]], found: list[Reading]) -> Iterator[str]:
    """What is not as wanted, one line each."""
    left = {reading.labels: reading for reading in found}
    for row in wanted:
        labels = tuple(sorted((name, str(text)) for name, text in row.items() if name not in _OF_READING))
        reading = left.pop(labels, None)
        if reading is None:
            yield f"no {dict(labels)} among {_shown(found)}"
        elif not same(float(row["value"]), reading.value):
            yield f"{dict(labels)} is {reading.value!r} instead of {row['value']!r}"
        elif reading.bound != row.get("bound", ""):
            yield f"{dict(labels)} has the bound {reading.bound!r} instead of {row.get('bound', '')!r}"
        elif "observations" in row and not same(float(row["observations"]), reading.observations):
            yield f"{dict(labels)} has {reading.observations} observations instead of {row['observations']}"
    for reading in left.values():
        yield f"not expected: {as_written(reading)}"


def same(wanted: float, found: float | None) -> bool:
    if found is None:
        return False
    if math.isnan(wanted) or math.isnan(found):
        return math.isnan(wanted) and math.isnan(found)
    return wanted == found or abs(wanted - found) <= _RELATIVE * max(abs(wanted), abs(found))


def _shown(found: list[Reading]) -> str:
    shown = [as_written(reading) for reading in found[:3]]
    return f"{shown}{' ...' if len(found) > 3 else ''}"


def test_there_is_an_expectation_for_many_pages():
    assert EXPECTED
