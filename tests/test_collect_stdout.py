"""`strata collect --once --sink stdout`, as a person runs it, judged by promtool."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.genuine_node_exporter import full_node_exporter
from tests.promtool_lint import lints, own_lints


def collect(folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    command = [
        sys.executable,
        "-m",
        "app",
        "collect",
        "--once",
        "--sink",
        "stdout",
        "--data",
        str(folder / "data"),
    ]
    return subprocess.run([*command, *options], capture_output=True, text=True, timeout=60, cwd=folder)


@pytest.mark.server
def test_it_prints_exposition_that_promtool_minds_no_more_than_the_genuine_page(tmp_path: Path) -> None:
    run = collect(tmp_path)
    assert run.returncode == 0, run.stderr
    assert run.stdout.count("\nnode_") > 100
    with full_node_exporter() as exporter:
        genuine = exporter.page().text
    assert own_lints(run.stdout, genuine) == frozenset()
    assert lints(genuine)  # the comparison compares something


def test_only_picks_a_collector_and_a_wrong_name_says_which_there_are(tmp_path: Path) -> None:
    host = collect(tmp_path, "--only", "host")
    assert host.returncode == 0
    assert "node_load1 " in host.stdout
    wrong = collect(tmp_path, "--only", "gpu")
    assert wrong.returncode == 2
    assert wrong.stdout == ""
    assert (
        wrong.stderr
        == "strata: --only: there is no collector 'gpu'; there are host, nvml, slurm, hardware, scrape\n"
    )


def test_nothing_is_stored_by_a_collection_to_stdout(tmp_path: Path) -> None:
    collect(tmp_path)
    assert not (tmp_path / "data" / "samples.db").exists()
