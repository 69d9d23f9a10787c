"""`strata service install`: a unit that systemd takes, and nobody's file lost."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from app.__main__ import main
from app.commands.failure import CommandError
from app.commands.service import MARK, exec_line, unit_text


@pytest.fixture
def home(tmp_path, monkeypatch):
    """A home of one's own; the command takes it from the environment, as systemd does."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    return tmp_path


def unquoted(line: str) -> list[str]:
    """The words systemd gets from an ExecStart value, after its manual: the inverse of `exec_line`."""
    words, word, quoted, started = [], "", False, False
    characters = iter(line)
    for character in characters:
        if character == "\\":
            word += next(characters)
        elif character == '"':
            quoted, started = not quoted, True
        elif character == " " and not quoted:
            words.append(word)
            word, started = "", False
        else:
            word += character
    assert not quoted
    words += [word] if word or started else []
    words = [_single(word, "%") for word in words]
    return [words[0], *(_single(word, "$") for word in words[1:])]


def _single(word: str, sign: str) -> str:
    """Doubled signs as one; a single one would have been a specifier or a variable."""
    pieces = word.split(sign * 2)
    assert not any(sign in piece for piece in pieces)
    return sign.join(pieces)


def test_install_writes_the_unit_and_prints_two_commands(home, capsys):
    assert main(["service", "install", "--port", "8600", "--data", "my data"]) == 0
    unit = home / ".config/systemd/user/strata.service"
    lines = unit.read_text().splitlines()
    assert lines[0] == MARK
    (start,) = [line.removeprefix("ExecStart=") for line in lines if line.startswith("ExecStart=")]
    data = str(Path.cwd() / "my data")
    assert unquoted(start) == [sys.executable, "-P", "-m", "app", "up", "--data", data, "--port", "8600"]
    printed = capsys.readouterr().out.splitlines()
    assert [line.strip() for line in printed[-2:]] == [
        "systemctl --user daemon-reload",
        "systemctl --user enable --now strata.service",
    ]


def test_xdg_config_home_is_honoured(home, monkeypatch):
    monkeypatch.setenv("XDG_CONFIG_HOME", str(home / "cfg"))
    assert main(["service", "install"]) == 0
    assert (home / "cfg/systemd/user/strata.service").exists()


def test_dry_run_prints_the_unit_and_writes_nothing(home, capsys):
    assert main(["service", "install", "--dry-run"]) == 0
    assert capsys.readouterr().out.startswith(MARK)
    assert list(home.iterdir()) == []


def test_json_is_one_document(home, capsys):
    assert main(["service", "install", "--dry-run", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["unit"] == str(home / ".config/systemd/user/strata.service")
    assert document["written"] is False
    assert document["next"][1].startswith("systemctl --user enable")


def test_own_unit_is_replaced_another_is_kept_without_force(home, capsys):
    unit = home / ".config/systemd/user/strata.service"
    assert main(["service", "install", "--port", "1"]) == 0
    assert main(["service", "install", "--port", "2"]) == 0
    assert "--port 2" in unit.read_text()
    unit.write_text("[Service]\nExecStart=/usr/bin/mine\n")
    assert main(["service", "install"]) == 1
    assert "--force" in capsys.readouterr().err
    assert "/usr/bin/mine" in unit.read_text()
    assert main(["service", "install", "--force"]) == 0
    assert unit.read_text().startswith(MARK)
    assert [file.name for file in unit.parent.iterdir()] == ["strata.service"]


def test_settings_that_cannot_be_used_are_refused_now_and_not_at_the_next_login(home, capsys):
    assert main(["service", "install", "--config", str(home / "missing.yaml")]) == 2
    assert "missing.yaml" in capsys.readouterr().err
    assert not (home / ".config").exists()


@pytest.mark.parametrize(
    "word",
    [
        "plain",
        "with space",
        "100%",
        "$HOME",
        "${HOME}",
        'quote"inside',
        "back\\slash",
        "semi;colon",
        ";",
        "it's",
        "",
    ],
)
def test_quoting_is_undone_by_systemds_rules(word):
    assert unquoted(exec_line(("/opt/my $python/100%/bin/python3", word))) == [
        "/opt/my $python/100%/bin/python3",
        word,
    ]


def test_a_program_that_systemd_refuses_is_refused_here():
    with pytest.raises(CommandError, match="move the installation"):
        exec_line(("/home/o'neil/bin/python3", "up"))


def test_a_line_break_cannot_smuggle_in_a_directive():
    with pytest.raises(CommandError, match="control character"):
        exec_line(("/bin/true", "x\nExecStartPre=/bin/false"))


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="no systemd on this machine")
def test_systemd_accepts_the_unit(tmp_path):
    program = tmp_path / "50% of $HOME" / "a python"
    program.parent.mkdir()
    program.symlink_to(sys.executable)
    unit = tmp_path / "strata.service"
    unit.write_text(unit_text((str(program), "-P", "-m", "app", "up", "--data", 'a "b" 100% $c')))
    environ = {**os.environ, "XDG_RUNTIME_DIR": str(tmp_path)}
    verdict = subprocess.run(
        ["systemd-analyze", "--user", "verify", str(unit)], capture_output=True, text=True, env=environ
    )
    assert (verdict.returncode, verdict.stderr) == (0, "")
