"""Both databases may be opened, and so migrated, by threads of one process at the same time."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from sqlalchemy import text

from db.engine import SAMPLES_FILE, open_samples, open_state, reading
from db.sqlite_engine import sqlite_engine


def test_threads_that_open_new_databases_do_not_disturb_each_other(tmp_path: Path) -> None:
    def opened(number: int) -> None:
        opener = open_samples if number % 2 else open_state
        opener(tmp_path / f"{number % 4}.db").dispose()

    with ThreadPoolExecutor(8) as threads:
        list(threads.map(opened, range(16)))


def test_connections_that_make_one_new_file_together_wait_for_each_other(tmp_path: Path) -> None:
    """SQLite's own waiting does not cover the change to WAL: one of some 15 such meetings went wrong."""

    def connected(number: int) -> str:
        engine = sqlite_engine(tmp_path / f"{number // 8}.db", SAMPLES_FILE)
        with reading(engine) as connection:
            mode = connection.execute(text("PRAGMA journal_mode")).scalar_one()
        engine.dispose()
        return str(mode)

    with ThreadPoolExecutor(8) as threads:
        assert set(threads.map(connected, range(8 * 60))) == {"wal"}


def test_threads_that_open_a_new_state_together_find_it_whole(state_location: Path | str) -> None:
    with ThreadPoolExecutor(8) as threads:
        engines = list(threads.map(lambda _: open_state(state_location), range(8)))
    for engine in engines:
        with reading(engine) as connection:
            assert connection.execute(text("SELECT count(*) FROM process")).scalar_one() == 0
        engine.dispose()
