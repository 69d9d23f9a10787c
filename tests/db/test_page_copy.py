"""A copy of a file that others change meanwhile is one snapshot, and holds what was acknowledged before."""

import os
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from db.page_copy import CopyFailed, Pace, copy_online
from tests.db.backup_content import talking

ROWS = 600
# Small enough that the log starts over many times within one copy.
_SMALL = Pace(chunk_bytes=128 << 10, slice_seconds=0.0, last_bytes=0)
# Every commit moves amounts between rows, so that any mix of two moments has another sum; it also grows and
# shrinks the file. A file of its own says what was committed.
WRITER = """
import os, random, sqlite3, sys, time
c = sqlite3.connect(sys.argv[1], isolation_level=None, timeout=30)
acknowledged = os.open(sys.argv[2], os.O_WRONLY | os.O_CREAT)
c.execute("PRAGMA wal_autocheckpoint=20")
number = 0
while True:
    number += 1
    c.execute("BEGIN IMMEDIATE")
    for _ in range(3):
        a, b = random.sample(range(1, 601), 2)
        c.execute("UPDATE account SET amount = amount - 1, filler = ? WHERE id = ?", (os.urandom(1500), a))
        c.execute("UPDATE account SET amount = amount + 1 WHERE id = ?", (b,))
    if number % 7 == 0:
        c.executemany("INSERT INTO more VALUES (NULL, ?)", [(os.urandom(3000),)] * 20)
    if number % 50 == 0:
        c.execute("DELETE FROM more")
        c.execute("PRAGMA incremental_vacuum").fetchall()
    c.execute("UPDATE counter SET n = ?", (number,))
    c.execute("COMMIT")
    os.pwrite(acknowledged, b"%020d" % number, 0)
    if number == 1:
        print("writing", flush=True)
    time.sleep(0.001)  # lets others have the lock
"""
# Holds old snapshots, so that the log can often not be folded whole.
READER = """
import sqlite3, sys, time
c = sqlite3.connect(sys.argv[1], isolation_level=None, timeout=30)
while True:
    c.execute("BEGIN")
    c.execute("SELECT * FROM counter").fetchone()
    time.sleep(0.02)
    c.execute("ROLLBACK")
"""


@pytest.fixture
def accounts(tmp_path: Path) -> Path:
    path = tmp_path / "acc ount?%41#.db"
    with closing(sqlite3.connect(path)) as database, database:
        database.execute("PRAGMA auto_vacuum=INCREMENTAL")
        database.execute("PRAGMA journal_mode=WAL")
        database.execute("CREATE TABLE account (id INTEGER PRIMARY KEY, amount INTEGER, filler BLOB)")
        database.execute("CREATE INDEX by_amount ON account (amount)")
        database.execute("CREATE TABLE counter (n INTEGER)")
        database.execute("CREATE TABLE more (id INTEGER PRIMARY KEY, filler BLOB)")
        database.execute("INSERT INTO counter VALUES (0)")
        rows = [(1_000, os.urandom(1500)) for _ in range(ROWS)]
        database.executemany("INSERT INTO account (amount, filler) VALUES (?, ?)", rows)
    return path


def read(copy: Path) -> tuple[str, int, int]:
    with closing(sqlite3.connect(copy)) as database:
        (whole,) = database.execute("PRAGMA integrity_check").fetchone()
        (total,) = database.execute("SELECT sum(amount) FROM account").fetchone()
        (number,) = database.execute("SELECT n FROM counter").fetchone()
    return whole, total, number


@pytest.mark.parametrize("pace", [_SMALL, Pace(chunk_bytes=64 << 10, slice_seconds=0.002)])
def test_the_copy_is_one_snapshot_while_another_process_writes(accounts: Path, tmp_path: Path, pace) -> None:
    said = tmp_path / "acknowledged"
    with talking(WRITER, accounts, said) as writer, talking(READER, accounts) as reader:
        try:
            writer.stdout.readline()
            for number in range(3):
                acknowledged = int(said.read_text())
                target = tmp_path / f"copy{number}"
                copy_online(accounts, target, pace)
                whole, total, found = read(target)
                assert (whole, total) == ("ok", ROWS * 1_000)
                assert found >= acknowledged
        finally:
            writer.kill()
            reader.kill()
    assert read(accounts)[:2] == ("ok", ROWS * 1_000)


def test_a_file_at_rest_is_copied_once_with_what_is_still_in_its_log(accounts: Path, tmp_path: Path) -> None:
    with closing(sqlite3.connect(accounts)) as database:
        with database:
            database.execute("UPDATE counter SET n = 5")
        done = copy_online(accounts, tmp_path / "copy")
    assert (done.again_bytes, done.rounds) == (0, 1)
    assert done.size_bytes == (tmp_path / "copy").stat().st_size
    assert read(tmp_path / "copy") == ("ok", ROWS * 1_000, 5)


def test_a_short_reader_is_waited_for_and_a_lasting_one_is_named(accounts: Path, tmp_path: Path) -> None:
    with closing(sqlite3.connect(accounts, isolation_level=None)) as reader:
        with closing(sqlite3.connect(accounts)) as writer, writer:
            writer.execute("UPDATE counter SET n = 6")
            writer.commit()
            reader.execute("BEGIN")
            reader.execute("SELECT * FROM counter").fetchone()
            writer.execute("UPDATE counter SET n = 7")
        with pytest.raises(CopyFailed, match=r"read by another program for 0\.1 s; stop that program"):
            copy_online(accounts, tmp_path / "one", Pace(patience_seconds=0.1))
    copy_online(accounts, tmp_path / "two")
    assert read(tmp_path / "two")[2] == 7


def test_writers_and_readers_work_on_during_and_after(accounts: Path, tmp_path: Path) -> None:
    """The copy's own descriptor of the file must not cost this process its locks on it."""
    with closing(sqlite3.connect(accounts, isolation_level=None)) as reader:
        reader.execute("SELECT * FROM counter").fetchone()
        copy_online(accounts, tmp_path / "copy")
        other = (
            "import sqlite3, sys; c = sqlite3.connect(sys.argv[1], timeout=0)\n"
            "try: print(c.execute('PRAGMA journal_mode=DELETE').fetchone()[0])\n"
            "except sqlite3.OperationalError as error: print(error)\n"
        )
        with talking(other, accounts) as process:
            assert process.stdout.read().strip() == "database is locked"


def test_a_file_without_a_log_is_given_one_and_a_target_that_exists_is_refused(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "a")) as database, database:
        database.execute("CREATE TABLE t (x)")
    copy_online(tmp_path / "a", tmp_path / "b")
    with pytest.raises(FileExistsError):
        copy_online(tmp_path / "a", tmp_path / "b")
