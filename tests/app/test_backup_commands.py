"""`strata backup` as people and scripts meet it, up to the page that shows what was restored."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from app.__main__ import main
from tests.app.test_up import Up
from tests.db.backup_content import bits, fill


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder of one's own with a filled data folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    for variable in ("XDG_DATA_HOME", "XDG_STATE_HOME", "STRATA_CONFIG", "STRATA_DEBUG"):
        monkeypatch.delenv(variable, raising=False)
    fill(tmp_path / "data")
    return tmp_path


def test_create_verify_restore_by_hand(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (place / "strata.yaml").write_text("scrape_interval: 7s\n")
    assert main(["backup", "create", "my backup", "--data", "data"]) == 0
    said = capsys.readouterr().out
    assert "samples.db" in said
    assert "40 series, 0 blocks, 151 head rows, 2023-11-14 22:13:20Z to 2023-11-14 22:25:50Z" in said
    assert "2 rows of state in 1 table" in said
    assert "strata.yaml" in said
    assert "strata backup verify 'my backup'" in said
    assert main(["backup", "verify", "my backup"]) == 0
    assert "my backup is whole" in capsys.readouterr().out
    assert main(["backup", "restore", "my backup", "--data", "new"]) == 0
    assert "new/samples.db" in capsys.readouterr().out
    assert (place / "new" / "strata.yaml").read_text() == "scrape_interval: 7s\n"
    assert bits(place / "new" / "samples.db") == bits(place / "data" / "samples.db")


def test_each_prints_one_json_document(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["backup", "create", "b", "--data", "data", "--json"]) == 0
    created = json.loads(capsys.readouterr().out)
    assert created["backup"] == str(place / "b")
    assert created["samples"]["head_rows"] == 151
    assert {file["name"] for file in created["files"]} == {"samples.db", "state.db"}
    assert main(["backup", "verify", "b", "--json"]) == 0
    verified = json.loads(capsys.readouterr().out)
    assert verified["whole"] is True
    assert verified["checked"]["samples_decoded"] > 0
    assert main(["backup", "restore", "b", "--data", "data", "--replace", "--json"]) == 0
    restored = json.loads(capsys.readouterr().out)
    assert restored["created"] == created["created"]
    assert set(restored["moved"]) == {str(place / "data" / name) for name in ("samples.db", "state.db")}


@pytest.mark.parametrize(
    ("words", "status", "said"),
    [
        (["create", "data", "--data", "data"], 2, "data is not empty; name a new folder"),
        (["create", "b", "--data", "nowhere"], 1, "samples.db does not exist"),
        (["create"], 2, "Missing argument 'DIR' (see strata backup create --help)"),
        (["create", "b", "--config", "missing.yaml"], 2, "missing.yaml: cannot be read"),
        (["verify", "data"], 1, "is not a backup"),
        (["verify", "a\nb\x1b[2J"], 1, "a\\nb\\u001b[2J"),
        (["restore", "data", "--data", "new"], 1, "is not a backup"),
        (["nope"], 2, "No such command 'nope'"),
        ([], 2, "Missing command (see strata backup --help)"),
    ],
)
def test_what_cannot_be_done_is_one_line(
    place: Path, capsys: pytest.CaptureFixture[str], words: list[str], status: int, said: str
) -> None:
    assert main(["backup", *words]) == status
    printed = capsys.readouterr()
    assert printed.out == ""
    assert said in printed.err
    assert len(printed.err.splitlines()) == 1
    assert not (place / "new").exists()


def test_damage_ends_verify_with_status_1_and_names_the_file(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["backup", "create", "b", "--data", "data"]) == 0
    with (place / "b" / "samples.db").open("r+b") as file:
        file.seek(9000)
        file.write(b"\xff")
    capsys.readouterr()
    assert main(["backup", "verify", "b"]) == 1
    assert "samples.db is damaged" in capsys.readouterr().err
    assert main(["backup", "restore", "b", "--data", "new"]) == 1
    assert not (place / "new" / "samples.db").exists()


@pytest.mark.slow
def test_a_running_strata_is_backed_up_and_what_is_restored_comes_up(place: Path) -> None:
    """Taken from under `strata up`, refused to be put over it, restored elsewhere and shown there."""
    words = [sys.executable, "-P", "-m", "app", "backup"]
    running = Up(place)
    try:
        running.wait_until_ready()
        # Its own first scrape of this machine, after what was there before.
        running.wait_for(lambda: any(("job", "node") in labels for labels in bits(place / "data/samples.db")))
        before = bits(place / "data" / "samples.db")
        subprocess.run([*words, "create", "b", "--data", "data"], check=True, stdout=subprocess.DEVNULL)
        subprocess.run([*words, "verify", "b"], check=True, stdout=subprocess.DEVNULL)
        refused = subprocess.run(
            [*words, "restore", "b", "--data", "data", "--replace"], capture_output=True, text=True
        )
        assert refused.returncode == 1
        assert f"strata up (pid {running.process.pid})" in refused.stderr
        assert running.page() == 200
    finally:
        running.end()
    (place / "elsewhere").mkdir()
    subprocess.run(
        [*words, "restore", "b", "--data", "elsewhere/data"], check=True, stdout=subprocess.DEVNULL
    )
    restored = bits(place / "elsewhere/data/samples.db")
    for labels, points in before.items():
        assert points.items() <= restored[labels].items()
    again = Up(place / "elsewhere")
    try:
        assert again.wait_until_ready().startswith("Strata is ready"), again.log.read_text()
        assert again.page("/") == 200
        again.wait_for(lambda: {"collect", "web"} <= again.rows().keys())
        shown = bits(place / "elsewhere/data/samples.db")
        assert all(points.items() <= shown[labels].items() for labels, points in restored.items())
        assert "Traceback" not in again.log.read_text()
    finally:
        again.end()
