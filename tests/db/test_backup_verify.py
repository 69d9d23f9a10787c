"""Verifying finds every kind of damage and names the file, and leaves nothing behind."""

import random
import shutil
import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from db.backup_counts import frozen
from db.backup_manifest import BackupError, describe, read_manifest, write_manifest
from db.backup_probe import probe_series
from db.backup_verify import verify_backup
from db.engine import open_samples
from db.errors import StoreError
from tests.db.backup_content import DAY_MS, NOW, SCRAPES, START_MS, back_up, bits, fill, fill_blocks


@pytest.fixture(scope="module")
def taken(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("backups")
    fill(place / "data")
    (place / "strata.yaml").write_text("scrape_interval: 5s\n")
    back_up(place / "data", place / "b", place / "strata.yaml")
    return place / "b"


@pytest.fixture
def folder(taken: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(taken, tmp_path / "b"))


def reseal(folder: Path) -> None:
    """Give the files as they are now the manifest that they would have had."""
    manifest = read_manifest(folder)
    write_manifest(
        folder, replace(manifest, files=tuple(describe(folder / file.name) for file in manifest.files))
    )


def change(folder: Path, *statements: str, name: str = "samples.db") -> None:
    with closing(sqlite3.connect(folder / name, isolation_level=None)) as database:
        for statement in statements:
            database.execute(statement)
        database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    reseal(folder)


def test_a_whole_backup_is_read_to_the_last_sample(folder: Path) -> None:
    found = verify_backup(folder, now=NOW)
    assert found.samples == sum(len(points) for points in bits(folder / "samples.db").values())
    assert found.files == 4
    assert found.probed == 24
    assert found.points > 24 * SCRAPES / 2
    assert sorted(path.name for path in folder.parent.iterdir()) == ["b"]


@pytest.mark.parametrize("name", ["samples.db", "state.db", "strata.yaml", "manifest.json"])
def test_any_changed_byte_is_found_and_its_file_named(folder: Path, name: str) -> None:
    path = folder / name
    whole = path.read_bytes()
    chance = random.Random(name)
    offsets = {0, len(whole) - 1, *(chance.randrange(len(whole)) for _ in range(60))}
    for offset in offsets:
        damaged = bytearray(whole)
        damaged[offset] ^= 1 << chance.randrange(8)
        path.write_bytes(damaged)
        with pytest.raises(BackupError, match=name.replace(".", r"\.")):
            verify_backup(folder, now=NOW)
    for other in (whole[:-1], whole + b"\n", whole[: len(whole) // 2], b""):
        path.write_bytes(other)
        with pytest.raises(BackupError, match=name.replace(".", r"\.")):
            verify_backup(folder, now=NOW)
    path.unlink()
    with pytest.raises(BackupError, match=name.replace(".", r"\.")):
        verify_backup(folder, now=NOW)
    path.mkdir()
    with pytest.raises(BackupError, match=name.replace(".", r"\.")):
        verify_backup(folder, now=NOW)
    path.rmdir()
    path.write_bytes(whole)
    verify_backup(folder, now=NOW)


def test_every_damaged_file_is_named(folder: Path) -> None:
    for name in ("samples.db", "state.db"):
        (folder / name).write_bytes(b"x")
    with pytest.raises(BackupError, match=r"samples\.db is damaged \(1 bytes .*; state\.db is damaged"):
        verify_backup(folder, now=NOW)


def test_what_is_no_backup_is_said_to_be_none(tmp_path: Path) -> None:
    for place in (tmp_path, tmp_path / "missing"):
        with pytest.raises(BackupError, match="is not a backup"):
            verify_backup(place, now=NOW)


@pytest.mark.parametrize(
    ("statement", "name", "said"),
    [
        ("DELETE FROM head_dense WHERE seq = 5", "samples.db", "the restored samples hold"),
        ("DELETE FROM process WHERE name = 'web'", "state.db", "the restored state hold"),
        ("DELETE FROM posting", "samples.db", "differ from the backup's rows"),
        ("UPDATE alembic_version SET version_num = '9999'", "samples.db", None),
    ],
)
def test_damage_that_the_checksums_cover_is_found_by_what_it_does(
    folder: Path, statement: str, name: str, said: str | None
) -> None:
    change(folder, statement, name=name)
    with pytest.raises(StoreError, match=said):
        verify_backup(folder, now=NOW)
    assert sorted(path.name for path in folder.parent.iterdir()) == ["b"]


def test_an_index_that_disagrees_with_its_table_is_found(folder: Path) -> None:
    change(
        folder,
        "PRAGMA writable_schema=ON",
        "UPDATE sqlite_schema SET sql = replace(sql, '(layout_id, ts)', '(ts, layout_id)') "
        "WHERE name = 'ix_head_dense_layout_ts'",
    )
    with pytest.raises(BackupError, match=r"samples\.db: is damaged \(.*ix_head_dense"):
        verify_backup(folder, now=NOW)


@pytest.fixture(scope="module")
def with_blocks(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("blocks")
    fill(place / "data")
    fill_blocks(place / "data")
    back_up(place / "data", place / "b")
    return place / "b"


def test_blocks_are_decoded_to_the_last_sample_and_read_in_two_ways(
    with_blocks: Path, tmp_path: Path
) -> None:
    folder = Path(shutil.copytree(with_blocks, tmp_path / "b"))
    counts = read_manifest(folder).samples
    assert counts.blocks > 0
    assert counts.first_ms == START_MS - 3 * DAY_MS
    found = verify_backup(folder, now=NOW)
    assert found.samples == sum(len(points) for points in bits(folder / "samples.db").values())
    with frozen(with_blocks / "samples.db") as database:
        probes = probe_series(database, 1000)
    assert len({probe.labels for probe in probes}) == 130
    assert len(probes) == 130 + 90
    whole = bits(folder / "samples.db")
    for probe in probes:
        stored = whole[probe.labels].items()
        assert probe.points == {at: value for at, value in stored if probe.start_ms <= at <= probe.end_ms}
    change(folder, "UPDATE block SET members = 0")
    with pytest.raises(BackupError, match="differ from the backup's rows"):
        verify_backup(folder, now=NOW)


def test_a_newer_one_is_refused_with_the_reason(folder: Path) -> None:
    manifest = read_manifest(folder)
    write_manifest(folder, replace(manifest, samples_schema="9999", strata_version="99.0"))
    with pytest.raises(BackupError, match=r"newer Strata, 99\.0 \(schema 9999, this one knows"):
        verify_backup(folder, now=NOW)
    text = (folder / "manifest.json").read_text()
    (folder / "manifest.json").write_text(text.replace('"format": 1', '"format": 2'))
    with pytest.raises(BackupError, match=r"manifest\.json"):
        verify_backup(folder, now=NOW)


def test_an_empty_store_is_no_trouble(tmp_path: Path) -> None:
    open_samples(tmp_path / "data" / "samples.db").dispose()
    back_up(tmp_path / "data", tmp_path / "b")
    found = verify_backup(tmp_path / "b", now=NOW)
    assert (found.samples, found.probed) == (0, 0)
