"""A collector of this machine runs like a target; silence, impossibility and failure stay apart."""

import asyncio
import threading
from pathlib import Path

from collectors.commit import Committer
from collectors.local import LocalCollector
from collectors.types import CollectFailed, Family, NoData, Sample, Unsupported
from db.nan import is_stale
from db.records import named
from db.store import SampleStore
from tests.fakes_clock import FakeClock


class Script:
    """A collector that does, turn by turn, what it is told: families, or an error to raise."""

    name = "script"
    job = "j"

    def __init__(self, *turns) -> None:
        self._turns = list(turns)

    def collect(self):
        turn = self._turns.pop(0)
        if isinstance(turn, Exception):
            raise turn
        if callable(turn):
            return turn()
        return [Family("temp_celsius", "gauge", "help", (Sample("temp_celsius", (("gpu", "0"),), turn),))]


def run(folder: Path, collector: Script, turns: int, stuck_seconds: float = 5.0, instance: str = "me"):
    """(reports after each turn, times and values of temp_celsius ("stale" where ended), up)."""
    store = SampleStore.open(folder / "samples.db")

    async def go():
        clock = FakeClock()
        committer = Committer(store, clock)
        committing = asyncio.create_task(committer.run())
        local = LocalCollector(collector, instance, 5.0, clock, committer, stuck_seconds)
        reports = []
        for _ in range(turns):
            clock.advance(1)
            await local.attempt()
            reports.append(local.report)
        committer.stop()
        await committing
        return reports, local

    reports, local = asyncio.run(go())

    def values(metric: str) -> list[float | str]:
        found = store.select([named(metric)], 0, 10**12)
        if not found:
            return []
        ended = is_stale(found[0].values)
        return ["stale" if end else float(v) for v, end in zip(found[0].values, ended, strict=True)]

    result = reports, values("temp_celsius"), values("up"), local, store.metadata()
    store.close()
    return result


def test_families_become_series_with_job_instance_and_metadata(tmp_path: Path) -> None:
    reports, temperatures, up, _, metadata = run(tmp_path, Script(40.0, 41.5), 2)
    assert temperatures == [40.0, 41.5]
    assert up == [1.0, 1.0]
    assert [(r.state, r.samples) for r in reports] == [("up", 1), ("up", 1)]
    assert metadata[0].metric == "temp_celsius"
    assert metadata[0].type == "gauge"


def test_no_driver_is_unsupported_not_down_and_asked_seldom(tmp_path: Path) -> None:
    reports, temperatures, up, local, _ = run(tmp_path, Script(Unsupported("no driver")), 1)
    assert (reports[0].state, reports[0].note, reports[0].error) == ("unsupported", "no driver", "")
    assert temperatures == []
    assert up == []
    assert local.wait_seconds == 300.0


def test_what_another_source_reports_ends_here(tmp_path: Path) -> None:
    reports, temperatures, up, _, _ = run(tmp_path, Script(40.0, NoData("reported by an exporter"), 42.0), 3)
    assert [r.state for r in reports] == ["up", "suppressed", "up"]
    assert temperatures == [40.0, "stale", 42.0]
    assert up == [1.0, "stale", 1.0]


def test_silence_after_a_failure_ends_what_the_failure_said(tmp_path: Path) -> None:
    turns = Script(CollectFailed("driver hangs"), NoData("reported by an exporter"))
    _, _, up, _, _ = run(tmp_path, turns, 2)
    assert up == [0.0, "stale"]


def test_names_that_are_not_utf_8_do_not_cost_the_collector_its_samples(tmp_path: Path) -> None:
    odd = Family("m", "gauge", "h", (Sample("m", (("device", "eth\udce4"),), 1.0),))
    reports, _, up, local, _ = run(tmp_path, Script(lambda: [odd]), 1, instance="h\udcff")
    assert up == [1.0]
    assert reports[0].instance == "h?"
    assert local.report.state == "up"


def test_a_failure_is_down_with_its_reason(tmp_path: Path) -> None:
    reports, temperatures, up, _, _ = run(tmp_path, Script(40.0, CollectFailed("driver gone"), 42.0), 3)
    assert (reports[1].state, reports[1].error) == ("down", "driver gone")
    assert temperatures == [40.0, "stale", 42.0]
    assert up == [1.0, 0.0, 1.0]


def test_a_defect_of_the_collector_is_contained(tmp_path: Path) -> None:
    reports, _, up, _, _ = run(tmp_path, Script(ZeroDivisionError("boom"), 42.0), 2)
    assert reports[0].error == "this collector is broken: ZeroDivisionError: boom"
    assert up == [0.0, 1.0]


def test_a_reading_that_hangs_is_reported_and_not_asked_twice(tmp_path: Path) -> None:
    release = threading.Event()
    collector = Script(lambda: release.wait(20) and [], 42.0)
    try:
        reports, _, _, _, _ = run(tmp_path, collector, 2, stuck_seconds=0.1)
    finally:
        release.set()
    assert reports[0].error == "did not return within 0.1 s"
    assert reports[1].error == "the last reading has still not returned; the driver or a mount hangs"
    assert len(collector._turns) == 1
