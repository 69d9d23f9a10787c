"""Run in a fresh interpreter: read the GPUs once per scenario through the real pynvml, one JSON line each.

Usage: python -m tests.nvml_abi.dump PROC SCENARIO [SCENARIO...], LD_LIBRARY_PATH being the stand-in's folder.
A line is {"families": {name: {"type", "help", "samples": [[labels, value], ...]}}} or {"error": class name,
"message"}, and always "note", "calls" (of this reading), "open", "inits" and "samples" (of the process).
Between two readings lies more than the 100 ms that GPM asks for.
"""

import ctypes
import json
import sys
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

from collectors.nvml import NvmlCollector
from collectors.nvml_driver import NvmlDriver, open_nvml
from collectors.types import CollectorError, Family


def as_json(families: tuple[Family, ...]) -> dict[str, Any]:
    return {
        one.name: {
            "type": one.type,
            "help": one.help,
            "samples": [[dict(sample.labels), sample.value] for sample in one.samples],
        }
        for one in families
    }


def readings(proc: Path, scenarios: list[str]) -> Iterator[dict[str, Any]]:
    seconds, driver_seconds = count(0, 10), count(0, 10)

    def opened() -> NvmlDriver:
        return open_nvml(clock=lambda: float(next(driver_seconds)))

    collector = NvmlCollector("node-7", open_devices=opened, proc=proc, clock=lambda: float(next(seconds)))
    library = ctypes.CDLL("libnvidia-ml.so.1")  # the one that pynvml loads, too
    for scenario in scenarios:
        library.nvml_abi_scenario(scenario.encode())
        before = library.nvml_abi_calls()
        try:
            answer: dict[str, Any] = {"families": as_json(collector.collect())}
        except CollectorError as error:
            answer = {"error": type(error).__name__, "message": str(error)}
        answer["calls"] = library.nvml_abi_calls() - before
        answer["open"], answer["inits"] = library.nvml_abi_open(), library.nvml_abi_inits()
        answer["note"] = collector.note
        answer["samples"] = library.nvml_abi_samples()
        yield answer


if __name__ == "__main__":
    for reading in readings(Path(sys.argv[1]), sys.argv[2:]):
        print(json.dumps(reading), flush=True)
