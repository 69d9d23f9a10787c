"""The options that several commands share, so that they read the same everywhere."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from app.commands.failure import DEBUG_VARIABLE

if TYPE_CHECKING:
    from db.settings import Settings

ConfigFile = Annotated[
    Path | None,
    typer.Option(
        "--config", metavar="FILE", help="Settings file (default: strata.yaml where it is looked for)."
    ),
]
DataFolder = Annotated[
    Path | None,
    typer.Option(
        "--data", metavar="DIR", help="Where samples and state are kept (default ~/.local/share/strata)."
    ),
]
Host = Annotated[
    str | None, typer.Option("--host", metavar="ADDRESS", help="Address to listen on (default 127.0.0.1).")
]
Port = Annotated[
    int | None, typer.Option("--port", min=1, max=65535, help="Port to listen on (default 8501).")
]
PrometheusConfig = Annotated[
    Path | None,
    typer.Option("--prometheus-config", metavar="FILE", help="Scrape what this prometheus.yml names."),
]
Prometheus = Annotated[
    str | None,
    typer.Option(
        "--prometheus",
        metavar="URL",
        help="Read this Prometheus-compatible engine, and write nothing to it: nothing is scraped.",
    ),
]
NoDiscover = Annotated[
    bool, typer.Option("--no-discover", help="Do not look for exporters on this machine's usual ports.")
]
Json = Annotated[bool, typer.Option("--json", help="Print the result as one JSON document.")]


def settings_from(config: Path | None, data: Path | None, **overrides: Any) -> "Settings":
    """The settings with the command line's values on top. Raises SettingsError.

    overrides: dotted setting names with "__" for the dot; None means "not given".
    """
    import os

    from db.settings import load_settings

    given: dict[str, Any] = {"data": data, **overrides}
    environ = {name: value for name, value in os.environ.items() if name != DEBUG_VARIABLE}
    return load_settings(config, _nested(given), environ)


def engine_settings(url: str | None) -> dict[str, Any]:
    """Settings for `--prometheus URL`: an engine that is only read, whatever the file says of writing.
    Credentials, headers and TLS are the file's."""
    if url is None:
        return {}
    return {"store__prometheus__query_url": url, "store__prometheus__remote_write_url": ""}


def _nested(given: Mapping[str, Any]) -> dict[str, Any]:
    """{"web__port": 1, "data": None} -> {"web": {"port": 1}}."""
    tree: dict[str, Any] = {}
    for name, value in given.items():
        if value is None:
            continue
        *path, leaf = name.split("__")
        place = tree
        for step in path:
            place = place.setdefault(step, {})
        place[leaf] = value
    return tree
