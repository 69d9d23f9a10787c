"""The collector process: opens the store, runs the sources, stops without losing what is in flight."""

import asyncio
import logging
import os
import signal
import socket
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from threading import Thread
from typing import Literal

from collectors.clock import SystemClock
from collectors.enabled import BUILT_IN, BuiltIn
from collectors.engine_plan import EnginePlan, refuse_change, tell_left_over
from collectors.expose import render
from collectors.exposed import Exposed
from collectors.maintenance import Maintenance
from collectors.runner import Runner, keep_of
from collectors.sources import Plan
from collectors.types import CollectorError, Configured, Family
from db.config_errors import SettingsError
from db.engine import open_state
from db.errors import WriteRefused
from db.folder_claim import claimed_folder
from db.held_samples import HeldFile
from db.settings import Jobs, Settings, load_jobs
from db.store import SampleStore

log = logging.getLogger(__name__)

SCRAPE = "scrape"
"""The name under which `--only` means the scrape targets."""
LEAVE_SECONDS = 3.5
"""After a stop signal: a thread that hangs (a name server, a locked file) must not keep the process."""


def run(
    settings: Settings,
    *,
    only: Sequence[str] = (),
    once: bool = False,
    sink: Literal["store", "stdout"] = "store",
    reload: Callable[[], Settings] | None = None,
) -> int:
    """Collect until SIGTERM or SIGINT, or once; returns the exit status.

    only: names of collectors, "scrape" for the targets; empty means all. reload: gives the settings anew
    on SIGHUP. Raises SettingsError and StoreError.
    """
    known = [built_in.name for built_in in BUILT_IN]
    for name in only:
        if name not in (*known, SCRAPE):
            raise SettingsError(
                "--only", f"there is no collector {name!r}; there are {', '.join(known)}, {SCRAPE}"
            )
    built_in = [item for item in BUILT_IN if not only or item.name in only]
    if sink == "stdout":
        if not once:
            raise SettingsError("--sink stdout", "prints one collection; add --once")
        return _print(built_in, settings)

    engine = EnginePlan.of(settings)

    def plan(current: Settings) -> Plan:
        refuse_change(settings, current)
        if engine is not None and engine.is_read_only:
            return engine.plan(current)
        jobs = load_jobs(current)
        for warning in jobs.warnings:
            log.warning("%s", warning)
        scrapes = not only or SCRAPE in only
        discover = scrapes and current.discovers_local_services
        sources = built_in if engine is None else [*built_in, engine.built_in]
        return Plan(current, jobs if scrapes else Jobs((), ()), sources, discover)

    first = plan(settings)  # bad configuration is told before anything is opened
    with claimed_folder(settings.data, "collect"):
        store = SampleStore.open(settings.samples_path)
        # Samples do not wait for a server that only holds the state.
        state = open_state(settings.state_location, reachable=False)
        held = HeldFile(settings.data)
        try:
            _take_space(held)
            if engine is None or engine.is_read_only:
                tell_left_over(settings.data)
            _end_former_orders(store)
            clock, log_to = SystemClock(), settings.log
            keep = keep_of(settings)
            maintenance = Maintenance(settings.data, state, clock, keep, log_to.format, log_to.level)
            writer = store if engine is None else engine.writer(store, clock)
            runner = partial(Runner, writer, state, clock, socket.gethostname(), held, maintenance)
            if engine is not None and not engine.is_read_only:
                runner = partial(runner, sender=partial(engine.sender, clock))
            asyncio.run(_serve(runner, first, once, (lambda: plan(reload())) if reload else None))
        finally:
            store.close()
            state.dispose()
    return 0


def _take_space(held: HeldFile) -> None:
    try:
        held.tell(None)
    except WriteRefused as error:  # a disk that is full already: samples are kept in memory all the same
        log.warning("%s", error)


def _end_former_orders(store: SampleStore) -> None:
    try:
        store.end_orders()  # this process alone holds the folder: whoever wrote before is gone
    except WriteRefused as error:
        log.warning("%s", error)


async def _serve(
    new_runner: Callable[[], Runner], plan: Plan, once: bool, reload: Callable[[], Plan] | None
) -> None:
    runner = new_runner()
    if once:
        await runner.once(plan)
        return
    stop, hangup = asyncio.Event(), asyncio.Event()
    loop = asyncio.get_running_loop()

    def stop_soon() -> None:
        stop.set()
        Thread(target=_leave, name="leave", daemon=True).start()

    loop.add_signal_handler(signal.SIGTERM, stop_soon)
    loop.add_signal_handler(signal.SIGINT, stop_soon)
    loop.add_signal_handler(signal.SIGHUP, hangup.set)
    await runner.run(plan, stop, hangup, reload)


def _leave() -> None:
    """End the process without waiting for its threads. Nothing acknowledged can be lost by it."""
    time.sleep(LEAVE_SECONDS)
    log.warning("something still hangs %g s after the stop; it is left behind", LEAVE_SECONDS)
    os._exit(1)


def _print(built_in: Sequence[BuiltIn], settings: Settings) -> int:
    """One collection as exposition on stdout; what is missing on stderr."""
    families: list[Family] = []
    failures = 0
    exposed = Exposed()
    for item in built_in:
        collector = item.make(socket.gethostname(), exposed)
        if isinstance(collector, Configured):
            collector.configure(settings)
        try:
            families.extend(collector.collect())
        except CollectorError as error:
            log.warning("collector %s: %s", item.name, error)
            failures += 1
    sys.stdout.write(render(families))
    return 1 if failures == len(built_in) and failures else 0
