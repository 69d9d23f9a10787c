"""Debian's PostgreSQL on loopback: one server for all tests, one database for each."""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest
from sqlalchemy import URL, create_engine, text

from tests.free_port import free_port
from tests.needs import require_program

OWNER = "strata"
PASSWORD = "not a secret: @/%"
_BINARIES = Path("/usr/lib/postgresql")
_names = count(1)


class PostgresServer:
    """A running server in which `strata` may do everything; every connection needs a password."""

    def __init__(self, folder: Path, binaries: Path) -> None:
        self._folder, self._binaries = folder, binaries
        self.port = free_port()

    def create(self) -> None:
        secret = self._folder / "password"
        secret.write_text(PASSWORD)
        secret.chmod(0o644)
        options = ["-A", "scram-sha-256", "--pwfile", str(secret), "-U", OWNER, "-E", "UTF8", "--no-sync"]
        self._run("initdb", "-D", str(self._folder / "data"), "--locale=C.UTF-8", *options)

    def start(self) -> None:
        settings = {
            "listen_addresses": "127.0.0.1",
            "unix_socket_directories": "",
            "fsync": "off",
            "lc_messages": "C",
            "shared_buffers": "16MB",
        }
        options = f"-p {self.port} " + " ".join(f"-c {name}='{value}'" for name, value in settings.items())
        self._ctl("start", "-o", options, "-l", str(self._folder / "log"))

    def stop(self) -> None:
        """At once, as after a power cut: connections break, nobody is asked."""
        self._ctl("stop", "-m", "immediate")

    def url(self, database: str, *, user: str = OWNER, password: str | None = PASSWORD) -> URL:
        return URL.create("postgresql+psycopg", user, password, "127.0.0.1", self.port, database)

    def location(self, database: str, **changes: str) -> str:
        """The URL as `db.engine.open_state` takes it."""
        return self.url(database, **changes).render_as_string(hide_password=False)

    def run(self, statement: str, database: str = "postgres") -> None:
        """One statement, outside a transaction."""
        engine = create_engine(self.url(database), isolation_level="AUTOCOMMIT")
        with engine.connect() as connection:
            connection.execute(text(statement))
        engine.dispose()

    def create_database(self) -> str:
        name = f"state_{next(_names)}"
        self.run(f"CREATE DATABASE {name}")
        return name

    def _ctl(self, *arguments: str) -> None:
        self._run("pg_ctl", "-D", str(self._folder / "data"), "-w", "-t", "30", *arguments)

    def _run(self, program: str, *arguments: str) -> None:
        # It refuses to run as root.
        user = ["setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups"]
        command = [*(user if os.getuid() == 0 else []), str(self._binaries / program), *arguments]
        # A server keeps what it inherits: a pipe would never end.
        with (self._folder / f"{program}.log").open("ab") as log:
            done = subprocess.run(
                command,
                cwd=self._folder,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                timeout=60,
                check=False,
                env={"PATH": os.environ["PATH"], "LC_ALL": "C.UTF-8"},
            )
        assert done.returncode == 0, (self._folder / f"{program}.log").read_text()


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    require_program("pg_ctlcluster")  # Debian keeps the server's own programs off the path
    versions = sorted(_BINARIES.glob("*/bin"), key=lambda path: int(path.parent.name))
    # pytest's own folders are closed to the user that the server runs as.
    folder = Path(tempfile.mkdtemp(prefix="strata-postgres-"))
    folder.chmod(0o755)
    if os.getuid() == 0:
        shutil.chown(folder, "postgres", "postgres")
    server = PostgresServer(folder, versions[-1])
    try:
        server.create()
        server.start()
        yield server
        server.stop()
    finally:
        shutil.rmtree(folder)


@pytest.fixture(
    params=[pytest.param("sqlite"), pytest.param("postgresql", marks=pytest.mark.server)],
)
def state_location(request: pytest.FixtureRequest, tmp_path: Path) -> Path | str:
    """An empty place for the state: a file, then a database of a real server."""
    if request.param == "sqlite":
        return tmp_path / "state.db"
    server: PostgresServer = request.getfixturevalue("postgres")
    return server.location(server.create_database())
