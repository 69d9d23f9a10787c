"""Calls in threads beside the event loop: each gets its turn, and none keeps the process from ending."""

import asyncio
import threading

from app.api.threads import Threads


def test_calls_wait_for_their_turn():
    released = threading.Event()
    running: list[int] = []

    async def scene():
        threads = Threads(2, "test")

        def call(number):
            running.append(number)
            released.wait(60)
            return number * 10

        waiting = [
            asyncio.create_task(threads.run(lambda number=number: call(number))) for number in range(5)
        ]
        while len(running) < 2:
            await asyncio.sleep(0)
        at_once = len(running)
        waiting[4].cancel()
        released.set()
        return at_once, await asyncio.gather(*waiting, return_exceptions=True)

    at_once, results = asyncio.run(scene())
    assert at_once == 2
    assert results[:4] == [0, 10, 20, 30]
    assert isinstance(results[4], asyncio.CancelledError)


def test_a_turn_is_given_back_once():
    released = threading.Event()
    running: list[int] = []

    async def scene():
        threads = Threads(1, "test")
        for _ in range(3):
            await threads.run(lambda: None)

        def stuck():
            running.append(1)
            released.wait(60)

        waiting = [asyncio.create_task(threads.run(stuck)) for _ in range(3)]
        while not running:
            await asyncio.sleep(0)
        for _ in range(20):
            await asyncio.sleep(0)
        at_once = len(running)
        released.set()
        await asyncio.gather(*waiting)
        return at_once

    assert asyncio.run(scene()) == 1


def test_a_cancelled_call_keeps_its_turn_until_it_ends():
    released = threading.Event()

    async def scene():
        threads = Threads(1, "test")
        begun = threading.Event()

        def stuck():
            begun.set()
            released.wait(60)

        first = asyncio.create_task(threads.run(stuck))
        while not begun.is_set():
            await asyncio.sleep(0)
        first.cancel()
        second = asyncio.create_task(threads.run(lambda: "second"))
        for _ in range(20):
            await asyncio.sleep(0)
        early = second.done()
        released.set()
        return early, await second

    assert asyncio.run(scene()) == (False, "second")
