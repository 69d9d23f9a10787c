"""Debian's prometheus-node-exporter, run beside ours on the same files: the oracle of the host collector."""

import re
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from prometheus_client.parser import text_string_to_metric_families

from collectors.expose import render
from collectors.types import Family
from tests.free_port import free_port
from tests.needs import require_program

START_SECONDS = 60
# node_exporter's own default; Debian's package also leaves out /run, /mnt and /media.
MOUNTPOINTS_EXCLUDED = (
    "^/(dev|proc|run/credentials/.+|sys|var/lib/docker/.+|var/lib/containers/storage/.+)($|/)"
)
SUBJECTS = (
    "bonding conntrack cpu diskstats edac filefd filesystem hwmon infiniband loadavg meminfo netclass"
    " netdev netstat pressure rapl sockstat stat thermal_zone time timex uname vmstat"
)

# About the exporter's own web server, not about the machine.
EXPORTERS_OWN = ("promhttp_", "go_", "process_")

Series = tuple[str, frozenset[tuple[str, str]]]


@dataclass(frozen=True)
class Page:
    """A text page as tests compare it: an empty label is an absent one."""

    text: str
    types: dict[str, str]
    values: dict[Series, float]

    def labels_of(self, name: str) -> set[str]:
        return {label for series, labels in self.values if series == name for label, _ in labels}

    def where(self, name: str, **labels: str) -> float:
        return self.values[name, frozenset(labels.items())]


def read_page(text: str) -> Page:
    values = {
        (sample.name, frozenset((key, value) for key, value in sample.labels.items() if value)): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if not sample.name.startswith(EXPORTERS_OWN)
    }
    return Page(text, dict(re.findall(r"^# TYPE (\S+) (\w+)$", text, re.MULTILINE)), values)


def page_of(families: Iterable[Family]) -> Page:
    return read_page(render(families))


class Exporter:
    def __init__(self, url: str) -> None:
        self.url = url

    def page(self) -> Page:
        with urllib.request.urlopen(self.url, timeout=10) as answer:
            return read_page(answer.read().decode())


@contextmanager
def full_node_exporter() -> Iterator[Exporter]:
    """As Debian ships it, with everything that is on by default."""
    with _running([]) as exporter:
        yield exporter


@contextmanager
def node_exporter(
    *arguments: str, subjects: str = SUBJECTS, folder: Path | None = None
) -> Iterator[Exporter]:
    """Only the collectors that ours has, on a free loopback port, started in `folder`."""
    arguments = (
        "--web.disable-exporter-metrics",
        "--collector.disable-defaults",
        *(f"--collector.{subject}" for subject in subjects.split()),
        *arguments,
    )
    with _running(arguments, folder) as exporter:
        yield exporter


@contextmanager
def _running(arguments: Iterable[str], folder: Path | None = None) -> Iterator[Exporter]:
    program = require_program("prometheus-node-exporter")
    address = f"127.0.0.1:{free_port()}"
    process = subprocess.Popen(
        [program, f"--web.listen-address={address}", *arguments],
        cwd=folder,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        _wait(process, f"http://{address}/metrics")
        yield Exporter(f"http://{address}/metrics")
    finally:
        process.terminate()
        process.communicate(timeout=10)


def _wait(process: "subprocess.Popen[str]", url: str) -> None:
    deadline = time.monotonic() + START_SECONDS
    while True:
        try:
            with urllib.request.urlopen(url, timeout=START_SECONDS) as answer:
                answer.read()
                return
        except urllib.error.URLError:
            if process.poll() is not None or time.monotonic() > deadline:
                process.kill()
                raise AssertionError(f"node_exporter did not start: {process.communicate()[1]}") from None
            time.sleep(0.05)
