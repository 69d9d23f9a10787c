"""What `strata doctor` looks at: each check is one sentence, with the mend where something is wrong."""

import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from app.summaries.coverage import TargetCoverage, cover_targets
from app.summaries.targets import source_job, source_status
from db.catalog.catalog import Catalog
from db.catalog.load import load_catalog
from db.engine import open_state
from db.errors import StoreError
from db.file_system import refuse_unsafe
from db.held_samples import read_held
from db.migrate import SAMPLES, STATE
from db.processes import read_processes
from db.promql.errors import QueryError
from db.records import SourceReport
from db.samples_source import source_of
from db.schema_check import refuse_other_schema
from db.settings import Settings, load_jobs

if TYPE_CHECKING:
    from db.joined_source import JoinedSource
    from db.store import SampleStore

Verdict = Literal["ok", "warning", "failed"]
# Compaction needs room beside what it replaces; less than this on the disk and it may not find it.
_LITTLE_BYTES = 1 << 30
_NAMED = 5


@dataclass(frozen=True, slots=True)
class Finding:
    """subject: what was looked at. words: what was seen, and the mend where it is not well."""

    subject: str
    verdict: Verdict
    words: str


@dataclass(frozen=True, slots=True)
class Examination:
    """Everything that was seen. coverage: what targets lack of what their exporters could say."""

    findings: tuple[Finding, ...]
    coverage: tuple[TargetCoverage, ...]

    @property
    def failed(self) -> bool:
        return any(finding.verdict == "failed" for finding in self.findings)


def examine(settings: Settings, now_ms: int) -> Examination:
    """Look at the configuration, the disk, the processes, the sources and the coverage; nothing is created
    and nothing migrated. Raises SettingsError for a configuration that cannot be used; everything else
    becomes a finding."""
    catalog = load_catalog(settings.signal_files)
    findings = [_jobs(settings), *_disk(settings.data)]
    if not settings.samples_path.exists():
        words = f"{settings.samples_path} does not exist; start `strata up`, or give the right --data"
        return Examination((*findings, Finding("samples", "failed", words)), ())
    findings += _processes(settings, now_ms)
    try:
        refuse_other_schema(settings.samples_path, SAMPLES)
        with closing(source_of(settings)()) as source:
            reports = source.sources()
            findings += _sources(reports, now_ms)
            coverage = _covered(catalog, source, reports, now_ms, findings.append)
    except StoreError as error:
        return Examination((*findings, Finding("samples", "failed", str(error))), ())
    return Examination(tuple(findings), tuple(coverage))


def _jobs(settings: Settings) -> Finding:
    jobs = load_jobs(settings)
    if jobs.warnings:
        words = f"{len(jobs.warnings)} parts of the configuration are not used: {jobs.warnings[0]}"
        return Finding("configuration", "warning", words)
    return Finding("configuration", "ok", f"{len(jobs.configs)} jobs to scrape")


def _disk(folder: Path) -> Iterator[Finding]:
    place = next(path for path in (folder, *folder.parents) if path.exists())
    try:
        refuse_unsafe(place / "samples.db")
        free = shutil.disk_usage(place).free
    except (StoreError, OSError) as error:
        yield Finding("disk", "failed", str(error))
        return
    gib = free / 2**30
    if free < _LITTLE_BYTES:
        words = f"{gib:.1f} GiB are free for {folder}; make room, or lower storage.retention_size"
        yield Finding("disk", "warning", words)
    else:
        yield Finding("disk", "ok", f"{gib:.1f} GiB are free for {folder}")


def _processes(settings: Settings, now_ms: int) -> Iterator[Finding]:
    where = settings.state_location
    if isinstance(where, Path) and not where.exists():
        yield Finding("processes", "failed", f"{where} does not exist; start `strata up`")
        return
    try:
        refuse_other_schema(where, STATE)
        state = open_state(where)
        try:
            processes = read_processes(state)
        finally:
            state.dispose()
    except StoreError as error:
        yield Finding("processes", "failed", str(error))
        return
    running = [one.name for one in processes if one.state == "running" and not one.silent(now_ms)]
    silent = [one.name for one in processes if one.name not in running]
    if not running:
        yield Finding("processes", "failed", "none is running; start `strata up`")
    elif silent:
        words = f"{', '.join(silent)} does not answer; see its log, or start `strata up` again"
        yield Finding("processes", "warning", words)
    else:
        yield Finding("processes", "ok", f"{', '.join(running)} are running")
    held = read_held(settings.data, now_ms)
    if held is not None:
        yield Finding(
            "samples", "warning", f"samples wait in memory because the store refuses them: {held.reason}"
        )


def _sources(reports: Sequence[SourceReport], now_ms: int) -> Iterator[Finding]:
    judged = [(source_status(report, now_ms), report) for report in reports]
    asked = [item for item in judged if item[1].kind in ("scrape", "collector")]
    bad = [(status, report) for status, report in asked if status in ("down", "stale")]
    if not asked:
        yield Finding("sources", "warning", "nothing is collected yet")
    for status, report in bad[:_NAMED]:
        words = f"{source_job(report)} {report.instance} is {status}: {report.error or 'nothing new came'}"
        yield Finding("sources", "failed" if status == "down" else "warning", words)
    if len(bad) > _NAMED:
        yield Finding("sources", "failed", f"and {len(bad) - _NAMED} more are down or stale")
    if asked and not bad:
        yield Finding("sources", "ok", f"{len(asked)} targets and collectors, none down")
    for report in reports:
        if report.kind in ("config", "discovery") and (report.error or report.note):
            yield Finding("discovery", "warning", report.error or report.note)


def _covered(
    catalog: Catalog,
    source: "SampleStore | JoinedSource",
    reports: Sequence[SourceReport],
    now_ms: int,
    say: Callable[[Finding], None],
) -> list[TargetCoverage]:
    try:
        return cover_targets(catalog, source, reports, now_ms)
    except QueryError as error:
        say(Finding("engine", "failed", str(error)))
        return []
