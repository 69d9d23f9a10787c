"""Runs blocking work beside the event loop. Daemon threads: a query that takes minutes must not keep the
process from ending, as the threads of an executor would."""

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

T = TypeVar("T")


class Threads:
    """Up to `together` calls at a time; more wait for their turn."""

    def __init__(self, together: int, name: str) -> None:
        self._turns = asyncio.Semaphore(together)
        self._name = name

    async def run(self, call: Callable[[], T]) -> T:
        """What the call returns or raises. When the caller is cancelled, the call goes on unheard, and
        keeps its turn until it ends."""
        await self._turns.acquire()
        loop = asyncio.get_running_loop()
        done: asyncio.Future[T] = loop.create_future()

        def finish(result: T | None, error: BaseException | None) -> None:
            self._turns.release()
            if done.cancelled():
                return
            if error is None:
                done.set_result(result)  # type: ignore[arg-type]  # without an error there is a result
            else:
                done.set_exception(error)

        def work() -> None:
            result: T | None = None
            error: BaseException | None = None
            try:
                result = call()
            except BaseException as raised:  # noqa: BLE001 - it is raised where it is waited for
                error = raised
            with suppress(RuntimeError):  # the loop has ended meanwhile
                loop.call_soon_threadsafe(finish, result, error)

        threading.Thread(target=work, name=self._name, daemon=True).start()
        return await done
