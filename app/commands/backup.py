"""`strata backup`: save the data folder while it is in use, prove that a backup is whole, and restore one."""

import json
import shlex
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from app.commands.failure import BAD_INPUT, CommandError
from app.commands.options import ConfigFile, DataFolder, Json, settings_from

if TYPE_CHECKING:
    from db.backup_manifest import Manifest

Folder = Annotated[Path, typer.Argument(metavar="DIR", help="The backup's folder.", show_default=False)]

backup = typer.Typer(help="Save, check and restore the data folder.")


@backup.callback()
def _group() -> None:
    """Save, check and restore the data folder."""


@backup.command()
def create(folder: Folder, config: ConfigFile = None, data: DataFolder = None, as_json: Json = False) -> int:
    """Write samples, state and strata.yaml to a new folder, while everything goes on running."""
    from db.backup import create_backup
    from db.backup_manifest import TargetRefused

    settings = settings_from(config, data)
    try:
        manifest = create_backup(
            folder,
            samples=settings.samples_path,
            state=settings.state_location,
            config=_settings_file(config, settings.data),
            created=datetime.now(UTC),
        )
    except TargetRefused as error:
        raise CommandError(str(error), BAD_INPUT) from error
    if as_json:
        print(json.dumps({"backup": str(folder.absolute()), **manifest.as_json()}))
        return 0
    print(f"wrote {folder}")
    for file in manifest.files:
        print(f"  {file.name:<12}{_size(file.size_bytes):>10}  {_content(file.name, manifest)}".rstrip())
    if manifest.left_out:
        print(f"  {manifest.left_out}")
    print(f"prove that it can be restored: strata backup verify {shlex.quote(str(folder))}")
    return 0


@backup.command()
def verify(folder: Folder, config: ConfigFile = None, data: DataFolder = None, as_json: Json = False) -> int:
    """Restore a backup into a scratch folder, read every sample, compare. Exit 0 only when all of it held."""
    from db.backup_verify import verify_backup

    settings_from(config, data)  # what is wrong with the options is said here as everywhere
    found = verify_backup(folder, now=datetime.now(UTC))
    counts = found.manifest.samples
    if as_json:
        checked = {
            "files": found.files,
            "size_bytes": found.size_bytes,
            "series": counts.series,
            "blocks": counts.blocks,
            "head_rows": counts.head_rows,
            "samples_decoded": found.samples,
            "series_compared": found.probed,
            "values_compared": found.points,
            "state_rows": found.manifest.state_rows,
        }
        print(json.dumps({"backup": str(folder.absolute()), "whole": True, "checked": checked}))
        return 0
    state = _rows(found.manifest.state_rows)
    print(f"{folder} is whole: restored into a scratch folder, opened, read and compared")
    print(f"  {found.files} files, {_size(found.size_bytes)}: all checksums, and SQLite's own check")
    print(f"  {counts.series:,} series, {counts.blocks:,} blocks, {counts.head_rows:,} head rows; {state}")
    print(f"  {found.samples:,} samples decoded")
    print(f"  {found.probed:,} series, {found.points:,} values: the same by two ways of reading")
    return 0


@backup.command()
def restore(
    folder: Folder,
    config: ConfigFile = None,
    data: DataFolder = None,
    replace: Annotated[
        bool, typer.Option("--replace", help="Move databases that are there aside; they are not deleted.")
    ] = False,
    as_json: Json = False,
) -> int:
    """Put a backup into the data folder. Nothing may be running on it."""
    from db.restore import restore_backup

    settings = settings_from(config, data)
    done = restore_backup(
        folder,
        samples=settings.samples_path,
        state=settings.state_location,
        replace=replace,
        restored=datetime.now(UTC),
    )
    if as_json:
        print(
            json.dumps(
                {
                    "backup": str(folder.absolute()),
                    "created": done.manifest.created,
                    "written": list(done.written),
                    "moved": done.moved,
                    "notes": list(done.notes),
                }
            )
        )
        return 0
    print(f"restored the backup of {done.manifest.created}")
    for path in done.written:
        print(f"  {path}")
    for old, new in done.moved.items():
        print(f"  {old} was moved to {new}")
    for note in done.notes:
        print(f"  {note}")
    return 0


def _settings_file(config: Path | None, data: Path) -> Path | None:
    """The settings file in use, found as `db.settings` finds it."""
    import os

    from db.settings import FILE_NAME
    from db.settings_layers import CONFIG_VARIABLE

    if config is not None:
        return config.expanduser()
    if os.environ.get(CONFIG_VARIABLE):
        return Path(os.environ[CONFIG_VARIABLE]).expanduser()
    return next((path for path in (Path.cwd() / FILE_NAME, data / FILE_NAME) if path.is_file()), None)


def _content(name: str, manifest: "Manifest") -> str:
    from db.backup_manifest import SAMPLES, STATE

    counts = manifest.samples
    if name == STATE:
        return _rows(manifest.state_rows)
    if name != SAMPLES:
        return ""
    what = f"{counts.series:,} series, {counts.blocks:,} blocks, {counts.head_rows:,} head rows"
    if counts.first_ms is None or counts.last_ms is None:
        return what
    return f"{what}, {_moment(counts.first_ms)} to {_moment(counts.last_ms)}"


def _rows(rows: dict[str, int] | None) -> str:
    if rows is None:
        return "no state"
    return f"{sum(rows.values()):,} rows of state in {len(rows)} table{'' if len(rows) == 1 else 's'}"


def _moment(ms: int) -> str:
    try:
        return f"{datetime.fromtimestamp(ms / 1000, UTC):%Y-%m-%d %H:%M:%SZ}"
    except (ValueError, OverflowError, OSError):  # a sample may claim any time
        return f"{ms} ms"


def _size(size_bytes: int) -> str:
    return f"{size_bytes / 1e6:,.1f} MB" if size_bytes >= 100_000 else f"{size_bytes:,} B"
