"""The state on a real PostgreSQL: every way in which it cannot be reached is one sentence without secrets."""

import os
import socket
import subprocess
import sys
import threading
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from sqlalchemy import Engine, text

from db.engine import open_state, reading, writing
from db.errors import StoreUnreachable, Unstorable, WriteRefused
from db.postgres_engine import ServerLimits
from db.processes import Process, beat, read_processes, report
from tests.free_port import free_port
from tests.postgres_server import OWNER, PASSWORD, PostgresServer
from tests.source_tree import ROOT

pytestmark = pytest.mark.server

DEFAULTS = ServerLimits()
SECRET = "s3cr3t-0f-ada"


@contextmanager
def opened(location: str, limits: ServerLimits = DEFAULTS) -> Iterator[Engine]:
    engine = open_state(location, limits=limits)
    try:
        yield engine
    finally:
        engine.dispose()


def refusal(location: str, limits: ServerLimits = DEFAULTS) -> str:
    """The sentence; no trace of the password anywhere in what a log might hold."""
    with pytest.raises(StoreUnreachable) as caught:
        open_state(location, limits=limits)
    everything = "".join(traceback.format_exception(caught.value))
    assert SECRET not in everything
    assert PASSWORD not in everything
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_it_is_opened_twice_and_holds_what_was_written(postgres: PostgresServer) -> None:
    location = postgres.location(postgres.create_database())
    with opened(location) as engine:
        beat(engine, "web", pid=1, started_ms=2**41, now_ms=2**41 + 1)
    with opened(location) as engine:
        assert read_processes(engine) == [Process("web", "running", 1, 2**41, 2**41 + 1, 0, "")]


def test_nobody_listens() -> None:
    port = free_port()
    said = refusal(f"postgresql+psycopg://ada:{SECRET}@127.0.0.1:{port}/state")
    assert said == f"127.0.0.1:{port}/state: nobody listens there; start the server, or correct storage.state"


def test_a_server_that_never_answers_is_given_up() -> None:
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        port = silent.getsockname()[1]
        where = f"postgresql+psycopg://ada:{SECRET}@127.0.0.1:{port}/state"
        said = refusal(where, limits=ServerLimits(connect=2))  # the least that libpq knows
    assert said == f"127.0.0.1:{port}/state: does not answer in time; check address, network and firewall"


def test_an_unknown_host_name() -> None:
    said = refusal(f"postgresql+psycopg://ada:{SECRET}@nowhere.invalid/state")
    assert said == "nowhere.invalid:5432/state: the server's name is not known; correct storage.state"


def test_a_wrong_password(postgres: PostgresServer) -> None:
    database = postgres.create_database()
    said = refusal(postgres.location(database, password=SECRET))
    assert said.startswith(f"127.0.0.1:{postgres.port}/{database}: refuses {OWNER}'s password; correct it")


def test_a_missing_password(postgres: PostgresServer) -> None:
    said = refusal(postgres.location(postgres.create_database(), password=None))
    assert "refuses strata's password; correct it in storage.state_password_file or in the URL" in said


def test_a_missing_database(postgres: PostgresServer) -> None:
    said = refusal(postgres.location("nothing"))
    assert said.endswith("/nothing: has no database 'nothing'; create it: createdb --owner strata nothing")


def test_a_user_that_may_not_make_tables(postgres: PostgresServer) -> None:
    """What everybody meets first: since PostgreSQL 15 only a database's owner may."""
    database = postgres.create_database()
    postgres.run(f"CREATE ROLE guest LOGIN PASSWORD '{SECRET}'")
    said = refusal(postgres.location(database, user="guest", password=SECRET))
    assert "may not be written by this user; make it the owner: ALTER DATABASE" in said


def test_a_setting_that_the_driver_does_not_know(postgres: PostgresServer) -> None:
    said = refusal(postgres.location(postgres.create_database()) + "?colour=red")
    assert 'invalid connection option "colour"' in said


def test_without_the_driver_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "psycopg", None)  # an import of it fails
    said = refusal(f"postgresql+psycopg://ada:{SECRET}@db.example/state")
    assert said == (
        "db.example:5432/state: PostgreSQL needs the driver psycopg, which cannot be loaded; "
        "install it into Strata's environment: pip install 'psycopg[binary]'"
    )


def test_a_server_that_is_not_there_yet_may_be_taken_by_those_who_can_wait(postgres: PostgresServer) -> None:
    location = postgres.location(postgres.create_database())
    open_state(location).dispose()  # migrated before
    postgres.stop()
    try:
        engine = open_state(location, reachable=False)
        with pytest.raises(WriteRefused, match="nobody listens there"):
            beat(engine, "collect", pid=1, started_ms=0, now_ms=0)
    finally:
        postgres.start()
    beat(engine, "collect", pid=1, started_ms=0, now_ms=0)
    assert [process.name for process in read_processes(engine)] == ["collect"]
    engine.dispose()


def strata(folder: Path, state: str, *command: str) -> tuple[int, str]:
    """Exit status and stderr of a command whose state is at the URL."""
    done = subprocess.run(
        [sys.executable, "-m", "app", *command, "--data", str(folder / "data")],
        cwd=ROOT,
        env={**os.environ, "HOME": str(folder), "STRATA_STORAGE__STATE": state},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert PASSWORD not in done.stdout + done.stderr
    return done.returncode, done.stderr


def test_the_programs_keep_their_state_there(postgres: PostgresServer, tmp_path: Path) -> None:
    location = postgres.location(postgres.create_database())
    status, said = strata(tmp_path, location, "health", "alert")
    assert (status, said) == (
        1,
        "strata: alert has never reported; is it started with the same --data?\n",
    )
    assert strata(tmp_path, location, "alert", "--once")[0] == 0
    assert strata(tmp_path, location, "health", "alert") == (0, "")
    assert not (tmp_path / "data" / "state.db").exists()


def test_a_program_without_its_server_says_so_in_one_line(postgres: PostgresServer, tmp_path: Path) -> None:
    status, said = strata(tmp_path, postgres.location("nothing"), "alert", "--once")
    place = f"127.0.0.1:{postgres.port}/nothing"
    assert status == 1
    assert said.startswith(f"strata: {place}: has no database 'nothing'; create it")
    assert said.count("\n") == 1


def test_a_restarted_server_is_found_again(postgres: PostgresServer) -> None:
    with opened(postgres.location(postgres.create_database())) as engine:
        beat(engine, "web", pid=1, started_ms=0, now_ms=1)
        postgres.stop()
        try:
            with pytest.raises(WriteRefused, match="nobody listens there"):
                beat(engine, "web", pid=1, started_ms=0, now_ms=2)
            with pytest.raises(StoreUnreachable, match="nobody listens there"):
                read_processes(engine)
        finally:
            postgres.start()
        beat(engine, "web", pid=1, started_ms=0, now_ms=3)
        assert [process.beat_ms for process in read_processes(engine)] == [3]


def test_a_connection_cut_inside_a_transaction_costs_that_transaction_alone(postgres: PostgresServer) -> None:
    with opened(postgres.location(postgres.create_database())) as engine:

        def cut() -> None:
            with writing(engine) as connection:
                connection.execute(text("INSERT INTO process VALUES ('a', 1, 'running', 0, 0, 0, '')"))
                own = connection.execute(text("SELECT pg_backend_pid()")).scalar_one()
                postgres.run(f"SELECT pg_terminate_backend({own})")
                connection.execute(text("INSERT INTO process VALUES ('b', 1, 'running', 0, 0, 0, '')"))

        with pytest.raises(WriteRefused, match="the server"):
            cut()
        assert read_processes(engine) == []
        beat(engine, "c", pid=1, started_ms=0, now_ms=0)
        assert [process.name for process in read_processes(engine)] == ["c"]


def test_a_lock_that_is_never_given_back_is_not_waited_for(postgres: PostgresServer) -> None:
    limits = ServerLimits(lock=1)
    location = postgres.location(postgres.create_database())
    with opened(location) as holder, opened(location, limits) as waiter, writing(holder) as connection:
        connection.execute(text("LOCK TABLE process"))
        with pytest.raises(WriteRefused, match="is locked by another program"):
            beat(waiter, "web", pid=1, started_ms=0, now_ms=0)


def test_a_statement_that_never_ends_is_ended(postgres: PostgresServer) -> None:
    with (
        opened(postgres.location(postgres.create_database()), ServerLimits(statement=1)) as engine,
        pytest.raises(StoreUnreachable, match="took too long and was given up"),
        reading(engine) as connection,
    ):
        connection.execute(text("SELECT pg_sleep(60)"))


def test_everything_read_inside_belongs_together(postgres: PostgresServer) -> None:
    count = text("SELECT count(*) FROM process")
    with opened(postgres.location(postgres.create_database())) as engine:
        with reading(engine) as connection:
            before = connection.execute(count).scalar_one()
            beat(engine, "web", pid=1, started_ms=0, now_ms=0)
            assert connection.execute(count).scalar_one() == before
        assert len(read_processes(engine)) == before + 1


def test_a_reader_cannot_write(postgres: PostgresServer) -> None:
    with (
        opened(postgres.location(postgres.create_database())) as engine,
        pytest.raises(StoreUnreachable, match="is read-only"),
        reading(engine) as connection,
    ):
        connection.execute(text("DELETE FROM process"))


def test_text_that_postgresql_cannot_hold_is_told_apart(postgres: PostgresServer) -> None:
    with opened(postgres.location(postgres.create_database())) as engine:
        with pytest.raises(Unstorable, match="NUL"):
            report(engine, "web", status="stopped", pid=1, restarts=0, detail="a\0b", now_ms=0)
        assert read_processes(engine) == []


def test_two_writers_of_one_row_both_count(postgres: PostgresServer) -> None:
    with opened(postgres.location(postgres.create_database())) as engine:
        threads = [
            threading.Thread(
                target=beat, args=(engine, "web"), kwargs={"pid": n, "started_ms": 0, "now_ms": n}
            )
            for n in range(12)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(read_processes(engine)) == 1


@pytest.mark.parametrize(
    ("location", "sentence"),
    [
        (f"postgresql://ada:{SECRET}@h/d", "begins with postgresql://, but PostgreSQL is reached by psycopg"),
        (f"postgresql+asyncpg://ada:{SECRET}@h/d", "begins with postgresql+asyncpg://"),
        (f"mysql://ada:{SECRET}@h/d", "names 'mysql', but the state is kept in SQLite or PostgreSQL"),
        (f"postgresql+psycopg://ada:{SECRET}@{SECRET}@h/d", "holds a password with '@' or '/'"),
        (f"postgresql+psycopg://ada:{SECRET}@h:{SECRET}/d", "is not a URL that can be read"),
        (f"postgresql+psycopg://ada@h/d?password={SECRET}", "has 'password' behind its '?'"),
        (f"postgresql+psycopg://ada:{SECRET}@h", "names no database"),
        ("sqlite://", "names no file"),
        ("sqlite:///:memory:", "names no file"),
        ("sqlite:////tmp/x.db?mode=ro", "names a SQLite file with more than its path"),
    ],
)
def test_a_url_that_is_no_place_for_the_state(location: str, sentence: str) -> None:
    said = refusal(location)
    assert said.startswith(f"the state's URL (storage.state) {sentence}")
    assert (
        "+psycopg://USER@HOST/DATABASE" in said
        or "sqlite:////PATH" in said
        or "%40" in said
        or "USER:" in said
    )
