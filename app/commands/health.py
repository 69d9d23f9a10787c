"""`strata health PROCESS`: for a container's health check; hidden, since people have the Sources page."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from app.commands.failure import CommandError
from app.commands.options import ConfigFile, DataFolder, Port, settings_from


class Watched(StrEnum):
    """A process that can be asked after."""

    COLLECT = "collect"
    ALERT = "alert"
    WEB = "web"


def health(
    process: Annotated[Watched, typer.Argument(help="Which process.")],
    config: ConfigFile = None,
    data: DataFolder = None,
    port: Port = None,
) -> int:
    """Exit 0 when the process works: the page answers, the others have reported a moment ago."""
    settings = settings_from(config, data, web__port=port)
    if process is Watched.WEB:
        from app.readiness import answers, page_url

        url = page_url(settings.web.host, settings.web.port)
        if not answers(url):
            raise CommandError(f"{url} does not answer that it is ready")
        return 0

    import time

    from db.engine import open_state
    from db.held_samples import read_held
    from db.processes import read_processes

    where = settings.state_location
    # Opening creates the file: a check in the wrong folder must not leave one.
    if isinstance(where, Path) and not where.exists():
        raise CommandError(f"{where} does not exist; is {process.value} started with this --data?")
    rows = {row.name: row for row in read_processes(open_state(where))}
    found = rows.get(process.value)
    if found is None or found.beat_ms is None:
        raise CommandError(f"{process.value} has never reported; is it started with the same --data?")
    now_ms = time.time_ns() // 1_000_000
    # Where the disk is full it cannot write its beat, but says in another way that it goes on.
    working = process is Watched.COLLECT and read_held(settings.data, now_ms) is not None
    if not working and (found.state != "running" or found.silent(now_ms)):
        seconds = (now_ms - found.beat_ms) // 1000
        raise CommandError(f"{process.value} is {found.state} and last reported {seconds} s ago")
    return 0
