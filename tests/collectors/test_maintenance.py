"""The process that maintains the samples file: it works, comes back, obeys, and never stays behind."""

import asyncio
import os
import signal
import sqlite3
import sys
from collections.abc import Callable
from contextlib import asynccontextmanager
from pathlib import Path

import numpy as np

from collectors.clock import SystemClock
from collectors.maintenance import Maintenance
from db.engine import open_state
from db.folder_claim import claimed_folder
from db.labels import labels_from
from db.maintenance_process import Keep
from db.processes import Process, read_processes
from db.records import SparseAppend
from db.store import SampleStore

DAY_MS = 86_400_000
WAIT_SECONDS = 60.0


class QuickClock(SystemClock):
    """Waits between two lives of the child are short."""

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(min(seconds, 0.05))


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(WAIT_SECONDS):
        while not condition():
            await asyncio.sleep(0.05)


@asynccontextmanager
async def maintained(folder: Path, keep: Keep):
    state = open_state(folder / "state.db")
    maintenance = Maintenance(folder, state, QuickClock(), keep, "logfmt", "info")
    task = asyncio.create_task(maintenance.run())

    def row() -> Process | None:
        return next((process for process in read_processes(state) if process.name == "maintain"), None)

    try:
        yield maintenance, row
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        state.dispose()


def beats(row: Callable[[], Process | None]) -> bool:
    process = row()
    return process is not None and process.beat_ms is not None


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def blocks(folder: Path) -> int:
    connection = sqlite3.connect(folder / "samples.db")
    try:
        return int(connection.execute("SELECT count(*) FROM block").fetchone()[0])
    finally:
        connection.close()


def write(folder: Path, age_ms: int) -> None:
    store = SampleStore.open(folder / "samples.db")
    at = np.array([SystemClock().now_ms() - age_ms])
    store.write([SparseAppend([labels_from({"age": str(age_ms)}, "m")], at, np.ones(1))])
    store.close()


def test_it_seals_what_is_old_and_goes_with_its_parent(tmp_path: Path) -> None:
    write(tmp_path, 3_600_000)

    async def scenario() -> int:
        async with maintained(tmp_path, Keep(15 * DAY_MS, None)) as (_, row):
            await until(lambda: beats(row) and blocks(tmp_path) == 1)
            process = row()
            assert process is not None
            assert (process.state, process.restarts, process.detail) == ("running", 0, "")
            assert process.pid is not None
            assert alive(process.pid)
            return process.pid

    assert not alive(asyncio.run(scenario()))


def test_a_killed_one_is_started_again_and_the_page_learns_why(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with maintained(tmp_path, Keep(DAY_MS, None)) as (_, row):
            await until(lambda: beats(row))
            first = row()
            assert first is not None
            assert first.pid is not None
            os.kill(first.pid, signal.SIGKILL)
            await until(lambda: (now := row()) is not None and now.restarts == 1 and now.state == "running")
            second = row()
            assert second is not None
            assert second.pid != first.pid

    asyncio.run(scenario())


def test_a_shorter_retention_is_taken_over_while_it_runs(tmp_path: Path) -> None:
    write(tmp_path, 3 * DAY_MS)

    async def scenario() -> None:
        async with maintained(tmp_path, Keep(15 * DAY_MS, None)) as (maintenance, row):
            await until(lambda: beats(row) and blocks(tmp_path) == 1)
            write(tmp_path, 1_000)  # the file is in use: its clock is to be believed
            maintenance.change(Keep(2 * DAY_MS, None))
            await until(lambda: blocks(tmp_path) == 0)

    asyncio.run(scenario())


def test_what_stops_it_is_told(tmp_path: Path) -> None:
    async def scenario() -> None:
        with claimed_folder(tmp_path, "maintain"):
            async with maintained(tmp_path, Keep(DAY_MS, None)) as (_, row):
                await until(lambda: (now := row()) is not None and "another strata maintain" in now.detail)

    asyncio.run(scenario())


def test_trouble_that_passed_is_shown_no_more(tmp_path: Path) -> None:
    write(tmp_path, 3_600_000)
    damage = sqlite3.connect(tmp_path / "samples.db")
    damage.execute("ALTER TABLE store_state RENAME TO gone")

    async def scenario() -> None:
        async with maintained(tmp_path, Keep(DAY_MS, None)) as (_, row):
            await until(lambda: (now := row()) is not None and "store_state" in now.detail)
            damage.execute("ALTER TABLE gone RENAME TO store_state")
            await until(lambda: (now := row()) is not None and now.detail == "" and blocks(tmp_path) == 1)

    asyncio.run(scenario())
    damage.close()


def test_a_parent_that_is_killed_takes_it_along(tmp_path: Path) -> None:
    program = (
        "import asyncio, sys\nfrom pathlib import Path\n"
        "from tests.collectors.test_maintenance import Keep, maintained\n"
        "async def run():\n"
        "    async with maintained(Path(sys.argv[1]), Keep(86400000, None)):\n"
        "        await asyncio.sleep(600)\n"
        "asyncio.run(run())\n"
    )

    async def scenario() -> None:
        parent = await asyncio.create_subprocess_exec(sys.executable, "-c", program, str(tmp_path))
        state = None
        try:
            await until((tmp_path / "state.db").exists)
            state = open_state(tmp_path / "state.db")
            await until(lambda: any(process.beat_ms for process in read_processes(state)))
            (process,) = read_processes(state)
            parent.kill()
            await parent.wait()
            assert process.pid is not None
            child = process.pid
            await until(lambda: not alive(child))
        finally:
            if parent.returncode is None:
                parent.kill()
            await parent.wait()
            if state is not None:
                state.dispose()

    asyncio.run(scenario())
