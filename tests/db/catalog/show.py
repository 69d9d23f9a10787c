"""Prints what every signal is on a page, with its PromQL: `python -m tests.db.catalog.show PAGE...` (several
pages of one recorded sequence: files named by unix ms). For writing `expected/`; the numbers there are to be
computed by other means."""

import sys
import tempfile
from pathlib import Path

from db.catalog.load import load_catalog
from db.catalog.read import read_signal
from tests.db.catalog.pages import LAST_MS, ramped, read_page, recorded, stored
from tests.db.catalog.test_expected import as_written, resolved_on

TARGET = {"job": "page", "instance": "node1:9400"}


def main(arguments: list[str]) -> None:
    paths = [Path(argument) for argument in arguments]
    sequence = len(paths) > 1
    at_ms = max(int(path.stem) for path in paths) if sequence else LAST_MS
    scrapes = recorded(paths, TARGET) if sequence else ramped(read_page(paths[0]), TARGET)
    with tempfile.TemporaryDirectory() as folder, stored(Path(folder) / "samples.db", [scrapes]) as store:
        for name, resolved in resolved_on(load_catalog(), store).items():
            print(f"{name}:  # {', '.join(resolved.exporters)}: {resolved.promql}")
            for reading in read_signal(store, resolved, at_ms):
                print(f"  {as_written(reading)}")


if __name__ == "__main__":
    main(sys.argv[1:])
