"""`strata up`: everything with one command."""

from typing import TYPE_CHECKING

from app.commands.options import (
    ConfigFile,
    DataFolder,
    Host,
    NoDiscover,
    Port,
    Prometheus,
    PrometheusConfig,
    engine_settings,
    settings_from,
)

if TYPE_CHECKING:
    from db.settings import Settings


def up(
    config: ConfigFile = None,
    data: DataFolder = None,
    host: Host = None,
    port: Port = None,
    prometheus_config: PrometheusConfig = None,
    no_discover: NoDiscover = False,
    prometheus: Prometheus = None,
) -> int:
    """Collect, alert and serve the page: three processes, watched and brought back. Ctrl-C stops them."""
    import logging

    from app.commands.programs import command_line
    from app.commands.supervised import run_supervised
    from app.supervise import Program
    from db.catalog.load import load_catalog
    from db.logs import configure
    from db.settings import load_jobs

    settings = settings_from(
        config,
        data,
        web__host=host,
        web__port=port,
        prometheus_config=prometheus_config,
        discover=False if no_discover else None,
        **engine_settings(prometheus),
    )
    load_jobs(settings)  # what is wrong with the jobs or signals is told here, once, and nothing is started
    load_catalog(settings.signal_files)
    configure("up", settings.log.format, settings.log.level)
    if (words := _engine_words(settings)) is not None:
        logging.getLogger("up").info("%s", words)
    same = {"config": config, "data": data, "prometheus": prometheus}
    scraping = {"prometheus_config": prometheus_config, "no_discover": no_discover}
    programs = [  # the page first: it takes longest until it answers
        Program("web", command_line("web", **same, host=host, port=port)),
        Program("collect", command_line("collect", **same, **scraping)),
        Program("alert", command_line("alert", **same)),
    ]
    return run_supervised(settings, programs)


def _engine_words(settings: "Settings") -> str | None:
    """What a remote engine means for this run; None without one."""
    engine = settings.store.prometheus
    if engine is None:
        return None
    if engine.is_written:
        return f"samples go to {engine.remote_write_url} and are read from {engine.query_url}"
    return (
        f"{engine.query_url} is only read: nothing is scraped and this machine's own collectors are off; "
        f"strata_* metrics, probes and runs stay in {settings.data}"
    )
