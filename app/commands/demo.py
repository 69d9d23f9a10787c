"""`strata demo`: everything over a simulated cluster, and the hidden command of the simulator's process."""

import typing
from typing import Annotated

import typer

from app.commands.options import ConfigFile, DataFolder, Host, Port, settings_from

if typing.TYPE_CHECKING:
    import socket

    from collectors.demo import DemoOptions

DEFAULT_GPUS = 32
Gpus = Annotated[int, typer.Option("--gpus", metavar="N", help="How many GPUs, 1 to 10,000.")]
Seed = Annotated[
    int,
    typer.Option("--seed", min=0, max=2**63 - 1, help="Another number, other faults and other traffic."),
]
NoFaults = Annotated[bool, typer.Option("--no-faults", help="Nothing goes wrong but what --fault orders.")]
Faults = Annotated[
    list[str] | None,
    typer.Option(
        "--fault",
        metavar="KIND@AFTER:PLACE",
        help="Order a fault: throttle, xid, slow, kv, stuck or dying, as in throttle@60s+3m:node1; "
        "may be given several times.",
    ),
]


def demo(
    gpus: Gpus = DEFAULT_GPUS,
    seed: Seed = 1,
    no_faults: NoFaults = False,
    fault: Faults = None,
    config: ConfigFile = None,
    data: DataFolder = None,
    host: Host = None,
    port: Port = None,
) -> int:
    """Show everything over a simulated cluster: no GPU is needed, and nothing of yours is read or changed."""
    import logging
    import os

    from app.commands.failure import DEBUG_VARIABLE, CommandError
    from app.commands.programs import command_line
    from app.commands.supervised import run_supervised
    from app.demo_folder import prepare_folder
    from app.supervise import Program
    from collectors.demo import check_options
    from collectors.demo_server import JOBS
    from db.logs import configure
    from db.settings import load_settings

    options = _options(gpus, seed, no_faults, fault)
    check_options(options)
    users = settings_from(config, data, web__host=host, web__port=port)
    configure("demo", users.log.format, users.log.level)
    # What the environment said is in the settings now; the processes get theirs from the demo's file alone.
    for name in [name for name in os.environ if name.startswith("STRATA_") and name != DEBUG_VARIABLE]:
        del os.environ[name]
    with _kept_port() as kept:
        targets_port = kept.getsockname()[1]
        try:
            file = prepare_folder(users, targets_port, dict(JOBS), gpus)
        except OSError as error:
            raise CommandError(f"{error.filename} cannot be written: {error.strerror}") from error
        folder = file.parent
        settings = load_settings(file, {"data": folder}, {})
        logging.getLogger("demo").info(
            "everything shown is simulated: %d GPUs, seed %d, kept in %s", gpus, seed, folder
        )
        same = {"config": file, "data": folder}
        simulated = command_line("demo-server", **same, listen=targets_port, gpus=gpus, seed=seed)
        orders = [word for text in options.faults for word in ("--fault", text)]
        programs = [
            Program("web", command_line("web", **same)),
            Program("demo", (*simulated, *(["--no-faults"] if no_faults else []), *orders)),
            Program("collect", command_line("collect", **same)),
            Program("alert", command_line("alert", **same)),
        ]
        return run_supervised(settings, programs)


def demo_server(
    listen: Annotated[int, typer.Option("--listen", metavar="PORT", min=0, max=65535)] = 0,
    gpus: Gpus = DEFAULT_GPUS,
    seed: Seed = 1,
    no_faults: NoFaults = False,
    fault: Faults = None,
    config: ConfigFile = None,
    data: DataFolder = None,
) -> int:
    """Serve a simulated cluster's metrics on 127.0.0.1; /targets lists them for Prometheus's http_sd."""
    from collectors.demo import run
    from db.logs import configure

    options = _options(gpus, seed, no_faults, fault)
    settings = settings_from(config, data)
    configure("demo", settings.log.format, settings.log.level)
    return run(options, listen, settings.state_location if data is not None else None)


def _options(gpus: int, seed: int, no_faults: bool, fault: list[str] | None) -> "DemoOptions":
    from collectors.demo import DemoOptions

    return DemoOptions(gpus, seed, chosen_faults=not no_faults, faults=tuple(fault or ()))


def _kept_port() -> "socket.socket":
    """A free port of the loopback, kept for the simulator as long as this socket is open.

    It is bound but does not listen: with SO_REUSEPORT on both sides the simulator can listen on it, again
    after each restart, and nobody else is given it in between.
    """
    import socket

    kept = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    kept.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    kept.bind(("127.0.0.1", 0))
    return kept
