"""Where the state is: reads `storage.state`, and says in one sentence what is wrong with it.

A sentence about a URL is shown on pages and written to logs, and a URL may hold a password. So it is never
repeated: only host, port and database are.
"""

from pathlib import Path

from sqlalchemy import URL, make_url
from sqlalchemy.exc import ArgumentError

from db.errors import StoreUnreachable

SERVER_DRIVER = "postgresql+psycopg"
SUBJECT = "the state's URL (storage.state)"
_FORMS = f"write sqlite:////PATH or {SERVER_DRIVER}://USER@HOST/DATABASE"
# In a query they would not be seen as secrets by anything that hides a URL's password.
_SECRETS = ("password", "sslpassword")


def parse_location(where: Path | str) -> Path | URL:
    """A file's path or a server's URL. Raises StoreUnreachable when it is neither."""
    if isinstance(where, Path) or "://" not in where:
        return Path(where)
    try:
        url = make_url(where)
    except (ArgumentError, ValueError):  # ValueError: the port is no number
        raise _wrong(f"is not a URL that can be read; {_FORMS}") from None
    backend = url.drivername.partition("+")[0]
    if backend == "sqlite":
        return _file(url)
    if backend not in ("postgresql", "postgres"):
        raise _wrong(f"names {backend!r}, but the state is kept in SQLite or PostgreSQL; {_FORMS}")
    if url.drivername != SERVER_DRIVER:
        raise _wrong(f"begins with {url.drivername}://, but PostgreSQL is reached by psycopg; {_FORMS}")
    # "@" and "/" end a password that holds them: what follows would be taken, and shown, as the host's name.
    if any(sign in (url.host or "") for sign in "@/"):
        raise _wrong(
            "holds a password with '@' or '/'; write them as %40 and %2F, or put it in a file and name that "
            "as storage.state_password_file"
        )
    for secret in _SECRETS:
        if secret in url.query:
            raise _wrong(f"has '{secret}' behind its '?'; write it as USER:PASSWORD@HOST")
    if not url.database:
        raise _wrong(f"names no database; {_FORMS}")
    return url


def server_place(url: URL) -> str:
    """The server and its database for people: `db.example:5432/strata`; never user or password."""
    host = url.host or _first(url, "host") or _first(url, "service") or "localhost"
    if ":" in host:
        host = f"[{host}]"
    port = url.port or _first(url, "port") or 5432
    return f"{host}:{port}/{url.database}"


def _first(url: URL, name: str) -> str:
    value = url.query.get(name, "")
    return value if isinstance(value, str) else ",".join(value)


def _file(url: URL) -> Path:
    if url.drivername not in ("sqlite", "sqlite+pysqlite") or url.query or url.host:
        raise _wrong("names a SQLite file with more than its path; write sqlite:////PATH")
    if not url.database or url.database == ":memory:":
        raise _wrong("names no file, and several processes share the state; write sqlite:////PATH")
    return Path(url.database)


def _wrong(what: str) -> StoreUnreachable:
    return StoreUnreachable(f"{SUBJECT} {what}")
