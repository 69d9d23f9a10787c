"""Targets follow their files, URLs and services, and survive what breaks."""

import asyncio
import json
import os
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import pytest

from collectors.discovery import DiscoveryError, TargetSet
from collectors.fetch import new_session
from collectors.local_services import LocalServices, Service
from db.prometheus_config import load_prometheus_config
from db.scrape_settings import GlobalConfig, ScrapeConfig
from tests.fakes_pages import Page, serving


class SteppedClock:
    """Sleeping takes as long as the test says: `pass_round` ends every sleep."""

    def __init__(self) -> None:
        self.asked: list[float] = []
        self._sleepers: list[asyncio.Future[None]] = []

    def now_ms(self) -> int:
        return 0

    def monotonic(self) -> float:
        return 0.0

    async def sleep(self, seconds: float) -> None:
        self.asked.append(seconds)
        sleeper = asyncio.get_running_loop().create_future()
        self._sleepers.append(sleeper)
        await sleeper

    async def sleeping(self, count: int) -> None:
        """Wait until that many loops are asleep."""
        async with asyncio.timeout(5):
            while len(self._sleepers) < count:
                await asyncio.sleep(0.001)

    def pass_round(self) -> None:
        sleepers, self._sleepers = self._sleepers, []
        for sleeper in sleepers:
            sleeper.set_result(None)


def jobs(folder: Path, text: str) -> list[ScrapeConfig]:
    path = folder / "prometheus.yml"
    path.write_text(text)
    return list(load_prometheus_config(path)[0].jobs)


def run(work: Coroutine[Any, Any, None]) -> None:
    asyncio.run(work)


def instances(targets: TargetSet) -> list[str]:
    return [target.instance for target in targets.targets()]


def write_json(path: Path, *addresses: str, **labels: str) -> None:
    path.write_text(json.dumps([{"targets": addresses, "labels": labels}]))


def test_static_targets_are_there_from_the_start(tmp_path: Path) -> None:
    async def work() -> None:
        configs = jobs(
            tmp_path,
            "scrape_configs:\n- job_name: a\n  static_configs: [{targets: [x:1, y:1]}, {targets: [x:1]}]\n"
            "- job_name: b\n  static_configs: [{targets: [x:1]}]\n"
            "  relabel_configs: [{source_labels: [__address__], regex: x.*, action: drop}]\n",
        )
        async with new_session() as session:
            targets = TargetSet(configs, session)

            assert instances(targets) == ["x:1", "y:1"]
            assert targets.dropped() == {"a": 0, "b": 1}
            assert targets.errors() == []

    run(work())


def test_a_bad_address_is_an_error_of_its_job(tmp_path: Path) -> None:
    async def work() -> None:
        configs = jobs(
            tmp_path, "scrape_configs:\n- job_name: a\n  static_configs: [{targets: ['a b', c:1]}]\n"
        )
        async with new_session() as session:
            targets = TargetSet(configs, session)

            assert instances(targets) == ["c:1"]
            assert targets.errors() == [DiscoveryError("a", "", "target 'a b' is not a host:port")]

    run(work())


FILES = "scrape_configs:\n- job_name: a\n  file_sd_configs: [{files: ['t/*.json', 't/*.yml', one.yaml]}]\n"


def test_files_are_read_followed_and_forgotten(tmp_path: Path) -> None:
    async def work() -> None:
        folder = tmp_path / "t"
        folder.mkdir()
        write_json(folder / "a.json", "a:1", rack="r1")
        (folder / "b.yml").write_text("- targets: [b:1]\n  labels: {rack: 012}\n")
        async with new_session() as session:
            targets = TargetSet(jobs(tmp_path, FILES), session)
            await targets.refresh()

            assert instances(targets) == ["a:1", "b:1"]
            assert dict(targets.targets()[1].labels)["rack"] == "012"
            assert dict(targets.targets()[1].discovered)["__meta_filepath"] == str(folder / "b.yml")
            version = targets.version

            await targets.refresh()
            assert targets.version == version

            write_json(folder / "a.json", "a:1", "a:2", rack="r1")
            write_json(folder / ".hidden.json", "h:1")
            await targets.refresh()
            assert instances(targets) == ["h:1", "a:1", "a:2", "b:1"]
            assert targets.version == version + 1

            (folder / "a.json").unlink()
            (folder / ".hidden.json").unlink()
            await targets.refresh()
            assert instances(targets) == ["b:1"]

    run(work())


def test_a_file_replaced_within_the_same_second_by_one_of_the_same_size_is_noticed(tmp_path: Path) -> None:
    async def work() -> None:
        folder = tmp_path / "t"
        folder.mkdir()
        write_json(folder / "a.json", "a:1")
        before = (folder / "a.json").stat()
        async with new_session() as session:
            targets = TargetSet(jobs(tmp_path, FILES), session)
            await targets.refresh()
            write_json(tmp_path / "new", "b:1")
            os.utime(tmp_path / "new", ns=(before.st_atime_ns, before.st_mtime_ns))
            (tmp_path / "new").rename(folder / "a.json")
            await targets.refresh()

            assert instances(targets) == ["b:1"]

    run(work())


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        ("a.json", '[{"targets": ["a:1"]', "line 1: not valid JSON"),
        (
            "a.json",
            '[{"targets": ["a:1"], "labls": {}}]',
            "group 1: unknown key 'labls'; did you mean 'labels'?",
        ),
        ("a.json", '[{"targets": [5]}]', "group 1: 'targets' item 1 has to be text"),
        ("a.json", '[{"targets": ["\\ud800"]}]', "group 1: 'targets' item 1 is not valid Unicode text"),
        ("a.json", '{"targets": []}', "the document: has to be a list"),
        ("a.json", "[null]", "group 1: item 1 is empty"),
        ("a.json", "[" * 100_000, "not valid JSON"),
        ("b.yml", "- targets: [a\n", "line 2: not valid YAML"),
        ("b.yml", "- targets: [a:1]\n- targets: a:1\n", "line 2: 'targets' has to be a list"),
        ("b.yml", "- targets: [a:1]\n  targets: [b:1]\n", "line 2: key 'targets' is given twice"),
        ("b.yml", b"\xff\xfe", "not UTF-8 text"),
    ],
)
def test_a_broken_file_keeps_its_last_targets_and_says_why(
    tmp_path: Path, name: str, content: str | bytes, reason: str
) -> None:
    async def work() -> None:
        folder = tmp_path / "t"
        folder.mkdir()
        write_json(folder / "good.json", "other:1")
        path = folder / name
        path.write_text("- targets: [last:1]\n" if name.endswith("yml") else '[{"targets": ["last:1"]}]')
        async with new_session() as session:
            targets = TargetSet(jobs(tmp_path, FILES), session)
            await targets.refresh()
            good = sorted(instances(targets))
            path.write_bytes(content.encode() if isinstance(content, str) else content)
            await targets.refresh()

            assert sorted(instances(targets)) == good == ["last:1", "other:1"]
            error = next(error for error in targets.errors() if error.where == str(path))
            assert error.job == "a"
            assert reason in error.reason
            assert "\n" not in error.reason

            path.write_text("[]")
            await targets.refresh()
            assert instances(targets) == ["other:1"]
            assert [error for error in targets.errors() if error.where == str(path)] == []

    run(work())


def test_a_file_that_does_not_exist_yet_is_named(tmp_path: Path) -> None:
    async def work() -> None:
        async with new_session() as session:
            targets = TargetSet(jobs(tmp_path, FILES), session)
            await targets.refresh()

            assert (
                DiscoveryError("a", f"{tmp_path}/one.yaml", "there is no such file yet") in targets.errors()
            )

    run(work())


def test_http_discovery_follows_its_url_and_keeps_the_last_good_answer(tmp_path: Path) -> None:
    async def work() -> None:
        (tmp_path / "secret").write_text("hunter2\n")
        async with serving() as server, new_session() as session:
            text = (
                "scrape_configs:\n- job_name: a\n  http_sd_configs:\n"
                f"  - url: {server.url}/sd\n    authorization: {{credentials_file: secret}}\n"
            )
            targets = TargetSet(jobs(tmp_path, text), session)
            good = Page(json.dumps([{"targets": ["a:1"], "labels": {"rack": "r1"}}]), "application/json")
            server.by_path["/sd"] = good
            await targets.refresh()

            assert instances(targets) == ["a:1"]
            assert dict(targets.targets()[0].discovered)["__meta_url"] == f"{server.url}/sd"
            assert server.asked_headers[0]["Authorization"] == "Bearer hunter2"
            assert targets.errors() == []

            for page, reason in [
                (Page("[]", "text/html"), "content type 'text/html'"),
                (Page("[", "application/json"), "not valid JSON"),
                (Page("boom", status=500), "HTTP 500"),
            ]:
                server.by_path["/sd"] = page
                await targets.refresh()
                assert instances(targets) == ["a:1"]
                assert reason in targets.errors()[0].reason
                assert targets.errors()[0].where == f"{server.url}/sd"

            server.by_path["/sd"] = Page("[]", "application/json; charset=utf-8")
            await targets.refresh()
            assert instances(targets) == []
            assert targets.errors() == []

    run(work())


def test_a_password_in_a_url_is_not_shown(tmp_path: Path) -> None:
    async def work() -> None:
        async with serving() as server, new_session() as session:
            url = f"http://ada:hunter2@127.0.0.1:{server.port}/sd"
            text = f"scrape_configs:\n- job_name: a\n  http_sd_configs: [{{url: '{url}'}}]\n"
            targets = TargetSet(jobs(tmp_path, text), session)
            await targets.refresh()

            assert [error.where for error in targets.errors()] == [f"{server.url}/sd"]
            assert "hunter2" not in repr(targets.errors())

    run(work())


def test_after_a_reload_what_was_discovered_is_there_from_the_start(tmp_path: Path) -> None:
    async def work() -> None:
        (tmp_path / "t").mkdir()
        write_json(tmp_path / "t" / "a.json", "a:1")
        sd = Page('[{"targets": ["b:1"]}]', "application/json")
        async with serving(sd=sd) as server, new_session() as session:

            def text(token: str) -> str:
                url = f"{{url: '{server.url}/sd', authorization: {{credentials: {token}}}}}"
                return FILES + f"  http_sd_configs: [{url}]\n"

            first = TargetSet(jobs(tmp_path, text("old")), session)
            await first.refresh()
            assert instances(first) == ["a:1", "b:1"]

            same = TargetSet(jobs(tmp_path, text("old")), session, previous=first)
            assert instances(same) == ["a:1", "b:1"]

            changed = TargetSet(jobs(tmp_path, text("new")), session, previous=same)
            assert instances(changed) == ["a:1"]
            await changed.refresh()
            assert instances(changed) == ["a:1", "b:1"]
            credentials = [headers["Authorization"] for headers in server.asked_headers]
            assert credentials[0] != credentials[-1]

    run(work())


def test_while_running_changes_are_announced_and_a_hanging_url_delays_no_file(tmp_path: Path) -> None:
    async def work() -> None:
        (tmp_path / "t").mkdir()
        async with serving(sd=Page(hang=True)) as server, new_session() as session:
            clock = SteppedClock()
            text = FILES + f"- job_name: b\n  http_sd_configs: [{{url: '{server.url}/sd'}}]\n"
            targets = TargetSet(jobs(tmp_path, text), session, clock=clock, poll_seconds=3)
            running = asyncio.create_task(targets.run())
            await clock.sleeping(1)  # the file loop; the URL still hangs
            assert clock.asked == [3]

            waiting = asyncio.create_task(targets.changed(targets.version))
            write_json(tmp_path / "t" / "a.json", "a:1")
            clock.pass_round()
            async with asyncio.timeout(5):
                assert await waiting == targets.version
            assert instances(targets) == ["a:1"]

            running.cancel()
            with pytest.raises(asyncio.CancelledError):
                await running

    run(work())


def test_a_local_service_that_is_configured_is_not_scraped_twice(tmp_path: Path) -> None:
    async def work() -> None:
        async with (
            serving(metrics=Page("vllm:x 1\n")) as mine,
            serving(metrics=Page("node_load1 1\n")) as other,
            new_session() as session,
        ):
            services = [
                Service("vllm", "vLLM", (mine.port,), signs=("vllm:",)),
                Service("node", "node_exporter", (other.port,), signs=("node_",)),
            ]
            local = LocalServices(session, GlobalConfig(), services=services, ray_file=None)
            groups = f"[{{targets: ['localhost:{mine.port}']}}]"
            text = f"scrape_configs:\n- job_name: mine\n  static_configs: {groups}\n"
            targets = TargetSet(jobs(tmp_path, text), session, local=local)
            await targets.refresh()

            assert [(target.job, target.instance) for target in targets.targets()] == [
                ("mine", f"localhost:{mine.port}"),
                ("node", f"127.0.0.1:{other.port}"),
            ]

    run(work())
