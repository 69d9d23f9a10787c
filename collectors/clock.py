"""Time as an argument, so that tests can skip it."""

import asyncio
import time
from typing import Protocol


class Clock(Protocol):
    """Wall time for timestamps, monotonic time for schedules: a clock step must not bunch up scrapes."""

    def now_ms(self) -> int: ...
    def monotonic(self) -> float: ...
    async def sleep(self, seconds: float) -> None: ...


class SystemClock:
    """The machine's clocks."""

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def monotonic(self) -> float:
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)
