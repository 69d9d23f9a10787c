"""`strata alert`: the alert process by itself."""

from typing import Annotated

import typer

from app.commands.options import ConfigFile, DataFolder, Prometheus, engine_settings, settings_from

Once = Annotated[bool, typer.Option("--once", help="One round, then end.")]


def alert(
    config: ConfigFile = None,
    data: DataFolder = None,
    prometheus: Prometheus = None,
    once: Once = False,
) -> int:
    """Evaluate rules and notify. There are no rules to evaluate yet: it only reports that it is alive."""
    from alerts.__main__ import run
    from db.logs import configure

    settings = settings_from(config, data, **engine_settings(prometheus))
    configure("alert", settings.log.format, settings.log.level)
    return run(settings, once=once)
