"""How the files are opened, and that reading ends in time and waits its turn."""

import sqlite3
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from sqlalchemy import Engine, event, text

from db import sqlite_engine
from db.engine import (
    SAMPLES_FILE,
    driver,
    give_back,
    open_samples,
    open_state,
    outside_transactions,
    reading,
    writing,
)
from db.errors import StoreUnreachable, Unstorable, WriteRefused
from db.labels import labels_from
from db.records import DenseAppend, MetricMetadata, SourceReport, SparseAppend, named
from db.store import SampleStore

ENDLESS = "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT count(*) FROM n"
SHORT = "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT x FROM n LIMIT 20000"


@pytest.fixture
def samples(tmp_path: Path) -> Iterator[Engine]:
    engine = open_samples(tmp_path / "samples.db")
    yield engine
    engine.dispose()


def pragma(engine: Engine, name: str) -> object:
    with engine.connect() as connection:
        return driver(connection).execute(f"PRAGMA {name}").fetchone()[0]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("journal_mode", "wal"),
        ("synchronous", 2),
        ("auto_vacuum", 2),
        ("journal_size_limit", 64 * 2**20),
        ("wal_autocheckpoint", 16_384),
        ("busy_timeout", 5_000),
    ],
)
def test_the_samples_file_is_set_up(samples: Engine, name: str, value: object) -> None:
    assert pragma(samples, name) == value


def test_deleted_pages_can_be_given_back_to_the_disk(samples: Engine, tmp_path: Path) -> None:
    """auto_vacuum has to be there before the first table, or the pragma says so and nothing shrinks."""
    with writing(samples) as connection:
        connection.execute(text("CREATE TABLE big (x BLOB)"))
        connection.execute(text("INSERT INTO big VALUES (zeroblob(4000000))"))
    with writing(samples) as connection:
        connection.execute(text("DROP TABLE big"))
    give_back(samples, 500)
    assert 400 < pragma(samples, "freelist_count") < 600
    give_back(samples, 10_000)
    with outside_transactions(samples) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    assert (tmp_path / "samples.db").stat().st_size < 1_000_000


def test_the_driver_begins_no_transactions_of_its_own(samples: Engine) -> None:
    with reading(samples) as connection:
        assert driver(connection).isolation_level is None
    with writing(samples) as connection:
        assert driver(connection).isolation_level is None


def test_a_state_file_may_lie_anywhere_and_be_named_by_a_url(tmp_path: Path) -> None:
    open_state(f"sqlite:///{tmp_path}/deep/folder/x.db").dispose()
    assert (tmp_path / "deep/folder/x.db").exists()


class Begun:
    """Every transaction that any engine begins while it is watched: how, and with which `synchronous`."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, int]] = []

    def __call__(self, connection) -> None:
        if connection.engine.dialect.name == "sqlite":
            how = connection.get_execution_options().get(sqlite_engine.BEGIN_OPTION, "BEGIN")
            synchronous = driver(connection).execute("PRAGMA synchronous").fetchone()[0]
            self.seen.append((how, synchronous))

    def writes(self) -> list[int]:
        return [synchronous for how, synchronous in self.seen if how == "BEGIN IMMEDIATE"]


@pytest.fixture
def begun() -> Iterator[Begun]:
    watch = Begun()
    event.listen(Engine, "begin", watch)
    yield watch
    event.remove(Engine, "begin", watch)


def test_every_connection_that_writes_samples_waits_for_the_disk(tmp_path: Path, begun: Begun) -> None:
    """A killed process does not test this: only power loss tells FULL from NORMAL."""
    store = SampleStore.open(tmp_path / "samples.db")
    labels = labels_from({}, "m")
    one = np.array([1.0])

    def write(number: int) -> None:
        append = DenseAppend(f"layout {number}", [labels], number, one)
        store.write([append, SparseAppend([labels], np.array([number]), one)])

    threads = [threading.Thread(target=write, args=(number,)) for number in range(1, 9)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    report = SourceReport("scrape", "p", "h", "u", "up", 5.0)
    store.write([], [report], [MetricMetadata("m", "gauge", "", "")])
    store.retain_sources([])
    assert len(store.select([named("m")], 0, 9)[0].values) == 8
    store.close()
    assert len(begun.writes()) >= 10
    assert set(begun.writes()) == {2}  # FULL


def test_the_watch_above_would_see_a_weaker_one(tmp_path: Path, begun: Begun) -> None:
    engine = open_state(tmp_path / "state.db")
    with writing(engine):
        pass
    engine.dispose()
    assert set(begun.writes()) == {1}  # NORMAL: the state is not acknowledged to anybody


@pytest.mark.parametrize("through", ["sqlalchemy", "driver"])
def test_a_read_that_takes_too_long_is_ended(samples: Engine, through: str) -> None:

    def read() -> None:
        with reading(samples, seconds=0.1) as connection:
            if through == "driver":
                driver(connection).execute(ENDLESS).fetchall()
            else:
                connection.execute(text(ENDLESS)).fetchall()

    with pytest.raises(StoreUnreachable, match=r"reading took longer than 0\.1 s; narrow the selection"):
        read()


def test_the_limit_is_of_the_snapshot_not_of_one_statement(samples: Engine) -> None:
    statements = 0

    def read() -> None:
        nonlocal statements
        with reading(samples, seconds=1.0) as connection:
            while True:
                driver(connection).execute(SHORT).fetchall()
                statements += 1

    with pytest.raises(StoreUnreachable, match="took longer"):
        read()
    assert statements > 1


def test_the_limit_does_not_outlive_its_read(samples: Engine) -> None:
    with reading(samples, seconds=0.0):
        pass
    with writing(samples) as connection:  # on the same connection of the pool
        assert len(connection.execute(text(SHORT)).all()) == 20_000


def test_after_an_ended_read_the_connection_still_works(samples: Engine) -> None:
    with pytest.raises(StoreUnreachable), reading(samples, seconds=0.0) as connection:
        connection.execute(text(ENDLESS)).fetchall()
    with reading(samples) as connection:
        assert connection.execute(text("SELECT count(*) FROM series")).scalar() == 0


def test_more_readers_than_connections_wait_for_each_other(samples: Engine) -> None:
    """Twice as many as the pool holds, all at the same moment."""
    count = 2 * (sqlite_engine.POOL_KEPT + sqlite_engine.POOL_BEYOND)
    started, found, failed = threading.Barrier(count), [], []

    def read() -> None:
        started.wait()
        try:
            with reading(samples) as connection:
                found.append(connection.execute(text("SELECT count(*) FROM series")).scalar())
        except Exception as error:  # noqa: BLE001 - any at all is the finding
            failed.append(error)

    threads = [threading.Thread(target=read) for _ in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed == []
    assert found == [0] * count


def test_a_reader_that_finds_no_connection_gets_a_sentence(tmp_path: Path) -> None:
    engine = open_samples(tmp_path / "samples.db", replace(SAMPLES_FILE, pool_seconds=0.05))
    held = [engine.connect() for _ in range(sqlite_engine.POOL_KEPT + sqlite_engine.POOL_BEYOND)]
    sentence = r"samples\.db: every connection is in use; try again in a moment"
    with pytest.raises(StoreUnreachable, match=sentence), reading(engine):
        pass
    with pytest.raises(WriteRefused, match=sentence), writing(engine):
        pass
    for connection in held:
        connection.close()
    with reading(engine):
        pass
    engine.dispose()


def test_what_the_driver_itself_raises_is_told_like_the_rest(samples: Engine) -> None:
    """Statements that are run thousands of times go past SQLAlchemy."""
    with (
        pytest.raises(StoreUnreachable, match=r"samples\.db: failed: no such table"),
        reading(samples) as one,
    ):
        driver(one).execute("SELECT * FROM missing")
    with pytest.raises(WriteRefused, match=r"samples\.db: failed: no such table"), writing(samples) as one:
        driver(one).execute("INSERT INTO missing VALUES (1)")
    same = "INSERT INTO load (seq) VALUES (1)"

    def twice() -> None:
        with writing(samples) as connection:
            driver(connection).execute(same)
            driver(connection).execute(same)

    with pytest.raises(Unstorable, match=r"samples\.db: cannot hold this: UNIQUE constraint failed"):
        twice()
    with reading(samples) as connection:
        assert connection.execute(text("SELECT count(*) FROM load")).scalar() == 0


def test_a_writer_that_never_ends_is_named_as_a_lock(tmp_path: Path) -> None:
    engine = open_samples(tmp_path / "samples.db", replace(SAMPLES_FILE, busy_ms=50))
    other = sqlite3.connect(tmp_path / "samples.db", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(WriteRefused, match="is locked by another program; stop it"), writing(engine):
        pass
    other.execute("ROLLBACK")
    other.close()
    with writing(engine):
        pass
    engine.dispose()
