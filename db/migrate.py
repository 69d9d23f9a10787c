"""Brings a database to this version's schema: once, under a lock, after a backup; a newer one is refused.

A server's database is not copied first: Strata cannot write files there, PostgreSQL undoes a migration that
fails, since tables change in transactions there too, and servers have backups of their own.

Alembic is imported only when there is something to do: every process opens the databases at its start.
"""

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Lock

from sqlalchemy import Connection, Engine, inspect, text

from db.errors import NewerDatabase
from db.sqlite_engine import IMMEDIATE

_ALEMBIC = Lock()  # its context is one for the whole process
_MIGRATIONS = Path(__file__).parent / "migrations"
# Any number will do, as long as every version of Strata takes the same: "strata" in ASCII.
ADVISORY_LOCK = 0x737472617461
# Another process migrates meanwhile; building an index takes its time.
_SERVER_LIMITS = ("SET LOCAL lock_timeout = '120s'", "SET LOCAL statement_timeout = '600s'")


@dataclass(frozen=True, slots=True)
class Schema:
    """Where a database's migrations are, and the newest of them."""

    scripts: Path
    head: str


SAMPLES = Schema(_MIGRATIONS / "samples", "0002")
STATE = Schema(_MIGRATIONS / "state", "0001")


def bring_up_to_date(engine: Engine, path: Path, schema: Schema) -> None:
    """Migrate the SQLite database behind `engine`, which is the file `path`.

    Raises NewerDatabase when its revision is not one of ours.
    """
    if current_revision(engine) == schema.head:
        return
    with _ALEMBIC, _locked(path.with_name(path.name + ".migration-lock")):
        current = current_revision(engine)
        if current == schema.head:  # another process did it while we waited
            return
        _refuse_newer(current, schema, str(path), "start with another --data folder")
        if current is not None:
            _back_up(engine, path.with_name(f"{path.name}.before-{schema.head}"))
        # IMMEDIATE: a process of the former version may still write.
        with engine.connect().execution_options(**IMMEDIATE) as connection, connection.begin():
            _upgrade(connection, schema)


def bring_server_up_to_date(engine: Engine, place: str, schema: Schema) -> None:
    """Migrate the PostgreSQL database behind `engine` in one transaction.

    Raises NewerDatabase when its revision is not one of ours.
    """
    if current_revision(engine) == schema.head:
        return
    with _ALEMBIC, engine.connect() as connection, connection.begin():
        for limit in _SERVER_LIMITS:
            connection.execute(text(limit))
        connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": ADVISORY_LOCK})
        current = _revision(connection)
        if current == schema.head:  # another process did it while we waited
            return
        _refuse_newer(current, schema, place, "name another database in storage.state")
        _upgrade(connection, schema)


def current_revision(engine: Engine) -> str | None:
    """The schema revision the database is at; None for an empty one."""
    with engine.connect() as connection:
        return _revision(connection)


def _revision(connection: Connection) -> str | None:
    if not inspect(connection).has_table("alembic_version"):
        return None
    revision = connection.execute(text("SELECT version_num FROM alembic_version")).scalar()
    return None if revision is None else str(revision)


def _refuse_newer(current: str | None, schema: Schema, place: str, otherwise: str) -> None:
    from alembic.script import ScriptDirectory

    scripts = ScriptDirectory(str(schema.scripts))
    if current is not None and current not in {script.revision for script in scripts.walk_revisions()}:
        raise NewerDatabase(
            f"{place}: was written by a newer Strata (schema {current}, this one knows {schema.head}); "
            f"install that version, or {otherwise}"
        )


def _upgrade(connection: Connection, schema: Schema) -> None:
    from alembic import command
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(schema.scripts).replace("%", "%%"))
    config.set_main_option("path_separator", "os")
    config.attributes["connection"] = connection
    command.upgrade(config, "head")


def _back_up(engine: Engine, to: Path) -> None:
    to.unlink(missing_ok=True)
    # The driver's connection itself: VACUUM must not run inside a transaction.
    raw = engine.raw_connection()
    try:
        raw.cursor().execute("VACUUM INTO ?", (str(to),))
    finally:
        raw.close()


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    with path.open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
