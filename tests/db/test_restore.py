"""Restoring brings everything back, deletes nothing, and refuses what would harm."""

import sqlite3
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import pytest
from alembic import command
from alembic.config import Config
from sqlalchemy import create_engine

from db.backup_manifest import BackupError
from db.backup_verify import verify_backup
from db.engine import open_state
from db.folder_claim import FolderTaken
from db.migrate import SAMPLES
from db.processes import Process, read_processes, report
from db.restore import Restored, restore_backup
from db.store import SampleStore
from tests.db.backup_content import NOW, back_up, bits, fill, talking
from tests.postgres_server import PostgresServer

AT = datetime(2026, 3, 2, 8, 30, 0, tzinfo=UTC)
MOVED = "replaced-20260302T083000Z"


def restore(folder: Path, data: Path, state: Path | str | None = None, replace: bool = False) -> Restored:
    where = data / "state.db" if state is None else state
    return restore_backup(folder, samples=data / "samples.db", state=where, replace=replace, restored=AT)


def processes(where: Path | str) -> list[Process]:
    state = open_state(where)
    try:
        return read_processes(state)
    finally:
        state.dispose()


@pytest.fixture
def data(tmp_path: Path) -> Path:
    fill(tmp_path / "data")
    return tmp_path / "data"


@pytest.fixture
def folder(data: Path, tmp_path: Path) -> Path:
    (tmp_path / "strata.yaml").write_text("scrape_interval: 7s\n")
    back_up(data, tmp_path / "b", tmp_path / "strata.yaml")
    return tmp_path / "b"


def test_everything_is_back_bit_for_bit(data: Path, folder: Path, tmp_path: Path) -> None:
    new = tmp_path / "to" / "new"
    done = restore(folder, new)
    assert done.written == (str(new / "samples.db"), str(new / "state.db"), str(new / "strata.yaml"))
    assert (done.moved, done.notes) == ({}, ())
    assert bits(new / "samples.db") == bits(data / "samples.db")
    assert processes(new / "state.db") == processes(data / "state.db")
    old, back = SampleStore.open(data / "samples.db"), SampleStore.open(new / "samples.db")
    assert (back.sources(), back.metadata()) == (old.sources(), old.metadata())
    old.close()
    back.close()
    assert (new / "strata.yaml").read_text() == "scrape_interval: 7s\n"


def test_databases_that_are_there_are_refused_then_moved_aside(data: Path, folder: Path) -> None:
    before = bits(data / "samples.db")
    code = (
        "import os, signal, sqlite3, sys\n"
        "c = sqlite3.connect(sys.argv[1])\n"
        "c.execute('UPDATE source SET note = ?', ('later',)); c.commit()\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"  # its commit stays in the log
    )
    with talking(code, data / "samples.db") as killed:
        killed.wait()
    assert (data / "samples.db-wal").stat().st_size > 0
    with pytest.raises(BackupError, match=r"samples\.db is already there; --replace moves it aside"):
        restore(folder, data)
    assert (data / "samples.db-wal").stat().st_size > 0
    (data / "strata.yaml").write_text("scrape_interval: 1s\n")
    done = restore(folder, data, replace=True)
    assert set(done.moved) == {str(data / name) for name in ("samples.db", "state.db", "strata.yaml")}
    assert bits(data / "samples.db") == before
    with closing(sqlite3.connect(data / f"samples.db.{MOVED}")) as old:
        assert old.execute("SELECT note FROM source").fetchall() == [("later",)]
    with closing(sqlite3.connect(data / "samples.db")) as new:
        assert new.execute("SELECT note FROM source").fetchall() == [("",)]
    assert (data / f"strata.yaml.{MOVED}").read_text() == "scrape_interval: 1s\n"
    restore(folder, data, replace=True)
    assert (data / f"samples.db.{MOVED}-2").exists()
    assert not list(data.glob("*.restoring"))


def test_a_log_without_its_database_is_not_played_into_the_restored_one(folder: Path, tmp_path: Path) -> None:
    new = tmp_path / "new"
    new.mkdir()
    (new / "samples.db-wal").write_bytes(b"a stranger's log")
    with pytest.raises(BackupError, match="already there"):
        restore(folder, new)
    restore(folder, new, replace=True)
    assert (new / f"samples.db.{MOVED}-wal").read_bytes() == b"a stranger's log"
    assert len(bits(new / "samples.db")) == 40


def test_a_damaged_database_can_be_replaced(data: Path, folder: Path) -> None:
    before = bits(data / "samples.db")
    (data / "samples.db").write_bytes(b"not a database at all " * 1000)
    (data / "samples.db-wal").write_bytes(b"nor a log")
    restore(folder, data, replace=True)
    assert bits(data / "samples.db") == before
    assert (data / f"samples.db.{MOVED}").read_bytes().startswith(b"not a database")
    assert (data / f"samples.db.{MOVED}-wal").read_bytes() == b"nor a log"


def test_a_folder_in_use_is_refused_and_the_process_named(data: Path, folder: Path) -> None:
    claim = (
        "import pathlib, sys\nfrom db.folder_claim import claimed_folder\n"
        "with claimed_folder(pathlib.Path(sys.argv[1]), 'collect'):\n"
        "    print('up', flush=True); sys.stdin.read()\n"
    )
    with talking(claim, data) as collector:
        collector.stdout.readline()
        with pytest.raises(FolderTaken, match=rf"strata collect \(pid {collector.pid}\)"):
            restore(folder, data, replace=True)
        collector.stdin.close()
    reading = (
        "import pathlib, sys\nfrom db.store import SampleStore\n"
        "store = SampleStore.open(pathlib.Path(sys.argv[1])); store.sources()\n"
        "print('up', flush=True); sys.stdin.read()\n"
    )
    with talking(reading, data / "samples.db") as page:
        page.stdout.readline()
        with pytest.raises(BackupError, match=rf"samples\.db is open in the process {page.pid}; stop it"):
            restore(folder, data, replace=True)
        page.stdin.close()
    assert not list(data.glob(f"*{MOVED}*"))
    restore(folder, data, replace=True)


def test_a_damaged_backup_replaces_nothing(data: Path, folder: Path) -> None:
    content = bytearray((folder / "state.db").read_bytes())
    content[5000] ^= 1
    (folder / "state.db").write_bytes(content)
    with pytest.raises(BackupError, match=r"state\.db is damaged"):
        restore(folder, data, replace=True)
    assert not list(data.glob(f"*{MOVED}*"))


def test_settings_of_ones_own_are_left_alone(folder: Path, tmp_path: Path) -> None:
    new = tmp_path / "new"
    new.mkdir()
    (new / "strata.yaml").write_text("scrape_interval: 1s\n")
    done = restore(folder, new)
    assert (new / "strata.yaml").read_text() == "scrape_interval: 1s\n"
    assert "was left as it is" in done.notes[0]


def test_a_backup_of_an_older_schema_is_migrated_when_it_is_opened(tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    config = Config()
    config.set_main_option("script_location", str(SAMPLES.scripts))
    config.set_main_option("path_separator", "os")
    engine = create_engine(f"sqlite:///{data / 'samples.db'}")
    with engine.connect() as connection, connection.begin():
        config.attributes["connection"] = connection
        command.upgrade(config, "0001")
        for statement in (
            """INSERT INTO series VALUES (1, 5, '[["__name__","old"],["a","b"]]')""",
            "INSERT INTO label_pair VALUES (1, '__name__', 'old'), (2, 'a', 'b')",
            "INSERT INTO posting VALUES (1, 1), (2, 1)",
            "INSERT INTO layout (id, key) VALUES (1, 't')",
            "INSERT INTO layout_slot (series_id, layout_id, slot) VALUES (1, 1, 0)",
            "INSERT INTO head_dense (seq, layout_id, ts, data) VALUES (1, 1, 1000, x'000000000000F03F')",
        ):
            connection.exec_driver_sql(statement)
    engine.dispose()
    assert back_up(data, tmp_path / "b").samples_schema == "0001"
    found = verify_backup(tmp_path / "b", now=NOW)
    assert (found.samples, found.points) == (1, 1)
    restore(tmp_path / "b", tmp_path / "new")
    assert bits(tmp_path / "new" / "samples.db") == {
        (("__name__", "old"), ("a", "b")): {1000: 0x3FF0000000000000}
    }


def test_a_state_that_is_kept_elsewhere_goes_there(data: Path, folder: Path, tmp_path: Path) -> None:
    elsewhere = tmp_path / "other disk" / "s.db"
    done = restore(folder, tmp_path / "new", elsewhere)
    assert str(elsewhere) in done.written
    assert processes(elsewhere) == processes(data / "state.db")
    assert not (tmp_path / "new" / "state.db").exists()


@pytest.mark.server
class TestServer:
    """The state on PostgreSQL; in the backup it is a file all the same."""

    def test_goes_through_a_backup_and_into_another_server(
        self, postgres: PostgresServer, data: Path, tmp_path: Path
    ) -> None:
        first, second = (postgres.location(postgres.create_database()) for _ in range(2))
        state = open_state(first)
        for number in range(3):
            report(
                state,
                f"p{number}",
                status="running",
                pid=number,
                restarts=0,
                detail="é'\\",
                now_ms=2**40 + number,
            )
        state.dispose()
        from db.backup import create_backup

        folder = tmp_path / "b"
        manifest = create_backup(folder, samples=data / "samples.db", state=first, config=None, created=NOW)
        assert manifest.state_rows == {"process": 3}
        assert sorted(path.name for path in folder.iterdir()) == ["manifest.json", "samples.db", "state.db"]
        verify_backup(folder, now=NOW)
        restore(folder, tmp_path / "new", second)
        assert processes(second) == processes(first)
        assert not (tmp_path / "new" / "state.db").exists()
        restore(folder, tmp_path / "third")
        assert processes(tmp_path / "third" / "state.db") == processes(first)

    def test_rows_that_are_there_are_refused_then_saved_to_a_file(
        self, postgres: PostgresServer, folder: Path, data: Path, tmp_path: Path
    ) -> None:
        where = postgres.location(postgres.create_database())
        state = open_state(where)
        report(state, "before", status="running", pid=1, restarts=0, detail="", now_ms=5)
        state.dispose()
        new = tmp_path / "new"
        with pytest.raises(BackupError, match=r"already holds rows \(process\); --replace"):
            restore(folder, new, where)
        assert not (new / "samples.db").exists()
        done = restore(folder, new, where, replace=True)
        assert [row.name for row in processes(where)] == ["collect", "web"]
        (saved,) = done.moved.values()
        assert [row.name for row in processes(Path(saved))] == ["before"]
        assert not list(new.glob(".strata-restore-*"))
