"""Does a database have this version's tables? For who only looks: opening it would create or migrate it."""

import sqlite3
from contextlib import closing
from pathlib import Path
from urllib.parse import quote

from sqlalchemy import URL, inspect, text

from db.engine import reading
from db.errors import StoreUnreachable
from db.migrate import Schema
from db.postgres_engine import ServerLimits, postgres_engine
from db.sqlite_engine import sqlite_sentence
from db.state_location import parse_location, server_place

_TABLE = "alembic_version"
_REVISION = "SELECT version_num FROM alembic_version"
_HELD = "SELECT 1 FROM sqlite_master WHERE name = 'alembic_version'"


def refuse_other_schema(where: Path | str, schema: Schema) -> None:
    """where: a file that exists, or a server's URL. Nothing is written. Raises StoreUnreachable where it
    cannot be read, is empty, or was written by another version."""
    location = parse_location(where)
    if isinstance(location, Path):
        place, found = str(location), _of_file(location)
    else:
        place, found = server_place(location), _of_server(location)
    if found is None:
        raise StoreUnreachable(f"{place}: holds nothing yet; start `strata up`")
    if found != schema.head:
        raise StoreUnreachable(
            f"{place}: was written by another version (schema {found}, this one has {schema.head}); "
            "ask that version's `strata doctor`, or start this one's `strata up`, which migrates it"
        )


def _of_file(path: Path) -> str | None:
    # Without a log nobody has it open, and SQLite need not put one beside it.
    mode = "mode=ro" if path.with_name(path.name + "-wal").exists() else "immutable=1"
    try:
        with closing(sqlite3.connect(f"file:{quote(str(path))}?{mode}", uri=True)) as connection:
            if connection.execute(_HELD).fetchone() is None:
                return None
            row = connection.execute(_REVISION).fetchone()
    except sqlite3.Error as error:
        raise StoreUnreachable(f"{path}: {sqlite_sentence(path, error)}") from error
    return None if row is None else str(row[0])


def _of_server(url: URL) -> str | None:
    engine = postgres_engine(url, ServerLimits())
    try:
        with reading(engine) as connection:
            if not inspect(connection).has_table(_TABLE):
                return None
            found = connection.execute(text(_REVISION)).scalar()
            return None if found is None else str(found)
    finally:
        engine.dispose()
