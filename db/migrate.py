"""Brings a database to this version's schema: once, under a lock, after a backup; a newer one is refused.

Alembic is imported only when there is something to do: every process opens the databases at its start.
"""

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Lock

from sqlalchemy import Engine, inspect, text

from db.errors import NewerDatabase

_ALEMBIC = Lock()  # its context is one for the whole process
_MIGRATIONS = Path(__file__).parent / "migrations"


@dataclass(frozen=True, slots=True)
class Schema:
    """Where a database's migrations are, and the newest of them."""

    scripts: Path
    head: str


SAMPLES = Schema(_MIGRATIONS / "samples", "0001")
STATE = Schema(_MIGRATIONS / "state", "0001")


def bring_up_to_date(engine: Engine, path: Path, schema: Schema) -> None:
    """Migrate the database behind `engine`, which is the file `path`.

    Raises NewerDatabase when its revision is not one of ours.
    """
    if current_revision(engine) == schema.head:
        return
    with _ALEMBIC, _locked(path.with_name(path.name + ".migration-lock")):
        current = current_revision(engine)
        if current == schema.head:  # another process did it while we waited
            return
        from alembic import command
        from alembic.config import Config
        from alembic.script import ScriptDirectory

        config = Config()
        config.set_main_option("script_location", str(schema.scripts).replace("%", "%%"))
        config.set_main_option("path_separator", "os")
        known = {script.revision for script in ScriptDirectory.from_config(config).walk_revisions()}
        if current is not None and current not in known:
            raise NewerDatabase(
                f"{path}: was written by a newer Strata (schema {current}, this one knows {schema.head}); "
                "install that version, or start with another --data folder"
            )
        if current is not None:
            _back_up(engine, path.with_name(f"{path.name}.before-{schema.head}"))
        with engine.connect() as connection:
            config.attributes["connection"] = connection
            with connection.begin():
                command.upgrade(config, "head")


def current_revision(engine: Engine) -> str | None:
    """The schema revision the database is at; None for an empty one."""
    with engine.connect() as connection:
        if not inspect(connection).has_table("alembic_version"):
            return None
        revision = connection.execute(text("SELECT version_num FROM alembic_version")).scalar()
        return None if revision is None else str(revision)


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
