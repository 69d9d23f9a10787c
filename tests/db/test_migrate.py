"""Migrations: models and scripts agree, a newer database is refused, an older file is backed up first."""

import hashlib
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import orjson
import pytest
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Engine, create_engine, inspect, text
from sqlalchemy.orm import DeclarativeBase

from db.engine import open_samples, open_state, place, reading
from db.errors import NewerDatabase
from db.labels import labels_from
from db.maintenance import Maintainer
from db.migrate import (
    ADVISORY_LOCK,
    SAMPLES,
    STATE,
    Schema,
    bring_server_up_to_date,
    bring_up_to_date,
    current_revision,
)
from db.models import SamplesBase, StateBase
from db.processes import beat, read_processes
from db.records import Matcher, SparseAppend, named
from db.store import SampleStore
from tests.postgres_server import PostgresServer
from tests.source_tree import ROOT


def agrees(engine: Engine, base: type[DeclarativeBase], schema: Schema) -> None:
    with engine.connect() as connection:
        context = MigrationContext.configure(connection, opts={"render_as_batch": True})
        assert compare_metadata(context, base.metadata) == []
    assert current_revision(engine) == schema.head
    engine.dispose()
    config = Config()
    config.set_main_option("script_location", str(schema.scripts))
    config.set_main_option("path_separator", "os")
    assert ScriptDirectory.from_config(config).get_current_head() == schema.head


def say_newer(engine: Engine) -> None:
    with engine.begin() as connection:
        connection.execute(text("UPDATE alembic_version SET version_num = '9999'"))
    engine.dispose()


def with_a_later_script(schema: Schema, folder: Path, upgrade: str) -> Schema:
    scripts = folder / "scripts"
    shutil.copytree(schema.scripts, scripts, ignore=shutil.ignore_patterns("__pycache__"))
    (scripts / "versions" / "9000_later.py").write_text(
        "from alembic import op\n"
        f"revision = '9000'\ndown_revision = '{schema.head}'\nbranch_labels = None\ndepends_on = None\n"
        f"def upgrade():\n    {upgrade}\n"
    )
    return Schema(scripts, "9000")


def migrate_state(engine: Engine, where: Path | str, schema: Schema) -> None:
    if isinstance(where, Path):
        bring_up_to_date(engine, where, schema)
    else:
        bring_server_up_to_date(engine, place(engine), schema)


def test_the_scripts_build_the_samples_tables(tmp_path: Path) -> None:
    agrees(open_samples(tmp_path / "x.db"), SamplesBase, SAMPLES)


def test_the_scripts_build_the_state_tables(state_location: Path | str) -> None:
    agrees(open_state(state_location), StateBase, STATE)


def test_a_newer_samples_file_is_refused_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "samples.db"
    say_newer(open_samples(path))
    with pytest.raises(NewerDatabase, match=r"samples\.db: was written by a newer Strata .*9999"):
        open_samples(path)
    plain = create_engine(f"sqlite:///{path}")
    assert current_revision(plain) == "9999"
    plain.dispose()


def test_a_newer_state_is_refused_and_left_alone(state_location: Path | str) -> None:
    engine = open_state(state_location)
    beat(engine, "web", pid=1, started_ms=0, now_ms=0)
    say_newer(engine)
    with pytest.raises(NewerDatabase, match=r"/state\S*: was written by a newer Strata .*9999") as caught:
        open_state(state_location)
    mend = "--data" if isinstance(state_location, Path) else "storage.state"
    assert mend in str(caught.value)
    assert current_revision(engine) == "9999"
    assert len(read_processes(engine)) == 1
    engine.dispose()


def test_an_older_file_is_backed_up_then_migrated(tmp_path: Path) -> None:
    schema = with_a_later_script(SAMPLES, tmp_path, "op.execute('CREATE TABLE later (x INTEGER)')")
    path = tmp_path / "samples.db"
    engine = open_samples(path)
    bring_up_to_date(engine, path, schema)
    assert current_revision(engine) == "9000"
    engine.dispose()
    backup = create_engine(f"sqlite:///{tmp_path / 'samples.db.before-9000'}")
    assert current_revision(backup) == SAMPLES.head
    backup.dispose()


def test_an_older_state_is_migrated_with_what_it_holds(state_location: Path | str, tmp_path: Path) -> None:
    engine = open_state(state_location)
    beat(engine, "web", pid=1, started_ms=0, now_ms=0)
    schema = with_a_later_script(STATE, tmp_path, "op.execute('CREATE TABLE later (x INTEGER)')")
    migrate_state(engine, state_location, schema)
    assert current_revision(engine) == "9000"
    assert inspect(engine).has_table("later")
    assert [process.name for process in read_processes(engine)] == ["web"]
    engine.dispose()


def test_a_migration_that_fails_leaves_the_state_as_it_was(
    state_location: Path | str, tmp_path: Path
) -> None:
    engine = open_state(state_location)
    schema = with_a_later_script(
        STATE, tmp_path, "op.execute('CREATE TABLE later (x INTEGER)'); raise RuntimeError('half-way')"
    )
    with pytest.raises(RuntimeError, match="half-way"):
        migrate_state(engine, state_location, schema)
    assert current_revision(engine) == STATE.head
    assert not inspect(engine).has_table("later")
    engine.dispose()


OPENED = """
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from db.engine import open_state
where = sys.stdin.readline().strip()
print("ready", flush=True)
sys.stdin.readline()
open_state(where).dispose()
"""


def test_processes_that_open_a_new_state_together_migrate_it_once(state_location: Path | str) -> None:
    """Without the lock all but one fail: the tables are there already."""
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", OPENED],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for _ in range(4)
    ]
    for process in processes:
        process.stdin.write(f"{state_location}\n")
        process.stdin.flush()
    for process in processes:
        assert process.stdout.readline() == "ready\n"
    for process in processes:
        process.stdin.write("go\n")
        process.stdin.flush()
    ends = [(process.communicate(timeout=60)[1], process.returncode) for process in processes]
    assert ends == [("", 0)] * 4
    engine = open_state(state_location)
    with reading(engine) as connection:
        assert connection.execute(text("SELECT count(*) FROM alembic_version")).scalar_one() == 1
    engine.dispose()


@pytest.mark.server
def test_who_comes_second_to_a_server_waits_until_the_first_has_migrated(postgres: PostgresServer) -> None:
    location = postgres.location(postgres.create_database())
    first = create_engine(location)
    waiting = text("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted")
    with ThreadPoolExecutor(1) as thread:
        with first.connect() as holder, holder.begin():
            holder.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": ADVISORY_LOCK})
            second = thread.submit(open_state, location)
            while not holder.execute(waiting).scalar_one():
                assert not second.done(), "it did not wait"
        second.result().dispose()
    first.dispose()


def test_samples_of_the_first_schema_are_all_there_after_the_migration(tmp_path: Path) -> None:
    """A file as 0001 left it: unpacked postings, everything in the head."""
    path = tmp_path / "samples.db"
    plain = create_engine(f"sqlite:///{path}")
    config = Config()
    config.set_main_option("script_location", str(SAMPLES.scripts))
    config.set_main_option("path_separator", "os")
    with plain.connect() as connection:
        config.attributes["connection"] = connection
        with connection.begin():
            command.upgrade(config, "0001")
    up, temperature = labels_from({"job": "a"}, "up"), labels_from({"job": "a", "gpu": "0"}, "temp")
    with plain.begin() as connection:
        for series_id, labels in ((4, up), (9, temperature)):
            encoded = orjson.dumps(labels).decode()
            digest = hashlib.blake2b(encoded.encode(), digest_size=8).digest()
            row = (series_id, int.from_bytes(digest, "big", signed=True), encoded)
            connection.exec_driver_sql("INSERT INTO series VALUES (?, ?, ?)", row)
        connection.exec_driver_sql(
            "INSERT INTO label_pair VALUES (1, '__name__', 'up'), (2, '__name__', 'temp'), (3, 'job', 'a'), "
            "(4, 'gpu', '0')"
        )
        connection.exec_driver_sql("INSERT INTO posting VALUES (1, 4), (3, 4), (2, 9), (3, 9), (4, 9)")
        connection.exec_driver_sql("INSERT INTO layout (id, key) VALUES (1, 'old')")
        connection.exec_driver_sql("INSERT INTO layout_slot VALUES (4, 1, 0), (9, 1, 1)")
        for seq, value in ((1, 1.0), (2, 0.0)):
            data = np.array([value, 40.0 + seq]).tobytes()
            connection.exec_driver_sql("INSERT INTO head_dense VALUES (?, 1, ?, ?)", (seq, seq * 1000, data))
    plain.dispose()

    store = SampleStore.open(path)
    assert [(item.labels, item.values.tolist()) for item in store.select([], 0, 9_000)] == [
        (temperature, [41.0, 42.0]),
        (up, [1.0, 0.0]),
    ]
    assert [item.labels for item in store.select([Matcher("gpu", "=~", "0|1")], 0, 9_000)] == [temperature]
    store.write([SparseAppend([labels_from({"job": "b"}, "up"), up], np.array([3_000, 3_000]), np.ones(2))])
    Maintainer(store.engine).seal(10**9)
    assert [len(item.values) for item in store.select([named("up")], 0, 9_000)] == [3, 1]
    store.close()
