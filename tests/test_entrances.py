"""What a newcomer is told to type exists: README's commands, the Makefile's targets, the scripts."""

import os
import re
import subprocess
import sys

import pytest
import typer.main

from app.__main__ import app
from tests.needs import PACKAGES as DEBIAN_PACKAGES
from tests.source_tree import ROOT, read


def readme_commands() -> list[list[str]]:
    """The words of every command line in README's code blocks."""
    blocks = re.findall(r"^```(?:sh|bash|console|shell|)\n(.*?)^```", read(ROOT / "README.md"), re.M | re.S)
    lines = "".join(blocks).replace("\\\n", " ").splitlines()
    return [line.removeprefix("$ ").split("#")[0].split() for line in lines if line.split("#")[0].strip()]


def makefile_targets() -> set[str]:
    return set(re.findall(r"^([\w-]+):", read(ROOT / "Makefile"), re.MULTILINE))


def test_readme_begins_with_the_two_commands():
    made = [words[1] for words in readme_commands() if words[0] == "make"]
    assert made[:2] == ["up", "test"]


def test_make_targets_in_readme_exist():
    named = {
        word for words in readme_commands() if words[0] == "make" for word in words[1:] if word.isalpha()
    }
    assert named <= makefile_targets()


def test_strata_commands_in_readme_exist_with_their_options():
    for words in readme_commands():
        if words[0].rpartition("/")[2] != "strata":
            continue
        command = typer.main.get_command(app)
        for word in words[1:]:
            known = {name for parameter in command.params for name in parameter.opts} | {"--help"}
            if word.startswith("--"):
                assert word.partition("=")[0] in known, words
            elif hasattr(command, "commands"):
                assert word in command.commands, words
                command = command.commands[word]


def test_the_installer_knows_every_program_that_tests_need():
    script = read(ROOT / "tests" / "install_programs.sh")
    assert dict(re.findall(r'^  "([\w-]+):([\w -]+)"$', script, re.MULTILINE)) == DEBIAN_PACKAGES


@pytest.mark.parametrize("script", [".ci/run", "tests/install_programs.sh"])
def test_scripts_are_executable_bash_that_stops_at_errors(script):
    path = ROOT / script
    assert path.stat().st_mode & 0o111
    assert "set -euo pipefail" in path.read_text()
    subprocess.run(["bash", "-n", str(path)], check=True)


@pytest.mark.parametrize("workers", ["0", "2"])
@pytest.mark.parametrize(
    ("mark", "ci", "status"),
    [("server", "true", 1), ("browser", "true", 1), ("slow", "true", 0), ("server", "", 0)],
)
def test_on_ci_a_skipped_server_or_browser_test_fails_the_run(tmp_path, mark, ci, status, workers):
    (tmp_path / "test_it.py").write_text(
        f"import pytest\n@pytest.mark.{mark}\ndef test_it(): pytest.skip('not here')\n"
    )
    arguments = ["-q", "-c", os.devnull, "-p", "tests.conftest", "-p", "no:cacheprovider", "-n", workers]
    run = subprocess.run(
        [sys.executable, "-m", "pytest", *arguments, str(tmp_path)],
        cwd=ROOT,
        env={**os.environ, "CI": ci},
        capture_output=True,
        text=True,
    )
    assert run.returncode == status, run.stdout
    assert ("test_it.py::test_it" in run.stdout) == (status == 1)


def test_ci_runs_the_makefile():
    used = set(re.findall(r"^make ([\w-]+)", read(ROOT / ".ci" / "run"), re.MULTILINE))
    assert used == {"lint", "test"}
    assert used <= makefile_targets()
