"""`make bench`: every benchmark in one run, as tables in docs/bench.md and on the terminal."""

import argparse
import os
import platform
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

from tests.bench import (
    alert_queries,
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
    ("index", "Finding among a million series", series_index.table),
    ("import", "Import beside promtool", openmetrics_import.table),
)


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument(
        "--only", choices=[name for name, _, _ in BENCHES], help="print one, write nothing"
    )
    only = arguments.parse_args().only
    parts = [
        "# Benchmarks",
        "",
        f"Written by `make bench` on {datetime.now(UTC):%Y-%m-%d}: {os.cpu_count()} cores, "
        f"{platform.machine()}, Python {platform.python_version()}. Peers ran in the same run.",
    ]
    for name, title, run in BENCHES:
        if only in (None, name):
            text = run()
            print(f"\n## {title}\n\n{text}", flush=True)
            parts += ["", f"## {title}", "", text]
            if only is None:  # after each: the last of them takes as long as the others together
                REPORT.parent.mkdir(exist_ok=True)
                REPORT.write_text("\n".join(parts) + "\n")


if __name__ == "__main__":
    main()
