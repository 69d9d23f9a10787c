"""`strata collect`: the collector process by itself."""

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from app.commands.options import (
    ConfigFile,
    DataFolder,
    NoDiscover,
    Prometheus,
    PrometheusConfig,
    engine_settings,
    settings_from,
)

if TYPE_CHECKING:
    from db.settings import Settings


class Sink(StrEnum):
    """Where samples go."""

    STORE = "store"
    STDOUT = "stdout"


Once = Annotated[bool, typer.Option("--once", help="Collect from every source once, then end.")]
Only = Annotated[
    list[str] | None,
    typer.Option("--only", metavar="NAME", help="Only this source; may be given several times."),
]
SinkOption = Annotated[
    Sink, typer.Option("--sink", help="Where samples go: the store, or stdout as Prometheus text.")
]


def collect(
    config: ConfigFile = None,
    data: DataFolder = None,
    once: Once = False,
    only: Only = None,
    sink: SinkOption = Sink.STORE,
    prometheus_config: PrometheusConfig = None,
    no_discover: NoDiscover = False,
    prometheus: Prometheus = None,
) -> int:
    """Scrape the targets and read this machine."""
    from collectors.__main__ import run
    from db.logs import configure

    def load() -> "Settings":
        return settings_from(
            config,
            data,
            prometheus_config=prometheus_config,
            discover=False if no_discover else None,
            **engine_settings(prometheus),
        )

    settings = load()
    configure("collect", settings.log.format, settings.log.level)
    return run(settings, only=tuple(only or ()), once=once, sink=sink.value, reload=load)
