"""A clock that moves only when it is told to, or when something sleeps on it."""

import asyncio


class FakeClock:
    """`sleep` takes no real time: it moves the clock on and lets other tasks run."""

    def __init__(self, now_ms: int = 1_000_000) -> None:
        self._now_ms = now_ms

    def now_ms(self) -> int:
        return self._now_ms

    def monotonic(self) -> float:
        return self._now_ms / 1000

    def advance(self, seconds: float) -> None:
        self._now_ms += round(seconds * 1000)

    async def sleep(self, seconds: float) -> None:
        self.advance(seconds)
        await asyncio.sleep(0)
