"""Takes a backup of a data folder that is in use: a folder of its own, whole or not there at all."""

import errno
import fcntl
import os
import re
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

import yaml

from db.backup_counts import check_whole, count_rows, count_samples, frozen, schema_revision
from db.backup_manifest import (
    CONFIG,
    MANIFEST,
    SAMPLES,
    STATE,
    UNFINISHED,
    BackupError,
    Manifest,
    TargetRefused,
    describe,
    write_manifest,
)
from db.backup_state import save_state
from db.page_copy import CopyFailed, copy_online
from db.sqlite_engine import sqlite_sentence

# Room beyond the files' own size: they grow while they are copied.
_SPARE_BYTES = 16 << 20
# Keys whose value is a secret; the same with _file at the end only name one. Prometheus's field names.
_SECRET_KEY = re.compile(r"(password|passwd|secret|secrets|token|credentials|api_?key|authorization)$", re.I)
_PASSWORD_IN_URL = re.compile(r"://[^/@\s:]*:[^/@\s]+@")


def create_backup(
    target: Path, *, samples: Path, state: Path | str, config: Path | None, created: datetime
) -> Manifest:
    """Write a backup to the folder `target`, which must not exist or be empty. Every commit that was
    acknowledged before the call is in it. config: the settings file, if there is one.

    Raises TargetRefused or another StoreError; then there is no folder that looks like a backup.
    """
    target = target.resolve()
    if not samples.exists():
        raise BackupError(f"{samples} does not exist, there is nothing to back up; is --data right?")
    _check_target(target)
    partial = target.with_name(target.name + UNFINISHED)
    with _told_as_backup_error(target), _partial_folder(partial):
        _check_space(partial, samples, state)
        return _fill_and_rename(partial, target, samples, state, config, created)


def _fill_and_rename(
    partial: Path, target: Path, samples: Path, state: Path | str, config: Path | None, created: datetime
) -> Manifest:
    with _naming(samples):
        copy_online(samples, partial / SAMPLES)
    with frozen(partial / SAMPLES) as database:
        check_whole(database, samples, quick=True)
        samples_schema, counts = schema_revision(database), count_samples(database)
    state_schema, state_rows = None, None
    if isinstance(state, str) or state.exists():
        with _naming(Path(STATE) if isinstance(state, str) else state):
            save_state(state, partial / STATE)
        with frozen(partial / STATE) as database:
            check_whole(database, Path(STATE) if isinstance(state, str) else state, quick=True)
            state_schema, state_rows = schema_revision(database), count_rows(database)
    left_out = ""
    if config is not None:
        text = config.read_bytes()
        secret = secret_in(text)
        if secret is None:
            (partial / CONFIG).write_bytes(text)
        else:
            left_out = f"{config} was left out: it holds a secret ({secret}); put that into a file of its own"
    manifest = Manifest(
        created=created.astimezone(UTC).isoformat(timespec="milliseconds"),
        strata_version=version("strata"),
        samples_schema=samples_schema,
        state_schema=state_schema,
        files=tuple(
            describe(partial / name) for name in (SAMPLES, STATE, CONFIG) if (partial / name).exists()
        ),
        samples=counts,
        state_rows=state_rows,
        left_out=left_out,
    )
    write_manifest(partial, manifest)
    for path in partial.iterdir():
        path.chmod(0o600)  # what was watched is nobody else's business
        sync(path)
    sync(partial)
    partial.rename(target)
    sync(target.parent)
    return manifest


def secret_in(text: bytes) -> str | None:
    """Where a settings file holds a secret, None when it holds none that we know of."""
    try:
        found = _first_secret(yaml.safe_load(text), "")
    except (yaml.YAMLError, RecursionError, ValueError):  # not one that Strata reads; it may hold anything
        return "it is not valid YAML"
    return found


def _first_secret(node: Any, path: str) -> str | None:
    if isinstance(node, dict):
        for key, value in node.items():
            place = f"{path}.{key}" if path else str(key)
            if value and not isinstance(value, dict) and _SECRET_KEY.search(str(key)):
                return place
            if (found := _first_secret(value, place)) is not None:
                return found
    elif isinstance(node, list):
        for index, value in enumerate(node):
            if (found := _first_secret(value, f"{path}[{index}]")) is not None:
                return found
    elif isinstance(node, str) and _PASSWORD_IN_URL.search(node):
        return path
    return None


def _check_target(target: Path) -> None:
    if target.name.endswith(UNFINISHED):
        raise TargetRefused(
            f"{target}: a name that ends with {UNFINISHED} means an unfinished backup; name another"
        )
    try:
        if target.exists() and not target.is_dir():
            raise TargetRefused(f"{target} is not a folder; name a new one")
        if target.exists() and any(target.iterdir()):
            raise TargetRefused(f"{target} is not empty; name a new folder")
    except OSError as error:
        raise TargetRefused(f"{target} cannot be used: {error.strerror}; name another folder") from error


@contextmanager
def _partial_folder(partial: Path) -> Iterator[None]:
    """The folder to fill, ours alone; gone afterwards unless it was renamed."""
    try:
        partial.parent.mkdir(parents=True, exist_ok=True)
        partial.mkdir(mode=0o700, exist_ok=True)
    except OSError as error:
        raise TargetRefused(f"{partial} cannot be used: {error.strerror}; name another folder") from error
    handle = os.open(partial, os.O_RDONLY | os.O_DIRECTORY)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise BackupError(f"{partial}: another backup is being written there; wait for it") from error
        _clear(partial)
        try:
            yield
        except BaseException:  # the name may be another's once ours was renamed, so only on failure
            shutil.rmtree(partial, ignore_errors=True)
            raise
    finally:
        os.close(handle)


def _clear(partial: Path) -> None:
    """Remove what a backup that was killed left behind, and nothing else."""
    ours = {
        name + end for name in (SAMPLES, STATE) for end in ("", "-wal", "-shm", "-journal", ".migration-lock")
    }
    for path in partial.iterdir():
        if path.name not in ours | {CONFIG, MANIFEST}:
            raise TargetRefused(f"{path} is in the way of the backup; move it, or name another folder")
        path.unlink()


def _check_space(partial: Path, samples: Path, state: Path | str) -> None:
    databases = [samples] if isinstance(state, str) else [samples, state]
    needed = sum(path.stat().st_size for path in databases if path.exists())
    require_space(partial, needed)


def require_space(folder: Path, needed_bytes: int) -> None:
    """Raises BackupError when the disk of `folder` has no room for that much."""
    free = shutil.disk_usage(folder).free
    if free < needed_bytes + _SPARE_BYTES:
        wanted = (needed_bytes + _SPARE_BYTES) >> 20
        raise BackupError(
            f"{folder}: needs {wanted} MiB and the disk has {free >> 20} MiB free; free space on it"
        )


def sync(path: Path) -> None:
    """Have a file, or the names in a folder, on disk. Raises OSError."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


@contextmanager
def _told_as_backup_error(target: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise BackupError(os_sentence(target, error)) from error


@contextmanager
def _naming(database: Path) -> Iterator[None]:
    """What goes wrong with a database is said of it, not of the backup."""
    try:
        yield
    except CopyFailed as error:
        raise BackupError(f"{database}: {error}") from error
    except sqlite3.Error as error:
        raise BackupError(f"{database}: {sqlite_sentence(database, error)}") from error


def os_sentence(place: Path, error: OSError) -> str:
    """What the system said about a file of a backup or of a folder that is restored to."""
    where = error.filename if error.filename is not None else place
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return f"{place}: the disk is full; free space on it"
    return f"{where}: cannot be used: {error.strerror or error}; check its owner and the disk"
