"""Samples on their way to Debian's Prometheus and VictoriaMetrics: engines stop, processes are killed, and at
the end every sample is there, once and in order."""

import asyncio
import json
import os
import signal
import time
from contextlib import asynccontextmanager
from urllib.parse import quote
from urllib.request import urlopen

import numpy as np
import pytest

from collectors.clock import SystemClock
from collectors.fetch import new_session
from collectors.remote_write_request import WriteEndpoint
from collectors.remote_write_sender import RemoteWriteSender, SenderState
from db.labels import labels_from
from db.nan import STALE
from db.outgoing_queue import FOLDER, Bounds, OutgoingQueue, waiting_in
from db.records import DenseAppend, named
from db.remote import RemoteEngine
from db.remote_settings import PrometheusSettings
from tests.remote_engines import GenuineEngine, genuine_engine
from tests.running_strata import running_strata

pytestmark = pytest.mark.server
ENGINES = ("prometheus", "victoria-metrics")
SERIES = [labels_from({"__name__": "written", "i": str(i), "path": 'a"b\\c\nd'}) for i in range(40)]


class HastyClock(SystemClock):
    """Does not wait as long as a busy network would want it to."""

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(min(seconds, 0.05))


@asynccontextmanager
async def sending(folder, settings):
    session, state = new_session(), SenderState()
    sender = RemoteWriteSender(folder, WriteEndpoint(settings, session), 10_000, HastyClock(), state)
    task = asyncio.create_task(sender.run())
    try:
        yield state
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        sender.close()
        await session.close()


def settings_of(engine: GenuineEngine) -> PrometheusSettings:
    return PrometheusSettings(query_url=engine.url, remote_write_url=engine.write_url, timeout=5)


async def until(condition, what: str) -> None:
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline, what
        await asyncio.sleep(0.02)


@pytest.mark.parametrize("name", ENGINES)
def test_all_that_was_written_while_the_engine_was_away_arrives_in_order(name, tmp_path) -> None:
    data = tmp_path / "data"
    queue = OutgoingQueue(
        data / FOLDER / "collect", Bounds(1 << 40, 1 << 40), lambda: time.time_ns() // 10**6
    )
    begin_ms = time.time_ns() // 10**6 - 3_600_000
    values = np.round(np.random.default_rng(5).normal(50, 20, size=(40, 200)), 2)

    def scrape(number: int) -> None:
        new = SERIES if number == 0 else []
        queue.append([DenseAppend("t#0", new, begin_ms + 15_000 * number, values[:, number])])

    async def go(engine) -> SenderState:
        def all_sent():
            return waiting_in(data / FOLDER / "collect").samples == 0

        async with sending(data, settings_of(engine)) as state:
            for number in range(50):
                scrape(number)
            await until(all_sent, "the first samples")
            await asyncio.to_thread(engine.stop)
            for number in range(50, 150):
                scrape(number)
            await until(lambda: "cannot be reached" in state.trouble, "the loss of the engine")
            assert waiting_in(data / FOLDER / "collect").samples == 4_000
        async with sending(data, settings_of(engine)) as state:  # the collector process is a new one
            await until(lambda: state.retries > 2, "some more tries")
            await asyncio.to_thread(engine.start)
            for number in range(150, 200):
                scrape(number)
            await until(all_sent, "the catch-up")
            return state

    with genuine_engine(name, tmp_path / name) as engine:
        state = asyncio.run(go(engine))
        assert state.rejected == 0
        end_ms = begin_ms + 15_000 * 200
        found = engine.samples("written", end_ms, "2h")
        assert found == {
            labels: [(begin_ms + 15_000 * number, values[row, number]) for number in range(200)]
            for row, labels in enumerate(SERIES)
        }
        client = RemoteEngine(settings_of(engine))
        series, (rectangle,) = client.rectangles([named("written")], begin_ms + 15_000, end_ms)
        client.close()
        assert sorted(series) == sorted(SERIES)
        assert rectangle.timestamps.tolist() == [begin_ms + 15_000 * number for number in range(1, 200)]
        rows = [SERIES.index(series[row]) for row in rectangle.rows.tolist()]
        assert (rectangle.values == values[rows, 1:]).all()


@pytest.mark.parametrize("name", ENGINES)
def test_an_ended_series_is_ended_there(name, tmp_path) -> None:
    queue = OutgoingQueue(tmp_path / FOLDER / "collect", Bounds(1 << 40, 1 << 40), lambda: 1)
    now_ms = time.time_ns() // 10**6 - 60_000
    queue.append([DenseAppend("t#0", SERIES[:2], now_ms, np.array([1.0, 2.0]))])
    queue.append([DenseAppend("t#0", [], now_ms + 5_000, np.array([3.0, STALE]))])

    async def go(engine):
        async with sending(tmp_path, settings_of(engine)) as state:
            await until(lambda: state.sent == 4, "the samples")

    with genuine_engine(name, tmp_path / name) as engine:
        asyncio.run(go(engine))
        if name != "prometheus":
            engine.samples("written", now_ms, "1m")  # what it has in memory becomes visible
        client = RemoteEngine(settings_of(engine))
        latest = client.instant("written", now_ms + 10_000)
        assert [dict(labels)["i"] for labels in latest.table.rows()] == ["0"]
        client.close()


def test_one_sample_out_of_order_costs_itself_only(tmp_path) -> None:
    """Prometheus refuses the whole request for it."""
    queue = OutgoingQueue(tmp_path / FOLDER / "collect", Bounds(1 << 40, 1 << 40), lambda: 1)
    now_ms = time.time_ns() // 10**6 - 60_000
    queue.append([DenseAppend("a#0", SERIES[:1], now_ms, np.array([1.0]))])

    async def go(engine):
        async with sending(tmp_path, settings_of(engine)) as state:
            await until(lambda: state.sent == 1, "the first sample")
            late = DenseAppend("a#0", [], now_ms - 30_000, np.array([0.0]))
            queue.append([late, DenseAppend("b#0", SERIES[1:], now_ms, np.arange(39.0))])
            await until(lambda: state.sent + state.rejected == 41, "the others")
            return state

    with genuine_engine("prometheus", tmp_path / "prometheus") as engine:
        state = asyncio.run(go(engine))
        assert (state.sent, state.rejected) == (40, 1)
        assert "out of order" in state.rejection
        assert len(engine.samples("written", now_ms + 1_000, "5m")) == 40


def samples_of_up(engine):
    found = engine.samples('up{job="itself"}', time.time_ns() // 10**6, "10m")
    return [at for series in found.values() for at, _ in series]


@pytest.mark.slow
def test_strata_writes_through_a_killed_collector_and_a_stopped_engine(tmp_path) -> None:
    with genuine_engine("prometheus", tmp_path / "prometheus") as engine:
        config = tmp_path / "strata.yaml"
        config.write_text(
            json.dumps(
                {
                    "scrape_interval": "1s",
                    "collectors": {"nvml": {"enabled": False}},
                    "scrape_configs": [
                        {"job_name": "itself", "static_configs": [{"targets": [f"127.0.0.1:{engine.port}"]}]}
                    ],
                    "store": {"prometheus": {"query_url": engine.url, "remote_write_url": engine.write_url}},
                }
            )
        )
        with running_strata(tmp_path / "strata", "--config", str(config), "--no-discover") as strata:
            queue = strata.data / FOLDER / "collect"
            engine.eventually(lambda: len(samples_of_up(engine)) > 3, "scrapes at the engine", 60)
            os.kill(strata.processes()["collect"].pid, signal.SIGKILL)
            before = len(samples_of_up(engine))
            engine.eventually(lambda: len(samples_of_up(engine)) > before + 3, "scrapes again", 60)
            engine.stop()
            strata.wait_for(lambda: waiting_in(queue).samples > 100, "samples that wait")
            with strata.store() as store:
                assert store.select([], 0, 2**62) == []  # they are in the queue, not in the store
            engine.start()
            strata.wait_for(lambda: waiting_in(queue).samples < 100, "the catch-up", 60)
            times = samples_of_up(engine)
            assert times == sorted(set(times))
            # The engine is looked at every 15 s; the last look may have found it stopped.
            strata.wait_for(
                lambda: _value(strata.url, "max(strata_engine_up)") == "1", "the engine's sign", 40
            )
            assert waiting_in(queue).dropped == 0


def _value(url: str, query: str) -> str:
    with urlopen(f"{url}/api/v1/query?query={quote(query)}", timeout=20) as answer:
        found = json.load(answer)["data"]["result"]
    return found[0]["value"][1] if found else ""
