"""`make bench`: every benchmark in one run, as tables in docs/bench.md and on the terminal."""

import argparse
import os
import platform
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

from tests.bench import (
    alert_queries,
    demo_targets,
    openmetrics_import,
    parser,
    remote_write,
    scrape_targets,
    series_index,
    store,
    store_concurrency,
    store_large,
    store_year,
)

REPORT = Path(__file__).parents[2] / "docs" / "bench.md"

BENCHES: tuple[tuple[str, str, Callable[[], str]], ...] = (
    ("store", "The store beside Prometheus and VictoriaMetrics", store.table),
    ("write", "Remote-write receiver beside Prometheus", remote_write.table),
    ("large", "30,000 series for a day", store_large.table),
    ("alerts", "60 alert queries over 400,000 series", alert_queries.table),
    ("concurrency", "Writing while others read and maintain", store_concurrency.table),
    ("year", "A year of 100 series", store_year.table),
    ("parser", "Parser beside prometheus_client", lambda: parser.table(parser.rows())),
    ("targets", "Scraping 1,000 targets beside Prometheus", scrape_targets.table),
    ("cluster", "10,000 simulated GPUs", demo_targets.table),
    ("index", "Finding among a million series", series_index.table),
    ("import", "Import beside promtool", openmetrics_import.table),
)


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    names = [name for name, _, _ in BENCHES]
    arguments.add_argument("--only", choices=names, action="append", help="these; the others' tables stay")
    arguments.add_argument("--print", action="store_true", help="write nothing")
    given = arguments.parse_args()
    for name, title, run in BENCHES:
        if given.only is None or name in given.only:
            text = f"{_measured()}\n\n{run()}"
            print(f"\n## {title}\n\n{text}", flush=True)
            if not given.print:  # after each: the last of them takes as long as the others together
                REPORT.parent.mkdir(exist_ok=True)
                REPORT.write_text(report(REPORT.read_text() if REPORT.exists() else "", title, text))


def report(former: str, title: str, text: str) -> str:
    """The report with this section instead of its former text; sections stay in the order of BENCHES."""
    sections = dict(part.split("\n", 1) for part in former.split("\n## ")[1:] if "\n" in part)
    sections[title] = f"\n{text}\n"
    known = [title for _, title, _ in BENCHES if title in sections]
    body = "".join(f"\n## {title}\n\n{sections[title].strip()}\n" for title in known)
    return f"# Benchmarks\n\nWritten by `make bench`. Peers ran in the same run.\n{body}"


def _measured() -> str:
    return (
        f"Measured on {datetime.now(UTC):%Y-%m-%d}: {os.cpu_count()} cores, {platform.machine()}, "
        f"Python {platform.python_version()}."
    )


if __name__ == "__main__":
    main()
