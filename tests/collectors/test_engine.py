"""The engine's own row on the Sources page, and its metrics."""

import asyncio

import numpy as np
import pytest

from collectors.commit import Committer
from collectors.engine import READ_ONLY, EngineCollector
from collectors.engine_plan import EnginePlan, refuse_change, tell_left_over
from collectors.local import LocalCollector
from collectors.remote_write_sender import SenderState
from db.config_errors import SettingsError
from db.labels import labels_from
from db.outgoing_queue import FOLDER, Bounds, OutgoingQueue
from db.promql.errors import SourceUnavailable
from db.queued_store import QueuedStore
from db.records import SparseAppend
from db.remote_settings import PrometheusSettings
from db.settings import load_settings
from db.store import SampleStore
from tests.fakes_clock import FakeClock

READ = PrometheusSettings(query_url="http://e:9090")
WRITTEN = PrometheusSettings(query_url="http://e:9090", remote_write_url="http://e:9090/api/v1/write")
NOW_MS = 1_795_000_000_000


def collector(settings, tmp_path, state=None, check=lambda: None):
    return EngineCollector(settings, tmp_path, state or SenderState(), check, now=lambda: NOW_MS / 1000)


def values(families):
    return {family.name: family.samples[0].value for family in families}


def gone():
    raise SourceUnavailable("http://e:9090 cannot be reached: connection refused")


def test_an_engine_that_is_read(tmp_path) -> None:
    engine = collector(READ, tmp_path)
    found = values(engine.collect())
    assert set(found) == {"strata_engine_up", "strata_engine_check_duration_seconds"}
    assert found["strata_engine_up"] == 1
    assert engine.note == f"reads http://e:9090; {READ_ONLY}"
    assert engine.trouble == ""


def test_an_engine_that_is_away_is_told_and_measured(tmp_path) -> None:
    engine = collector(READ, tmp_path, check=gone)
    assert values(engine.collect())["strata_engine_up"] == 0
    assert engine.trouble.endswith("connection refused")


def test_what_waits_and_what_was_lost(tmp_path) -> None:
    queue = OutgoingQueue(tmp_path / FOLDER / "collect", Bounds(1 << 40, 1 << 40), lambda: NOW_MS - 60_000)
    queue.append([SparseAppend([labels_from({"__name__": "x"})] * 3, np.arange(3), np.zeros(3))])
    state = SenderState(sent=7, retries=2, rejected=1, rejection="HTTP 400: old", trouble="engine away")
    engine = collector(WRITTEN, tmp_path, state)
    found = values(engine.collect())
    assert found["strata_remote_write_pending_samples"] == 3
    assert found["strata_remote_write_samples_total"] == 7
    assert found["strata_remote_write_samples_rejected_total"] == 1
    assert found["strata_remote_write_samples_dropped_total"] == 0
    assert found["strata_remote_write_queue_bytes"] > 0
    assert "3 samples wait on disk, the oldest for 60 s" in engine.note
    assert "1 were refused: HTTP 400: old" in engine.note
    assert engine.trouble == "engine away"


def test_trouble_makes_a_row_down_and_its_samples_are_kept(tmp_path) -> None:
    store = SampleStore.open(tmp_path / "samples.db")
    clock = FakeClock(NOW_MS)

    async def go():
        committer = Committer(store, clock)
        task = asyncio.create_task(committer.run())
        local = LocalCollector(collector(READ, tmp_path, check=gone), "box", 15.0, clock, committer)
        await local.attempt()
        committer.stop()
        await task

    asyncio.run(go())
    (report,) = store.sources()
    assert (report.state, report.pool) == ("down", "engine")
    assert report.error.endswith("connection refused")
    assert READ_ONLY in report.note
    assert len(store.select([], 0, NOW_MS + 1)) > 1
    store.close()


def test_nothing_is_collected_beside_an_engine_that_is_only_read(tmp_path) -> None:
    text = "store: {prometheus: {query_url: http://e:9090}}\nscrape_configs: [{job_name: a}]\n"
    (tmp_path / "strata.yaml").write_text(text)
    settings = load_settings(tmp_path / "strata.yaml", {"data": str(tmp_path)}, {"HOME": str(tmp_path)})
    engine = EnginePlan.of(settings)
    assert engine is not None
    plan = engine.plan(settings)
    assert plan.jobs.configs == ()
    assert not plan.discover
    # What its GPUs can do and cost is added here.
    assert [item.name for item in plan.built_in] == ["engine", "hardware"]


def test_samples_go_to_the_queue_and_reports_to_the_store(tmp_path) -> None:
    store = SampleStore.open(tmp_path / "samples.db")
    plan = EnginePlan(WRITTEN, tmp_path)
    writer = plan.writer(store, FakeClock(NOW_MS))
    assert isinstance(writer, QueuedStore)
    assert EnginePlan(READ, tmp_path).writer(store, FakeClock()) is store
    writer.write([SparseAppend([labels_from({"__name__": "x"})], np.array([NOW_MS]), np.ones(1))])
    assert store.select([], 0, NOW_MS + 1) == []
    note = collector(WRITTEN, tmp_path)
    assert values(note.collect())["strata_remote_write_pending_samples"] == 1
    store.close()


def test_samples_for_an_engine_that_is_gone_are_not_forgotten_silently(tmp_path, caplog) -> None:
    tell_left_over(tmp_path)
    assert caplog.text == ""
    queue = OutgoingQueue(tmp_path / FOLDER / "collect", Bounds(1 << 40, 1 << 40), FakeClock(NOW_MS).now_ms)
    queue.append([SparseAppend([labels_from({"__name__": "x"})], np.array([NOW_MS]), np.ones(1))])
    queue.close()
    tell_left_over(tmp_path)
    assert f"1 samples wait in {tmp_path / FOLDER} for an engine that is no longer written to" in caplog.text


def test_another_engine_takes_a_restart(tmp_path) -> None:
    def loaded(text):
        (tmp_path / "strata.yaml").write_text(text)
        return load_settings(tmp_path / "strata.yaml", {"data": str(tmp_path)}, {"HOME": str(tmp_path)})

    before, after = loaded("log: {level: info}\n"), loaded("store: {prometheus: {query_url: http://e}}\n")
    refuse_change(before, before)
    with pytest.raises(SettingsError, match="store: cannot change while Strata runs; restart it"):
        refuse_change(before, after)
