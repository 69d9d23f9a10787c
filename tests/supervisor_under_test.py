"""A real supervisor, for tests that kill it. Its argument is JSON: {"name": ["program", "argument"]}."""

import json
import logging
import sys
import time

from app.children import ChildProcess
from app.signals import SignalInbox
from app.supervise import Program, Supervisor, run


def main() -> int:
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    programs = [Program(name, tuple(argv)) for name, argv in json.loads(sys.argv[1]).items()]
    with SignalInbox() as inbox:
        supervisor = Supervisor(
            programs, spawn=ChildProcess, now=time.monotonic, changed=lambda status: print(status, flush=True)
        )
        return run(
            supervisor,
            wait=inbox.wait,
            each_turn=lambda: None,
            terminal_lost=inbox.terminal_lost,
        )


if __name__ == "__main__":
    sys.exit(main())
