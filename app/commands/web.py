"""`strata web`: the web process by itself."""

from app.commands.options import (
    ConfigFile,
    DataFolder,
    Host,
    Port,
    Prometheus,
    engine_settings,
    settings_from,
)


def web(
    config: ConfigFile = None,
    data: DataFolder = None,
    host: Host = None,
    port: Port = None,
    prometheus: Prometheus = None,
) -> int:
    """Serve the pages."""
    from app.server import serve
    from db.logs import configure

    settings = settings_from(config, data, web__host=host, web__port=port, **engine_settings(prometheus))
    configure("web", settings.log.format, settings.log.level)
    return serve(settings, settings.web.allowed_hosts)
