"""`strata demo`: one command to pages over a simulated cluster, and nothing of the user's in it."""

import json
import os
import signal
import socket
import subprocess
import time
import urllib.request
from pathlib import Path

import pytest

from app.__main__ import main
from app.commands.programs import command_line
from app.context import ProcessBook
from app.demo_folder import OF_THIS_MACHINE, is_demo, prepare_folder
from collectors.demo_server import JOBS
from collectors.enabled import BUILT_IN
from db.records import named
from db.settings import Settings, load_jobs, load_settings
from db.store import SampleStore
from tests.browser.server import free_port

USERS = """
scrape_interval: 2s
timezone: Europe/Berlin
discover: true
log: {level: warning}
web: {allowed_hosts: [gpu.example]}
storage: {state: "postgresql+psycopg://strata@db.example/strata"}
store: {prometheus: {query_url: "http://prometheus.example:9090"}}
scrape_configs:
- job_name: mine
  static_configs: [{targets: ["mine.example:9100"]}]
"""


def settings_of(folder: Path, text: str = "{}") -> Settings:
    path = folder / "users.yaml"
    path.write_text(text)
    return load_settings(path, {"data": folder / "data"}, {})


def demos(users: Settings, gpus: int = 32) -> Settings:
    file = prepare_folder(users, 4711, dict(JOBS), gpus)
    return load_settings(file, {"data": file.parent}, {})


def test_nothing_of_the_users_is_scraped_read_or_written(tmp_path):
    settings = demos(settings_of(tmp_path, USERS))
    assert settings.data == tmp_path / "data" / "demo"
    assert settings.state_location == settings.data / "state.db"
    assert settings.store.prometheus is None
    assert not settings.discovers_local_services
    assert settings.storage.retention == 2 * 86_400.0
    jobs = load_jobs(settings).configs
    assert [job.job_name for job in jobs] == list(JOBS.values())
    assert {job.http_sd_configs[0].url for job in jobs} == {
        f"http://127.0.0.1:4711/targets/{kind}" for kind in JOBS
    }


def test_it_looks_and_listens_as_the_user_wants(tmp_path):
    settings = demos(settings_of(tmp_path, USERS))
    assert settings.timezone == "Europe/Berlin"
    assert settings.log.level == "warning"
    assert settings.web.allowed_hosts == ("gpu.example",)
    assert settings.scrape_interval == 2.0


def test_of_this_machine_nothing_is_collected(tmp_path):
    """A collector that is added has to be thought of here: does it read this machine, or what is stored?"""
    settings = demos(settings_of(tmp_path))
    running = {item.name for item in BUILT_IN if item.settings(settings).enabled}
    assert running == {"hardware"}  # what the scraped GPUs can do and cost
    assert {item.name for item in BUILT_IN} - running == set(OF_THIS_MACHINE)


def test_a_large_cluster_is_scraped_less_often(tmp_path):
    users = settings_of(tmp_path)
    assert demos(users, 512).scrape_interval == 5.0
    assert demos(users, 10_000).scrape_interval == 15.0


def test_the_folder_is_marked_and_no_other(tmp_path):
    users = settings_of(tmp_path)
    assert not is_demo(users.data)
    assert is_demo(demos(users).data)
    assert not is_demo(users.data)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--gpus", "0"], "--gpus: 0 is not between 1 and 10000"),
        (["--gpus", "10001"], "--gpus: 10001 is not between 1 and 10000"),
        (["--fault", "fire@1s:node1"], "--fault: 'fire@1s:node1': there is no kind 'fire'"),
        (["--fault", "slow@1s:node9"], "there is no 'node9'"),
        (["--seed", "-1"], "Invalid value for '--seed'"),
        (["--config", "missing.yaml"], "missing.yaml: cannot be read"),
    ],
)
@pytest.mark.parametrize("command", ["demo", "demo-server"])
def test_bad_input_is_one_sentence_before_anything_starts(
    tmp_path, monkeypatch, capsys, command, words, said
):
    monkeypatch.chdir(tmp_path)
    assert main([command, "--data", "data", *words]) == 2
    printed = capsys.readouterr().err
    assert said in printed
    assert len(printed.splitlines()) == 1
    assert not (tmp_path / "data").exists()


def test_a_taken_port_is_told(tmp_path):
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        holder.listen(1)
        port = holder.getsockname()[1]
        line = command_line("demo", data=tmp_path, port=port)
        done = subprocess.run(line, capture_output=True, text=True)
    assert done.returncode == 1
    assert f"port {port} on 127.0.0.1 is taken" in done.stderr


def listed(folder: Path) -> list[object]:
    """The node_exporters as the demo's own configuration finds them, as soon as they are there."""
    settings = load_settings(folder / "strata.yaml", {"data": folder}, {})
    (url,) = (job.http_sd_configs[0].url for job in settings.scrape_configs if job.job_name == JOBS["node"])
    deadline = time.monotonic() + 30
    while True:
        try:
            with urllib.request.urlopen(url, timeout=5) as answer:
                return json.load(answer)
        except OSError:
            assert time.monotonic() < deadline
            time.sleep(0.1)


@pytest.mark.slow
def test_from_the_command_to_simulated_numbers_and_a_clean_stop(tmp_path):
    port = free_port()
    environ = {key: value for key, value in os.environ.items() if not key.startswith("STRATA_")}
    # The environment's word counts as the user's: it must not reach the demo's processes.
    environ |= {"STRATA_DISCOVER": "true", "STRATA_SCRAPE_INTERVAL": "1s"}
    log = tmp_path / "log"
    line = command_line("demo", data=tmp_path / "data", port=port, gpus=12, fault="slow@1s:node1")
    with log.open("w") as stderr:
        demo = subprocess.Popen(line, stdout=subprocess.PIPE, stderr=stderr, text=True, env=environ)
    try:
        assert demo.stdout.readline() == f"Strata is ready: http://127.0.0.1:{port}\n", log.read_text()
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=5) as page:
            assert page.status == 200
        folder = tmp_path / "data" / "demo"
        store = SampleStore.open(folder / "samples.db")
        try:
            instances: set[str] = set()
            while len(instances) < 10:  # twelve GPUs: two nodes with two exporters each, and six servers
                assert demo.poll() is None, log.read_text()
                up = store.select([named("up")], 0, 2**53)
                instances = {dict(series.labels)["instance"] for series in up if series.values[-1] == 1.0}
                instances = {name for name in instances if name.startswith("node")}
                time.sleep(0.2)
            power = store.select([named("DCGM_FI_DEV_POWER_USAGE")], 0, 2**53)
            assert len({dict(series.labels)["UUID"] for series in power}) == 12
            assert store.select([named("node_uname_info")], 0, 2**53)
        finally:
            store.close()
        book = ProcessBook(folder / "state.db")
        rows = {row.name: row for row in book.read()}
        assert {"web", "demo", "collect", "alert"} <= set(rows)
        assert rows["demo"].beat_ms

        # Its port is kept for it: what was found goes on to be found there.
        os.kill(rows["demo"].pid, signal.SIGKILL)
        while {row.name: row for row in book.read()}["demo"].restarts == 0:
            assert demo.poll() is None, log.read_text()
            time.sleep(0.1)
        assert len(listed(folder)) == 2
        book.close()
        demo.send_signal(signal.SIGTERM)
        assert demo.wait(timeout=10) == 0
    finally:
        if demo.poll() is None:
            demo.kill()
        demo.communicate()
    assert not (tmp_path / "data" / "samples.db").exists()
    said = log.read_text()
    assert "Traceback" not in said
    assert "level=error" not in said
    assert "did not stop in time" not in said
