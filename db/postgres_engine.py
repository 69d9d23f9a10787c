"""How a PostgreSQL database is reached, and what its errors mean. It holds the state only, never samples.

Nothing here may hang: connecting, waiting for a lock, a statement and a connection whose other end is gone
each have a limit. Errors name server and database, never the user's password.
"""

from dataclasses import dataclass
from typing import Any

from sqlalchemy import URL, Engine, create_engine, event

from db.errors import StoreUnreachable
from db.state_location import server_place

POOL_KEPT, POOL_BEYOND, POOL_SECONDS = 5, 10, 10.0
# A process that was stopped inside a transaction must not hold its locks for ever.
_IDLE_IN_TRANSACTION_SECONDS = 60
# libpq: a server that vanished without a word is noticed after 10 + 3 x 5 s, mid-statement after 20 s.
_KEEPALIVE = {
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 20_000,
}


@dataclass(frozen=True, slots=True)
class ServerLimits:
    """How long to wait for the server, in seconds: for a connection, a lock, a statement."""

    connect: int = 5
    lock: int = 5
    statement: int = 30


def postgres_engine(url: URL, limits: ServerLimits) -> Engine:
    """Connections to the database; none is made yet. Raises StoreUnreachable."""
    arguments: dict[str, Any] = {
        "connect_timeout": limits.connect,
        "application_name": "strata",
        **_KEEPALIVE,
    }
    try:
        engine = create_engine(
            url,
            connect_args={
                **{key: value for key, value in arguments.items() if key not in url.query},
                # Poolers such as pgbouncer give each transaction another connection.
                "prepare_threshold": None,
            },
            pool_pre_ping=True,  # a restarted server costs a new connection, not an error
            pool_size=POOL_KEPT,
            max_overflow=POOL_BEYOND,
            pool_timeout=POOL_SECONDS,
            pool_recycle=1800,
        )
    except ImportError as error:
        raise StoreUnreachable(
            f"{server_place(url)}: PostgreSQL needs the driver psycopg, which cannot be loaded; "
            "install it into Strata's environment: pip install 'psycopg[binary]'"
        ) from error

    @event.listens_for(engine, "connect")
    def _configure(connection: Any, _record: Any) -> None:
        # By statements and not as start options, which poolers refuse.
        with connection.cursor() as cursor:
            cursor.execute(
                f"SET statement_timeout = '{limits.statement}s'; SET lock_timeout = '{limits.lock}s'; "
                f"SET idle_in_transaction_session_timeout = '{_IDLE_IN_TRANSACTION_SECONDS}s'"
            )
        connection.commit()

    return engine


def postgres_sentence(url: URL, error: BaseException) -> str:
    """What went wrong and how to mend it, in one clause."""
    code = str(getattr(error, "sqlstate", None) or "")
    if code in _MENDS:
        return _MENDS[code]
    reason = str(error)
    if "password authentication failed" in reason or "no password supplied" in reason:
        return f"refuses {_user(url)}'s password; correct it in storage.state_password_file or in the URL"
    if "does not exist" in reason and "database" in reason:
        return f"has no database {url.database!r}; create it: createdb --owner {_user(url)} {url.database}"
    if "does not exist" in reason and "role" in reason:
        return f"has no user {_user(url)!r}; create it, or name another in storage.state"
    for known, mend in _CONNECTING.items():
        if known in reason:
            return mend
    # The driver puts the address in front, and adds hints in lines of its own.
    first = reason.strip().partition("\n")[0].rpartition("FATAL:")[2].strip()
    return f"failed: {first or type(error).__name__}"


_MENDS = {
    "53100": "the server's disk is full; free space on it",
    "53300": "the server has no connection left; raise max_connections, or stop what holds them",
    "55P03": "is locked by another program for too long; stop that program",
    "57014": "took too long and was given up; look for what keeps the server busy",
    "25006": "is read-only (a standby?); name the primary server in storage.state",
    "42501": "may not be written by this user; make it the owner: ALTER DATABASE ... OWNER TO ...",
    "57P01": "the server is shutting down or restarting; Strata tries again",
    "XX001": "is damaged; restore a backup of the server",
    "XX002": "is damaged; restore a backup of the server",
}
_CONNECTING = {
    "Connection refused": "nobody listens there; start the server, or correct storage.state",
    "timeout expired": "does not answer in time; check address, network and firewall",
    "could not translate host name": "the server's name is not known; correct storage.state",
    "failed to resolve host": "the server's name is not known; correct storage.state",
    "Name or service not known": "the server's name is not known; correct storage.state",
    "No such file or directory": "nobody listens on that socket; start the server, or correct storage.state",
    "no pg_hba.conf entry": "the server does not let this machine in; add a line to its pg_hba.conf",
    "starting up": "the server is starting; Strata tries again",
    "shutting down": "the server is shutting down or restarting; Strata tries again",
    "too many clients": _MENDS["53300"],
    "remaining connection slots": _MENDS["53300"],
    "server closed the connection": "the server ended the connection; Strata tries again",
    "terminating connection": "the server ended the connection; Strata tries again",
    "connection is lost": "the server ended the connection; Strata tries again",
}


def _user(url: URL) -> str:
    return url.username or "the user"
