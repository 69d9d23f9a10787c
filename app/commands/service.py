"""`strata service`: run Strata as a service of one's own, without root."""

import json
import os
import tempfile
from pathlib import Path
from typing import Annotated

import typer

from app.commands.failure import BAD_INPUT, FAILED, CommandError
from app.commands.options import (
    ConfigFile,
    DataFolder,
    Host,
    Json,
    NoDiscover,
    Port,
    Prometheus,
    PrometheusConfig,
    engine_settings,
    settings_from,
)
from app.commands.programs import command_line

MARK = "# Written by: strata service install"
NEXT = ("systemctl --user daemon-reload", "systemctl --user enable --now strata.service")

service = typer.Typer(help="Run Strata as a systemd user service.")


@service.callback()
def _group() -> None:
    """Run Strata as a systemd user service."""  # a group of one would otherwise lose its command's name


@service.command()
def install(
    config: ConfigFile = None,
    data: DataFolder = None,
    host: Host = None,
    port: Port = None,
    prometheus_config: PrometheusConfig = None,
    no_discover: NoDiscover = False,
    prometheus: Prometheus = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print the unit, write nothing.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Replace a unit that someone else wrote.")] = False,
    as_json: Json = False,
) -> int:
    """Write the unit file and say how to start it."""
    # A service that cannot start would only be noticed at the next login.
    settings_from(
        config,
        data,
        web__host=host,
        web__port=port,
        prometheus_config=prometheus_config,
        discover=False if no_discover else None,
        **engine_settings(prometheus),
    )
    text = unit_text(
        command_line(
            "up",
            config=config,
            data=data,
            host=host,
            port=port,
            prometheus_config=prometheus_config,
            no_discover=no_discover,
            prometheus=prometheus,
        )
    )
    path = unit_path()
    if not dry_run:
        _write(path, text, force)
    if as_json:
        print(json.dumps({"unit": str(path), "written": not dry_run, "text": text, "next": list(NEXT)}))
    elif dry_run:
        print(text, end="")
    else:
        print(f"wrote {path}; start it, now and at each login, with", *NEXT, sep="\n  ")
    return 0


def unit_path() -> Path:
    """Where systemd looks for the user's own units."""
    configured = os.environ.get("XDG_CONFIG_HOME", "")
    # The specification says that a relative path is to be ignored.
    base = Path(configured) if configured.startswith("/") else Path.home() / ".config"
    return base / "systemd" / "user" / "strata.service"


def unit_text(argv: tuple[str, ...]) -> str:
    """The unit that runs `argv`. Raises CommandError when systemd could not run it."""
    return f"""{MARK}
[Unit]
Description=Strata, monitor of LLM GPU clusters

[Service]
Type=exec
ExecStart={exec_line(argv)}
ExecReload=/bin/kill -HUP $MAINPID
Restart=on-failure
RestartSec=5
# Bad configuration does not mend itself.
RestartPreventExitStatus={BAD_INPUT}
# The supervisor stops its processes in order, within 5 s; only what is left then is killed.
KillMode=mixed
TimeoutStopSec=10

[Install]
WantedBy=default.target
"""


def exec_line(argv: tuple[str, ...]) -> str:
    """A command line in systemd's quoting (systemd.service(5), "Command lines")."""
    program, *arguments = argv
    if set(program) & set("\"'\\"):  # systemd refuses such an executable name even when it is quoted
        reason = "quotes and backslashes in it; move the installation"
        raise CommandError(f"systemd does not run {program}: {reason}")
    # Variables are not replaced in the program's own path, so there "$" stays as it is.
    return " ".join([_quoted(program), *(_quoted(word).replace("$", "$$") for word in arguments)])


def _quoted(word: str) -> str:
    if any(ord(character) < 32 or ord(character) == 127 for character in word):
        raise CommandError(f"a systemd unit cannot hold the control character in {word!r}", BAD_INPUT)
    escaped = word.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%")
    return f'"{escaped}"' if escaped != word or set(word) & set(" ';") or not word else word


def _write(path: Path, text: str, force: bool) -> None:
    try:
        if path.exists() and not force and not path.read_bytes().startswith(MARK.encode()):
            raise CommandError(f"{path} was written by someone else; --force replaces it", FAILED)
        path.parent.mkdir(parents=True, exist_ok=True)
        # Whole or not at all: systemd may be reading it.
        with tempfile.NamedTemporaryFile(
            "w",
            encoding="utf-8",
            errors="surrogateescape",  # a path that is not UTF-8 stays the bytes that it is
            dir=path.parent,
            prefix=".strata-",
            delete=False,
        ) as file:
            file.write(text)
        Path(file.name).chmod(0o644)
        Path(file.name).replace(path)
    except OSError as error:
        raise CommandError(f"{path} cannot be written: {error.strerror}", FAILED) from error
