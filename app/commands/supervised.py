"""What `strata up` and `strata demo` share: the processes of one data folder, started and watched."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from app.supervise import Program
    from db.settings import Settings


def run_supervised(settings: "Settings", programs: Sequence["Program"]) -> int:
    """Run the programs over the settings' data folder until a signal ends it; returns the exit status.

    Says when the page answers. Raises CommandError when it cannot be served, StoreError when another one
    has the folder.
    """
    import sys
    import time

    from app.children import ChildProcess
    from app.commands.failure import CommandError
    from app.preflight import NotReady, check_port
    from app.process_state import Recorder
    from app.readiness import Announcement, answers, page_url
    from app.signals import SignalInbox
    from app.supervise import Supervisor, run
    from db.engine import open_samples, open_state
    from db.folder_claim import claimed_folder

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
