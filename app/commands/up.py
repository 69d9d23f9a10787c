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
    import sys
    import time

    from app.children import ChildProcess
    from app.commands.failure import CommandError
    from app.commands.programs import command_line
    from app.preflight import NotReady, check_port
    from app.process_state import Recorder
    from app.readiness import Announcement, answers, page_url
    from app.signals import SignalInbox
    from app.supervise import Program, Supervisor, run
    from db.engine import open_samples, open_state
    from db.folder_claim import claimed_folder
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
    load_jobs(settings)  # what is wrong with the jobs is told here, once, and nothing is started
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
    announcement = Announcement(
        page_url(settings.web.host, settings.web.port),
        ready=answers,
        now=time.monotonic,
        say=lambda text: print(text, file=sys.stdout, flush=True),
    )
    try:
        with claimed_folder(settings.data, "up"), SignalInbox() as inbox:
            check_port(settings.web.host, settings.web.port)
            # Both are migrated here, once, before three processes would want to.
            open_samples(settings.samples_path).dispose()
            state = open_state(settings.state_location)
            recorder = Recorder(state, now_ms=lambda: time.time_ns() // 1_000_000)
            supervisor = Supervisor(programs, spawn=ChildProcess, now=time.monotonic, changed=recorder)
            return run(supervisor, wait=inbox.wait, each_turn=announcement, terminal_lost=inbox.terminal_lost)
    except NotReady as error:
        raise CommandError(str(error)) from error


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
