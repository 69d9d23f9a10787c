"""A full disk, a read-only one and a damaged file: one sentence, what is stored stays, it mends itself."""

import shutil
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
from sqlalchemy import text

from db.engine import open_samples, open_state, reading, writing
from db.errors import StoreUnreachable, WriteRefused
from db.held_samples import NAME, STALE_MS, Held, HeldFile, read_held
from db.labels import labels_from
from db.processes import beat, read_processes
from db.records import DenseAppend, named
from db.store import SampleStore
from tests.small_disk import SmallDisk, small_disk

SERIES = [labels_from({"i": str(number)}, "m") for number in range(500)]


@pytest.fixture(params=["tmpfs", "ext4"])
def disk(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[SmallDisk]:
    with small_disk(tmp_path, request.param) as mounted:
        yield mounted


def scrape(at_ms: int, *, first: bool = False) -> DenseAppend:
    return DenseAppend("t#0", SERIES if first else [], at_ms, np.full(len(SERIES), float(at_ms)))


def stored(store: SampleStore) -> list[int]:
    found = store.select([named("m")], 0, 10**9)
    times = {tuple(series.timestamps.tolist()) for series in found}
    assert len(found) in (0, len(SERIES))
    assert len(times) <= 1  # never half a scrape
    return list(next(iter(times), ()))


def write_until_full(store: SampleStore, first: int = 1) -> tuple[int, str]:
    """The last scrape that was taken, and what was said to the next one."""
    for number in range(first, 10_000):
        try:
            store.write([scrape(number, first=number == 1)])
        except WriteRefused as error:
            return number - 1, str(error)
    raise AssertionError("the disk is not small")


def test_a_full_disk_refuses_whole_scrapes_and_keeps_the_others(disk: SmallDisk, tmp_path: Path) -> None:
    path = disk.folder / "samples.db"
    store = SampleStore.open(path)
    taken, said = write_until_full(store)
    assert taken > 100
    assert said == f"{path}: the disk is full; free space on it"
    assert stored(store) == list(range(1, taken + 1))
    store.close()
    elsewhere = shutil.copytree(disk.folder, tmp_path / "copy")  # as a later process finds it
    again = SampleStore.open(elsewhere / "samples.db")
    assert stored(again) == list(range(1, taken + 1))
    again.close()


def test_when_space_is_back_the_same_write_is_taken(disk: SmallDisk) -> None:
    store = SampleStore.open(disk.folder / "samples.db")
    store.write([scrape(1, first=True)])
    disk.fill()
    taken, _ = write_until_full(store, 2)  # the log may have room left
    last = stored(store)[-1]
    assert last == taken
    for _ in range(3):
        with pytest.raises(WriteRefused, match="the disk is full"):
            store.write([scrape(last + 1)])
    disk.free()
    store.write([scrape(last + 1)])
    assert stored(store) == list(range(1, last + 2))
    store.close()


def test_a_new_database_on_a_full_disk_says_so(disk: SmallDisk) -> None:
    disk.fill()
    for opener in (open_samples, open_state):
        with pytest.raises(StoreUnreachable, match=r"x\.db: the disk is full; free space on it"):
            opener(disk.folder / "x.db")
    disk.free()
    open_samples(disk.folder / "x.db").dispose()


def test_the_state_on_a_full_disk(disk: SmallDisk) -> None:
    state = open_state(disk.folder / "state.db")
    beat(state, "web", pid=1, started_ms=0, now_ms=0)
    disk.fill()

    def beats() -> None:
        for number in range(2_000):
            beat(state, f"process {number}", pid=1, started_ms=0, now_ms=0)

    with pytest.raises(WriteRefused, match=r"state\.db: the disk is full"):
        beats()
    assert "web" in {process.name for process in read_processes(state)}
    disk.free()
    beat(state, "web", pid=1, started_ms=0, now_ms=9)
    assert {process.name: process.beat_ms for process in read_processes(state)}["web"] == 9
    state.dispose()


def test_a_read_only_disk_is_said_to_be_one(disk: SmallDisk) -> None:
    path = disk.folder / "samples.db"
    store = SampleStore.open(path)
    store.write([scrape(1, first=True)])
    store.close()
    with disk.read_only():
        with pytest.raises(StoreUnreachable, match="read-only; check its owner and the mount"):
            SampleStore.open(path)
        with pytest.raises(StoreUnreachable, match="read-only; check its owner and the mount"):
            open_state(disk.folder / "new.db")
    again = SampleStore.open(path)
    assert stored(again) == [1]
    again.close()


def test_a_folder_that_cannot_be_made(disk: SmallDisk) -> None:
    with disk.read_only(), pytest.raises(StoreUnreachable, match=r"new: cannot be created: Read-only"):
        open_samples(disk.folder / "new" / "samples.db")


def test_a_folder_that_vanished(tmp_path: Path) -> None:
    path = tmp_path / "data" / "samples.db"
    store = SampleStore.open(path)
    store.write([scrape(1, first=True)])
    shutil.rmtree(path.parent)
    engine = store.engine
    engine.dispose()
    with pytest.raises(StoreUnreachable, match="its folder is gone; create it"), reading(engine):
        pass
    store.close()


def damage(path: Path, keep_pages: int) -> None:
    """Nonsense over everything behind the first pages, as a failing disk leaves it."""
    size = path.stat().st_size
    with path.open("r+b") as file:
        file.seek(keep_pages * 4096)
        file.write(b"\xa5" * (size - keep_pages * 4096))


@pytest.fixture
def whole(tmp_path: Path) -> Path:
    """A closed samples file with some hundred pages, nothing in its log."""
    path = tmp_path / "samples.db"
    store = SampleStore.open(path)
    for number in range(1, 200):
        store.write([scrape(number, first=number == 1)])
    store.close()
    assert path.stat().st_size > 100 * 4096
    return path


def test_a_damaged_page_is_told_at_reading_and_writing(whole: Path) -> None:
    store = SampleStore.open(whole)
    store.engine.dispose()  # nothing is left in a cache
    damage(whole, keep_pages=3)
    said = r"samples\.db: is damaged; restore a backup: strata backup restore DIR"
    with pytest.raises(StoreUnreachable, match=said):
        stored(store)
    new = DenseAppend("new", SERIES, 1, np.zeros(len(SERIES)))
    with pytest.raises(WriteRefused, match=said):
        store.write([scrape(200), new])
    store.close()


def test_a_damaged_beginning_is_told_at_opening(whole: Path) -> None:
    damage(whole, keep_pages=1)
    with pytest.raises(StoreUnreachable, match=r"samples\.db: is damaged; restore a backup: strata backup"):
        SampleStore.open(whole)


def test_a_file_that_is_no_database_is_told_at_opening(whole: Path) -> None:
    damage(whole, keep_pages=0)
    with pytest.raises(StoreUnreachable, match=r"samples\.db: is not a database; move it away .* or restore"):
        SampleStore.open(whole)


def test_a_cut_file_is_damage_too(whole: Path) -> None:
    with whole.open("r+b") as file:
        file.truncate(20 * 4096)

    def read() -> None:
        with closing(SampleStore.open(whole)) as store:
            stored(store)

    with pytest.raises(StoreUnreachable, match="is damaged; restore a backup"):
        read()


HELD = Held(1_000, 2_000, 3 << 20, 256 << 20, 0, "samples.db: the disk is full; free space on it")


def test_what_waits_in_memory_can_be_told_on_a_full_disk(disk: SmallDisk) -> None:
    held = HeldFile(disk.folder)
    held.tell(None)
    disk.fill()
    held.tell(HELD)
    assert read_held(disk.folder, 2_000) == HELD
    held.tell(None)
    assert read_held(disk.folder, 2_000) is None


def test_on_a_disk_that_was_full_from_the_start_it_is_an_error_and_then_mends_itself(tmp_path: Path) -> None:
    with small_disk(tmp_path, "tmpfs") as disk:  # ext4 keeps a few blocks back for a new file
        disk.fill()
        held = HeldFile(disk.folder)
        with pytest.raises(
            WriteRefused, match=rf"{NAME}: cannot be written, so pages cannot show what waits"
        ):
            held.tell(None)
        disk.free()
        held.tell(HELD)
        assert read_held(disk.folder, 2_000) == HELD


def test_words_of_a_process_that_ended_are_not_repeated(tmp_path: Path) -> None:
    HeldFile(tmp_path).tell(HELD)
    assert read_held(tmp_path, HELD.told_ms + STALE_MS) == HELD
    assert read_held(tmp_path, HELD.told_ms + STALE_MS + 1) is None


@pytest.mark.parametrize("content", [b"", b" " * 1024, b"{", b"\xff" * 1024, b"[1]", b'{"since_ms": 1}'])
def test_a_file_that_says_nothing_is_nothing(tmp_path: Path, content: bytes) -> None:
    (tmp_path / NAME).write_bytes(content)
    assert read_held(tmp_path, 0) is None


def test_a_long_reason_is_cut_to_the_room_there_is(tmp_path: Path) -> None:
    held = HeldFile(tmp_path)
    held.tell(Held(1, 2, 3, 4, 5, "\U0001f4be" * 500))
    read = read_held(tmp_path, 2)
    assert read is not None
    assert read.reason.startswith("\U0001f4be" * 20)
    assert (tmp_path / NAME).stat().st_size == 1024


def test_a_refused_write_leaves_nothing_of_itself(disk: SmallDisk) -> None:
    engine = open_samples(disk.folder / "samples.db")
    with writing(engine) as connection:
        connection.execute(text("CREATE TABLE big (x BLOB)"))

    def too_much() -> None:
        with writing(engine) as connection:
            connection.execute(text("INSERT INTO big VALUES (x'00')"))
            connection.execute(text("INSERT INTO big VALUES (zeroblob(50000000))"))

    with pytest.raises(WriteRefused, match="the disk is full"):
        too_much()
    with reading(engine) as connection:
        assert connection.execute(text("SELECT count(*) FROM big")).scalar_one() == 0
    engine.dispose()
