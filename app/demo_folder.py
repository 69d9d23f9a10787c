"""A demo's data folder: what marks it as simulated, and the settings that its processes start with.

The mark is in the folder and not on a command line: what was simulated stays marked, whoever serves it.
"""

import json
from pathlib import Path
from typing import Any

from db.settings import Settings

FOLDER = "demo"
_MARK = "SIMULATED"
_MARK_TEXT = "The samples in this folder are simulated: strata demo made them. Pages over them say DEMO.\n"
_SETTINGS = "strata.yaml"
_RETENTION = "2d"
OF_THIS_MACHINE = ("host", "nvml", "slurm")
"""Collectors that would mix what is real into what is simulated."""
# Above so many GPUs every 5 s would be more pages than a small machine can read.
_LARGE_GPUS = 512
_LARGE_INTERVAL_SECONDS = 15.0
_FIND_TARGETS_EVERY_SECONDS = 10


def is_demo(data: Path) -> bool:
    """Is what lies in this data folder simulated?"""
    return (data / _MARK).exists()


def demo_folder(settings: Settings) -> Path:
    return settings.data / FOLDER


def prepare_folder(settings: Settings, port: int, jobs: dict[str, str], gpus: int) -> Path:
    """Mark the folder and write the settings of a demo whose targets are listed on a local port.

    settings: the user's, of which only how Strata looks and listens is taken over: a demo must not write to
    an engine or a database of theirs, nor send messages to people. jobs: kind of target -> job. Gives the
    settings file. Raises OSError.
    """
    folder = demo_folder(settings)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / _MARK).write_text(_MARK_TEXT, encoding="utf-8")
    interval = settings.scrape_interval
    if gpus > _LARGE_GPUS:
        interval = max(interval, _LARGE_INTERVAL_SECONDS)
    document: dict[str, Any] = {
        "timezone": settings.timezone,
        "log": settings.log.model_dump(),
        "web": settings.web.model_dump(mode="json"),
        "scrape_interval": f"{round(interval * 1000)}ms",
        "discover": False,
        "signal_files": [str(path) for path in settings.signal_files],
        "collectors": {name: {"enabled": False} for name in OF_THIS_MACHINE},
        "storage": {"retention": _RETENTION},
        "scrape_configs": [
            {
                "job_name": job,
                "http_sd_configs": [
                    {
                        "url": f"http://127.0.0.1:{port}/targets/{kind}",
                        "refresh_interval": f"{_FIND_TARGETS_EVERY_SECONDS}s",
                    }
                ],
            }
            for kind, job in jobs.items()
        ],
    }
    path = folder / _SETTINGS
    path.write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")  # JSON is YAML, too
    return path
