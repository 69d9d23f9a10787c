"""Sends what waits in the queues to the engine: one request at a time, in order, for as long as it takes.

An engine that is down or busy is asked again ever more seldom; what it refuses for good is narrowed down, so
that one sample out of order does not cost the thousands that were sent with it.
"""

import asyncio
import logging
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from collectors.clock import Clock
from collectors.remote_write_request import Outcome, WriteEndpoint
from db.outgoing_queue import FOLDER
from db.queue_reader import Batch, QueueReader
from db.remote_write_message import write_request
from db.snappy import compressed

log = logging.getLogger(__name__)

IDLE_SECONDS = 0.5
_BACKOFF_FIRST_SECONDS = 0.5
_BACKOFF_LAST_SECONDS = 30.0
# Requests that finding the refused samples of one batch may take: some bad series among 10,000 samples.
_NARROWING = 60
# How engines say that a sample's time is the matter, and not what its series had before.
_TOO_OLD = ("too old", "too-old", "out of bounds")
_COMPLAINT_SECONDS = 60.0
_LAST_ANSWER_SECONDS = 1.0


@dataclass(slots=True)
class SenderState:
    """What the sender has done since it began, for metrics and the Sources page.

    rejected: samples that the engine refused for good. trouble: why the last request was not taken, "" when
    it was; failing_since_ms: since when there is trouble.
    """

    sent: int = 0
    sent_bytes: int = 0
    requests: int = 0
    retries: int = 0
    rejected: int = 0
    rejection: str = ""
    last_success_ms: int | None = None
    highest_timestamp_ms: int | None = None
    trouble: str = ""
    failing_since_ms: int | None = None


@dataclass(slots=True)
class _Turn:
    """One batch's. patient: wait for an engine that does not take it. requests: what is left of those that
    finding its refused samples may take."""

    reader: QueueReader
    patient: bool
    requests: int = field(default=_NARROWING)


class RemoteWriteSender:
    """Drains every queue of the data folder. To be used inside one event loop."""

    def __init__(
        self,
        data: Path,
        endpoint: WriteEndpoint,
        most_samples: int,
        clock: Clock,
        state: SenderState,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        """most_samples: in one request. jitter: a number in [0, 1)."""
        self._folder = data / FOLDER
        self._endpoint = endpoint
        self._most = most_samples
        self._clock = clock
        self._state = state
        self._jitter = jitter
        self._readers: dict[str, QueueReader] = {}
        self._complained = -_COMPLAINT_SECONDS

    async def run(self) -> bool:
        """Send for ever. When it is cancelled, a request that is under way has a moment to be answered: what
        the engine took and we do not know of would be sent again."""
        while True:
            turn = asyncio.ensure_future(self._round(patient=True))
            try:
                sent = await asyncio.shield(turn)
            except OSError as error:
                log.error("the queue for the engine cannot be read: %s", error)
                await self._clock.sleep(_BACKOFF_LAST_SECONDS)
                continue
            except asyncio.CancelledError:
                await asyncio.wait([turn], timeout=_LAST_ANSWER_SECONDS)
                turn.cancel()
                raise
            if not sent:
                await self._clock.sleep(IDLE_SECONDS)

    async def once(self) -> None:
        """Send what waits; what is not taken at once goes on waiting."""
        while await self._round(patient=False):
            pass

    def close(self) -> None:
        for reader in self._readers.values():
            reader.close()

    async def _round(self, *, patient: bool) -> bool:
        """A batch of each queue; was there any that is done with? Raises OSError."""
        sent = False
        for reader in await asyncio.to_thread(self._all_readers):
            batch = await asyncio.to_thread(reader.next, self._most)
            if batch is None:
                continue
            if not await self._deliver(batch, _Turn(reader, patient)):
                return False
            await asyncio.to_thread(reader.acknowledge, batch)
            self._state.highest_timestamp_ms = max(
                self._state.highest_timestamp_ms or 0, int(batch.timestamps.max())
            )
            sent = True
        return sent

    def _all_readers(self) -> list[QueueReader]:
        if self._folder.is_dir():
            for folder in self._folder.iterdir():
                if folder.is_dir() and folder.name not in self._readers:
                    self._readers[folder.name] = QueueReader(folder)
        return [self._readers[name] for name in sorted(self._readers)]

    async def _deliver(self, batch: Batch, turn: _Turn) -> bool:
        """True once it was taken, refused for good, or dropped from the queue; False when it was not and
        nobody wants to wait."""
        body = await asyncio.to_thread(_body, batch)
        wait = _BACKOFF_FIRST_SECONDS
        while True:
            outcome = await self._endpoint.send(body, self._clock.now_ms())
            self._note(outcome)
            if outcome.kind == "taken":
                self._state.sent += len(batch)
                self._state.sent_bytes += len(body)
                return True
            if outcome.kind == "refused":
                return await self._narrow(batch, outcome, turn)
            if not turn.patient:
                return False
            # Half of it by chance: many senders must not come back together.
            await self._clock.sleep(max(outcome.after_seconds, wait * (0.5 + 0.5 * self._jitter())))
            wait = min(wait * 2, _BACKOFF_LAST_SECONDS)
            if turn.reader.was_dropped():  # whoever dropped it has counted it
                return True
            self._state.retries += 1

    async def _narrow(self, batch: Batch, refusal: Outcome, turn: _Turn) -> bool:
        """Send the halves apart: what the engine refuses is mostly a part."""
        turn.requests -= 2
        if len(batch) == 1 or turn.requests < 0:
            self._reject(len(batch), refusal.reason)
            return True
        # The bad ones together, so that few requests find them; a series keeps its order in either.
        by_time = any(words in refusal.reason for words in _TOO_OLD)
        order = np.argsort(batch.timestamps if by_time else batch.ids, kind="stable")
        middle = len(order) // 2
        for half in (order[:middle], order[middle:]):
            part = Batch(
                batch.labels,
                batch.ids[half],
                batch.timestamps[half],
                batch.values[half],
                batch.written_ms,
                batch.end,
            )
            if not await self._deliver(part, turn):
                return False
        return True

    def _reject(self, samples: int, reason: str) -> None:
        self._state.rejected += samples
        self._state.rejection = reason
        now = self._clock.monotonic()
        if now - self._complained >= _COMPLAINT_SECONDS:
            self._complained = now
            log.error("the engine refused %d samples so far: %s", self._state.rejected, reason)

    def _note(self, outcome: Outcome) -> None:
        state, now_ms = self._state, self._clock.now_ms()
        state.requests += 1
        if outcome.kind == "later":
            if state.failing_since_ms is None:
                state.failing_since_ms = now_ms
            if state.trouble != outcome.reason:
                log.warning("samples wait on disk: %s", outcome.reason)
            state.trouble = outcome.reason
            return
        if state.trouble:
            log.info("the engine takes samples again")
        state.trouble, state.failing_since_ms, state.last_success_ms = "", None, now_ms


def _body(batch: Batch) -> bytes:
    message = write_request(batch.labels, batch.ids, batch.timestamps, batch.values)
    return compressed(message)
