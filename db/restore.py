"""Puts a backup in the place of a data folder: everything checked and on disk first, then renamed."""

import os
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from tempfile import mkdtemp

from db.backup import os_sentence, require_space, sync
from db.backup_manifest import (
    CONFIG,
    SAMPLES,
    STATE,
    BackupError,
    Manifest,
    damages,
    describe,
    read_manifest,
)
from db.backup_state import load_state
from db.database_file import fold_log, lock_holder, logs_of
from db.engine import open_state
from db.folder_claim import claimed_folder
from db.migrate import SAMPLES as SAMPLES_SCHEMA
from db.migrate import STATE as STATE_SCHEMA
from db.migrate import Schema

# Whoever of these runs would go on with a file that is no longer there. `web` and `alert` claim nothing: they
# are noticed by their locks on the databases.
_CLAIMS = ("up", "collect", "maintain")


@dataclass(frozen=True, slots=True)
class Restored:
    """written: what is in place now. moved: old name -> new name. notes: what the operator should know."""

    manifest: Manifest
    written: tuple[str, ...]
    moved: dict[str, str]
    notes: tuple[str, ...]


def restore_backup(
    folder: Path, *, samples: Path, state: Path | str, replace: bool, restored: datetime
) -> Restored:
    """Restore the backup `folder`: to the data folder in which `samples` lies, and the state to `state` (a
    file or a database URL). Databases that are there are only moved aside, and only with `replace`.

    Raises StoreError when the backup is damaged or newer, or the place is in use or taken; then nothing has
    been replaced.
    """
    manifest = read_manifest(folder)
    require_known_schemas(folder, manifest)
    require_undamaged(folder, manifest)
    data = samples.parent
    with _told_as_backup_error(data), ExitStack() as held:
        for command in _CLAIMS:
            held.enter_context(claimed_folder(data, command))
        return _Restoration(folder, manifest, samples, state, replace, restored).run()


def require_undamaged(folder: Path, manifest: Manifest) -> None:
    """Raises BackupError that names every file that is not as it was written."""
    if found := damages(folder, manifest):
        raise BackupError(f"{folder}: {'; '.join(found)}; use another backup")


def require_known_schemas(folder: Path, manifest: Manifest) -> None:
    """Raises BackupError when a newer version wrote it."""
    for name, revision, schema in (
        (SAMPLES, manifest.samples_schema, SAMPLES_SCHEMA),
        (STATE, manifest.state_schema, STATE_SCHEMA),
    ):
        if revision is not None and revision not in _revisions(schema):
            raise BackupError(
                f"{folder / name}: was written by a newer Strata, {manifest.strata_version} "
                f"(schema {revision}, this one knows {schema.head}); install that version"
            )


def _revisions(schema: Schema) -> set[str]:
    from alembic.script import ScriptDirectory  # takes long to import

    return {script.revision for script in ScriptDirectory(str(schema.scripts)).walk_revisions()}


class _Restoration:
    """One restore. Files are first written beside their place under another name."""

    def __init__(
        self,
        folder: Path,
        manifest: Manifest,
        samples: Path,
        state: Path | str,
        replace: bool,
        restored: datetime,
    ) -> None:
        self._folder = folder
        self._manifest = manifest
        self._places = {SAMPLES: samples}
        if isinstance(state, Path):
            self._places[STATE] = state
        self._server = state if isinstance(state, str) else None
        self._data = samples.parent
        self._replace = replace
        self._stamp = f"{restored.astimezone(UTC):%Y%m%dT%H%M%SZ}"
        self._moved: dict[str, str] = {}
        self._notes: list[str] = []
        if manifest.left_out:
            self._notes.append(f"the backup has no {CONFIG}: {manifest.left_out}")
        if manifest.file(STATE) is None and self._server is not None:
            self._notes.append("the backup has no state; the one in the database server stays as it is")

    def run(self) -> Restored:
        names = [name for name in self._places if self._manifest.file(name) is not None]
        for name in self._places:
            self._require_free(self._places[name])
        require_space(self._data, sum(file.size_bytes for file in self._manifest.files))
        fresh = {name: _beside(self._places[name], "restoring") for name in names}
        try:
            for name, path in fresh.items():
                self._copy(name, path)
            written = [str(self._places[name]) for name in names]
            if self._server is not None and self._manifest.file(STATE) is not None:
                written.append(self._load_server(self._server))
            # The state first: with new samples and an old state, what was silenced would ring again.
            for name in reversed(names):
                self._swap(fresh[name], self._places[name])
            for name in set(self._places) - set(names):
                self._set_aside(self._places[name])  # the backup has none: the old one is not part of it
        finally:
            for path in fresh.values():
                path.unlink(missing_ok=True)
        written += self._restore_config()
        return Restored(self._manifest, tuple(written), self._moved, tuple(self._notes))

    def _require_free(self, place: Path) -> None:
        there = [path for path in (place, *logs_of(place)) if path.exists()]
        if there and not self._replace:
            raise BackupError(
                f"{there[0]} is already there; --replace moves it aside and puts the backup in its place"
            )
        if place.exists() and (holder := lock_holder(place)) is not None:
            raise BackupError(
                f"{place} is open in the process {holder}; stop it (strata up, web, alert) first"
            )

    def _copy(self, name: str, to: Path) -> None:
        """Raises BackupError when what was written is not what the manifest says."""
        to.unlink(missing_ok=True)
        to.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(self._folder / name, to)
        self._make_ours(to)
        sync(to)
        expected = self._manifest.file(name)
        actual = describe(to)
        if expected is None or (actual.size_bytes, actual.sha256) != (expected.size_bytes, expected.sha256):
            raise BackupError(f"{self._folder / name}: changed while it was copied; use another backup")

    def _make_ours(self, path: Path) -> None:
        """Root restores for the user whom the folder belongs to."""
        if os.geteuid() == 0:
            owner = self._data.stat()
            os.chown(path, owner.st_uid, owner.st_gid)

    def _load_server(self, url: str) -> str:
        aside = self._free_name(self._data / STATE)
        scratch = Path(mkdtemp(prefix=".strata-restore-", dir=self._data))
        try:
            self._copy(STATE, scratch / STATE)
            open_state(scratch / STATE).dispose()  # an older one is migrated here
            if load_state(scratch / STATE, url, replace=self._replace, aside=aside):
                self._make_ours(aside)
                sync(aside)
                self._moved["the state in the database server"] = str(aside)
        finally:
            shutil.rmtree(scratch, ignore_errors=True)
        return "the state in the database server"

    def _swap(self, fresh: Path, place: Path) -> None:
        """Put `fresh` in its place; what is there keeps its content under another name. At no moment is a
        database without its log, or with another's."""
        self._set_aside(place)
        fresh.rename(place)
        sync(place.parent)

    def _set_aside(self, place: Path) -> None:
        if place.exists():
            fold_log(place)
        to = self._free_name(place)
        for old, new in ((place, to), *zip(logs_of(place), logs_of(to), strict=True)):
            if old.exists():
                old.rename(new)
                self._moved[str(old)] = str(new)
        sync(place.parent)

    def _restore_config(self) -> list[str]:
        entry, place = self._manifest.file(CONFIG), self._data / CONFIG
        if entry is None:
            return []
        if place.exists():
            if place.read_bytes() == (self._folder / CONFIG).read_bytes():
                return []
            if not self._replace:
                self._notes.append(f"{place} is another one than the backup's and was left as it is")
                return []
            to = self._free_name(place)
            place.rename(to)
            self._moved[str(place)] = str(to)
        fresh = _beside(place, "restoring")
        self._copy(CONFIG, fresh)
        fresh.rename(place)
        sync(place.parent)
        return [str(place)]

    def _free_name(self, place: Path) -> Path:
        base = _beside(place, f"replaced-{self._stamp}")
        number, path = 1, base
        while any(taken.exists() for taken in (path, *logs_of(path))):
            number += 1
            path = base.with_name(f"{base.name}-{number}")
        return path


def _beside(path: Path, ending: str) -> Path:
    return path.with_name(f"{path.name}.{ending}")


@contextmanager
def _told_as_backup_error(data: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise BackupError(os_sentence(data, error)) from error
    except sqlite3.Error as error:
        raise BackupError(f"{data}: {error}") from error
