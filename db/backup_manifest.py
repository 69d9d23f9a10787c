"""What a backup folder says of itself: its files with checksums, and what is in them.

`manifest.json` is written last and carries a checksum of its own, so that no byte of a backup can change
unseen.
"""

import hashlib
import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from db.errors import StoreError

FORMAT = 1
MANIFEST = "manifest.json"
SAMPLES = "samples.db"
STATE = "state.db"
CONFIG = "strata.yaml"
UNFINISHED = ".partial"  # what a folder's name ends with while it is being written
_CHUNK_BYTES = 4 << 20
_OWN_CHECKSUM = "manifest_sha256"


class BackupError(StoreError):
    """A backup cannot be made, trusted or restored; str() is one sentence with the mend."""


class TargetRefused(BackupError):
    """The folder that was named cannot become a backup: the fault is in what was asked for."""


@dataclass(frozen=True, slots=True)
class BackupFile:
    """One file of a backup."""

    name: str
    size_bytes: int
    sha256: str


@dataclass(frozen=True, slots=True)
class SampleCounts:
    """What a samples file holds. first_ms, last_ms: its oldest and newest sample, None when it has none."""

    series: int
    blocks: int
    head_rows: int
    first_ms: int | None
    last_ms: int | None


@dataclass(frozen=True, slots=True)
class Manifest:
    """created: ISO 8601, UTC. Schemas are revisions of `db.migrate`, None for a database that was never
    opened. state_rows: by table; None when there was no state. left_out: why the configuration is not among
    the files, "" when it is or there is none."""

    created: str
    strata_version: str
    samples_schema: str | None
    state_schema: str | None
    files: tuple[BackupFile, ...]
    samples: SampleCounts
    state_rows: dict[str, int] | None
    left_out: str = ""

    def file(self, name: str) -> BackupFile | None:
        return next((file for file in self.files if file.name == name), None)

    def as_json(self) -> dict[str, Any]:
        return {"format": FORMAT, **asdict(self)}


def write_manifest(folder: Path, manifest: Manifest) -> None:
    """Raises OSError."""
    (folder / MANIFEST).write_bytes(_sealed(json.loads(json.dumps(manifest.as_json()))))


def read_manifest(folder: Path) -> Manifest:
    """Raises BackupError when it is missing, damaged, or of a format that this version does not know."""
    path = folder / MANIFEST
    if folder.absolute().name.endswith(UNFINISHED):
        raise BackupError(f"{folder}: this backup was never finished; take another")
    try:
        data = path.read_bytes()
    except FileNotFoundError as error:
        raise BackupError(
            f"{folder}: is not a backup, it has no {MANIFEST}; name the folder of one"
        ) from error
    except OSError as error:
        raise BackupError(f"{path}: cannot be read: {error.strerror}") from error
    try:
        content = json.loads(data)
        stated = content.pop(_OWN_CHECKSUM)
        intact = isinstance(stated, str) and _sealed(content) == data
    except (ValueError, TypeError, AttributeError, KeyError, RecursionError):
        intact = False
    if not intact:
        raise BackupError(f"{path}: is damaged; take another backup")
    if content.pop("format") != FORMAT:
        raise BackupError(f"{path}: was written by a newer Strata; install that version")
    content["files"] = tuple(BackupFile(**file) for file in content["files"])
    content["samples"] = SampleCounts(**content["samples"])
    return Manifest(**content)


def _sealed(content: dict[str, Any]) -> bytes:
    """The bytes of the file: the content and a checksum over it, in the one way they may be written."""
    digest = hashlib.sha256(_bytes(content)).hexdigest()
    return _bytes({**content, _OWN_CHECKSUM: digest})


def _bytes(content: dict[str, Any]) -> bytes:
    return json.dumps(content, indent=2).encode() + b"\n"


def describe(path: Path) -> BackupFile:
    """Size and checksum of a file as it is. Raises OSError."""
    digest, size = hashlib.sha256(), 0
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK_BYTES):
            digest.update(chunk)
            size += len(chunk)
    return BackupFile(path.name, size, digest.hexdigest())


def damages(folder: Path, manifest: Manifest) -> list[str]:
    """What is wrong with the files, one clause each; [] when every byte is as it was written."""
    found = []
    for expected in manifest.files:
        try:
            actual = describe(folder / expected.name)
        except FileNotFoundError:
            found.append(f"{expected.name} is missing")
        except OSError as error:
            found.append(f"{expected.name} cannot be read ({error.strerror})")
        else:
            if actual.size_bytes != expected.size_bytes:
                sizes = f"{actual.size_bytes} bytes instead of {expected.size_bytes}"
                found.append(f"{expected.name} is damaged ({sizes})")
            elif actual != expected:
                found.append(f"{expected.name} is damaged (its SHA-256 is not the one in {MANIFEST})")
    return found
