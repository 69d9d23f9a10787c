"""The container files without a container engine: the schema, the promises, and each service run here."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonschema import Draft202012Validator

from tests.free_port import free_port
from tests.source_tree import ROOT, read

SCHEMA = json.loads(read(ROOT / "tests/fixtures/compose/compose-spec.json"))
COMPOSE: dict[str, Any] = yaml.safe_load(read(ROOT / "docker-compose.yml"))
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
PORT = 8501


def dockerfile() -> list[tuple[str, str]]:
    """(instruction, arguments) in order, continued lines joined, comments gone."""
    lines = [line for line in read(ROOT / "Dockerfile").splitlines() if not line.lstrip().startswith("#")]
    joined = re.sub(r"\\\n\s*", "", "\n".join(lines))
    found = [line.partition(" ") for line in joined.splitlines() if line.strip()]
    return [(word, rest.strip()) for word, _, rest in found]


def final_stage() -> list[tuple[str, str]]:
    instructions = dockerfile()
    last = max(index for index, (word, _) in enumerate(instructions) if word == "FROM")
    return instructions[last:]


def image_environment() -> dict[str, str]:
    pairs = [rest for word, rest in final_stage() if word == "ENV"]
    return dict(pair.split("=", 1) for line in pairs for pair in line.split())


def seconds(duration: str) -> float:
    number, unit = duration[:-1], duration[-1]
    return float(number) * {"s": 1, "m": 60}[unit]


def test_compose_file_follows_the_schema():
    errors = [
        f"{error.json_path}: {error.message}" for error in Draft202012Validator(SCHEMA).iter_errors(COMPOSE)
    ]
    assert errors == []


def test_the_schema_check_can_fail():
    broken = {"services": {"web": {"imagee": "strata"}}}
    assert list(Draft202012Validator(SCHEMA).iter_errors(broken)) != []


def test_one_service_for_each_process_folder():
    assert {name: service["command"][:2] for name, service in SERVICES.items()} == {
        "collectors": ["strata", "collect"],
        "alerts": ["strata", "alert"],
        "web": ["strata", "web"],
    }


@pytest.mark.parametrize("name", SERVICES)
def test_a_service_is_confined_and_watched(name):
    service = SERVICES[name]
    assert service["user"].split(":")[0] not in ("0", "root")
    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]
    assert service["healthcheck"]["test"][0] == "CMD"  # no shell in between
    assert service["volumes"] == SERVICES["web"]["volumes"]
    assert seconds(service["stop_grace_period"]) >= 5
    assert service.get("privileged") is None


def test_published_on_this_machine_alone():
    published = [port for service in SERVICES.values() for port in service.get("ports", [])]
    assert published == [f"127.0.0.1:{PORT}:{PORT}"]


def test_the_user_of_the_image_owns_the_volume():
    uid = SERVICES["web"]["user"].split(":")[0]
    runs = " ".join(rest for word, rest in final_stage() if word == "RUN")
    assert f"--uid {uid}" in runs
    assert "-o strata -g strata" in runs
    assert runs.split()[-1] == image_environment()["STRATA_DATA"]
    assert [rest for word, rest in final_stage() if word == "USER"] == ["strata"]
    assert SERVICES["web"]["volumes"] == [f"data:{image_environment()['STRATA_DATA']}"]


def test_dockerfile_is_made_of_known_instructions():
    known = {
        "ARG",
        "CMD",
        "COPY",
        "ENV",
        "EXPOSE",
        "FROM",
        "LABEL",
        "RUN",
        "STOPSIGNAL",
        "USER",
        "VOLUME",
        "WORKDIR",
    }
    assert {word for word, _ in dockerfile()} <= known
    for word, rest in dockerfile():
        if word == "FROM":
            assert re.fullmatch(r"python:3\.11-slim-bookworm( AS \w+)?", rest)
        if word == "CMD":
            assert json.loads(rest)[0] == "strata"
        if word == "EXPOSE":
            assert rest == str(PORT)


def test_what_is_copied_exists_and_reaches_the_build():
    let_through = {line[1:] for line in read(ROOT / ".dockerignore").splitlines() if line.startswith("!")}
    for word, rest in dockerfile():
        if word == "COPY" and not rest.startswith("--from="):
            for source in rest.split()[:-1]:
                assert (ROOT / source).exists(), source
                assert any(name == source or name.startswith(source + "/") for name in let_through), source


def test_every_package_is_in_the_image():
    copied = {rest.split()[0] for word, rest in dockerfile() if word == "COPY"}
    assert {"app", "collectors", "alerts", "db"} <= copied


class Container:
    """A service's command and environment, run here: the volume and /tmp are folders of the test."""

    def __init__(self, name: str, volume: Path, scratch: Path, port: int) -> None:
        self.service = SERVICES[name]
        mounts = {entry.split(":")[1]: str(volume) for entry in self.service["volumes"]}
        mounts |= dict.fromkeys(self.service["tmpfs"], str(scratch))
        environment = {**image_environment(), **self.service["environment"]}
        self._environ = {key: mounts.get(value, value) for key, value in environment.items()}
        # Where the image has its virtual environment, the test has the one it runs in.
        self._environ["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.defpath}"
        self._port = str(port)
        self._cwd = scratch
        self._log = (scratch / f"{name}.log").open("w+")
        self._process = subprocess.Popen(
            self._here(self.service["command"]), env=self._environ, cwd=scratch, stderr=self._log
        )

    def _here(self, words: list[str]) -> list[str]:
        return [self._port if word == str(PORT) else word for word in words]

    def wait_until_healthy(self) -> None:
        check = self._here(self.service["healthcheck"]["test"][1:])
        deadline = time.monotonic() + seconds(self.service["healthcheck"]["start_period"])
        while True:
            verdict = subprocess.run(check, env=self._environ, cwd=self._cwd, capture_output=True, text=True)
            if verdict.returncode == 0:
                return
            assert self._process.poll() is None, self.log()
            assert time.monotonic() < deadline, verdict.stderr + self.log()
            time.sleep(0.2)

    def stop(self) -> int:
        """As `docker stop` does it; the exit status."""
        self._process.send_signal(signal.SIGTERM)
        return self._process.wait(timeout=seconds(self.service["stop_grace_period"]))

    def log(self) -> str:
        self._log.seek(0)
        return self._log.read()

    def end(self) -> None:
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait()
        self._log.close()


@pytest.mark.slow
def test_the_three_services_work_on_one_volume_and_stop_cleanly(tmp_path):
    volume, scratch = tmp_path / "data", tmp_path / "tmp"
    volume.mkdir()
    scratch.mkdir()
    port = free_port()
    containers = {name: Container(name, volume, scratch, port) for name in SERVICES}
    try:
        for container in containers.values():
            container.wait_until_healthy()
        statuses = {name: container.stop() for name, container in containers.items()}
        logs = {name: container.log() for name, container in containers.items()}
        assert statuses == dict.fromkeys(SERVICES, 0), logs
        assert not any("Traceback" in log for log in logs.values()), logs
        assert {"samples.db", "state.db"} <= {path.name for path in volume.iterdir()}
    finally:
        for container in containers.values():
            container.end()
