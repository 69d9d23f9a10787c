"""A backup is taken while everything goes on, and is whole or not there."""

import fcntl
import json
import os
import resource
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

import pytest

from db.backup import secret_in
from db.backup_manifest import BackupError, TargetRefused, read_manifest
from db.backup_verify import verify_backup
from tests.db.backup_content import NOW, SCRAPES, START_MS, STEP_MS, back_up, bits, fill, series, talking

CREATE = """
import sys
from datetime import UTC, datetime
from pathlib import Path
from db.backup import create_backup
data, now = Path(sys.argv[1]), datetime.now(UTC)
create_backup(
    Path(sys.argv[2]), samples=data / "samples.db", state=data / "state.db", config=None, created=now
)
"""


@pytest.fixture
def data(tmp_path: Path) -> Path:
    fill(tmp_path / "data")
    return tmp_path / "data"


def test_the_manifest_says_what_is_in_the_folder(data: Path, tmp_path: Path) -> None:
    (data / "strata.yaml").write_text("web: {port: 8600}\n")
    manifest = back_up(data, tmp_path / "b", data / "strata.yaml")
    folder = tmp_path / "b"
    assert read_manifest(folder) == manifest
    assert {path.name for path in folder.iterdir()} == {file.name for file in manifest.files} | {
        "manifest.json"
    }
    assert [file.size_bytes for file in manifest.files] == [
        (folder / file.name).stat().st_size for file in manifest.files
    ]
    counts = manifest.samples
    assert (counts.series, counts.blocks, counts.head_rows) == (len(series()), 0, SCRAPES + 1)
    assert (counts.first_ms, counts.last_ms) == (START_MS, START_MS + SCRAPES * STEP_MS)
    assert manifest.state_rows == {"process": 2}
    assert manifest.created == "2026-03-01T12:00:00.000+00:00"
    assert {path.stat().st_mode & 0o077 for path in (folder, *folder.iterdir())} == {0}
    assert [path.name for path in tmp_path.iterdir() if path.name != "data"] == ["b"]


@pytest.mark.parametrize("name", ["a b", "what?", "100%41", "#1", "é\n", "-x"])
def test_names_that_mean_something_elsewhere_are_only_names(tmp_path: Path, name: str) -> None:
    fill(tmp_path / name)
    back_up(tmp_path / name, tmp_path / "to" / name)
    assert verify_backup(tmp_path / "to" / name, now=NOW).samples > 0
    assert bits(tmp_path / "to" / name / "samples.db") == bits(tmp_path / name / "samples.db")


def test_a_target_that_is_taken_is_left_alone(data: Path, tmp_path: Path) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "mine").write_text("1")
    (tmp_path / "file").write_text("2")
    for name, reason in (
        ("full", "is not empty; name a new folder"),
        ("file", "is not a folder"),
        ("file/below", "cannot be used"),
        ("x.partial", "unfinished"),
    ):
        with pytest.raises(TargetRefused, match=reason):
            back_up(data, tmp_path / name)
    (tmp_path / "y.partial").mkdir()
    (tmp_path / "y.partial" / "mine").write_text("3")
    with pytest.raises(TargetRefused, match=r"y\.partial/mine is in the way"):
        back_up(data, tmp_path / "y")
    assert (tmp_path / "y.partial" / "mine").read_text() == "3"
    (tmp_path / "empty").mkdir()
    back_up(data, tmp_path / "empty")
    assert (tmp_path / "full" / "mine").read_text() == "1"


def test_there_has_to_be_something_to_back_up(tmp_path: Path) -> None:
    with pytest.raises(BackupError, match=r"samples\.db does not exist.* is --data right\?"):
        back_up(tmp_path / "nothing", tmp_path / "b")
    assert list(tmp_path.iterdir()) == []


def test_a_folder_without_state_is_backed_up_without(data: Path, tmp_path: Path) -> None:
    for path in data.glob("state.db*"):
        path.unlink()
    assert back_up(data, tmp_path / "b").state_rows is None
    assert verify_backup(tmp_path / "b", now=NOW).manifest.state_schema is None


def test_a_damaged_database_is_not_backed_up_as_if_it_were_whole(data: Path, tmp_path: Path) -> None:
    with (data / "samples.db").open("r+b") as file:
        file.seek(3 * 4096)
        file.write(os.urandom(6 * 4096))
    with pytest.raises(BackupError, match=r"samples\.db: is damaged .*an older backup"):
        back_up(data, tmp_path / "b")
    assert [path.name for path in tmp_path.iterdir()] == ["data"]


def test_what_is_no_database_is_named(data: Path, tmp_path: Path) -> None:
    (data / "state.db").write_bytes(b"this is a text and no database at all " * 200)
    with pytest.raises(BackupError, match=r"data/state\.db: is not a database"):
        back_up(data, tmp_path / "b")
    assert [path.name for path in tmp_path.iterdir()] == ["data"]


def test_two_backups_to_one_place_do_not_mix(data: Path, tmp_path: Path) -> None:
    partial = tmp_path / "b.partial"
    partial.mkdir()
    handle = os.open(partial, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        with pytest.raises(BackupError, match="another backup is being written"):
            back_up(data, tmp_path / "b")
    finally:
        os.close(handle)
    assert partial.exists()


def test_a_disk_that_takes_no_more_leaves_nothing(data: Path, tmp_path: Path) -> None:
    def small_files() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (64 << 10, 64 << 10))

    done = subprocess.run(
        [sys.executable, "-c", CREATE, data, tmp_path / "b"],
        preexec_fn=small_files,
        capture_output=True,
        text=True,
    )
    assert "BackupError" in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["data"]


def test_killed_at_any_moment_it_leaves_nothing_that_is_taken_for_a_backup(
    data: Path, tmp_path: Path
) -> None:
    with closing(sqlite3.connect(data / "samples.db")) as database, database:
        database.execute("CREATE TABLE weight (x)")  # so that the copy takes its time
        database.execute("INSERT INTO weight VALUES (zeroblob(64000000))")
    target, partial = tmp_path / "b", tmp_path / "b.partial"
    for awaited in ("samples.db", "state.db", "manifest.json"):
        process = subprocess.Popen([sys.executable, "-c", CREATE, data, target])
        while process.poll() is None and not (partial / awaited).exists():
            time.sleep(0.0005)
        process.kill()
        process.wait()
        if not target.exists():  # else it was done before it could be killed
            for folder in (target, partial):
                with pytest.raises(BackupError):
                    verify_backup(folder, now=NOW)
        else:
            verify_backup(target, now=NOW)
            target.rename(tmp_path / f"done-{awaited}")
    back_up(data, target)
    verify_backup(target, now=NOW)
    assert not partial.exists()


WRITER = """
import sys, time
import numpy as np
from pathlib import Path
from db.labels import labels_from
from db.records import DenseAppend
from db.store import SampleStore
store = SampleStore.open(Path(sys.argv[1]))
labels = [labels_from({"i": str(i)}, "written") for i in range(300)]
for number in range(1, 100000):
    store.write([DenseAppend("w", labels if number == 1 else [], number * 1000, np.full(300, float(number)))])
    print(number, flush=True)
    time.sleep(float(sys.argv[2]))
"""


# Moves head rows into blocks and merges blocks without pause.
MAINTAINER = """
import sys
from pathlib import Path
from db.maintenance import Maintainer
maintainer = Maintainer.open(Path(sys.argv[1]))
while True:
    maintainer.seal(10**12, kept_ms=0)
    maintainer.compact(10**12)
    maintainer.checkpoint()
"""


def test_it_holds_everything_acknowledged_before_and_whole_scrapes_only(data: Path, tmp_path: Path) -> None:
    samples = data / "samples.db"
    with talking(WRITER, samples, 0.01) as writer, talking(MAINTAINER, samples) as maintainer:
        try:
            while not count_blocks(samples):
                writer.stdout.readline()
            for number in range(2):
                for _ in range(5):
                    acknowledged = int(writer.stdout.readline())
                back_up(data, tmp_path / f"b{number}")
                verify_backup(tmp_path / f"b{number}", now=NOW)
                found = bits(tmp_path / f"b{number}" / "samples.db")
                lengths = {
                    len(points) for labels, points in found.items() if ("__name__", "written") in labels
                }
                (scrapes,) = lengths
                assert scrapes >= acknowledged
                (stamps,) = {tuple(found[labels]) for labels in found if ("__name__", "written") in labels}
                assert stamps == tuple(range(1000, 1000 * scrapes + 1, 1000))
        finally:
            writer.kill()
            maintainer.kill()


def count_blocks(samples: Path) -> int:
    with closing(sqlite3.connect(samples)) as database:
        return int(database.execute("SELECT count(*) FROM block").fetchone()[0])


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("web: {port: 8501}\n", None),
        ("scrape_configs:\n- job_name: a\n  basic_auth: {username: u, password_file: /p}\n", None),
        (
            "scrape_configs:\n- job_name: a\n  basic_auth: {password: p}\n",
            "scrape_configs[0].basic_auth.password",
        ),
        ("a:\n- authorization: {credentials: c}\n", "a[0].authorization.credentials"),
        ("storage: {state: 'postgresql+psycopg://u:p@h/d'}\n", "storage.state"),
        ("storage: {state: 'postgresql+psycopg://u@h/d', state_password_file: p}\n", None),
        ("x: {http_headers: {A: {secrets: [s]}}}\n", "x.http_headers.A.secrets"),
        ("a: [", "it is not valid YAML"),
    ],
)
def test_secrets_in_settings_are_found(text: str, place: str | None) -> None:
    assert secret_in(text.encode()) == place


def test_settings_with_a_secret_are_left_out_and_it_is_said(data: Path, tmp_path: Path) -> None:
    config = tmp_path / "strata.yaml"
    config.write_text("scrape_configs:\n- bearer_token: hush\n")
    manifest = back_up(data, tmp_path / "b", config)
    assert "scrape_configs[0].bearer_token" in manifest.left_out
    written = b"".join(path.read_bytes() for path in (tmp_path / "b").iterdir())
    assert b"hush" not in written
    json.loads((tmp_path / "b" / "manifest.json").read_text())
