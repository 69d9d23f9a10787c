"""`strata import openmetrics` beside `promtool tsdb create-blocks-from openmetrics`, both over the same file.

Each is a whole process from its start to its end. promtool reads the file once for its range and once more
for every two hours in it; so the ratio grows with the time that a file covers.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from db.labels import METRIC_NAME, Labels
from tests.bench.store_data import Dataset, generate
from tests.needs import require_program

# hours, share of the 5,000 series, page order: what fits into some gigabytes and minutes.
FILES = ((2, 1.0, True), (2, 1.0, False), (24, 0.1, True), (24, 0.1, False))
_STEPS_AT_ONCE = 240


@dataclass(frozen=True, slots=True)
class Run:
    """What a process took: wall and processor seconds, and memory at its peak."""

    seconds: float
    cpu_seconds: float
    peak_mb: float


def _key(labels: Labels) -> str:
    pairs = dict(labels)
    name = pairs.pop(METRIC_NAME)
    return name + "{" + ",".join(f"{label}={json.dumps(value)}" for label, value in pairs.items()) + "}"


def write_file(data: Dataset, path: Path, *, pages: bool) -> int:
    """The samples as text, scrape after scrape or series after series; the number of lines."""
    keys = [_key(labels) for labels in data.series]
    with path.open("w") as file:
        if pages:
            for first in range(0, data.steps, _STEPS_AT_ONCE):
                window = data.window(first, min(_STEPS_AT_ONCE, data.steps - first))
                for step, values in enumerate(window.tolist(), first):
                    times = [f"{at_ms / 1000:.3f}" for at_ms in data.timestamps[:, step].tolist()]
                    file.writelines(
                        f"{key} {value:.15g} {times[node]}\n"
                        for key, value, node in zip(keys, values, data.nodes.tolist(), strict=True)
                    )
        else:
            window = data.window(0, data.steps)
            for place, key in enumerate(keys):
                file.writelines(
                    f"{key} {value:.15g} {at_ms / 1000:.3f}\n"
                    for value, at_ms in zip(
                        window[:, place].tolist(), data.timestamps[data.nodes[place]].tolist(), strict=True
                    )
                )
        file.write("# EOF\n")
    return data.samples


def measure(command: list[str]) -> Run:
    """Run a process to its end."""
    started = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0, command
    return Run(time.perf_counter() - started, used.ru_utime + used.ru_stime, used.ru_maxrss / 1000)


def table() -> str:
    """The measurement as markdown."""
    promtool = require_program("promtool")
    text = [
        "| file | lines | | lines/s | seconds | processor s | peak memory | times promtool |",
        "|---|---:|---|---:|---:|---:|---:|---:|",
    ]
    for hours, factor, pages in FILES:
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            data = generate(folder, hours, factor)
            file = folder / "file.om"
            lines = write_file(data, file, pages=pages)
            data.values_file.unlink()
            ours = [
                sys.executable,
                "-m",
                "app",
                "import",
                "openmetrics",
                str(file),
                "--data",
                str(folder / "data"),
            ]
            theirs = [
                promtool,
                "tsdb",
                "create-blocks-from",
                "openmetrics",
                "-q",
                str(file),
                str(folder / "tsdb"),
            ]
            runs = {"Strata": measure(ours), "promtool": measure(theirs)}
            order = "scrape by scrape" if pages else "series by series"
            for who, run in runs.items():
                text.append(
                    f"| {hours} h, {order} | {lines:,} | {who} "
                    f"| {lines / run.seconds:,.0f} | {run.seconds:.1f} "
                    f"| {run.cpu_seconds:.1f} | {run.peak_mb:.0f} MB "
                    f"| {runs['promtool'].seconds / run.seconds:.1f} |"
                )
                print(text[-1], flush=True)
    return "\n".join(text)


if __name__ == "__main__":
    print(table())
