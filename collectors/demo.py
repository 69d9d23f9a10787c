"""The process behind `strata demo`: builds the simulated cluster and serves its exporters on the loopback.

demo_cluster                what there is: nodes, GPUs, served models, training jobs
demo_faults                 what goes wrong, and when
demo_model                  one second after the other, from the load to the power
  demo_serving, _requests, _histograms      the model servers
  demo_gpus, demo_hosts                     the machines
demo_page_dcgm, _vllm, _node                their exporters' pages
demo_server                 HTTP, and the list of the targets
"""

import asyncio
import logging
import os
import signal
import time
from dataclasses import dataclass
from pathlib import Path

from collectors.demo_cluster import MAX_GPUS, Cluster, build_cluster
from collectors.demo_faults import BadFault, FaultSchedule, parse_faults
from collectors.demo_model import Simulation
from collectors.demo_server import ClusterPages, ClusterServer
from db.config_errors import SettingsError
from db.engine import open_state
from db.errors import StoreError
from db.processes import BEAT_SECONDS, beat

NAME = "demo"
"""Under which the process reports itself."""
log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class DemoOptions:
    """gpus: 1 to MAX_GPUS. faults: ordered ones, as demo_faults reads them. chosen_faults: those of the
    seed's schedule as well."""

    gpus: int
    seed: int
    chosen_faults: bool = True
    faults: tuple[str, ...] = ()


def check_options(options: DemoOptions) -> None:
    """Raises SettingsError for what cannot be simulated."""
    _faulty_cluster(options)


def build_simulation(options: DemoOptions, start_seconds: float) -> Simulation:
    """Raises SettingsError, as `check_options`."""
    cluster, schedule = _faulty_cluster(options)
    return Simulation(cluster, start_seconds, schedule)


def _faulty_cluster(options: DemoOptions) -> tuple[Cluster, FaultSchedule]:
    if not 1 <= options.gpus <= MAX_GPUS:
        raise SettingsError("--gpus", f"{options.gpus} is not between 1 and {MAX_GPUS}")
    cluster = build_cluster(options.gpus, options.seed)
    try:
        ordered = parse_faults(options.faults, cluster)
    except BadFault as error:
        raise SettingsError("--fault", str(error)) from error
    return cluster, FaultSchedule(cluster, ordered=ordered, chosen=options.chosen_faults)


def run(options: DemoOptions, port: int, state: Path | str | None) -> int:
    """Serve until SIGTERM or SIGINT; returns the exit status. state: where the process reports that it is
    alive; None for nowhere. Raises SettingsError."""
    simulation = build_simulation(options, float(int(time.time())))
    return asyncio.run(_serve(ClusterServer(ClusterPages(simulation, time.time)), port, state))


async def _serve(server: ClusterServer, port: int, state: Path | str | None) -> int:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for signum in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(signum, stop.set)
    try:
        await server.start(port)
    except OSError as error:
        log.error("cannot listen on port %d: %s; choose another", port, error.strerror)
        return 1
    log.info("the simulated cluster's targets are listed at http://127.0.0.1:%d/targets", server.port)
    beating = asyncio.create_task(_beat(state)) if state is not None else None
    await stop.wait()
    if beating is not None:
        beating.cancel()
    server.close()
    return 0


async def _beat(where: Path | str) -> None:
    state = open_state(where, reachable=False)
    started_ms = time.time_ns() // 1_000_000
    while True:
        try:
            now_ms = time.time_ns() // 1_000_000
            await asyncio.to_thread(beat, state, NAME, pid=os.getpid(), started_ms=started_ms, now_ms=now_ms)
        except StoreError as error:
            log.warning("the heartbeat could not be written: %s", error)
        await asyncio.sleep(BEAT_SECONDS)
