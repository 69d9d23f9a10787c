"""Has a process ended, and how long did it take: its own time, whatever else the machine does meanwhile."""

import os
import select
import subprocess
import time
from pathlib import Path
from typing import Any

import psutil


def runs(pid: int) -> bool:
    """Is it there, and not only because nobody has waited for it yet?"""
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def seconds_to_end(process: "subprocess.Popen[Any]", signum: int, patience_seconds: float = 20.0) -> float:
    """From the signal to the end of the process.

    Left out is the time in which its main thread could have run and other programs had the cores: tests run
    beside each other. Raises subprocess.TimeoutExpired when it has not ended in time.
    """
    ended = os.pidfd_open(process.pid)
    try:
        starved, started = _starved_seconds(process.pid), time.monotonic()
        process.send_signal(signum)
        readable, _, _ = select.select([ended], [], [], patience_seconds)
        passed = time.monotonic() - started
        if not readable:
            raise subprocess.TimeoutExpired(process.args, patience_seconds)
        # It has ended, and nobody has waited for it yet: the kernel still keeps its counts.
        passed -= _starved_seconds(process.pid) - starved
    finally:
        os.close(ended)
    process.wait()
    return passed


def _starved_seconds(pid: int) -> float:
    """The second field of schedstat: nanoseconds in the queue for a core."""
    return int(Path(f"/proc/{pid}/schedstat").read_text().split()[1]) / 1e9
