"""The `strata` command. What a command needs is imported when it runs, so that `--help` is instant."""

import gc
import os
import sys
from collections.abc import Sequence
from typing import Annotated

import typer

from app.commands.alert import alert
from app.commands.backup import backup
from app.commands.collect import collect
from app.commands.demo import demo, demo_server
from app.commands.doctor import doctor
from app.commands.failure import guarded
from app.commands.health import health
from app.commands.import_ import import_
from app.commands.query import query
from app.commands.service import service
from app.commands.up import up
from app.commands.web import web

app = typer.Typer(
    name="strata",
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    invoke_without_command=True,
)
app.command()(up)
app.command()(demo)
app.command()(collect)
app.command()(alert)
app.command()(web)
app.command()(query)
app.command()(doctor)
app.command(hidden=True)(health)
app.command("demo-server", hidden=True)(demo_server)
app.add_typer(import_, name="import")
app.add_typer(backup, name="backup")
app.add_typer(service, name="service")


def _print_version(asked: bool) -> None:
    if asked:
        from importlib.metadata import version

        print(f"strata {version('strata')}")
        raise typer.Exit


@app.callback()
def _strata(
    context: typer.Context,
    _version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Watches an LLM GPU cluster and sizes the next one."""
    if context.invoked_subcommand is None:
        print(context.get_help())


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; returns its exit status. `arguments` without the program's name."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    return guarded(lambda: app(words, prog_name="strata", standalone_mode=False) or 0, os.environ)


if __name__ == "__main__":
    status = main()
    # The interpreter's last collection walks all that Streamlit and pandas made, which makes a stop on a busy
    # machine seconds longer.
    gc.freeze()
    sys.exit(status)
