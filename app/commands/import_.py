"""`strata import`: samples from files into the store."""

import json
import time
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from app.commands.failure import BAD_INPUT, CommandError
from app.commands.options import ConfigFile, DataFolder, Json, settings_from

if TYPE_CHECKING:
    from io import BufferedReader

    from collectors.backfill import Imported

_STDIN = Path("-")

import_ = typer.Typer(help="Take samples from files into the store.")


@import_.callback()
def _group() -> None:
    """Take samples from files into the store."""  # a group of one would otherwise lose its command's name


@import_.command()
def openmetrics(
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="OpenMetrics text, gzipped or not; - reads stdin.")
    ],
    config: ConfigFile = None,
    data: DataFolder = None,
    as_json: Json = False,
) -> int:
    """Backfill: samples of any age. Importing a file twice changes nothing."""
    from db.config_types import format_duration

    settings = settings_from(config, data)
    engine = settings.store.prometheus
    if engine is not None:
        raise CommandError(
            "store.prometheus is set: samples are read from that engine, and what is imported here would not "
            "be; import the file with the engine's own tool, or without store.prometheus",
            BAD_INPUT,
        )
    started = time.monotonic()
    try:
        # Before the store: a name that was mistyped must not leave a new one behind.
        with open(0, "rb", closefd=False) if file == _STDIN else file.open("rb") as source:
            imported = _imported(source, file, settings.samples_path)
    except OSError as error:
        reason = f"{file}: cannot be read: {error.strerror}; give another file"
        raise CommandError(reason, BAD_INPUT) from error
    seconds = time.monotonic() - started
    too_old = (
        imported.start_ms is not None and imported.start_ms / 1000 < time.time() - settings.storage.retention
    )
    if as_json:
        print(
            json.dumps(
                {
                    "file": str(file),
                    "samples": imported.samples,
                    "series": imported.series,
                    "start_timestamp_seconds": _seconds(imported.start_ms),
                    "end_timestamp_seconds": _seconds(imported.end_ms),
                    "older_than_retention": too_old,
                    "duration_seconds": round(seconds, 3),
                }
            )
        )
    else:
        print(_sentence(imported, seconds))
        if too_old:
            kept = format_duration(settings.storage.retention)
            print(f"what is older than storage.retention ({kept}) will be deleted; raise it to keep it")
    return 0


def _imported(source: "BufferedReader", file: Path, samples: Path) -> "Imported":
    from collectors.backfill import Backfill, ImportStopped
    from db.store import SampleStore

    try:
        with closing(SampleStore.open(samples)) as store:
            return Backfill(store, time.time_ns() // 1_000_000).run(source)
    except ImportStopped as error:
        stored = error.stored.samples
        after = (
            f"the {stored:,} samples before this line are stored; mend it and import the whole file again, "
            "which changes none of them"
            if stored
            else "nothing was stored; mend it and import the file again"
        )
        raise CommandError(f"{file}:{error.line}: {error.reason}; {after}", BAD_INPUT) from error


def _seconds(timestamp_ms: int | None) -> float | None:
    return None if timestamp_ms is None else timestamp_ms / 1000


def _sentence(imported: "Imported", seconds: float) -> str:
    if imported.start_ms is None or imported.end_ms is None:
        text = "the file holds no samples"
    else:
        start, end = (
            datetime.fromtimestamp(at_ms / 1000, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
            for at_ms in (imported.start_ms, imported.end_ms)
        )
        text = (
            f"imported {imported.samples:,} samples of {imported.series:,} series, {start} to {end}, "
            f"in {seconds:.1f} s"
        )
    return text
