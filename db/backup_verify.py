"""Proves a backup by restoring it: into a scratch folder, where it is opened, read to the last sample, and
compared with what the backup's own rows say."""

import json
import os
import sqlite3
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import numpy as np

from db.backup import os_sentence, require_space
from db.backup_counts import check_whole, count_rows, count_samples, days_with_samples, frozen
from db.backup_manifest import MANIFEST, SAMPLES, STATE, BackupError, Manifest, read_manifest
from db.backup_probe import Probe, probe_series
from db.engine import open_state
from db.errors import StoreUnreachable
from db.labels import METRIC_NAME
from db.nan import STALE_BITS, is_absent
from db.records import Matcher, named
from db.restore import require_known_schemas, require_undamaged, restore_backup
from db.store import LOOKBACK_MS, SampleStore

_PROBES = 24
# What one read of the decoding may bring, at one sample in 5 s: 64 MB with its timestamps.
_READ_SAMPLES = 4_000_000
_USUAL_STEP_MS = 5_000
_HOUR_MS = 3_600_000
_LONGEST_READ_MS = 30 * 24 * _HOUR_MS


@dataclass(frozen=True, slots=True)
class Verified:
    """What held. files: with the manifest. samples: decoded, each once. probed: series of which up to two
    hours, and the newest value at their ends, agreed by both ways of reading. points: values compared."""

    manifest: Manifest
    files: int
    size_bytes: int
    samples: int
    probed: int
    points: int


def verify_backup(folder: Path, *, now: datetime) -> Verified:
    """Restore the backup into a scratch folder, check everything, and remove the scratch folder.

    Raises BackupError that names what does not hold; another StoreError when the copy cannot be opened.
    """
    folder = folder.absolute()
    manifest = read_manifest(folder)
    require_undamaged(folder, manifest)
    require_known_schemas(folder, manifest)
    size = sum(file.size_bytes for file in manifest.files)
    try:
        # Twice: an older database is copied once more before it is migrated.
        with _scratch_folder(folder, 2 * size) as scratch:
            samples, state = scratch / SAMPLES, scratch / STATE
            restore_backup(folder, samples=samples, state=state, replace=False, restored=now)
            _compare_counts(scratch, manifest)
            decoded, probes = _read_samples(folder, samples)
            if manifest.file(STATE) is not None:
                open_state(state).dispose()
    except OSError as error:
        raise BackupError(os_sentence(folder, error)) from error
    except (sqlite3.Error, ValueError) as error:  # ValueError: a block that cannot be decoded
        raise BackupError(f"{folder / SAMPLES}: cannot be read: {error}; use another backup") from error
    points = sum(len(probe.points) for probe in probes)
    probed = len({probe.labels for probe in probes})
    return Verified(manifest, len(manifest.files) + 1, size, decoded, probed, points)


@contextmanager
def _scratch_folder(folder: Path, needed_bytes: int) -> Iterator[Path]:
    """A folder beside the backup; where that cannot be, in the usual place for temporary files."""
    where = folder.parent
    try:
        if not os.access(where, os.W_OK):
            raise BackupError(f"{where}: is read-only")
        require_space(where, needed_bytes)
    except BackupError:
        where = Path(tempfile.gettempdir())
        require_space(where, needed_bytes)
    with tempfile.TemporaryDirectory(prefix=".strata-verify-", dir=where) as scratch:
        yield Path(scratch)


def _compare_counts(scratch: Path, manifest: Manifest) -> None:
    """Before anything is opened, and so migrated."""
    with frozen(scratch / SAMPLES) as database:
        check_whole(database, scratch / SAMPLES, quick=False)
        _require_equal("samples", count_samples(database), manifest.samples)
    if manifest.file(STATE) is not None:
        with frozen(scratch / STATE) as database:
            check_whole(database, scratch / STATE, quick=False)
            _require_equal("state", count_rows(database), manifest.state_rows)


def _require_equal(what: str, found: object, stated: object) -> None:
    if found != stated:
        raise BackupError(f"the restored {what} hold {found}, {MANIFEST} says {stated}; use another backup")


def _read_samples(folder: Path, samples: Path) -> tuple[int, list[Probe]]:
    with frozen(folder / SAMPLES) as database:
        probes = probe_series(database, _PROBES)
        metrics, days = _series_by_metric(database), days_with_samples(database)
    store = SampleStore.open(samples)
    try:
        for probe in probes:
            _compare(store, probe)
        decoded = sum(
            _decode(store, metric, count, *run) for metric, count in metrics.items() for run in days
        )
        return decoded, probes
    finally:
        store.close()


def _series_by_metric(database: sqlite3.Connection) -> Counter[str]:
    found: Counter[str] = Counter()
    for (labels,) in database.execute("SELECT labels FROM series"):
        found[dict(json.loads(labels)).get(METRIC_NAME, "")] += 1
    return found


def _decode(store: SampleStore, metric: str, series: int, at: int, last: int) -> int:
    """Read every sample of a metric in [at, last] once, in windows of bounded size; returns how many there
    are."""
    span = _READ_SAMPLES // series * _USUAL_STEP_MS
    span = min(max(span, _HOUR_MS), _LONGEST_READ_MS)
    samples = 0
    while at <= last:
        try:
            found = store.slabs([named(metric)], at, min(at + span - 1, last))
        except StoreUnreachable:
            if span == _HOUR_MS:
                raise
            span = max(span // 4, _HOUR_MS)  # a slow machine: a read is ended after some seconds
            continue
        samples += sum(slab.values.size - int(is_absent(slab.values).sum()) for slab in found)
        at += span
    return samples


def _compare(store: SampleStore, probe: Probe) -> None:
    matchers = [Matcher(name, "=", value) for name, value in probe.labels]
    points: dict[int, int] = {}
    for item in store.select(matchers, probe.start_ms, probe.end_ms):
        if item.labels == probe.labels:  # the matchers allow further labels
            bits = np.ascontiguousarray(item.values).view(np.uint64).tolist()
            points = dict(zip(item.timestamps.tolist(), bits, strict=True))
    _require_same(probe, points, probe.points)
    newest = {
        sample.timestamp_ms: int(np.float64(sample.value).view(np.uint64))
        for sample in store.latest(matchers, probe.end_ms, LOOKBACK_MS)
        if sample.labels == probe.labels
    }
    _require_same(probe, newest, _newest(probe))


def _newest(probe: Probe) -> dict[int, int]:
    """The newest point within the lookback, unless it says that the series ended."""
    recent: Sequence[int] = [at for at in probe.points if at > probe.end_ms - LOOKBACK_MS]
    if not recent or probe.points[max(recent)] == STALE_BITS:
        return {}
    return {max(recent): probe.points[max(recent)]}


def _require_same(probe: Probe, found: dict[int, int], stated: dict[int, int]) -> None:
    if found != stated:
        at = min(at for at in found.keys() | stated.keys() if found.get(at) != stated.get(at))
        raise BackupError(
            f"the restored samples of {dict(probe.labels)} differ from the backup's rows at {at} ms; "
            "use another backup"
        )
