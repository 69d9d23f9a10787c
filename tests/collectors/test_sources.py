"""Many sources at once: none waits for another, and a reload touches only what changed."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from collectors.clock import SystemClock
from collectors.enabled import BuiltIn
from collectors.runner import Runner
from collectors.sources import FINDINGS_EVERY_SECONDS, Plan
from collectors.types import Family, Sample, Unsupported
from db.config_errors import SettingsError
from db.engine import open_state
from db.nan import is_stale
from db.processes import read_processes
from db.records import Matcher, SourceReport, named
from db.settings import CollectorSettings, Settings, load_jobs, load_settings
from db.store import SampleStore
from tests.hostile_targets import HostileTargets

GOOD = ("good", "gzip", "chunked")


def settings_of(folder: Path, jobs: str, interval: str = "1s", timeout: str = "500ms") -> Settings:
    config = folder / "prometheus.yml"
    times = f"{{scrape_interval: {interval}, scrape_timeout: {timeout}}}"
    config.write_text(f"global: {times}\nscrape_configs:\n{jobs}")
    return load_settings(None, {"data": folder / "data", "prometheus_config": config}, {})


def plan_of(settings: Settings, *built_in: BuiltIn) -> Plan:
    return Plan(settings, load_jobs(settings), built_in, discover=False)


def job(name: str, *ports: int, more: str = "") -> str:
    targets = ", ".join(f"'127.0.0.1:{port}'" for port in ports)
    return f"- {{job_name: {name}, static_configs: [{{targets: [{targets}]}}]{more}}}\n"


@asynccontextmanager
async def collecting(folder: Path, plan: Plan, reload: Callable[[], Plan] | None = None):
    """A collector process at work until the end of the block, which is given what stands for SIGHUP."""
    store = SampleStore.open(folder / "data" / "samples.db")
    state = open_state(folder / "data" / "state.db")
    stop, hangup = asyncio.Event(), asyncio.Event()
    running = asyncio.create_task(Runner(store, state, SystemClock(), "me").run(plan, stop, hangup, reload))
    try:
        yield hangup
    finally:
        stop.set()
        await running
        (process,) = read_processes(state)
        assert (process.name, process.state) == ("collect", "running")
        state.dispose()
        store.close()


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SampleStore]:
    """What the collector left, opened by another hand."""
    opened = SampleStore.open(tmp_path / "data" / "samples.db")
    yield opened
    opened.close()


def rows(store: SampleStore) -> dict[str, SourceReport]:
    return {report.pool: report for report in store.sources()}


def test_hostile_targets_make_no_other_scrape_late(tmp_path: Path, store: SampleStore) -> None:
    async def main() -> None:
        async with HostileTargets() as hostile:
            jobs = "".join(job(name.replace(" ", "_"), port) for name, port in hostile.ports.items())
            async with collecting(tmp_path, plan_of(settings_of(tmp_path, jobs, "2s", "2s"))):
                await asyncio.sleep(9)

    asyncio.run(main())
    reports = rows(store)
    for name in GOOD:
        assert reports[name].state == "up"
        (up,) = store.select([named("up"), Matcher("job", "=", name)], 0, 2**53)
        assert up.values.tolist() == [1.0] * len(up.values)
        gaps = np.diff(up.timestamps)
        assert len(gaps) >= 3
        assert gaps.max() < 3_900, f"{name} missed a scrape: {gaps}"
    down = {name: report for name, report in reports.items() if name not in GOOD}
    assert {report.state for report in down.values()} == {"down"}
    assert all(report.error for report in down.values())


def test_a_reload_ends_what_went_and_leaves_the_rest_alone(tmp_path: Path, store: SampleStore) -> None:
    async def main() -> None:
        async with HostileTargets() as hostile:
            good, gone, new = (hostile.ports[name] for name in GOOD)
            first = plan_of(settings_of(tmp_path, job("stays", good) + job("goes", gone)))
            second = plan_of(settings_of(tmp_path, job("stays", good) + job("comes", new)))
            answers = [second, SettingsError("prometheus.yml:1", "broken")]

            def reload() -> Plan:
                answer = answers.pop(0)
                if isinstance(answer, Exception):
                    raise answer
                return answer

            async with collecting(tmp_path, first, reload) as hangup:
                await asyncio.sleep(1.6)
                hangup.set()
                await asyncio.sleep(1.6)
                hangup.set()  # a broken file: the old configuration stays
                await asyncio.sleep(1.0)

    asyncio.run(main())
    assert set(rows(store)) == {"stays", "comes"}
    (ended,) = store.select([named("up"), Matcher("job", "=", "goes")], 0, 2**53)
    assert is_stale(ended.values[-1:]).all()
    (kept,) = store.select([named("up"), Matcher("job", "=", "stays")], 0, 2**53)
    assert not is_stale(kept.values).any()
    assert np.diff(kept.timestamps).max() < 1_900
    assert store.select([named("up"), Matcher("job", "=", "comes")], 0, 2**53)


def test_a_target_goes_on_when_only_the_way_it_was_found_changed(tmp_path: Path, store: SampleStore) -> None:
    def found(*ports: int, revision: str) -> str:
        groups = ", ".join(
            f"{{targets: ['127.0.0.1:{port}'], labels: {{__meta_revision: '{revision}'}}}}" for port in ports
        )
        return f"- {{job_name: j, static_configs: [{groups}]}}\n"

    async def main() -> str:
        async with HostileTargets() as hostile:
            stays, comes, _ = (hostile.ports[name] for name in GOOD)
            first = plan_of(settings_of(tmp_path, found(stays, revision="1")))
            second = plan_of(settings_of(tmp_path, found(stays, comes, revision="2")))
            async with collecting(tmp_path, first, lambda: second) as hangup:
                await asyncio.sleep(1.4)
                hangup.set()
                await asyncio.sleep(2.4)
            return f"127.0.0.1:{stays}"

    instance = asyncio.run(main())
    assert len(store.select([named("up")], 0, 2**53)) == 2
    (kept,) = store.select([named("up"), Matcher("instance", "=", instance)], 0, 2**53)
    assert not is_stale(kept.values).any()
    assert np.diff(kept.timestamps).max() < 1_500


class BrokenClock(SystemClock):
    """Fails whoever follows the targets."""

    async def sleep(self, seconds: float) -> None:
        if seconds == FINDINGS_EVERY_SECONDS:
            raise ZeroDivisionError("a defect")
        await super().sleep(seconds)


def test_targets_that_are_no_longer_followed_end_the_process_loudly(tmp_path: Path, caplog) -> None:
    plan = plan_of(settings_of(tmp_path, "- {job_name: j, scrape_interval: 5s}\n"))
    samples = SampleStore.open(tmp_path / "data" / "samples.db")
    state = open_state(tmp_path / "data" / "state.db")

    async def main() -> None:
        runner = Runner(samples, state, BrokenClock(), "me")
        await asyncio.wait_for(runner.run(plan, asyncio.Event(), asyncio.Event(), None), 10)

    with pytest.raises(RuntimeError, match="no longer followed"):
        asyncio.run(main())
    assert "a defect" in caplog.text
    samples.close()
    state.dispose()


class Thermometer:
    """A built-in collector for the test."""

    name = "thermometer"
    job = "t"

    def collect(self):
        return [Family("temp_celsius", "gauge", "help", (Sample("temp_celsius", (), 40.0),))]


class Nothing:
    name = "nothing"
    job = "n"

    def collect(self):
        raise Unsupported("there is no such hardware")


def built_in(collector: type, **settings) -> BuiltIn:
    own = CollectorSettings(**settings)
    return BuiltIn(collector.name, lambda _hostname, _exposed: collector(), lambda _settings: own)


def test_collectors_warnings_and_discovery_errors_are_rows_too(tmp_path: Path, store: SampleStore) -> None:
    missing = ", file_sd_configs: [{files: [absent/targets.json]}], kubernetes_sd_configs: [{role: pod}]"
    settings = settings_of(tmp_path, "- {job_name: found" + missing + "}\n")
    bad = tmp_path / "absent"
    bad.mkdir()
    (bad / "targets.json").write_text("{not json")
    plan = plan_of(
        settings,
        built_in(Thermometer, interval="1s"),
        built_in(Nothing),
        replace(built_in(Thermometer, enabled=False), name="off"),
    )

    async def main() -> None:
        async with collecting(tmp_path, plan):
            await asyncio.sleep(2.5)

    asyncio.run(main())
    found = {(report.kind, report.pool): report for report in store.sources()}
    assert found["collector", "thermometer"].state == "up"
    assert found["collector", "nothing"].note == "there is no such hardware"
    assert ("collector", "off") not in found
    assert "kubernetes_sd_configs" in found["config", "prometheus_config"].note
    assert found["discovery", "found"].state == "down"
    assert "targets.json" in found["discovery", "found"].instance
    (temperature,) = store.select([named("temp_celsius")], 0, 2**53)
    assert dict(temperature.labels)["instance"] == "me"
    assert len(temperature.values) >= 2


def test_once_reads_every_source_one_time(tmp_path: Path, store: SampleStore) -> None:
    async def main() -> None:
        async with HostileTargets() as hostile:
            plan = plan_of(settings_of(tmp_path, job("good", hostile.ports["good"])), built_in(Thermometer))
            state = open_state(tmp_path / "data" / "state.db")
            await Runner(store, state, SystemClock(), "me").once(plan)
            assert hostile.requests == {"good": 1}
            state.dispose()

    asyncio.run(main())
    assert [len(series.values) for series in store.select([named("up")], 0, 2**53)] == [1, 1]
