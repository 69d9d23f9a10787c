"""Keeps the process that maintains the samples file running beside the collectors, and reports how it is."""

import asyncio
import logging
import signal
import sys
from pathlib import Path

from collectors.clock import Clock
from db.errors import StoreError
from db.maintenance_process import NAME, Keep
from db.processes import ProcessState, State, beat, report

log = logging.getLogger(__name__)

FIRST_BACKOFF_SECONDS = 1.0
LONGEST_BACKOFF_SECONDS = 30.0
STABLE_SECONDS = 60.0  # ran this long: the next death is a new trouble
STOP_SECONDS = 2.0


class Maintenance:
    """One child process, started again whenever it ends. `run` as a task; its end ends the child."""

    def __init__(
        self, data: Path, state: State, clock: Clock, keep: Keep, log_format: str, log_level: str
    ) -> None:
        self._argv = [sys.executable, "-m", "db.maintenance_process", str(data), log_format, log_level]
        self._state = state
        self._clock = clock
        self._keep = keep
        self._child: asyncio.subprocess.Process | None = None
        self._restarts = 0
        self._ended = ""

    def change(self, keep: Keep) -> None:
        """Take over a new configuration."""
        self._keep = keep
        self._tell()

    def _tell(self) -> None:
        if self._child is not None and self._child.stdin is not None and not self._child.stdin.is_closing():
            self._child.stdin.write(self._keep.line().encode())

    async def run(self) -> bool:
        """Until cancelled."""
        try:
            return await self._lives()
        finally:
            await self._say("stopped", self._ended)

    async def _lives(self) -> bool:
        backoff = FIRST_BACKOFF_SECONDS
        while True:
            begun = self._clock.monotonic()
            trouble = await self._once()
            if self._clock.monotonic() - begun > STABLE_SECONDS:
                backoff = FIRST_BACKOFF_SECONDS
            log.error("maintenance ended and is started again: %s", trouble)
            self._ended = trouble
            await self._say("restarting", trouble)
            await self._clock.sleep(backoff)
            backoff = min(LONGEST_BACKOFF_SECONDS, backoff * 2)
            self._restarts += 1

    async def _once(self) -> str:
        """One life of the child; returns why it ended."""
        try:
            child = await asyncio.create_subprocess_exec(
                *self._argv, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE
            )
        except OSError as error:
            return f"it could not be started: {error.strerror}"
        self._child = child
        started_ms = self._clock.now_ms()
        trouble, told = "", ""
        try:
            self._tell()
            await self._say("running", self._ended)
            assert child.stdout is not None  # noqa: S101 - it was asked for; mypy cannot see it
            while line := await child.stdout.readline():
                trouble = line.decode(errors="replace").strip()
                await self._beat(child.pid, started_ms)
                if trouble != told:
                    await self._say("running", trouble or self._ended)
                    told = trouble
            status = await child.wait()
            return trouble or _reason(status)
        finally:
            self._child = None
            await _end(child)

    async def _beat(self, pid: int, started_ms: int) -> None:
        try:
            await asyncio.to_thread(
                beat, self._state, NAME, pid=pid, started_ms=started_ms, now_ms=self._clock.now_ms()
            )
        except StoreError as error:
            log.warning("the heartbeat could not be written: %s", error)

    async def _say(self, status: ProcessState, detail: str) -> None:
        try:
            await asyncio.to_thread(
                report,
                self._state,
                NAME,
                status=status,
                pid=None if self._child is None else self._child.pid,
                restarts=self._restarts,
                detail=detail,
                now_ms=self._clock.now_ms(),
            )
        except StoreError as error:
            log.warning("the state of the maintenance could not be written: %s", error)


def _reason(status: int) -> str:
    return f"exit status {status}" if status >= 0 else f"killed by {signal.Signals(-status).name}"


async def _end(child: asyncio.subprocess.Process) -> None:
    """Let it finish the piece of work it is at; a kill would only leave it to the next one."""
    if child.returncode is not None:
        return
    if child.stdin is not None:
        child.stdin.close()
    try:
        await asyncio.wait_for(child.wait(), STOP_SECONDS)
    except TimeoutError:
        child.kill()
        await child.wait()
