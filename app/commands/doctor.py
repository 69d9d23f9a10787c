"""`strata doctor`: what is wrong with this installation, and what its targets could say and do not."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from app.commands.options import ConfigFile, DataFolder, Json, Prometheus, engine_settings, settings_from

if TYPE_CHECKING:
    from app.examination import Examination

_SIGNS = {"ok": "ok     ", "warning": "warning", "failed": "FAILED "}
_TARGETS = 3


def doctor(
    config: ConfigFile = None,
    data: DataFolder = None,
    prometheus: Prometheus = None,
    as_json: Json = False,
) -> int:
    """Look at configuration, disk, processes and sources, and at what targets could report and do not. Exit 1
    when something has failed."""
    import json
    import time

    from app.examination import examine

    settings = settings_from(config, data, **engine_settings(prometheus))
    found = examine(settings, time.time_ns() // 1_000_000)
    if as_json:
        print(json.dumps(_document(found)))
    else:
        for line in _lines(found):
            print(line)
    return 1 if found.failed else 0


def _lines(found: "Examination") -> Iterator[str]:
    from app.summaries.coverage import by_exporter
    from db.logs import printable

    for finding in found.findings:
        yield f"{_SIGNS[finding.verdict]}  {finding.subject}: {printable(finding.words)}"
    lacking = by_exporter(found.coverage)
    if lacking:
        yield ""
        yield "Coverage: what these targets could report, and the setting that adds it"
    for exporter in lacking:
        yield ""
        yield printable(f"{exporter.title}: {exporter.share} signals ({_named(exporter.targets)})")
        for lack in exporter.lacks:
            some = "" if lack.targets == exporter.targets else f" ({_named(lack.targets)})"
            yield printable(f"  - {', '.join(lack.titles)}{some}")
            yield printable(f"      {lack.mend}")


def _named(targets: Sequence[tuple[str, str]]) -> str:
    named = ", ".join(f"{job} {instance}" for job, instance in targets[:_TARGETS])
    return f"{named} and {len(targets) - _TARGETS} more" if len(targets) > _TARGETS else named


def _document(found: "Examination") -> dict[str, object]:
    return {
        "findings": [
            {"subject": item.subject, "verdict": item.verdict, "words": item.words} for item in found.findings
        ],
        "coverage": [
            {
                "targets": [{"job": job, "instance": instance} for job, instance in row.targets],
                "exporter": row.coverage.exporter,
                "signals_had": row.coverage.had,
                "signals_known": row.coverage.of,
                "gaps": [{"signals": list(gap.signals), "mend": gap.mend} for gap in row.coverage.gaps],
            }
            for row in found.coverage
        ],
    }
